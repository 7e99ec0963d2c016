"""Protocols send the same bytes, and end with the same weights, as a call of their function."""

from functools import partial

import pytest
import torch

from fltoolkit import Channel, splitnn_mlp
from fltoolkit.codecs import Pipeline, Quantize
from fltoolkit.federated import Local
from fltoolkit_research import Experiment, federated, run
from fltoolkit_research.codecs import ContextEntropy
from fltoolkit_research.federated import Ring, Stream
from fltoolkit_research.task import Task

HOW = {"num_clients": 4, "num_samples": 192, "rounds": 2, "seed": 3}
TWO_STEPS = Local(32, lr=0.05, steps=2)
ONE_STEP = Local(32, lr=0.05, steps=1)
ADAM = Local(32, optimizer=partial(torch.optim.AdamW, lr=0.001), steps=2, keep_state=True)


def nesterov(model):
    return torch.optim.SGD(model.parameters(), lr=0.7, momentum=0.9, nesterov=True)


# name of protocol and function: the settings of an experiment, and of the call that is the same
CASES = {
    "diloco": (
        {"local_steps": 2, "outer": "SGD(lr=0.7, momentum=0.9, nesterov=True)"},
        lambda m: {"rounds": 2, "local": TWO_STEPS, "outer": nesterov(m)},
    ),
    "des_loc": (
        {"local_steps": 2, "keep_state": True, "moments": {"exp_avg": 1, "exp_avg_sq": 2}},
        lambda m: {"rounds": 2, "local": ADAM, "moments": {"exp_avg": 1, "exp_avg_sq": 2}},
    ),
    "streaming_diloco": (
        {"local_steps": 2, "stream": "Stream(2, overlap=0)"},
        lambda m: {"rounds": 2, "local": TWO_STEPS, "stream": Stream(2, overlap=0)},
    ),
    "ddp": (
        {"exchange": "Ring()"},
        lambda m: {"steps": 4, "local": ONE_STEP, "exchange": Ring()},
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_an_experiment_is_the_function_called_directly(name):
    settings, how_for = CASES[name]
    more = {"optimizer": "AdamW(lr=0.001)"} if "moments" in settings else {}
    codecs = {} if more else {"update": Pipeline(Quantize(8), ContextEntropy())}
    experiment = Experiment(name, settings=settings, codecs=codecs, **HOW, **more)
    assert Experiment.from_json(experiment.to_json()) == experiment

    task = Task(experiment)
    *_, (_, parties) = experiment.protocol.train(task, mine := Channel(codecs))
    model = splitnn_mlp(64, 10, seed=3)
    first = {n: t.clone() for n, t in model.state_dict().items()}
    train, how = getattr(federated, name), how_for(model)
    shares = dict(zip(task.names, task.shares, strict=True))
    for _ in train(model, shares, channel := Channel(codecs), seed=3, **how):
        pass
    assert mine.transfers == channel.transfers
    assert channel.nbytes() > 0
    ended = parties[-1].module.state_dict()
    assert all(torch.equal(ended[n], t) for n, t in model.state_dict().items())
    assert any(not torch.equal(ended[n], t) for n, t in first.items())

    history = run(experiment)
    assert history[-1]["nbytes"] == channel.nbytes()
    assert history.column("round") == [1, 2]


@pytest.mark.parametrize(
    ("protocol", "more", "why"),
    [
        ("streaming_diloco", {}, "a stream such as"),
        ("des_loc", {"settings": {"moments": {"exp_avg": 0}}}, "numbers of rounds"),
        ("des_loc", {}, "settings lack moments"),
        ("diloco", {"settings": {"exchange": "ContextEntropy()"}}, "ThroughServer"),
        ("diloco", {"evaluations": 2}, "tested once"),
    ],
)
def test_what_does_not_fit_is_said_at_once(protocol, more, why):
    with pytest.raises(ValueError, match=why):
        Experiment(protocol, num_clients=4, **more)
