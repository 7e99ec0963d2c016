"""What the scripts compute while a reader drags, and while the playground trains, is Python's."""

import math
from dataclasses import replace
from statistics import mean
from typing import Any

import numpy as np
import pytest
import torch
from explore.conftest import Call
from torch import nn

from fltoolkit import SGD, Batches, Channel, History, Party, load
from fltoolkit.codecs import ErrorFeedback, Identity, Pipeline, Quantize, TopK
from fltoolkit.cost import ModelCost, crossover_clients, federated_nbytes, split_nbytes
from fltoolkit.federated import Local, fedavg
from fltoolkit.models import splitnn_mlp
from fltoolkit.split import LossGate, train_async, train_split
from fltoolkit.testing import TREES
from fltoolkit.trees import Tree, dense_nbytes
from fltoolkit.units import amount
from fltoolkit_research import (
    Experiment,
    Point,
    bytes_to_reach,
    front,
    run,
    seconds_on,
    value_within,
)
from fltoolkit_research.federated.sums import sums_of
from fltoolkit_research.intervals import interval

pytestmark = pytest.mark.browser


# ------------------------------------------------------------------------------ formulas.js
def test_the_advice_is_that_of_python(call: Call) -> None:
    for (n, below, cut), (samples, clients), (epochs, rounds, batch) in (
        ((189_450, 183_040, 640), (60_000, 500), (10, 25, 32)),
        ((10**6, 10**5, 640), (60_000, 10), (1, 1, 64)),
        ((10**8, 10**4, 128), (1437, 7), (1, 1, 64)),
        ((10**6, 10**5, 640), (60_000, 1), (1, 1, 64)),
        ((10**6, 10**5, 640), (1, 1), (1, 1, 64)),
    ):
        model = {"parameters": n, "parametersClient": below, "cutWidth": cut}
        setting = {"samples": samples, "clients": clients, "epochs": epochs, "rounds": rounds}
        sums = sums_of(nn.Identity(), torch.ones(3, cut), torch.tensor([0, 1, 1]), 2)
        found = call(
            "(explore, [model, setting]) => explore.totals(model, setting)",
            [model, {**setting, "columns": cut, "batchSize": batch}],
        )
        cost, run_of = ModelCost(n, below, 4 * n, 4 * below, cut, 0, 0), {"num_clients": clients}
        passes = {"num_samples": samples, "epochs": epochs}
        steps = epochs * math.ceil(samples / (clients * batch))
        assert found == {
            "largeBatch": federated_nbytes(cost, **run_of, rounds=steps),
            "federated": federated_nbytes(cost, **run_of, rounds=rounds),
            "split": split_nbytes(cost, **run_of, **passes),
            "crossover": crossover_clients(cost, **passes, rounds=rounds),
            "oneSum": clients * dense_nbytes(sums),
        }


@pytest.mark.parametrize(("protocol", "key"), [("relay", "split"), ("fedavg", "federated")])
def test_waits_are_those_of_a_record(call: Call, protocol: str, key: str) -> None:
    last = run(Experiment(protocol, num_clients=3, rounds=2, batch_size=200))[-1]
    setting = {"samples": 1427, "clients": 3, "epochs": 2, "rounds": 2, "batchSize": 200}
    assert call("(explore, s) => explore.waits(s)", setting)[key] == last["num_waits"]


RECORDS = History(
    {"round": i, "nbytes": b, "num_waits": 4 * i, "accuracy": a}
    for i, b, a in ((1, 1000, 0.5), (2, 2000, 0.75), (3, 3000, 0.7), (4, 4000, 0.9))
)
RUN = {"nbytes": 4000, "up": 3000, "down": 1000, "waits": 16, "rounds": 4, "flops": 0, "uplink": 0}
RUN |= {"curve": [[r["nbytes"], r["accuracy"] * 100] for r in RECORDS]}


@pytest.mark.parametrize("budget", [900, 1000, 2500, 9999])
def test_what_a_budget_buys(call: Call, budget: float) -> None:
    found = call("(explore, [run, b]) => explore.valueWithin(run, b, 100)", [RUN, budget])
    assert found == value_within(RECORDS, budget)
    spent = {r["accuracy"]: seconds_on(r, rate=10, latency=1) for r in RECORDS}
    paid = [accuracy for accuracy, cost in spent.items() if cost <= budget / 10]
    cost = "(r) => explore.secondsOn(r, 10, 10, 1)"
    code = f"(explore, [run, b]) => explore.valueWithin(run, b, 100, {cost})"
    assert call(code, [RUN, budget / 10]) == (paid[-1] if paid else None)


