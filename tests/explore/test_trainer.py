"""Training in the page follows Python's arithmetic: data, steps, bytes; accuracies over seeds."""

import math
from collections.abc import Iterator
from statistics import mean, stdev
from typing import Any

import pytest
import torch
from page_scripts import Call, in_node

from fltoolkit import SGD, Batches, Channel, Party, load
from fltoolkit.codecs import ErrorFeedback, Pipeline, Quantize, TopK
from fltoolkit.federated import Local, fedavg
from fltoolkit.models import splitnn_mlp
from fltoolkit.split import LossGate, train_async, train_split
from fltoolkit.wire import DTYPES
from fltoolkit_research import Experiment, run

pytestmark = pytest.mark.browser
DATA = load("digits").flat()
TRAIN = """(explore, settings) => settings.map((setting) => {
  if (setting.network) setting.network = explore.treeFrom(setting.network);
  const data = explore.trainer.readDigits(explore.data.digits);
  const { run, events } = explore.trainer.start(setting, data), records = [];
  for (const event of events) if (event.kind === "record") records.push(event);
  return { records, weights: explore.entriesOf(explore.trainer.treeOf(run.network)) };
})"""


@pytest.fixture(scope="module")
def call(tmp_path_factory: Any) -> Iterator[Call]:
    with in_node(tmp_path_factory.mktemp("node")) as made:
        yield made


def weights_of(model: torch.nn.Module) -> list[Any]:
    return [
        [name, DTYPES.index(t.dtype), list(t.shape), t.numpy().tobytes().hex()]
        for name, t in model.state_dict().items()
    ]


def moved(found: list[Any], model: torch.nn.Module) -> float:
    """The mean difference of a weight; single ones differ more where a ReLU stood at zero."""
    return mean(
        float(
            (torch.frombuffer(bytearray.fromhex(raw), dtype=torch.float32) - t.flatten())
            .abs()
            .mean()
        )
        for (_, _, _, raw), t in zip(found, model.state_dict().values(), strict=True)
    )


def test_the_digits_are_those_of_python(call: Call) -> None:
    x, y, num_train = call(
        """(explore) => {
          const { x, y, numTrain } = explore.trainer.readDigits(explore.data.digits);
          return [Array.from(x), Array.from(y), numTrain];
        }""",
        None,
    )
    assert num_train == len(DATA.y_train)
    assert torch.equal(torch.tensor(x).reshape(-1, 64), torch.cat([DATA.x_train, DATA.x_test]))
    assert y == [*DATA.y_train.tolist(), *DATA.y_test.tolist()]


@pytest.mark.parametrize("cut", [2, 4, 5])
@pytest.mark.parametrize(("up", "down"), [(32, 32), (8, 4)])
def test_a_pass_of_splitting_from_equal_weights(call: Call, cut: int, up: int, down: int) -> None:
    model = splitnn_mlp(64, seed=3)
    batches = Batches(DATA.x_train, DATA.y_train, 32, seed=0)
    setting = {
        **{"how": "split", "cut": cut, "bitsUp": up, "bitsDown": down, "kept": 1},
        **{"network": weights_of(model), "effort": {"rounds": 1}},
        "orders": [[rows.tolist() for rows in batches.rows(0)]],
    }
    (found,) = call(TRAIN, [setting])
    codecs = {"activations": up, "gradients": down}
    channel = Channel({k: Pipeline(Quantize(b)) for k, b in codecs.items() if b < 32})
    bottom, top = model[:cut], model[cut:]
    optimizer = SGD(top.parameters(), lr=0.05) if list(top.parameters()) else None
    alice = Party("alice", bottom, SGD(bottom.parameters(), lr=0.05))
    bob = Party("bob", top, optimizer, torch.nn.NLLLoss())
    told = [*train_split([alice, bob], batches.epochs(1), channel)]
    assert len(found["records"]) == len(told)
    for mine, theirs in zip(found["records"], told, strict=True):
        # sums end in other digits, and a value between two levels may fall to the other side
        assert mine["loss"] == pytest.approx(theirs["loss"], rel=0.03 if up < 32 else 1e-4)
        assert (mine["up"], mine["down"]) == (theirs["nbytes_up"], theirs["nbytes_down"])
    if up == 32:
        assert moved(found["weights"], model) < 1e-5


