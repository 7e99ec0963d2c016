"""How many times the data: the bytes of a training, beside those of its samples without loss."""

import torch
from torch import Tensor

from fltoolkit.channel import Channel
from fltoolkit.units import amount
from fltoolkit_research.pooled.compressors import lossless
from fltoolkit_research.pooled.protocol import by_class


def lossless_nbytes(x: Tensor, y: Tensor | None = None, *, sample: int | None = None) -> int:
    """Bytes of these samples and labels, compressed without loss by `lossless`, as two messages.

    Args:
        x: the samples.
        y: their labels; class numbers are sorted first, as in `fltoolkit_research.pooled.pool`.
        sample: compress only so many samples, evenly spaced, and scale the result up: within a few
            per cent, and in a tenth of a minute for MNIST.
    """
    rows = torch.arange(len(x))
    if sample is not None and sample < len(x):
        rows = rows[:: len(x) // sample]
    if y is not None:
        rows = rows[by_class(y[rows])]
    trees = [{"x": x[rows]}, *([] if y is None else [{"y": y[rows]}])]
    return round(sum(len(lossless().encode(tree)) for tree in trees) * len(x) / len(rows))


def beside_the_data(sent: Channel | int, x: Tensor, y: Tensor | None = None) -> str:
    """A sentence: the bytes that were sent, and how many times the compressed samples that is.

    Of more than 5,000 samples, a part is compressed and the rest is estimated from it.

    >>> beside_the_data(3_000_000, torch.arange(6400.0).reshape(100, 64))
    '3.0 MB sent: 117 times the data (25.6 kB, compressed without loss)'
    """
    nbytes = sent.nbytes() if isinstance(sent, Channel) else sent
    data = lossless_nbytes(x, y, sample=5000)
    factor = float(f"{nbytes / data:.3g}")
    return (
        f"{amount('nbytes', nbytes)} sent: {factor:,.12g} times the data "
        f"({amount('nbytes', data)}, compressed without loss)"
    )