@pytest.mark.parametrize("goal", [0.4, 0.72, 0.9, 0.95])
def test_what_a_goal_costs(call: Call, goal: float) -> None:
    found = call("(explore, [run, goal]) => explore.costToReach(run, goal, 100)", [RUN, goal])
    assert found == bytes_to_reach(RECORDS, goal)
    losses = {**RUN, "curve": [[b, -a] for b, a in RUN["curve"]]}  # where less is better
    code = "(explore, [run, goal]) => explore.costToReach(run, goal, 100, (r) => r.nbytes, -1)"
    assert call(code, [losses, -goal]) == found


def test_seconds_on_a_link_whose_ways_differ(call: Call) -> None:
    made = {"nbytes": 600, "up": 100, "down": 300, "waits": 3}  # 200 from client to client
    found = call("(explore, r) => explore.secondsOn(r, 10, 100, 1)", made)
    assert found == 100 / 10 + 300 / 100 + 200 / 10 + 3
    record = {"nbytes": 600, "num_waits": 3}
    found = call("(explore, r) => explore.secondsOn(r, 10, 10, 1)", made)
    assert found == seconds_on(record, rate=10, latency=1)


def test_intervals(call: Call) -> None:
    random = np.random.default_rng(0)
    for num in range(1, 11):
        values = random.normal(size=num).tolist()
        wanted = interval(values)
        low, high = (wanted.low, wanted.high) if wanted.known else (wanted.mean, wanted.mean)
        expected = {"value": wanted.mean, "low": low, "high": high, "num": num}
        found = call("(explore, v) => explore.interval(v)", values)
        assert found == pytest.approx(expected, rel=1e-6)
    assert call("(explore, v) => explore.interval(v, 1).high", [0.8, 1]) == 1


def test_the_front(call: Call) -> None:
    """Of points with some seeds in common, with a single seed, and with equal means and bytes."""
    random = np.random.default_rng(0)

    def point(k: int) -> Point:
        seeds = random.permutation(4)[: random.integers(1, 5)]
        values = {int(s): round(0.5 + 0.01 * k + 0.02 * float(random.normal()), 2) for s in seeds}
        return Point(str(k), Experiment(), int(random.integers(1, 8)), values)

    by_means = 0
    for _ in range(50):
        found = [point(k) for k in range(8)]
        shown = [
            {"name": p.name, "cost": p.nbytes, "value": p.value, "num": p.num_seeds}
            | {"seeds": {str(seed): value for seed, value in p.values.items()}}
            for p in found
        ]
        names = call("(explore, all) => explore.front(all).map((p) => p.name)", shown)
        assert names == [p.name for p in front(found)]
        best = [max(q.value for q in found if q.nbytes <= p.nbytes) == p.value for p in found]
        by_means += sum(best) > len(names)
    assert by_means > 10  # noise took some off the front


def test_amounts_read_as_in_python(call: Call) -> None:
    sizes = (0, 999, 1000, 163_854, 9_345_678, 944_400_000, 4_608_337_890, 2.5e12)
    assert call("(explore, all) => all.map(explore.bytes)", sizes) == [
        amount("nbytes", size) for size in sizes
    ]


# ---------------------------------------------------------------------------------- wire.js
FLOATS = {
    name: tree
    for name, tree in TREES.items()
    if tree
    and all(t.dtype == torch.float32 and t.numel() for t in tree.values())
    and name not in ("negated view", "strange names")  # "*" is the name of all values together
}


def codec_of(bits: int, kept: float) -> Any:
    stages = [*([TopK(kept)] if kept < 1 else []), *([Quantize(bits)] if bits < 32 else [])]
    return Pipeline(*stages) if stages else Identity()


def sent(tree: Tree) -> list[Any]:
    """A tree as `explore.treeFrom` reads it."""
    return [[name, list(t.shape), t.flatten().tolist()] for name, t in tree.items()]


@pytest.mark.parametrize("bits", [1, 2, 3, 4, 5, 6, 7, 8, 32])
def test_sizes_and_values_of_messages(call: Call, bits: int) -> None:
    generator = torch.Generator().manual_seed(0)
    trees = {**FLOATS, "model": {"w": torch.randn(40, 65, generator=generator).relu()}}
    for kept in (0.01, 0.1, 0.4, 1.0):
        codec = codec_of(bits, kept)
        found = call(
            """(explore, [bits, kept, trees]) => trees.map((tree) => {
              const sent = explore.wire.codec({ bits, kept }).send(explore.treeFrom(tree));
              return [sent.nbytes, explore.entriesOf(sent.tree)];
            })""",
            [bits, kept, list(map(sent, trees.values()))],
        )
        for (name, tree), arrived in zip(trees.items(), found, strict=True):
            message = codec.encode(tree)
            assert arrived == [len(message), sent(codec.decode(message))], (kept, name)


