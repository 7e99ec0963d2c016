import random

import pytest
import torch

from fltoolkit import Channel
from fltoolkit.codecs import Entropy, ErrorFeedback, Pipeline, Quantize
from fltoolkit.links import Link
from fltoolkit_engines._framed import unframed
from fltoolkit_engines.flower_meter import MeteredGrid, _carry, metered_mod
from fltoolkit_research.codecs import Difference

flwr = pytest.importorskip("flwr", reason="Flower is not installed: pip install 'flwr>=1.21'")
from flwr.app import ArrayRecord, Context, MetricRecord, RecordDict  # noqa: E402
from flwr.app import Message as FlowerMessage  # noqa: E402
from flwr.clientapp import ClientApp  # noqa: E402
from flwr.serverapp.strategy import FedAvg  # noqa: E402
from test_flower import NUM_NODES, LoopGrid, in_a_run  # noqa: E402, F401

ROUNDS = 3


def strangers_app(mods):
    """As in Flower's own examples: it knows nothing of messages and bytes."""
    app = ClientApp(mods=mods)

    @app.train()
    def train(message, context: Context):
        weights = message.content["arrays"].to_torch_state_dict()
        number = context.node_config["partition-id"]
        moved = {name: w + (number + 1) / 100 for name, w in weights.items()}
        metrics = MetricRecord({"num-examples": 10 + number})
        content = RecordDict({"arrays": ArrayRecord(moved), "metrics": metrics})
        return FlowerMessage(content, reply_to=message)

    return app


def run(codecs):
    """The arrays at the end, and the grid; ``None``: without the meter."""
    grid = LoopGrid(strangers_app([] if codecs is None else [metered_mod(codecs)]))
    used = grid if codecs is None else MeteredGrid(grid, codecs)
    first = ArrayRecord({"w": torch.linspace(-1, 1, 5000).reshape(50, 100), "b": torch.zeros(50)})
    random.seed(0)  # with which Flower draws nodes: sums are then in one order
    strategy = FedAvg(fraction_evaluate=0.0, min_available_nodes=NUM_NODES)
    result = strategy.start(grid=used, initial_arrays=first, num_rounds=ROUNDS)
    return result.arrays.to_torch_state_dict(), used


def test_counting_alone_changes_no_bit_and_counts_every_array():
    (plain, _), (metered, grid) = run(None), run({})
    assert all(torch.equal(plain[name], metered[name]) for name in plain)
    channel, each = grid.channel, 4 * 5050
    assert len(channel.transfers) == 2 * ROUNDS * NUM_NODES
    senders = {"node 1000", "node 1001", "node 1002", "node 1003", "server"}
    assert {t.sender for t in channel.transfers} == senders
    assert all(each < t.nbytes < each + 40 for t in channel.transfers)
    up, down = channel.nbytes(receiver="server"), channel.nbytes(sender="server")
    assert up == down == channel.nbytes() / 2
    assert channel.nbytes() < grid.grid.nbytes < 1.1 * channel.nbytes()


def test_a_codec_makes_the_bytes_fewer_that_flower_carries():
    few, grid = run({"model": Pipeline(Quantize(8), Entropy())})
    plain, counted = run({})
    assert grid.channel.nbytes() < counted.channel.nbytes() / 3.5
    assert grid.grid.nbytes < counted.grid.nbytes / 3
    assert 0 < (few["w"] - plain["w"]).abs().max() < 0.02


@pytest.mark.parametrize(
    "codec", [ErrorFeedback(Pipeline(Quantize(8))), Difference(Pipeline(Quantize(8)))]
)
def test_codecs_with_a_memory_are_refused(codec):
    for make in (metered_mod, lambda codecs: MeteredGrid(None, codecs)):
        with pytest.raises(ValueError, match=r"ErrorFeedback|Difference"):
            make({"model": codec})


def test_a_client_without_the_mod_is_named():
    arrays = ArrayRecord({"w": torch.ones(3)})
    message = FlowerMessage(RecordDict({"arrays": arrays}), 1000, "train")
    link = Link("node 1000", "server", "model")
    with pytest.raises(ValueError, match=r"node 1000 -> server, model: \['w'\] came unmetered"):
        _carry(unframed, Channel(), message, link)


def test_the_mod_travels_to_the_processes_of_a_simulation():
    cloudpickle = pytest.importorskip("ray.cloudpickle", reason="a part of flwr[simulation]")
    assert callable(cloudpickle.loads(cloudpickle.dumps(metered_mod({}))))
