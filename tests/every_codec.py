"""The codecs that go through the conformance suite, and that tools/fuzz.py gives forged messages.

A new codec is added here, once. (stored_runs.py has those whose bytes are kept.)
"""

from typing import Any

from experiments.replications.deflate import Deflate
from experiments.replications.dgc import DGC
from experiments.replications.lowrank import PowerSGD
from experiments.replications.zstandard import Zstd
from fltoolkit.codecs import (
    BitPack,
    Codec,
    Entropy,
    ErrorFeedback,
    Float8,
    Half,
    Identity,
    Only,
    Pipeline,
    PlainQuantize,
    PlainTopK,
    Quantize,
    TopK,
)
from fltoolkit.codecs.base import walk
from fltoolkit.codecs.stage import Stage
from fltoolkit_research.codecs import (
    DRIVE,
    EDEN,
    QSGD,
    STC,
    BFloat16,
    ContextEntropy,
    Difference,
    LloydMax,
    Narrow,
    Quantiles,
    RandomK,
    RandTopK,
    Rotate,
    Sign,
    Ternary,
)

PIPELINES: list[Codec] = [
    Identity(),
    Pipeline(),
    Pipeline(BitPack()),
    *(Pipeline(Quantize(bits)) for bits in (1, 3, 8, 16)),
    Pipeline(PlainQuantize(3)),
    Pipeline(Quantize(8, stochastic=True)),
    Pipeline(Quantize(4, per="channel")),
    Pipeline(Quantize(4, per=64)),
    Pipeline(Quantiles(4)),
    Pipeline(LloydMax(2)),
    Pipeline(QSGD(4)),
    Pipeline(Ternary()),
    Pipeline(Sign()),
    Pipeline(Float8()),
    Pipeline(Half()),
    Pipeline(BFloat16()),
    Pipeline(TopK(0.1)),
    Pipeline(TopK(0.1, scope="tensor")),
    Pipeline(PlainTopK(0.1)),
    Pipeline(RandomK(0.1)),
    Pipeline(RandTopK(0.2)),
    Pipeline(STC(0.1)),
    Pipeline(DGC(0.1)),
    Pipeline(TopK(0.1), Quantize(8)),
    Pipeline(TopK(0.1), Half()),
    Pipeline(TopK(0.1, scope="tensor"), Float8()),
    Pipeline(Quantize(8), Entropy()),
    Pipeline(Quantize(8), ContextEntropy()),
    Pipeline(Quantize(2, stochastic=True), Entropy()),
    Pipeline(TopK(0.1), Quantize(8), Entropy()),
    Pipeline(TopK(0.1), Quantize(8), ContextEntropy()),
    Pipeline(STC(0.1), ContextEntropy()),
    Pipeline(Ternary(), Entropy()),
    Pipeline(Quantize(4), Deflate()),
    Pipeline(TopK(0.1), Zstd()),
    Pipeline(Narrow()),
    Pipeline(Narrow(), Quantize(4), Entropy()),
    Pipeline(Narrow(), TopK(0.1)),
    ErrorFeedback(Pipeline(Quantize(4)), decay=0.9),
    ErrorFeedback(Pipeline()),
    ErrorFeedback(Pipeline(TopK(0.1), Quantize(8, stochastic=True), ContextEntropy())),
    ErrorFeedback(Pipeline(Sign())),
    Only(Pipeline(Quantize(8)), min_size=20),
    ErrorFeedback(Only(Pipeline(TopK(0.1)), min_size=20)),
]

ROTATING: list[Codec] = [
    Pipeline(Rotate()),
    Pipeline(Rotate(), Quantize(8, stochastic=True), Entropy()),
    Pipeline(Rotate(seed=3), Quantize(4, per="channel")),
    Pipeline(Rotate(), TopK(0.1)),
    Pipeline(TopK(0.1, scope="tensor"), Rotate(), Half()),
    Pipeline(DRIVE()),
    Pipeline(EDEN(2), ContextEntropy()),
    ErrorFeedback(Pipeline(TopK(0.1), EDEN(3, seed=5, unbiased=False), ContextEntropy())),
    Only(Pipeline(EDEN(4)), min_size=20),
]

LOW_RANK: list[Codec] = [
    Pipeline(PowerSGD(1)),
    Pipeline(PowerSGD(2, seed=5)),
    Pipeline(PowerSGD(2), Half()),
    Pipeline(PowerSGD(2), Quantize(8, per="channel")),
    Pipeline(PowerSGD(1), Quantize(4, stochastic=True), Entropy()),
    Pipeline(PowerSGD(2), TopK(0.3), Quantize(8), ContextEntropy()),
    Pipeline(PowerSGD(1), TopK(0.3, scope="tensor")),
    ErrorFeedback(Pipeline(PowerSGD(2), Half())),
    ErrorFeedback(Only(Pipeline(PowerSGD(1)), min_size=20)),
]

DIFFERENCES: list[Codec] = [
    Difference(Identity()),
    Difference(Pipeline(Quantize(4), Entropy())),
    Difference(Pipeline(TopK(0.1), Quantize(8, stochastic=True))),
    Difference(Only(Pipeline(Quantize(8)), min_size=20)),
    Difference(Pipeline(STC(0.1), ContextEntropy()), first=Pipeline(Quantize(8, stochastic=True))),
]


def for_conformance(codecs: list[Codec]) -> list[Any]:
    """For ``parametrize``: single stages and long pipelines in `make check`, pairs later."""
    import pytest

    return [
        pytest.param(
            codec,
            id=repr(codec),
            marks=[pytest.mark.later]
            if sum(isinstance(s, Stage) for s in walk(codec)) == 2
            else [],
        )
        for codec in codecs
    ]


CODECS = [*PIPELINES, *ROTATING, *LOW_RANK, *DIFFERENCES]
