"""QSGD of FedML."""

from experiments.audit.claim import Claim, Verdict, by_hand

CLAIM = Claim(
    title="FedML: QSGD gives back what it was given, rounded",
    group="systems",
    says="Unbiased rounding to levels.",
    source="FedML, core/compression",
    known="code",
    ours="Measured by hand in November 2026 with the version that is named, on tensors whose "
    "sizes are named. ",
    judge=by_hand(
        Verdict.REFUTED,
        "A tensor of zeros comes back as NaN, and 4 bits can make a whole tensor zero.",
    ),
)
