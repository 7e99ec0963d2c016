"""Quantization to levels that follow the data: `Quantiles` and `LloydMax`.

Here too: bfloat16, a sibling of `Half`. Not here: even levels (`fltoolkit.codecs.Quantize`).
"""

from dataclasses import dataclass

import numpy as np
import torch

from fltoolkit.arrays import Array
from fltoolkit.codecs.floats import Half, look_up, middles
from fltoolkit.codecs.quantize import Draw, Quantizer, chunks
from fltoolkit.codecs.stage import check_number
from fltoolkit.wire import WireError


class _Codebook(Quantizer):
    """The common part of stages that send their levels as a sorted codebook.

    Each value is replaced by the nearest level. Tensors with no more than 2^bits different values
    are exact.
    """

    what = "c"

    def __post_init__(self) -> None:
        check_number("bits", self.bits, 1, 8)  # a larger codebook costs more than it saves

    def _levels(self, ordered: Array) -> Array:
        """At most num_levels levels for sorted values."""
        raise NotImplementedError

    def _quantize(self, values: Array, shape: torch.Size, draw: Draw | None) -> tuple[Array, Array]:
        ordered = np.sort(values)
        codebook = ordered[np.append(True, ordered[1:] > ordered[:-1])]
        if len(codebook) > self.num_levels:
            codebook = np.unique(self._levels(ordered).astype(np.float32))
        bounds = (exact := middles(codebook)).astype(np.float32)  # next: the least float32 above
        bounds = np.where(bounds > exact, bounds, np.nextafter(bounds, np.float32(np.inf)))
        return count_reached(values, bounds), codebook

    def _restore(self, symbols: Array, shape: torch.Size, info: Array) -> Array:
        if info.ndim != 1 or not symbols.max() < len(info) <= self.num_levels:
            raise WireError(f"expected a codebook for symbols up to {symbols.max()}")
        return look_up(info, symbols)


@dataclass
class Quantiles(_Codebook):
    """Non-uniform levels: the medians of 2^bits groups of equally many values.

    All symbols are about equally frequent, so entropy coding gains nothing. The levels are close
    together where values are dense. If most are -1 and a few large, these may arrive as -1, too.
    """

    bits: int  # 1 to 8; smaller = more compression

    def _levels(self, ordered: Array) -> Array:
        return ordered[(2 * np.arange(self.num_levels) + 1) * len(ordered) // (2 * self.num_levels)]


@dataclass
class LloydMax(_Codebook):
    """Non-uniform levels with the least squared error: k-means in one dimension.

    The algorithm begins with one level, the mean of all values. Then it repeats, until there are
    2^bits levels: it splits each group of values in two at the mean of the group, and then moves
    each level to the mean of the values nearest to it, ``iterations`` times.

    Source: Lloyd 1982, "Least squares quantization in PCM", method I; Max 1960; the start by
    splitting is Linde, Buzo and Gray 1980's.

    >>> parts = LloydMax(1).apply({"w": torch.tensor([1.0, 2.0, 3.0, 100.0])})
    >>> LloydMax(1).undo(parts)["w"]
    tensor([  2.,   2.,   2., 100.])
    """

    bits: int  # 1 to 8; smaller = more compression
    iterations: int = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("iterations", self.iterations, 0)

    def _levels(self, ordered: Array) -> Array:
        exact = ordered.astype(np.float64)
        # the values of a level are side by side in ``exact``, so their starts are enough
        starts = np.zeros(1, np.int64)
        levels = _means(exact, starts)
        for _ in range(2 * self.bits):  # more often than ``bits``, since empty groups are removed
            if room := self.num_levels - len(starts):
                starts = np.union1d(starts, _splits(exact, starts, levels)[:room])
                levels = _means(exact, starts)
                for _ in range(self.iterations):
                    nearest = np.searchsorted(exact, middles(levels), "right")
                    starts = np.unique(np.append(0, nearest[nearest < len(exact)]))
                    levels = _means(exact, starts)
        return levels


@dataclass
class BFloat16(Half):
    """bfloat16: 8 significant bits and the range of float32; saturates instead of overflowing."""

    dtype = torch.bfloat16


def count_reached(values: Array, bounds: Array) -> Array:
    """How many of at most 255 ascending bounds each finite value reaches, as uint8.

    Of many bounds, the first 16 bits of a value leave one or a few to compare it with.
    """
    counts, first, rest = np.zeros(len(values), np.uint8), None, len(bounds)
    if len(bounds) > 32 and len(bounds) * len(values) > 1 << 23:  # a table takes a millisecond
        heads = np.arange(1 << 16, dtype=np.uint32) << 16
        ends = np.stack([heads, heads | 0xFFFF]).view(np.float32)
        reached = np.searchsorted(bounds, ends, "right")
        if (most := np.ptp(reached, axis=0)[np.isfinite(ends[1])].max()) < 8:
            first, rest = reached.min(0).astype(np.uint8), most
            bounds = np.append(bounds, np.float32(np.inf))
    for _, places in chunks(len(values), len(values)):
        part, count = values[places], counts[places]
        if first is not None:
            count += first.take(part.view(np.uint32) >> 16)
        for k in range(rest):
            count += (part >= (bounds[k] if first is None else bounds.take(count))).view(np.uint8)
    return counts


def _means(ordered: Array, starts: Array) -> Array:
    """The mean of each group."""
    return np.add.reduceat(ordered, starts) / np.diff(starts, append=len(ordered))


def _splits(ordered: Array, starts: Array, means: Array) -> Array:
    """Where each group begins to lie above its mean, groups of largest squared error first."""
    wrong = ordered - np.repeat(means, np.diff(starts, append=len(ordered)))
    errors = np.add.reduceat(wrong * wrong, starts)
    splits = np.searchsorted(ordered, means, "right")
    order = np.argsort(-errors, kind="stable")
    return splits[order][errors[order] > 0]
