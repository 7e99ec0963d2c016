"""A bit per value, with and without error feedback."""

from dataclasses import replace

from experiments.audit.claim import Claim, Finding, Runs, Verdict, spread, times
from experiments.audit.stored import method
from fltoolkit.codecs import Entropy, Pipeline, Sign

FLOAT32, FEEDBACK = method("FedAvg, float32"), method("EF-sign")


def judge(runs: Runs) -> Finding:
    """Within half a point of float32 with error feedback, and less without it."""
    with_it = runs.points("with error feedback", "float32")
    without = runs.points("without", "float32")
    words = (
        f"{spread(with_it, '+.2f')} points from float32 with error feedback, and "
        f"{spread(without, '+.2f')} without it. The factor is the way up's; the model comes back."
    )
    up = runs.fewer("with error feedback", "float32", "nbytes_up")
    total = runs.fewer("with error feedback", "float32")
    if sum(with_it) / len(with_it) < -0.5:
        verdict = Verdict.REFUTED
    else:
        verdict = Verdict.REPRODUCED if min(total) >= 0.9 * 32 else Verdict.UPLINK_ONLY
    return Finding(verdict, words, times(up), times(total))


CLAIM = Claim(
    title="A sign with error feedback: 32 times less, as good as SGD",
    group="codecs",
    says="One bit per value is 32 times less; without error feedback it may not converge, and with "
    "it the rate and the generalization are those of SGD.",
    source="Karimireddy et al. 2019, arXiv 1901.09847, abstract",
    known="abstract",
    ours="Digits, ten clients, 25 rounds (docs/results.md).",
    judge=judge,
    measures={
        "float32": FLOAT32,
        "with error feedback": FEEDBACK,
        "without": replace(FLOAT32, name="sign", codecs={"update": Pipeline(Sign(), Entropy())}),
    },
)
