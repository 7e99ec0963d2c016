"""Codecs, gates, models as texts: read back, and nothing else is."""

import pytest
from torch import nn

from fltoolkit.codecs import ErrorFeedback, Float8, Only, Pipeline, Quantize, TopK
from fltoolkit.codecs.stage import Parts, Stage
from fltoolkit.split import BudgetGate, Decay, LossGate
from fltoolkit_research import Experiment, allow, build, run
from fltoolkit_research.codecs import DGC, ContextEntropy, Difference
from fltoolkit_research.text import read_call

SMALL = {"num_samples": 200, "rounds": 1}


@pytest.mark.parametrize(
    "thing",
    [
        Pipeline(Quantize(4, stochastic=True, per=256), ContextEntropy()),
        ErrorFeedback(Only(Pipeline(TopK(0.01), Float8()), min_size=7)),
        Pipeline(DGC(0.01, warmup=(0.25, 0.0625))),
        Difference(Pipeline(Quantize(4), ContextEntropy())),
        LossGate(0.1, every=3, schedule=Decay(0.9)),
        BudgetGate(10**6, 100, pace=0.5),
    ],
    ids=lambda thing: type(thing).__name__,
)
def test_what_repr_writes_is_read_back(thing):
    assert repr(build(repr(thing))) == repr(thing)


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "Quantize.__init__(8)",
        "Pipeline(*[Quantize(8)])",
        "Quantize(**{'bits': 8})",
        "[x for x in (1, 2)]",
        "Quantize(bits=1 + 1)",
        "open('/etc/passwd')",
        "Quantize(8), exit()",
        "f'{Quantize(8)}'",
        "(" * 500 + ")" * 500,
        "Pipeline(",
        "TopK(99)",
        "b'bytes'",
    ],
)
def test_nothing_else_is_read(text):
    with pytest.raises(ValueError, match=r".+"):
        build(text)
    with pytest.raises(ValueError, match=r".+"):
        Experiment("fedavg", codecs={"update": text})


def test_a_long_text_is_not_parsed():
    with pytest.raises(ValueError, match="at most 10,000"):
        build("Pipeline(" + "Quantize(8)," * 1000 + ")")


class Halve(Stage):
    """A stage of a researcher's own."""

    def apply(self, parts: Parts) -> Parts:
        return parts

    undo = apply

    def __repr__(self) -> str:
        return "Halve()"


def test_a_stage_of_ones_own():
    with pytest.raises(ValueError, match=r"allow\(YourClass\)"):
        Experiment("fedavg", codecs={"update": Pipeline(Halve())})
    allow(Halve)
    experiment = Experiment("fedavg", codecs={"update": Pipeline(Halve())}, **SMALL)
    assert experiment.codecs == {"update": "Pipeline(Halve())"}
    assert len(run(experiment)) == 1
    with pytest.raises(ValueError, match="another class"):
        allow(type("TopK", (), {}))
    allow(type("Halve", (Halve,), {"__module__": Halve.__module__}))  # a cell that ran twice
    allow(Halve)
    with pytest.raises(TypeError, match="pass a class or a function"):
        allow(Pipeline())


def test_an_optimizer_waits_for_its_parameters():
    waiting = build("SGD(lr=0.1, momentum=0.9)")
    assert repr(waiting) == "SGD(lr=0.1, momentum=0.9)"
    optimizer = waiting(nn.Linear(1, 1).parameters())
    assert (optimizer.defaults["lr"], optimizer.defaults["momentum"]) == (0.1, 0.9)
    assert repr(read_call("mcmahan_2nn( 7 )")) == "mcmahan_2nn(7)"
    with pytest.raises(ValueError, match="is not allowed here"):
        read_call("accuracy")
