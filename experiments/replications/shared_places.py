"""Fewer values in sums whose terms stay secret: places that all clients draw alike."""

import math
import zlib
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fltoolkit.codecs.stage import Parts, Stage, floats, side, take_side, with_side
from fltoolkit.trees import Tree
from fltoolkit.wire import WireError, check_num_values


@dataclass
class SharedMask(Stage):
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
    sums = True
    leaves_out = True

    def __post_init__(self) -> None:
        if not 0 < self.fraction <= 1:
            raise ValueError(f"fraction={self.fraction}: of the values, above 0 and at most 1")

    def apply(self, parts: Parts) -> Parts:
        """A vector of fewer values for each entry; its shape, which all know, travels along."""
        out = dict(parts)
        for name, x in floats(parts).items():
            out[name] = x.reshape(-1)[self._places(name, x.numel())]
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
            out[name] = torch.zeros(n).index_copy(0, self._places(name, n), y).reshape(shape)
        return out

    def masks(self, parts: Parts, later: Tree) -> Tree:
        """None: each value depends on others that were sent."""
        return {}

    def _length(self, n: int) -> int:
        return max(1, round(self.fraction * n))

    def _places(self, name: str, n: int) -> Tensor:
        """The places of a round. numpy keeps raw bits the same in all its versions."""
        key = [self.seed, self.round_, zlib.crc32(name.encode())]
        drawn = np.random.SFC64(np.random.SeedSequence(key)).random_raw(n)
        order = np.argsort(drawn, kind="stable")
        return torch.from_numpy(np.sort(order[: self._length(n)]))
