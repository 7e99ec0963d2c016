"""Levels around zero with a scale: the norm of a bucket, the largest magnitude, the mean magnitude.

Here: `QSGD`, `Ternary` and `Sign`.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from fltoolkit.arrays import Array
from fltoolkit.codecs.quantize import (
    FLOAT32_MAX,
    Draw,
    Levels,
    Quantizer,
    RandomQuantizer,
    chunks,
    expect,
)
from fltoolkit.codecs.stage import check_number


@dataclass
class QSGD(RandomQuantizer):
    """Quantized SGD: |x_i| / |x| rounded stochastically to multiples of 1/levels, with its sign.

    Each bucket of consecutive values has its own norm |x|, which travels as float32. Sign and level
    are one symbol of 2 * levels + 1; zero stays zero. Unbiased.

    Source: Alistarh et al. 2017, arXiv 1610.02132, section 3.1; s = levels, d = bucket.

    >>> from fltoolkit.codecs import Pipeline
    >>> codec = Pipeline(QSGD(levels=1))
    >>> tree = {"w": torch.tensor([3.0, 4.0])}
    >>> decoded = [codec.decode(codec.encode(tree))["w"] for _ in range(1000)]
    >>> decoded[0], sum(decoded) / 1000
    (tensor([0., 5.]), tensor([2.9300, 4.0400]))
    """

    levels: int  # 1 to 32767; smaller = more compression
    bucket: int = 512
    seed: int = 0

    what = "n"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("levels", self.levels, 1, (1 << 15) - 1)
        check_number("bucket", self.bucket, 1)

    @property
    def num_levels(self) -> int:
        """Symbols from -levels to levels."""
        return 2 * self.levels + 1

    def _grid(self, norms: Array, width: int) -> Levels:
        step = norms.astype(np.float64) / self.levels
        return Levels(np.zeros(len(step)), step, width, self.num_levels, zero=self.levels)

    def _quantize(self, values: Array, shape: torch.Size, draw: Draw | None) -> tuple[Array, Array]:
        width = min(self.bucket, len(values))
        squares = np.zeros(-(-len(values) // width))
        for rows, places in chunks(len(values), width):
            x = values[places].reshape(rows.stop - rows.start, -1).astype(np.float64)
            squares[rows] += np.einsum("ij,ij->i", x, x)
        # a norm above float32 is replaced by the largest float32: unbiased, as it is >= all |x_i|
        norms = np.minimum(np.sqrt(squares), FLOAT32_MAX).astype(np.float32)
        return self._grid(norms, width).symbols(values, draw), norms

    def _restore(self, symbols: Array, shape: torch.Size, info: Array) -> Array:
        width = min(self.bucket, len(symbols))
        expect(info, (-(-len(symbols) // width),), low=0)
        return self._grid(info, width).values(symbols)


@dataclass
class Ternary(RandomQuantizer):
    """TernGrad: -s, 0 or s with s = max|x|, and s with probability |x_i| / s. Unbiased.

    The paper's gradient clipping is not part of this stage: clip before sending if you want it.

    Source: Wen et al. 2017, arXiv 1705.07878, equations 3 to 5.

    >>> parts = Ternary().apply({"w": torch.tensor([4.0, -4.0, 0.0])})
    >>> Ternary().undo(parts)["w"]
    tensor([ 4., -4.,  0.])
    """

    seed: int = 0

    what = "t"
    num_levels: ClassVar[int] = 3

    def _grid(self, scale: Array, width: int) -> Levels:
        return Levels(np.zeros(1), scale.astype(np.float64).reshape(1), width, 3, zero=1)

    def _quantize(self, values: Array, shape: torch.Size, draw: Draw | None) -> tuple[Array, Array]:
        scale = np.array(max(values.max(), -values.min()), np.float32)
        return self._grid(scale, len(values)).symbols(values, draw), scale

    def _restore(self, symbols: Array, shape: torch.Size, info: Array) -> Array:
        expect(info, (), low=0)
        return self._grid(info, len(symbols)).values(symbols)


@dataclass
class Sign(Quantizer):
    """Scaled sign: each value becomes mean|x| with the value's sign, one bit for each value.

    The result is biased: use `ErrorFeedback`. A zero counts as positive, since one bit has no third
    state, and arrives as +mean|x|. A tensor of zeros only arrives exactly, because its mean is 0.

    Source: Karimireddy et al. 2019, arXiv 1901.09847, algorithm 1.

    >>> parts = Sign().apply({"w": torch.tensor([1.0, -5.0, 0.0])})
    >>> Sign().undo(parts)["w"]
    tensor([ 2., -2.,  2.])
    """

    what = "s"
    num_levels: ClassVar[int] = 2

    def _quantize(self, values: Array, shape: torch.Size, draw: Draw | None) -> tuple[Array, Array]:
        parts = (values[places] for _, places in chunks(len(values), len(values)))
        total = sum(float(np.abs(x).sum(dtype=np.float64)) for x in parts)
        return (values >= 0).view(np.uint8), np.array(total / len(values), np.float32)

    def _restore(self, symbols: Array, shape: torch.Size, info: Array) -> Array:
        expect(info, (), low=0)
        scale = info.astype(np.float64).reshape(1)
        return Levels(-scale, 2 * scale, len(symbols), 2).values(symbols)
