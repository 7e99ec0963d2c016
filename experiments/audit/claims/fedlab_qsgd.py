"""What FedLab sends for QSGD and for top-k."""

import torch
from torch import Tensor

from experiments.audit.claim import Claim, Finding, Runs, Values, Verdict, spread
from experiments.audit.measures import of_system

SIZE, ASKED = 10_000, (2, 4, 8)


def nbytes(tensors: list[Tensor]) -> int:
    """Of the tensors alone, without any header."""
    return sum(t.numel() * t.element_size() for t in tensors)


def count() -> Values:
    """Bits per value of QSGD, and how many times larger than dense the half of the values is."""
    from fedlab.contrib.compressor.quantization import QSGDCompressor
    from fedlab.contrib.compressor.topk import TopkCompressor

    x = torch.randn(SIZE, generator=torch.Generator().manual_seed(0))
    values = {f"{b} bits": 8 * nbytes(QSGDCompressor(b).compress(x)) / SIZE for b in ASKED}
    half = nbytes([*TopkCompressor(0.5).compress(x)])
    return {**values, "half": half / (4 * SIZE)}


NAMES = (*(f"{b} bits" for b in ASKED), "half")


def judge(runs: Runs) -> Finding:
    """A bit more than was asked for is allowed: the sign."""
    (values,) = runs["FedLab"]
    got = [values[f"{bits} bits"] for bits in ASKED]
    words = (
        f"{spread(got, '.0f')} bits per value for 2, 4 and 8: the level as int32, the sign as a "
        f"byte; float32 has 32. Its top-k of a half is {values['half']:.1f} times as large as the "
        "tensor: places are int64."
    )
    right = all(value <= bits + 1.1 for value, bits in zip(got, ASKED, strict=True))
    return Finding(Verdict.AGREES if right else Verdict.UNTESTED, words)


CLAIM = Claim(
    title="FedLab: QSGD in 2, 4 or 8 bits",
    group="systems",
    says='A compressor "QSGD" whose argument is the number of bits, and top-k with the share of '
    "values that is kept.",
    source="FedLab 1.3.0, fedlab.contrib.compressor",
    known="code",
    ours=f"Its compressors on {SIZE:,} normal values; tensors are weighed, without headers. "
    "tests/core/codecs/test_other_systems.py holds the trap.",
    own_task=True,
    judge=judge,
    measures={"FedLab": of_system("fedlab", "fedlab==1.3.0", NAMES, count)},
    seeds=(0,),
)