def test_states_by_a_threshold_send_what_python_sends(call: Call) -> None:
    model = splitnn_mlp(64, seed=3)
    batches = Batches(DATA.x_train, DATA.y_train, 32, seed=0)
    setting = {
        **{"how": "split", "cut": 4, "bitsUp": 32, "bitsDown": 32, "kept": 1, "threshold": 0.3},
        **{"network": weights_of(model), "effort": {"rounds": 6}},
        "orders": [[rows.tolist() for rows in batches.rows(e)] for e in range(6)],
    }
    (found,) = call(TRAIN, [setting])
    alice = Party("alice", model[:4], SGD(model[:4].parameters(), lr=0.05))
    bob = Party("bob", model[4:], SGD(model[4:].parameters(), lr=0.05), torch.nn.NLLLoss())
    told = [*train_async(alice, bob, batches, Channel(), gate=LossGate(0.3), num_epochs=6)]
    states = [record["state"] for record in told]
    assert {*states} == {"A", "B", "C"}
    assert [record["state"] for record in found["records"]] == states
    assert [r["nbytes"] for r in found["records"]] == [r["nbytes"] for r in told]
    assert moved(found["weights"], model) < 1e-4


def test_averaging_from_equal_weights(call: Call) -> None:
    model = splitnn_mlp(64, seed=3)
    setting = {
        **{"how": "averaged", "owners": 1, "skewed": False, "bitsUp": 32, "bitsDown": 32},
        **{"kept": 1, "network": weights_of(model), "effort": {"rounds": 3, "batch": 1437}},
    }
    (found,) = call(TRAIN, [setting])
    local = Local(None, lr=0.1, epochs=1)
    clients = {"owner 1": (DATA.x_train, DATA.y_train)}
    told = [*fedavg(model, clients, Channel(), rounds=3, cohort=1, local=local)]
    assert [r["loss"] for r in found["records"]] == pytest.approx([r["loss"] for r in told])
    assert [r["nbytes"] for r in found["records"]] == [r["nbytes"] for r in told]
    assert moved(found["weights"], model) < 1e-5


TOP_K = {"update": ErrorFeedback(Pipeline(TopK(0.05), Quantize(4)))}
PAIRS = [
    (
        {"how": "split", "cut": 4, "bitsUp": 4, "bitsDown": 8, "kept": 1, "effort": {"rounds": 3}},
        Experiment(
            rounds=3,
            codecs={"activations": Pipeline(Quantize(4)), "gradients": Pipeline(Quantize(8))},
        ),
    ),
    (
        {
            **{"how": "averaged", "owners": 4, "skewed": False, "bitsUp": 4, "bitsDown": 8},
            **{"kept": 0.05, "owed": True, "effort": {"rounds": 4}},
        },
        Experiment(
            "fedavg",
            num_clients=4,
            rounds=4,
            lr=0.1,
            batch_size=10,
            codecs={**TOP_K, "model": Pipeline(Quantize(8))},
        ),
    ),
    (
        {
            **{"how": "averaged", "owners": 10, "skewed": True, "bitsUp": 32, "bitsDown": 32},
            **{"kept": 1, "owed": False, "effort": {"rounds": 4}},
        },
        Experiment(
            "fedavg", num_clients=10, partition="shards(2)", rounds=4, lr=0.1, batch_size=10
        ),
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("setting", "experiment"), PAIRS)
def test_accuracies_agree_over_seeds(call: Call, setting: Any, experiment: Any) -> None:
    seeds = range(5)
    found = call(TRAIN, [{**setting, "seed": seed} for seed in seeds])
    mine = [each["records"][-1]["accuracy"] for each in found]
    histories = [run(Experiment(**{**vars(experiment), "seed": seed})) for seed in seeds]
    theirs = [history[-1]["accuracy"] for history in histories]
    # Student's t with 8 degrees of freedom: 99.9 % lie within 5.04 standard errors
    error = math.sqrt((stdev(mine) ** 2 + stdev(theirs) ** 2) / len(seeds))
    assert abs(mean(mine) - mean(theirs)) < 5.04 * error, (mine, theirs)
    assert min(mine) > 0.3
    sizes = {history[-1]["nbytes"] for history in histories}
    bytes_mine = {each["records"][-1]["nbytes"] for each in found}
    assert max(bytes_mine) == pytest.approx(max(sizes), rel=0.01)  # places of top-k differ a little
