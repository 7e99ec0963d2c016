"""The range coder: numbers one after the other, each within a fraction of a bit of its cost.

Not here: which numbers are coded, and by which weights (_contexts.py); many coders in step, for
large messages (_lanes.py).

A message is a point in an interval of 2^64 - 1. Each number narrows the interval: weights become
frequencies f(s), 2^24 in all, and with c(s), the sum of the frequencies of the numbers before s,

    scale <- range div 2^24;  lower <- lower + scale * c(s);  range <- scale * f(s)

When the range falls below 2^32, the 32 highest bits of the interval are settled: they are the next
word, and what is left is multiplied by 2^32. To decode, s is the number with
c(s) <= (point - lower) div scale < c(s) + f(s).

A coder is there twice, and both write and read the same bytes: `Compiled` calls the package
``constriction``, in Rust; `Plain` is numpy and Python, for machines for which constriction has no
wheel, such as Linux on ARM64. tests/research/codecs/test_range_coder.py holds them equal.

Source: Martin 1979, "Range encoding". Frequencies, words and end are those of constriction 0.4 and
0.5 (Bamler 2022, arXiv 2201.01741): `RangeEncoder`, `RangeDecoder`, `Categorical(perfect=False)`.
"""

from bisect import bisect_right
from collections.abc import Iterable
from functools import cache

import numpy as np

from fltoolkit.arrays import Array
from fltoolkit.wire import WireError

BITS = 24  # of the sum of all frequencies
FULL = (1 << 64) - 1  # the first range
LOWEST = 1 << 32  # the lowest range


@cache
def range_coder() -> "type[Compiled] | type[Plain]":
    """`Compiled` where the package constriction can be imported, else `Plain`.

    The class writes words; an object made from words reads the numbers again.
    """
    try:
        import constriction  # noqa: F401
    except ImportError:
        return Plain
    return Compiled


class Compiled:
    """The range coder of the package ``constriction``."""

    name = "constriction"

    def __init__(self, words: bytes):
        from constriction import stream

        padded = words.ljust(max(-(-len(words) // 4) * 4, 4), b"\0")
        self._model = stream.model.Categorical
        self._decoder = stream.queue.RangeDecoder(np.frombuffer(padded, "<u4").astype("u4"))

    def read(self, count: int, weights: Array) -> Array:
        """The next numbers. Raises WireError if the bytes are damaged in a way that shows."""
        model = self._model(weights, perfect=False)
        try:
            numbers: Array = self._decoder.decode(model, count)
        except AssertionError:  # no number fits
            raise WireError("the range coder's words are damaged") from None
        return numbers

    @staticmethod
    def write(calls: Iterable[tuple[Array, Array]]) -> bytes:
        """The words of the numbers of each call, little-endian, without zeros at the end.

        The numbers of a call are from 0 to ``len(weights) - 1``. There are two weights or more.
        """
        from constriction import stream

        encoder = stream.queue.RangeEncoder()
        for numbers, weights in calls:
            model = stream.model.Categorical(weights, perfect=False)
            encoder.encode(numbers.astype(np.int32), model)
        return bytes(encoder.get_compressed().astype("<u4").tobytes().rstrip(b"\0"))


class Plain:
    """The same range coder in numpy and Python. Whole numbers of Python never overflow."""

    name = "plain"

    def __init__(self, words: bytes):
        padded = words.ljust(-(-len(words) // 4) * 4, b"\0")
        self._words = iter(np.frombuffer(padded, "<u4").tolist())
        self._range = FULL
        self._ahead = next(self._words, 0) << 32 | next(self._words, 0)  # point - lower

    def read(self, count: int, weights: Array) -> Array:
        """As `Compiled.read`."""
        edges = _edges(weights)
        lefts, widths, inner = (e.tolist() for e in (edges[:-1], np.diff(edges), edges[1:-1]))
        span, ahead, words = self._range, self._ahead, self._words
        numbers = []
        for _ in range(count):
            scale = span >> BITS
            slot = ahead // scale
            number = bisect_right(inner, slot)
            ahead -= scale * lefts[number]
            span = scale * widths[number]
            if ahead >= span:
                raise WireError("the range coder's words are damaged")
            if span < LOWEST:
                span <<= 32
                ahead = ahead << 32 | next(words, 0)
            numbers.append(number)
        self._range, self._ahead = span, ahead
        return np.array(numbers, np.int32)

    @staticmethod
    def write(calls: Iterable[tuple[Array, Array]]) -> bytes:
        """As `Compiled.write`: what is added to ``lower`` is summed up in the end, with carries."""
        span, begun = FULL, np.uint64(0)
        added = [np.zeros(0, np.uint64)]  # to the interval, between two words
        for numbers, weights in calls:
            edges = _edges(weights)
            widths = np.diff(edges).take(numbers)
            scales = []
            for width in widths.tolist():
                scale = span >> BITS
                scales.append(scale)
                span = scale * width
                if span < LOWEST:
                    span <<= 32
            steps = np.array(scales, np.uint64)
            ends = np.flatnonzero(steps * widths < LOWEST) + 1
            terms = np.append(steps * edges.take(numbers), np.uint64(0))
            sums = np.add.reduceat(terms, np.append(0, ends))  # each below 2^64
            sums[0] += begun
            begun = sums[-1]
            added.append(sums[:-1])
        sums = np.append(np.concatenate(added), begun)
        high, low = (int.from_bytes(s.astype(">u4").tobytes(), "big") for s in (sums >> 32, sums))
        lower = (high << 32) + low
        end = lower + LOWEST - 1 >> 32  # the one word that is sure to lie in the last interval
        words = np.frombuffer(end.to_bytes(4 * len(sums), "big"), ">u4")
        return words.astype("<u4").tobytes().rstrip(b"\0")


def _edges(weights: Array) -> Array:
    """Frequencies of weights, added up: n + 1 whole numbers from 0 to 2^24.

    Each number gets 1, and what is left is shared in proportion. The sums are rounded, so that
    rounding errors do not add up; they are made one after the other, as on every machine.
    """
    sums = np.cumsum(weights, dtype=np.float64)
    scale = ((1 << BITS) - len(weights)) / sums[-1]
    edges = np.zeros(len(weights) + 1, np.uint64)
    edges[1:-1] = sums[:-1] * scale
    edges += np.arange(len(edges), dtype=np.uint64)
    edges[-1] = 1 << BITS
    return edges
