"""Eight bits of hivemind."""

import torch

from experiments.audit.claim import Claim, Finding, Runs, Values, Verdict
from experiments.audit.measures import of_system

SIZES = (100, 344, 10_000, 1_000_000)


def count() -> Values:
    """Bytes of the message that hivemind makes of a tensor, for some sizes."""
    from hivemind.compression import serialize_torch_tensor
    from hivemind.proto.runtime_pb2 import CompressionType

    generator, found = torch.Generator().manual_seed(0), {}
    for size in SIZES:
        x = torch.randn(size, generator=generator)
        message = serialize_torch_tensor(x, CompressionType.UNIFORM_8BIT)
        found[f"{size}"] = float(len(message.SerializeToString()))
    return found


def judge(runs: Runs) -> Finding:
    """Four times, within a hundredth, for the largest tensor."""
    (values,) = runs["hivemind"]
    listed = ", ".join(
        f"{size:,} values: {values[f'{size}']:,.0f} bytes for {4 * size:,}" for size in SIZES
    )
    words = (
        f"{listed}. A codebook of 256 float32 values is in each message, so nothing is saved below "
        "some 350 values. Its bytes are counted as they are sent."
    )
    largest = SIZES[-1]
    right = values[f"{largest}"] <= 1.01 * largest
    return Finding(Verdict.REPRODUCED if right else Verdict.REFUTED, words)


CLAIM = Claim(
    title="hivemind: 8-bit compression is 4 times less",
    group="systems",
    says="A byte per value instead of four.",
    source="hivemind 1.1.12, hivemind/compression/quantization.py",
    known="code",
    ours="Its uniform quantization of normal values, as the message that it serializes.",
    judge=judge,
    measures={
        "hivemind": of_system("hivemind", "hivemind==1.1.12", [str(n) for n in SIZES], count)
    },
    seeds=(0,),
)
