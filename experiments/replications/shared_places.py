"""Fewer values in sums whose terms stay secret: places or cells that all clients draw alike.

Not here: the rotation and the grid, and what a codec needs to be summed
(`fltoolkit_research.secrecy.summing`). docs/secrecy.md compares.
"""

import math
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fltoolkit.codecs.stage import Parts, Stage, floats, side, take_side, with_side
from fltoolkit.trees import Tree
from fltoolkit.wire import WireError, check_num_values
from fltoolkit_research.secrecy.keys import Integers


class _Fewer(Stage):
    """The common part of stages that make a shorter vector of all values of an entry."""

    fraction: float
    seed: int
    round_: int
    sums = True

    def __post_init__(self) -> None:
        if not 0 < self.fraction <= 1:
            raise ValueError(f"fraction={self.fraction}: of the values, above 0 and at most 1")

    def apply(self, parts: Parts) -> Parts:
        """A vector of fewer values for each entry; its shape, which all know, travels along."""
        out = dict(parts)
        for name, x in floats(parts).items():
            out[name] = self._shorter(x.reshape(-1), self._draw(name, x.numel()))
            out[side(name, "s")] = torch.tensor(x.shape, dtype=torch.int32)
        return out

    def undo(self, parts: Parts) -> Parts:
        """As many values as there were."""
        out = dict(parts)
        for name in with_side(parts, "s"):
            y, shape = parts[name], take_side(out, name, "s", torch.int32, None).tolist()
            flat = isinstance(shape, list) and all(isinstance(d, int) and d > 0 for d in shape)
            if not (isinstance(y, Tensor) and flat):
                raise WireError(f"entry {name!r}: expected values, and the shape they had")
            check_num_values(n := math.prod(shape))
            if y.dtype != torch.float32 or y.shape != (self._length(n),):
                raise WireError(f"entry {name!r}: expected {self._length(n)} values for {n}")
            out[name] = self._longer(y, self._draw(name, n), n).reshape(shape)
        return out

    def masks(self, parts: Parts, later: Tree) -> Tree:
        """None: each value depends on others that were sent."""
        return {}

    def _length(self, n: int) -> int:
        return max(1, round(self.fraction * n))

    def _draw(self, name: str, n: int) -> Any:
        raise NotImplementedError

    def _shorter(self, x: Tensor, drawn: Any) -> Tensor:
        raise NotImplementedError

    def _longer(self, y: Tensor, drawn: Any, n: int) -> Tensor:
        raise NotImplementedError

    def _random(self, name: str, n: int) -> Integers:
        """64 random bits for each value. numpy keeps raw bits the same in all its versions."""
        key = [self.seed, self.round_, zlib.crc32(name.encode())]
        return np.random.SFC64(np.random.SeedSequence(key)).random_raw(n)


@dataclass
class SharedMask(_Fewer):
    """A share of the values, at random places that all clients draw alike; other values are zero.

    A client's own top-k cannot be summed without sending its places in the clear; these places
    depend on no client's values. The values keep their size, as `RandomK` with ``unbiased=False``:
    in each round other weights of the model move.

    Source: Konečný et al. 2016, arXiv 1610.05492, "random mask", with one mask for all clients.

    >>> stage = SharedMask(0.5)
    >>> for x in (torch.ones(4), torch.arange(4.0)):
    ...     print(stage.undo(stage.apply({"w": x}))["w"].tolist())
    [0.0, 1.0, 0.0, 1.0]
    [0.0, 1.0, 0.0, 3.0]
    """

    fraction: float  # larger = less compression
    seed: int = 0
    round_: int = 0
    leaves_out = True

    def _draw(self, name: str, n: int) -> Any:
        order = np.argsort(self._random(name, n), kind="stable")
        return torch.from_numpy(np.sort(order[: self._length(n)]))

    def _shorter(self, x: Tensor, drawn: Any) -> Tensor:
        return x[drawn]

    def _longer(self, y: Tensor, drawn: Any, n: int) -> Tensor:
        return torch.zeros(n).index_copy(0, drawn, y)


@dataclass
class CountSketch(_Fewer):
    """Each value is added, with a random sign, to one cell of a smaller table that all share.

    A value is decoded as its cell times its sign. This is unbiased, and its error is the sum of the
    other values in its cell: the squared error of all is about |x|^2 / fraction, more than |x|^2.
    So it is useful only where a few values are much larger than all others (Rothchild et al. 2020,
    arXiv 2007.07682); elsewhere `SharedMask` loses less.

    Source: Charikar, Chen and Farach-Colton 2002, with one row.

    >>> x = torch.zeros(1000)
    >>> x[7] = 5.0
    >>> stage = CountSketch(0.5)
    >>> float(stage.undo(stage.apply({"w": x}))["w"][7])
    5.0
    """

    fraction: float  # larger = less compression
    seed: int = 0
    round_: int = 0

    def _draw(self, name: str, n: int) -> Any:
        bits = self._random(name, n)
        cells = (bits >> np.uint64(1)) % np.uint64(self._length(n))
        signs = (bits & np.uint64(1)).astype(np.float32) * 2 - 1
        return torch.from_numpy(cells.astype(np.int64)), torch.from_numpy(signs)

    def _shorter(self, x: Tensor, drawn: Any) -> Tensor:
        cells, signs = drawn
        largest = torch.finfo(torch.float32).max
        table = torch.zeros(self._length(len(x)), dtype=torch.float64)
        return table.index_add(0, cells, (x * signs).double()).clamp(-largest, largest).float()

    def _longer(self, y: Tensor, drawn: Any, n: int) -> Tensor:
        cells, signs = drawn
        return y[cells] * signs
