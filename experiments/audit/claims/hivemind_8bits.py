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
    """How long messages are, beside float32."""
    (values,) = runs["hivemind"]
    listed = ", ".join(
        f"{size:,} values: {values[f'{size}']:,.0f} bytes for {4 * size:,}" for size in SIZES
    )
    words = (
        f"{listed}. A codebook of 256 float32 values is in each message, so nothing is saved below "
        "some 350 values; a large message is a quarter of float32, as the name says."
    )
    return Finding(Verdict.UNTESTED, words)


CLAIM = Claim(
    title="hivemind: uniform 8-bit compression",
    group="systems",
    says="A compression named after 8 bits per value. Its README prints no factor.",
    source="hivemind 1.1.12, hivemind/compression/quantization.py",
    known="code",
    ours="Its uniform quantization of normal values, as the message that it serializes.",
    judge=judge,
    measures={
        "hivemind": of_system("hivemind", "hivemind==1.1.12", [str(n) for n in SIZES], count)
    },
    seeds=(0,),
)
