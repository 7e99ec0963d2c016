"""What FedLab sends for QSGD."""

from experiments.audit.claim import Claim, Verdict, by_hand

CLAIM = Claim(
    title="FedLab: QSGD in 2, 4 or 8 bits",
    group="systems",
    says='A compressor "QSGD" whose argument is the number of bits.',
    source="FedLab 1.3.0, fedlab.utils.compressor",
    known="code",
    ours="Measured by hand in November 2026 with the version that is named, on tensors whose "
    "sizes are named. tests/codecs/test_other_systems.py holds the trap.",
    judge=by_hand(
        Verdict.REFUTED,
        "40 bits a value whatever is asked for: the level as int32, the sign as a byte. A message"
        " is a quarter larger than float32.",
    ),
)