def test_what_is_owed_goes_along(call: Call) -> None:
    generator = torch.Generator().manual_seed(1)
    trees = [{"w": torch.randn(30, 7, generator=generator), "b": torch.ones(5)} for _ in range(4)]
    codec = ErrorFeedback(Pipeline(TopK(0.1), Quantize(4)))
    messages = [codec.encode(tree) for tree in trees]
    sizes, owed = call(
        """(explore, trees) => {
          const codec = explore.wire.withFeedback(explore.wire.codec({ bits: 4, kept: 0.1 }));
          const sizes = trees.map((tree) => codec.send(explore.treeFrom(tree)).nbytes);
          return [sizes, codec.owed().map((values) => Array.from(values))];
        }""",
        list(map(sent, trees)),
    )
    assert sizes == list(map(len, messages))
    assert owed == [t.flatten().tolist() for t in codec.residual.values()]
    assert any(map(any, owed))


# ------------------------------------------------------------------------------- trainer.js
DATA = load("digits").flat()
MIXED = torch.randperm(len(DATA.y_train), generator=torch.Generator().manual_seed(0))
DATA = replace(DATA, x_train=DATA.x_train[MIXED], y_train=DATA.y_train[MIXED])
TRAIN = """(explore, settings) => settings.map((setting) => {
  if (setting.network) setting.network = explore.treeFrom(setting.network);
  const data = explore.trainer.readDigits(explore.data.digits);
  const { run, events } = explore.trainer.start(setting, data), records = [];
  for (const event of events) if (event.kind === "record") records.push(event);
  const weights = explore.entriesOf(explore.trainer.treeOf(run.network));
  return { records, weights, shares: run.inside.shares };
})"""


def moved(found: list[Any], model: torch.nn.Module) -> float:
    """The mean difference of a weight; single ones differ more where a ReLU stood at zero."""
    pairs = zip(found, model.state_dict().values(), strict=True)
    return mean(float((torch.tensor(v) - t.flatten()).abs().mean()) for (_, _, v), t in pairs)


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


@pytest.mark.parametrize(("cut", "up", "down"), [(2, 32, 32), (4, 8, 4), (5, 32, 32), (5, 8, 4)])
def test_a_pass_of_splitting_from_equal_weights(call: Call, cut: int, up: int, down: int) -> None:
    model = splitnn_mlp(64, seed=3)
    batches = Batches(DATA.x_train, DATA.y_train, 32, seed=0)
    setting = {
        **{"how": "split", "cut": cut, "bitsUp": up, "bitsDown": down, "kept": 1},
        **{"network": sent(model.state_dict()), "effort": {"rounds": 1}},
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
        **{"network": sent(model.state_dict()), "effort": {"rounds": 6}},
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


@pytest.mark.parametrize("few", [False, True])
def test_averaging_from_equal_weights(call: Call, few: bool) -> None:
    """Three owners with two shards each; ``few``: of an update the largest values, and owed."""
    model = splitnn_mlp(64, seed=3)
    setting = {
        **{"how": "averaged", "owners": 3, "skewed": True, "kept": 0.05 if few else 1, "owed": few},
        **{"bitsUp": 4 if few else 32, "bitsDown": 32, "effort": {"rounds": 3, "batch": 1427}},
        "network": sent(model.state_dict()),
    }
    (found,) = call(TRAIN, [setting])
    assert sorted(row for share in found["shares"] for row in share) == [*range(1427)]
    assert all(len(DATA.y_train[share].unique()) < 8 for share in found["shares"])
    clients = {
        f"owner {k}": (DATA.x_train[share], DATA.y_train[share])
        for k, share in enumerate(found["shares"], 1)
    }
    channel = Channel({"update": ErrorFeedback(codec_of(4, 0.05))} if few else None)
    local = Local(None, lr=0.1, epochs=1)
    told = [*fedavg(model, clients, channel, rounds=3, cohort=3, local=local)]
    near = pytest.approx([r["loss"] for r in told], rel=0.01 if few else 1e-5)
    assert [r["loss"] for r in found["records"]] == near
    sizes = [r["nbytes"] for r in told]  # the last digits of an update move a place or two
    assert [r["nbytes"] for r in found["records"]] == pytest.approx(sizes, rel=0.001 * few)
    assert moved(found["weights"], model) < (1e-4 if few else 1e-5)
