"""Eight bits of SecretFlow."""

from experiments.audit.claim import Claim, Verdict, by_hand

CLAIM = Claim(
    title="SecretFlow: 8-bit zero-point quantization",
    group="systems",
    says="Values come back within a quantization step.",
    source="SecretFlow, commit 1b51502b, secretflow_fl/utils/compressor",
    known="code",
    ours="Measured by hand in November 2026 with the commit that is named. A "
    "tensor of 100 x 101 values.",
    no_command="measured by hand with a commit that no package index has",
    judge=by_hand(
        Verdict.UNTESTED,
        "It gives back 1.0 everywhere; a constant 3.0 becomes 0.0, 255.5 becomes 0, and decoding "
        "changes the message.",
    ),
)
