"""Codecs, gates, models as texts: read back, and nothing else is."""

import sys

import own_codec
import pytest
from own_codec import Nothing
from torch import nn

from experiments.replications import dgc
from fltoolkit.codecs import ErrorFeedback, Float8, Only, Pipeline, Quantize, TopK
from fltoolkit.split import BudgetGate, Decay, LossGate
from fltoolkit_research import Experiment, build, run
from fltoolkit_research.codecs import ContextEntropy, Difference
from fltoolkit_research.text import read_call, text_of

SMALL = {"num_samples": 200, "rounds": 1}


@pytest.mark.parametrize(
    "thing",
    [
        Pipeline(Quantize(4, stochastic=True, per=256), ContextEntropy()),
        ErrorFeedback(Only(Pipeline(TopK(0.01), Float8()), min_size=7)),
        Pipeline(dgc.DGC(0.01, warmup=(0.25, 0.0625))),
        Difference(Pipeline(Quantize(4), ContextEntropy())),
        LossGate(0.1, every=3, schedule=Decay(0.9)),
        BudgetGate(10**6, 100, pace=0.5),
    ],
    ids=lambda thing: type(thing).__name__,
)
def test_what_repr_writes_is_read_back(thing):
    assert repr(build(repr(thing), [dgc])) == repr(thing)


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "Quantize.__init__(8)",
        "Pipeline(*[Quantize(8)])",
        "Quantize(**{'bits': 8})",
        "open('/etc/passwd')",
        "Quantize(8), exit()",
        "(" * 500 + ")" * 500,
        "Pipeline(",
        "TopK(99)",
        "b'bytes'",
    ],
)
def test_nothing_else_is_read(text):
    with pytest.raises(ValueError, match=r".+"):
        build(text)
    with pytest.raises((ValueError, TypeError), match=r".+"):
        Experiment("fedavg", codecs={"update": text})


def test_a_long_text_is_not_parsed():
    with pytest.raises(ValueError, match="at most 10,000"):
        build("Pipeline(" + "Quantize(8)," * 1000 + ")")


def test_a_stage_of_ones_own():
    with pytest.raises(ValueError, match=r"modules=\[...\]"):
        Experiment("fedavg", codecs={"update": "Pipeline(Nothing())"})
    experiment = Experiment("fedavg", codecs={"update": Pipeline(Nothing())}, **SMALL)
    assert len(run(experiment)) == 1
    here = [own_codec]
    assert build("Pipeline(Nothing())", here).stages[0].__class__ is Nothing
    again = Experiment.from_dict(experiment.to_dict(), here)
    assert again == experiment
    assert run(Experiment.from_json(experiment.to_json(), here))[-1] == run(experiment)[-1]


def test_what_a_module_imports_for_itself_is_not_known():
    for name in ("pytest", "run", "_private"):
        with pytest.raises(ValueError, match="is not allowed here"):
            build(f"{name}()", [sys.modules[__name__]])
    for name in ("dataclass", "Any", "swa_utils", "partial", "pool", "fedbuff"):
        with pytest.raises(ValueError, match="is not allowed here"):
            build(f"{name}()")


def test_an_optimizer_waits_for_its_parameters():
    waiting = build("SGD(lr=0.1, momentum=0.9)")
    assert text_of(waiting) == "SGD(lr=0.1, momentum=0.9)"
    optimizer = waiting(nn.Linear(1, 1).parameters())
    assert (optimizer.defaults["lr"], optimizer.defaults["momentum"]) == (0.1, 0.9)
    assert text_of(read_call("mcmahan_2nn( 7 )")) == "mcmahan_2nn(7)"
    with pytest.raises(ValueError, match="is not allowed here"):
        read_call("accuracy")
