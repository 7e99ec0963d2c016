"""Entropy coding: frequent symbols take few bits and rare ones many, and nothing is lost.

`Entropy` counts how often each symbol occurs in a tensor, sends these counts, and then codes symbol
after symbol with a range coder: one that makes up a share p of all takes -log2 p bits. A set of
places is coded in the same way, as zeros and ones.

The range coder's message is a point in an interval of 2^64 - 1. Each number narrows the interval:
weights become frequencies f(s), 2^24 in all, and with c(s), the sum of the frequencies of the
numbers before s,

    scale <- range div 2^24;  lower <- lower + scale * c(s);  range <- scale * f(s)

When the range falls below 2^32, the 32 highest bits of the interval are settled: they are the next
word, and what is left is multiplied by 2^32. To decode, s is the number with
c(s) <= (point - lower) div scale < c(s) + f(s).

The range coder is there twice: `Compiled` calls the package ``constriction``, in Rust; `Plain` is
numpy and Python, for machines without its wheel, such as Linux on ARM64. Both write the same bytes.
`Fast` reads them with a compiled loop, where one was built (fltoolkit/compiled.py).

Source: Shannon 1948; Martin 1979, "Range encoding". Frequencies, words and end are those of
constriction 0.4 and 0.5 (Bamler 2022, arXiv 2201.01741): `RangeEncoder`, `RangeDecoder`,
`Categorical(perfect=False)`.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, ClassVar

import numpy as np
import torch

from fltoolkit import compiled
from fltoolkit.arrays import Array
from fltoolkit.codecs.coders import (
    FREE_SYMBOLS,
    BitPack,
    Read,
    check_mask,
    entry,
    join_bits,
    least_nbytes,
    length,
    mask_of,
    places_of,
    split_bits,
    steps,
)
from fltoolkit.codecs.stage import Indices, Symbols
from fltoolkit.wire import WireError

BITS = 24  # of the sum of all frequencies
FULL = (1 << 64) - 1  # the first range
LOWEST = 1 << 32  # the lowest range
COUNTED, SHARED = 11, 12  # methods: symbols by their counts, places by how many there are of all
EXACT = 3  # leading bits of a count that are sent
BETWEEN = 1 << EXACT - 1  # rounded counts from one power of two to the next
REACH = 40 * BETWEEN  # so far a rounded count may be from the one before: counts are below 2^40
MANY = 1 << 12  # bytes from which on a compiled loop is worth its beginning
SPARSEST = 1 << 11  # if fewer than one place in so many is chosen, gaps are faster, and as small


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


class Fast(Plain):
    """`Plain`, which reads by a compiled loop."""

    def __init__(self, words: bytes, library: Any):
        padded = words.ljust(-(-len(words) // 4) * 4 + 8, b"\0")
        self._all, self._library = np.frombuffer(padded, "<u4").astype(np.uint32), library
        ahead = int(self._all[0]) << 32 | int(self._all[1])
        self._state = np.array([FULL, ahead, 2], np.uint64)  # range, point - lower, words taken

    def read(self, count: int, weights: Array) -> Array:
        """As `Compiled.read`."""
        numbers, edges = np.empty(count, np.int32), _edges(weights).astype(np.uint32)
        arrays, sizes = (self._state, self._all, numbers, edges), (len(self._all), count)
        if compiled.call(self._library.read_range, *arrays, *sizes, len(weights)):
            raise WireError("the range coder's words are damaged")
        return numbers


def reads_as_plain(library: Any) -> bool:
    """Whether `Fast` reads from some words what `Plain` reads."""
    words, weights = bytes(range(7, 256)), np.arange(1.0, 256.0)
    both = Fast(words, library), Plain(words)
    one, other = ([*coder.read(100, weights[:2]), *coder.read(100, weights)] for coder in both)
    return one == other


def range_reader(words: bytes) -> Compiled | Plain:
    """The range coder that reads these words."""
    library = compiled.functions(reads_as_plain) if len(words) >= MANY else None
    return Fast(words, library) if library else range_coder()(words)


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


def _rounded(counts: Array) -> Array:
    """The number of each count's rounded value, in increasing order: 0 for 0, 1 for 1, and so on.

    A count keeps its `EXACT` leading bits, so there are `BETWEEN` rounded values from one power of
    two to the next: 4, 5, 6 and 7 have these numbers, 8 and 9 number 8, and 10 and 11 number 9.
    """
    num_bits = np.frexp(counts.astype(np.float64))[1]
    dropped = np.maximum(num_bits - EXACT, 0)
    return (counts >> dropped) + BETWEEN * dropped


@cache
def _weights() -> Array:
    """For each number of `_rounded`: twice the middle of its counts; exact on every machine."""
    numbers = np.arange(REACH + 1)
    dropped = np.maximum(numbers // BETWEEN - 1, 0)
    lowest, width = (numbers - BETWEEN * dropped) << dropped, np.left_shift(1, dropped)
    return np.where(dropped > 0, 2 * lowest + width, 2 * lowest).astype(np.float64)


@cache
def _changes() -> Array:
    """Weights of the change of `_rounded` from a level to the next one: small ones are likely."""
    change = np.abs(np.arange(-REACH, REACH + 1.0))
    weights: Array = 1 / ((1 + change) * (1 + change * change))
    return weights


def _shares(count: int, size: int) -> Array:
    """Weights of zero and one in a mask of ``size`` with ``count`` ones."""
    return np.array([size - count, count], np.float64)


def _read_counted(payload: Array, count: int, levels: int) -> Array:
    words = range_reader(payload.tobytes())
    numbers = np.cumsum(words.read(levels, _changes()).astype(np.int64) - REACH)
    if levels < 2 or numbers.min() < 0 or not 0 < numbers.max() <= REACH:
        raise WireError("expected the counts of symbols: the range coder's words are damaged")
    return words.read(count, _weights()[numbers]).astype(np.uint8)


def _read_shared(payload: Array, count: int, size: int) -> Array:
    check_mask(payload, size)
    mask = range_reader(payload.tobytes()).read(size, _shares(count, size))
    return places_of(mask, count)


@dataclass
class Entropy(BitPack):
    """Entropy coding with one distribution for each tensor, which is counted and sent.

    A tensor takes its empirical entropy, and about 100 bytes for the counts of 256 levels. k places
    of n take log2 of n over k bits and a few bytes. Lower bits of symbols of more than 8 bits are
    sent as they are, as is an entry that `BitPack` makes smaller. An update of McMahan's CNN took
    43 % fewer bytes at 8 bits and 74 % at 4. Where time matters, use `Zstd`
    (experiments/replications): 44 and 72 % in a third of the time.

    >>> import torch
    >>> from fltoolkit.codecs import Pipeline, Quantize
    >>> x = {"w": torch.randn(10_000, generator=torch.Generator().manual_seed(0))}
    >>> [len(Pipeline(Quantize(4), *coder).encode(x)) for coder in ((), (Entropy(),))]
    [5033, 3673]
    """

    symbol_methods: ClassVar[Mapping[int, Read]] = {
        **BitPack.symbol_methods,
        COUNTED: partial(join_bits, read=_read_counted),
    }
    place_methods: ClassVar[Mapping[int, Read]] = {**BitPack.place_methods, SHARED: _read_shared}

    @property
    def range_coder(self) -> str:
        """Which range coder is used here: ``constriction``, or ``plain`` where it is missing."""
        return range_coder().name

    def _encode(self, part: Symbols | Indices) -> list[Any]:
        forms = [super()._encode(part)]
        if isinstance(part, Symbols):
            if part.num_levels > 1 and part.values.numel():
                forms.append(entry(part, *self._symbols(part)))
        elif len(part.values) and part.size <= FREE_SYMBOLS + SPARSEST * len(part.values):
            method, words = self._places(part)
            forms.append(entry(part, method, words.ljust(least_nbytes(part.size), b"\0")))
        return min(forms, key=length)

    def _symbols(self, part: Symbols) -> tuple[Any, ...]:
        """The method, and all that follows the header."""
        values, levels, lows = split_bits(part)
        # numpy would count in int64, which takes memory; | refuses numbers that are not whole
        counts = torch.from_numpy((values | 0).astype(np.uint8, copy=False)).bincount(None, levels)
        changes = steps(_rounded(counts.numpy()), 0)
        calls = [(changes + REACH, _changes()), (values, _weights()[np.cumsum(changes)])]
        return COUNTED, *lows, range_coder().write(calls)

    def _places(self, part: Indices) -> tuple[int, bytes]:
        """The method, and all that follows the header."""
        return SHARED, range_coder().write([(mask_of(part), _shares(len(part.values), part.size))])
