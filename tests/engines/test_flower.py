"""Federated averaging over Flower equals `fedavg` in process, and what goes wrong."""

import functools
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from fltoolkit import fedavg, pack
from fltoolkit.channel import Channel
from fltoolkit.codecs import ErrorFeedback, Pipeline, Quantize, TopK
from fltoolkit.federated import Arrivals, Fleet, Local, Server, mean_of_senders
from fltoolkit.federated.many_at_once import local_updates
from fltoolkit.models import seeded
from fltoolkit_research.codecs import Difference

flwr = pytest.importorskip("flwr", reason="Flower is not installed: pip install 'flwr>=1.21'")
sys.path.append(str(Path(__file__).parents[2] / "examples" / "flower"))
from fedavg_digits import engine as flower  # noqa: E402
from flwr.app import Context, Error, Message, RecordDict  # noqa: E402
from flwr.common.constant import ErrorCode  # noqa: E402
from flwr.common.serde import message_from_proto, message_to_proto  # noqa: E402

NUM_NODES, ROUNDS = 4, 5


@pytest.fixture(autouse=True)
def in_a_run(monkeypatch):
    """Messages carry the number of Flower's run, which there is none of here."""
    try:
        from flwr.supercore.task_identity import TaskIdentity
    except ImportError:  # older
        return
    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


def network() -> nn.Module:
    with seeded(0):
        layers = [nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3), nn.LogSoftmax(dim=1)]
        return nn.Sequential(*layers)


def data(number: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(number)
    num = 10 + number
    return torch.randn(num, 6, generator=generator), torch.randint(3, (num,), generator=generator)


def codecs() -> dict:
    sparse = ErrorFeedback(Pipeline(TopK(0.2), Quantize(8)))
    return {"model": Pipeline(Quantize(8)), "update": sparse}


def make_client(context: Context, **changes) -> flower.ClientSetup:
    number = context.node_config["partition-id"]
    settings = {"model": network(), "codecs": codecs(), **changes}
    return flower.ClientSetup(f"client-{number}", x=data(number)[0], y=data(number)[1], **settings)


def settings(model: nn.Module) -> dict:
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    how = {"rounds": ROUNDS, "cohort": 3, "local": Local(4, epochs=2, lr=0.1)}
    server = Server(arrivals=Arrivals(wait_for=2), optimizer=optimizer)
    return {**how, "server": server, "seed": 7}


class LoopGrid:
    """Carries Flower's messages, as the protobuf that it would send, to an app in this process."""

    def __init__(self, app, silent=()):
        self.app, self.silent, self.nbytes = app, silent, 0
        self.contexts = {
            1000 + k: Context(1, 1000 + k, {"partition-id": k}, RecordDict(), {})
            for k in range(NUM_NODES)
        }

    def get_node_ids(self):
        return list(self.contexts)

    def send_and_receive(self, messages, *, timeout=None):
        answers = []
        for message in messages:
            node = message.metadata.dst_node_id
            if (node, message.metadata.group_id) in self.silent:
                continue
            try:
                answer = self.app(self.over(message), self.contexts[node])
            except Exception as error:  # as Flower reports it
                code = ErrorCode.CLIENT_APP_RAISED_EXCEPTION
                answer = Message(Error(code, reason=str(error)), reply_to=message)
            answers.append(self.over(answer))
        return answers[::-1]  # in any order

    def over(self, message):
        proto = message_to_proto(message)
        self.nbytes += proto.ByteSize()
        return message_from_proto(proto)


def run(grid: LoopGrid, **changes) -> tuple[list, flower.Letters, nn.Module]:
    model, records = network(), []
    how = settings(model) | changes
    server = flower.ServerSetup(model, how, NUM_NODES, codecs(), on_record=records.append)
    return records, flower.serve(grid, server), model


@pytest.mark.parametrize("changes", [{}, {"server": Server(mean=mean_of_senders)}])
def test_flower_is_fedavg(changes):
    grid = LoopGrid(flower.client_app(make_client))
    records, ledger, model = run(grid, **changes)
    alone, channel = network(), Channel(codecs())
    clients = {f"client-{k}": data(k) for k in range(NUM_NODES)}
    in_turn = functools.partial(local_updates, chunk=1)
    same = list(fedavg(alone, Fleet(clients, in_turn), channel, **settings(alone) | changes))
    assert records == same
    assert ledger.transfers == channel.transfers
    assert pack(model.state_dict()) == pack(alone.state_dict())
    assert channel.nbytes() < ledger.nbytes_moved == grid.nbytes  # Flower's envelopes on top


def test_residuals_stay_at_the_nodes():
    grid = LoopGrid(flower.client_app(make_client))
    run(grid)
    states = [context.state.config_records for context in grid.contexts.values()]
    assert all("fltoolkit" in state for state in states)  # everybody was drawn by now
    with_memory, grid = pack(run(grid)[2].state_dict()), LoopGrid(flower.client_app(make_client))
    assert with_memory != pack(run(grid)[2].state_dict())  # a second run goes on with residuals


def test_who_does_not_answer_is_left_out():
    silent = {(1000 + k, "2") for k in range(2)}
    with pytest.warns(UserWarning, match="is left out of round 1: the node did not answer"):
        records, ledger, _ = run(LoopGrid(flower.client_app(make_client), silent), cohort=4)
    assert [record["num_failed"] for record in records] == [0, 2, 0, 0, 0]
    assert sum(t.step == 2 and t.kind == "update" for t in ledger.transfers) == 2


def test_a_client_with_nan_says_so():
    def setup(context):
        client = make_client(context)
        if client.name == "client-2":
            client.x = client.x * torch.nan
        return client

    with pytest.warns(UserWarning, match="'client-2' is left out"):
        records, ledger, _ = run(LoopGrid(flower.client_app(setup)), cohort=4)
    assert [record["num_failed"] for record in records] == [1] * ROUNDS
    assert ledger.nbytes(sender="client-2", kind="control") > 0


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"model": nn.Linear(6, 3)}, r"'client-\d' .node 100\d. has shapes"),
        ({"codecs": {}}, "has codecs {}, the server has {'model'"),
    ],
)
def test_who_does_not_fit_is_told(changes, text):
    setup = functools.partial(make_client, **changes)
    with pytest.raises(flower.FlowerError, match=text):
        run(LoopGrid(flower.client_app(setup)))


def test_another_version_is_told(monkeypatch):
    def app(message, context):
        with monkeypatch.context() as other:
            other.setattr("fltoolkit.__version__", "9.9")
            return flower.client_app(make_client)(message, context)

    with pytest.raises(flower.FlowerError, match=r"has fltoolkit 9\.9, the server has"):
        run(LoopGrid(app))


def test_difference_needs_every_message_so_it_is_refused():
    lossy = {"model": Difference(Pipeline(Quantize(4)))}
    server = flower.ServerSetup(network(), settings(network()), NUM_NODES, lossy)
    with pytest.raises(ValueError, match=r"model: Difference.*over Flower a message may be lost"):
        flower.serve(LoopGrid(flower.client_app(make_client)), server)


def test_a_mistake_at_a_client_names_it():
    def setup(context):
        client = make_client(context)
        if client.name == "client-1":
            client.x = client.x[:, :-1]  # a column is missing
        return client

    with pytest.raises(flower.FlowerError, match="step 1, node 1001: mat1 and mat2 shapes"):
        run(LoopGrid(flower.client_app(setup)), cohort=4)
