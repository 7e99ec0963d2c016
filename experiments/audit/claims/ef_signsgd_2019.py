"""A bit per value, with and without error feedback."""

from dataclasses import replace

from experiments.audit import rule
from experiments.audit.claim import Claim, Finding, Runs, judged, spread, times
from experiments.audit.stored import method
from fltoolkit.codecs import Pipeline
from fltoolkit_research.codecs import ContextEntropy, Sign

FLOAT32, FEEDBACK = method("FedAvg, float32"), method("EF-sign")


def judge(runs: Runs) -> Finding:
    """As good as float32 with error feedback; without it, nothing has to fail."""
    with_it = runs.points("with error feedback", "float32")
    without = runs.points("without", "float32")
    words = (
        f"{spread(with_it, '+.2f')} points from float32 with error feedback, and "
        f"{spread(without, '+.2f')} without it. The claim is about "
        "accuracy; the factors are ours, with the whole model on the way back."
    )
    up = runs.fewer("with error feedback", "float32", "nbytes_up")
    total = runs.fewer("with error feedback", "float32")
    return Finding(judged(rule.at_least(with_it, -rule.POINTS)), words, times(up), times(total))


CLAIM = Claim(
    title="A sign with error feedback: as good as SGD",
    group="codecs",
    says="Without error feedback a sign may not converge, or generalize poorly; with it the rate "
    "is that of SGD. The abstract prints no factor of bytes.",
    source="Karimireddy et al. 2019, arXiv 1901.09847, abstract",
    known="abstract",
    quote="We prove that our algorithm EF-SGD with arbitrary compression operator achieves the "
    "same rate of convergence as SGD without any additional assumptions. Thus EF-SGD achieves "
    "gradient compression for free. Our experiments thoroughly substantiate the theory and show "
    "that error-feedback improves both convergence and generalization.",
    quoted_from="abstract, arXiv 1901.09847",
    ours="Digits, ten clients, 25 rounds (docs/results.md).",
    judge=judge,
    seeds=range(5),
    measures={
        "float32": FLOAT32,
        "with error feedback": FEEDBACK,
        "without": replace(
            FLOAT32, name="sign", codecs={"update": Pipeline(Sign(), ContextEntropy())}
        ),
    },
)
