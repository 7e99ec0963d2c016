"""QSGD of Plato."""

from experiments.audit.claim import Claim, Verdict, by_hand

CLAIM = Claim(
    title="Plato: QSGD of any update",
    group="systems",
    says="Any update can be quantized.",
    source="Plato, processors for quantization",
    known="code",
    ours="Measured by hand in November 2026 with the version that is named, on tensors whose "
    "sizes are named. ",
    judge=by_hand(
        Verdict.REFUTED,
        "It fails with struct.error for a tensor of zeros, and for a dimension above 32,767.",
    ),
)
