"""Eight bits of hivemind."""

from experiments.audit.claim import Claim, Verdict, by_hand

CLAIM = Claim(
    title="hivemind: 8-bit compression is 4 times less",
    group="systems",
    says="A byte a value instead of four.",
    source="hivemind, hivemind/compression/quantization.py",
    known="code",
    ours="Read and run in November 2026.",
    judge=by_hand(
        Verdict.REPRODUCED,
        "A byte a value and 1,032 bytes of codebook a tensor: exactly 4 times only for large "
        "tensors, and nothing is saved below 344 values. Its bytes are counted as they are sent.",
    ),
)
