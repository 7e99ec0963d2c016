from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import nn

from fltoolkit import SGD, Batches, Channel, Party, evaluate, load, splitnn_mlp
from fltoolkit.codecs import Pipeline, Quantize, TopK
from fltoolkit.data import Samples
from fltoolkit.models import seeded
from fltoolkit.split import LossGate, Progress, train_split
from fltoolkit_research import (
    NULL_MODELS,
    Experiment,
    as_protocol,
    num_steps,
    one_record_per_round,
    protocols,
    records,
    run,
    spend,
)
from fltoolkit_research.codecs import ContextEntropy

SMALL = {"num_samples": 200, "rounds": 1}
TWO_WAYS = {
    "activations": Pipeline(Quantize(3), ContextEntropy()),
    "gradients": Pipeline(TopK(0.1), Quantize(4), ContextEntropy()),
}


@pytest.mark.slow
def test_split_is_train_split():
    experiment = Experiment(rounds=2, seed=1, codecs=TWO_WAYS)
    history = run(experiment)
    data = load("digits").flat()
    model = splitnn_mlp(64, 10, seed=1)
    alice = Party("client_0", model[:4], SGD(model[:4].parameters(), lr=0.05))
    bob = Party("server", model[4:], SGD(model[4:].parameters(), lr=0.05), torch.nn.NLLLoss())
    channel = Channel(TWO_WAYS)
    batches = Batches(data.x_train, data.y_train, 32, seed=1)
    losses = [r["loss"] for r in train_split([alice, bob], batches.epochs(2), channel)]
    score = evaluate([alice, bob], data.x_test, data.y_test)
    last = history[-1]
    assert (last["accuracy"], last["test_loss"]) == (score["accuracy"], score["test_loss"])
    assert last["nbytes"] == channel.nbytes()
    assert last["loss"] == pytest.approx(sum(losses[len(losses) // 2 :]) / (len(losses) // 2))
    assert last["nbytes_gradients_down"] == channel.nbytes(kind="gradients")
    assert last["num_waits"] == len(channel.transfers)
    assert history.column("round") == [1, 2]
    assert num_steps(experiment) == last["step"] == len(losses)


def test_spend_gives_the_records_of_run_within_the_budget():
    experiment = Experiment(num_samples=64, rounds=3)
    whole = run(experiment)
    assert list(spend(experiment, whole[1]["nbytes"])) == list(whole)[:2]
    assert list(spend(experiment, whole[1]["nbytes"] - 1)) == list(whole)[:1]
    assert list(spend(experiment, float("inf"))) == list(whole)


CUT = {"activations_up", "gradients_down"}
KINDS = {
    "relay": CUT | {"labels_up", "model_across"},
    "splitfed": CUT | {"labels_up", "model_up", "model_down"},
    "split_async": CUT | {"labels_up", "model_across", "control_down"},
    "fedavg": {"model_down", "update_up"},
}


@pytest.mark.later
@pytest.mark.parametrize("protocol", KINDS)
def test_bytes_add_up_and_the_same_seed_gives_the_same(protocol):
    known = getattr(protocols, protocol)
    gate = "Periodic(3, every=2)" if known.gated else ""
    experiment = Experiment(protocol, num_clients=3, gate=gate, num_samples=200, rounds=2)
    history = run(experiment)
    assert history == run(experiment)
    assert history != run(Experiment.from_dict({**experiment.to_dict(), "seed": 1}))
    assert history.column("round") == [1, 2]
    last = history[-1]
    kinds = {key[7:] for key in last if key.startswith("nbytes_")} - {"up", "down"}
    assert kinds == KINDS[protocol]
    assert {kind.rpartition("_")[0] for kind in kinds} <= set(known.sends)
    assert sum(int(last[f"nbytes_{kind}"]) for kind in kinds) == last["nbytes"]
    if gate:
        assert last["steps_a"] + last["steps_b"] + last["steps_c"] == last["step"]
        assert last["steps_c"] > 0
    assert ("client_flops" in last) == (known.flops is not None)
    assert last.get("client_flops", 1) > 0


def test_evaluations_within_a_round():
    history = run(Experiment("relay", num_clients=2, evaluations=3, **SMALL))
    assert [round(float(r), 2) for r in history.column("round")] == [0.38, 0.75, 1]


def test_a_gate_that_was_used_and_a_codec_that_is_changed_later_change_nothing():
    gate, codec = LossGate(0.1, every=2), Pipeline(Quantize(8))
    how = {**SMALL, "codecs": {"activations": codec}}
    fresh = Experiment("split_async", gate=gate, **how)
    gate.check(Progress(step=1, loss=0.1, nbytes=1))
    codec.stages[0].bits = 1
    assert repr(fresh.codecs["activations"]).startswith("Pipeline(Quantize(bits=8,")
    again = Experiment("split_async", gate=gate, **{**how, "codecs": fresh.codecs})
    assert again == fresh
    assert run(again) == run(fresh) == run(fresh)


def test_through_is_how_it_is_tested():
    one = Experiment("split", **SMALL)
    other = Experiment("split", settings={"through": "Pipeline(TopK(0.01))"}, **SMALL)
    assert run(one)[-1]["accuracy"] != run(other)[-1]["accuracy"]
    assert run(one)[-1]["nbytes"] == run(other)[-1]["nbytes"]


def test_all_protocols_of_the_package_are_run_here():
    assert {*KINDS, "split", *NULL_MODELS} == set(protocols.__all__)


@pytest.mark.later
@pytest.mark.parametrize(
    "settings",
    [
        {"server_optimizer": "Adam(lr=0.01)"},
        {"privacy": "GaussianDP(clip=1.0, noise_multiplier=0.5)"},
        {"wait_for": 2, "clock": "LogNormal(sigma=1.0)", "staleness": "Polynomial(a=0.5)"},
    ],
)
def test_settings_change_the_run(settings):
    base = Experiment("fedavg", num_clients=3, **SMALL | {"rounds": 3})
    other = replace(base, settings=settings)
    assert run(base)[-1]["test_loss"] != run(other)[-1]["test_loss"]
    assert Experiment.from_json(other.to_json()) == other


calls = []


def line(num_samples=64, slope=2.0):
    """Numbers on a line, as targets [n, 1]."""
    calls.append(slope)
    x = torch.linspace(-1, 1, num_samples)[:, None]
    return Samples(x, slope * x, x[::2], slope * x[::2])


def two_layers(*, seed):
    return nn.Sequential(nn.Linear(1, 4), nn.Linear(4, 1))


LINE = {"data": line, "model": two_layers, "cut": 1, "loss": nn.MSELoss}


@pytest.mark.parametrize("protocol", ["split", "fedavg"])
def test_numbers_are_learned_by_their_own_metric(protocol):
    history = run(Experiment(protocol, metric="mean_squared_error", rounds=2, **LINE))
    last = history[-1]
    assert last["mean_squared_error"] == pytest.approx(last["test_loss"], rel=1e-5)
    assert last["test_loss"] < history[0]["test_loss"]
    with pytest.raises(ValueError, match="measured numbers need another one"):
        run(Experiment(protocol, rounds=2, **LINE))


def test_data_are_loaded_once_for_a_function_and_its_arguments():
    steep = {**LINE, "data": partial(line, slope=20.0), "metric": "test_loss", "rounds": 1}
    one, other = (run(Experiment(**how))[-1] for how in (steep, {**steep, "data": line}))
    assert one["test_loss"] > other["test_loss"]
    assert len(calls) == 2
    run(Experiment(**{**steep, "data": partial(line, slope=20.0)}))
    assert len(calls) == 2


def test_the_callers_threads_are_left_alone():
    before = torch.get_num_threads()
    seen = []

    @as_protocol(sends=[], records_per_round=one_record_per_round)
    def alone_threads(task, channel):
        seen.append(torch.get_num_threads())
        totals = channel.begin(set(task.names), [task.model], sends_weights=False)
        for step in range(1, 3):
            yield {"step": step, **totals()}, [task.whole()]
            seen.append(torch.get_num_threads())

    torch.set_num_threads(2)
    try:
        for _ in records(Experiment(alone_threads, num_samples=64, rounds=2)):
            assert torch.get_num_threads() == 2
            seen.append("record")
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert seen == [1, "record", 1, "record", 1]


class Branches(nn.Module):
    """A network that is no chain: two branches that are added."""

    def __init__(self):
        super().__init__()
        self.one, self.other = nn.Linear(64, 10), nn.Linear(64, 10)

    def forward(self, x):
        x = x.flatten(1)
        return nn.functional.log_softmax(self.one(x) + self.other(x).tanh(), dim=1)


def branches(*, seed):
    with seeded(seed):
        return Branches()


def chain_of_three(*, seed):
    with seeded(seed):
        return nn.Sequential(nn.Flatten(), nn.Linear(64, 10), nn.LogSoftmax(1))


@pytest.mark.parametrize("model", [branches, chain_of_three])
def test_averaging_takes_any_module_and_cuts_nothing(model):
    last = run(Experiment("fedavg", model=model, num_clients=2, **SMALL))[-1]
    assert last["nbytes"] > 0
    assert last["client_flops"] > 0


def test_split_learning_says_what_it_needs():
    with pytest.raises(TypeError, match="the model is a Branches: this protocol cuts it"):
        run(Experiment(model=branches, **SMALL))
    with pytest.raises(ValueError, match="cut=4: this model has"):
        run(Experiment(model=chain_of_three, **SMALL))


def test_a_device_that_torch_does_not_know():
    with pytest.raises(ValueError, match="device='gpu': give 'cpu' or 'cuda:0'"):
        Experiment(device="gpu")
    assert Experiment(device="cpu").key == Experiment().key


def yielding(*pairs, sends=()):
    """A protocol of these pairs; with no message unless a kind is given."""

    @as_protocol(sends=sends)
    def ring(task, channel):
        totals = channel.totals(task.names)
        for pair in pairs:
            if pair == "send":
                channel.send("client_0", "server", "update", {"w": torch.ones(2)})
                continue
            record, parties = pair
            yield {**record, **totals()}, parties(task)

    return ring


def server_of(task):
    return [task.whole()]


FIRST = ({"step": 1}, server_of)


@pytest.mark.parametrize(
    ("protocol", "how", "complaint"),
    [
        (
            yielding(FIRST),
            {"rounds": 2},
            "ended with step 1, and records_per_round says 1 for each",
        ),
        (yielding(), {}, "ended with step 0"),
        (yielding(({}, server_of)), {}, r"A record needs `step`, counted from 1, and `\*\*totals"),
        (yielding(({"step": 1}, lambda task: task.whole())), {}, "a list of parties, also if it"),
        (yielding("send", FIRST), {}, r"ring sent update, and sends=\(\) does not say so"),
        (
            yielding(FIRST, sends=["update"]),
            {"codecs": {"update": Pipeline(Quantize(8))}},
            "ring sent nothing of the kind update, so the codec for it did nothing",
        ),
        (yielding(FIRST), {"evaluations": 3}, "evaluations=3: ring is tested once per round"),
    ],
)
def test_a_protocol_of_ones_own_is_checked(protocol, how, complaint):
    with pytest.raises(ValueError, match=complaint):
        run(Experiment(protocol, **SMALL | how))
    assert run(Experiment(yielding(FIRST), **SMALL)).column("round") == [1]


def test_the_settings_of_a_protocol_are_of_the_class_setting():
    with pytest.raises(TypeError, match=r"settings\['share'\]=.*give a Setting, such as COUNT"):
        as_protocol(sends=[], settings={"share": float})(yielding)
