"""QSGD of Plato."""

from experiments.audit.claim import Claim, Verdict, by_hand

CLAIM = Claim(
    title="Plato: QSGD of any update",
    group="systems",
    says="A processor quantizes the weights of an update. Nothing is printed about which updates.",
    source="Plato, commit 008f1c0, plato/processors/model_quantize_qsgd.py",
    known="code",
    ours="Measured by hand in November 2026 and read again in the commit that is named.",
    no_command="measured by hand with a commit that no package index has",
    judge=by_hand(
        Verdict.UNTESTED,
        "It fails with struct.error for a tensor of zeros, and for a dimension above 32,767.",
    ),
)
