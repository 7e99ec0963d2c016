"""Context coding: each symbol by what the rest of an update already says of it.

The symbols of a tensor are seen as a grid of cells. After a few steps of SGD, the update of a dense
layer has a structure that helps to predict its cells:

1. Rows and columns of dead units, and of inputs that are always zero, hold one symbol only. The
   message says which rows and columns these are, and their cells are not coded.
2. Each sample adds an outer product, delta times input, so the grid is nearly of low rank. A sum
   of a few outer products, in whole numbers, predicts each cell. Only the difference between the
   cell and its prediction is coded.
3. These differences are larger in some rows and columns than in others. Each row and each column
   has a level, on a logarithmic scale. Cells that have the same sum of levels, and the same
   fractional part of their prediction, are one context: they share a distribution.
4. If there are only a few different symbols (as for the places of a sparse update), the even
   columns are coded first. A cell of an odd column then has one more context: how many of its two
   neighbours are not 0.

Distributions are not sent: both sides count the symbols that were coded so far. A step is only used
if it seems to save more than it costs. Decoders compute in whole numbers, or where rounding is the
same everywhere, so that all machines decode the same bits.

    varint      number of segments, then for each segment
    varint x 2  number of symbols (not sent for the last segment), width of the grid
    then, if the message has lanes, which take the long runs of one distribution:
    varint x 2  number of lanes, number of their words
    4, 2 bytes  the state of each lane, each of their words, little-endian
    the rest    words of one range coder, little-endian, without zeros at the end: of each segment
                what `_write_segment` writes

Low rank: Vogels et al. 2019, arXiv 1905.13727. Contexts and adaptive models for parameters, from
the last symbol only: Wiedemann et al. 2020, DeepCABAC, arXiv 1907.11900, in ISO/IEC 15938-17.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, ClassVar

import numpy as np

from fltoolkit.arrays import Array
from fltoolkit.codecs.coders import (
    BitPack,
    Read,
    check_mask,
    join_bits,
    mask_of,
    places_of,
    split_bits,
)
from fltoolkit.codecs.entropy import Entropy, range_coder, range_reader
from fltoolkit.codecs.stage import Indices, Symbols
from fltoolkit.wire import Reader, WireError, varint
from fltoolkit_research.codecs._lanes import (
    LEAST,
    MOST,
    LaneReader,
    can_take,
    num_lanes,
    write_lanes,
)
from fltoolkit_research.codecs._outer_products import (
    FAR,
    LEVELS,
    RANK,
    REACH,
    SHIFTS,
    Factors,
    Prediction,
    best_factors,
    find_levels,
    one_thread,
)

MODELLED, MASK, LANED = 8, 9, 10  # methods: symbols, places, symbols partly in lanes
SEGMENT = 1 << 21  # about how many symbols a grid has at most: this limits memory
SMALL = 1 << 10  # tensors of fewer symbols become rows of the grid before them
WIDTH = 64  # of the grid, if the tensor has one dimension
FEW = 4  # with so few levels, neighbours are contexts


def write_grids(
    values: Array, num_levels: int, shapes: Sequence[Sequence[int]], *, may_have_lanes: bool = False
) -> tuple[bytes, bool]:
    """Code the symbols of tensors with these shapes: one dimension, 2 to 256 levels.

    Returns the bytes, and whether they have lanes: only if that is allowed, and if they are many.
    """
    writer, start, head = _Writer(), 0, b""
    segments = _segments(shapes)
    with one_thread():
        for length, widths in segments:
            symbols = values[start : start + length]
            start += length
            width = _best_width(symbols, widths)
            head += (varint(length) if start < len(values) else b"") + varint(width)
            _write_segment(writer, symbols, width, num_levels)
    assert start == len(values)
    in_lanes = writer.in_lanes() if may_have_lanes else b""
    return varint(len(segments)) + head + in_lanes + writer.words(), bool(in_lanes)


def read_grids(payload: Array, count: int, num_levels: int, *, has_lanes: bool = False) -> Array:
    """Decode ``count`` symbols, as uint8. Raises WireError for damaged bytes.

    The caller has checked that a message of this length may hold so many symbols.
    """
    reader, left = Reader(payload.data), count
    segments: list[tuple[int, int]] = []
    if num_levels < 2:
        raise reader.error(f"expected 2 levels or more, found {num_levels}")
    num = reader.count("the number of segments")
    if num > 1 + count // SMALL:  # each segment takes time, even a short one
        raise reader.error(f"{num} segments are too many for {count} symbols")
    for number in range(num):
        length = left if number == num - 1 else reader.number("a segment's length")
        width = reader.number("a width")
        if not 1 <= width <= length <= left or (number and length < SMALL):
            raise reader.error(f"{length} symbols in rows of {width} are not possible")
        segments.append((length, width))
        left -= length
    if left or not segments:
        raise reader.error(f"{left} symbols are in no segment")
    lanes = _read_lanes(reader, payload) if has_lanes else None
    numbers = _Reader(payload[reader.offset :].tobytes(), lanes)
    with one_thread():
        parts = [_read_segment(numbers, *segment, num_levels) for segment in segments]
    if lanes:
        lanes.expect_end()
    return np.concatenate(parts) if len(parts) > 1 else parts[0]


def _read_lanes(reader: Reader, payload: Array) -> LaneReader:
    """The lanes of a message; the reader goes on to what follows them."""
    lanes, words = reader.number("the number of lanes"), reader.number("the words of the lanes")
    if not LEAST <= lanes <= MOST:  # each step takes time, even if there are few lanes
        raise reader.error(f"expected {LEAST} to {MOST} lanes, found {lanes}")
    middle, end = reader.offset + 4 * lanes, reader.offset + 4 * lanes + 2 * words
    if end > len(payload):
        raise reader.error(f"{lanes} lanes and {words} words are more bytes than there are")
    lane_reader = LaneReader(payload[reader.offset : middle], payload[middle:end])
    reader.offset = end
    return lane_reader


def _segments(shapes: Sequence[Sequence[int]]) -> list[tuple[int, list[int]]]:
    """For each segment: how many symbols it has, and which widths of its grid are to be tried.

    A width is the product of all dimensions but the first, or of all but the first two.
    """
    segments: list[tuple[int, list[int]]] = []
    for shape in filter(math.prod, shapes):
        length = math.prod(shape)
        widths = [math.prod(shape[d:]) for d in range(1, min(len(shape), 3))] or [
            min(WIDTH, length)
        ]
        if segments and length < SMALL:
            before, widths = segments.pop()
            segments.append((before + length, widths))
            continue
        block = max(SEGMENT // widths[0], 1) * widths[0]
        while length >= 2 * block:
            segments.append((block, widths))
            length -= block
        segments.append((length, widths))
    return segments


def _best_width(values: Array, widths: list[int]) -> int:
    """The width with which the levels of rows and columns save most bits."""

    def saved(width: int) -> float:
        num_rows = max(min(len(values), 1 << 18) // width, 1)
        cells = values[: num_rows * width].reshape(num_rows, width)
        return find_levels(np.abs(cells.astype(np.int16) - center)).saved / cells.size

    if len(widths) == 1:
        return widths[0]
    center = _most_frequent(values)
    return max(widths, key=saved)


def _most_frequent(values: Array) -> int:
    """The most frequent symbol; if there are many symbols, that of a sample of them."""
    return int(np.bincount(values[:: 1 + (len(values) >> 18)]).argmax())


class _Models:
    """Adaptive models: what a writer and a reader of numbers have in common."""

    def code(self, numbers: Array, weights: Array) -> None:
        """Write the numbers, or read them into this array."""
        raise NotImplementedError

    def adapt(self, numbers: Array, prior: Array, *, is_last: bool = True) -> Array:
        """Code the numbers of one context; make a new model each time their count has tripled.

        Returns the counts of the numbers; of the last context, of some of them only.
        """
        done, counts, weights = 0, np.zeros(len(prior), np.int64), prior
        while done < len(numbers):
            part = numbers[done : 3 * done + 8]
            self.code(part, weights)
            done += len(part)
            if done < len(numbers) or not is_last:
                counts += np.bincount(part, minlength=len(prior))
                weights = prior + counts
        return counts

    def adapt_all(self, numbers: Array, lengths: list[int], lows: Array, highs: Array) -> None:
        """Code whole numbers around 0, context after context, each from -low to high.

        The first context begins with weights 1 / (1 + (6 value / range)**2). Each other context
        begins with the counts of the context before. Either beginning weighs as much as 8 +
        range / 2 numbers that were already seen.
        """
        square, start = (int(lows[0] + highs[0]) // 6 + 1) ** 2, 0
        expected = (square << 20) // (square + np.arange(-REACH, REACH) ** 2)
        for length, low, high in zip(lengths, lows.tolist(), highs.tolist(), strict=True):
            window, part = slice(REACH - low, REACH + high + 1), numbers[start : start + length]
            start, counts = start + length, np.array([length])
            if reach := low + high:
                seen = (8 + reach // 2) / max(int(expected[window].sum()), 1)
                prior = expected[window] * seen + min(0.3, 16 / reach)
                part += low
                counts = self.adapt(part, prior, is_last=start == len(numbers))
                part -= low
            expected = np.zeros(2 * REACH, np.int64)
            expected[window] = counts


class _Writer(_Models):
    """Collects what is to be coded, with its weights, for a range coder and for lanes."""

    def __init__(self) -> None:
        self._calls: list[tuple[Array, Array]] = []

    def code(self, numbers: Array, weights: Array) -> None:
        self._calls.append((numbers.astype(np.int16), weights))  # the caller changes them again

    def number(self, value: int, below: int) -> None:
        """One whole number below ``below``; all are equally likely."""
        self.code(np.array([value]), np.ones(below))

    def naturals(self, values: Array, below: int) -> None:
        """Whole numbers of 0 and more, in one context: the largest first, then all."""
        top = int(values.max(initial=0))
        self.code(np.array([top]), _small_first(below))
        if top:
            self.adapt(values.astype(np.int32).clip(0), np.full(top + 1, 4 / (top + 1)))

    def integers(self, values: Array, lengths: list[int]) -> None:
        """Whole numbers around 0, context after context: the ranges first, then the numbers."""
        numbers, starts = values.astype(np.int16), np.cumsum([0, *lengths[:-1]])
        lows, highs = -np.minimum.reduceat(numbers, starts), np.maximum.reduceat(numbers, starts)
        self.naturals(lows, REACH)
        self.naturals(highs, REACH)
        self.adapt_all(numbers, lengths, lows.clip(0), highs.clip(0))

    def cells(self, cells: Array, contexts: Array) -> None:
        """Cells that are numbers around 0, context by context."""
        order, lengths = _in_order(contexts)
        self.integers(cells.reshape(-1)[order], lengths)

    def in_lanes(self) -> bytes:
        """What lanes take of all that was written, or nothing if they are not worth their cost."""
        taken = {k: c for k, c in enumerate(self._calls) if can_take(len(c[0]), len(c[1]))}
        lanes = num_lanes(sum(_bits(*call) for call in taken.values()))
        if not lanes:
            return b""
        states, words, left = write_lanes([*taken.values()], lanes)
        for (k, (numbers, weights)), count in zip(taken.items(), left, strict=True):
            self._calls[k] = numbers[len(numbers) - count :], weights
        return varint(lanes) + varint(len(words) // 2) + states + words

    def words(self) -> bytes:
        """All that was written, but for what lanes took, as words of the range coder."""
        return range_coder().write(self._calls)


class _Reader(_Models):
    """Reads what a `_Writer` wrote: each method is the inverse of the method of the same name."""

    def __init__(self, words: bytes, lanes: LaneReader | None):
        self._coder, self._lanes = range_reader(words), lanes

    def code(self, numbers: Array, weights: Array) -> None:
        taken = 0
        if self._lanes and can_take(len(numbers), len(weights)):
            first = self._lanes.read(len(numbers), weights)
            taken = len(first)
            numbers[:taken] = first
        if taken < len(numbers):
            numbers[taken:] = self._coder.read(len(numbers) - taken, weights)

    def number(self, below: int) -> int:
        return int(self._coder.read(1, np.ones(below))[0])

    def naturals(self, count: int, below: int) -> Array:
        top, numbers = int(self._coder.read(1, _small_first(below))[0]), np.zeros(count, np.int32)
        if top:
            self.adapt(numbers, np.full(top + 1, 4 / (top + 1)))
        return numbers

    def integers(self, lengths: list[int]) -> Array:
        numbers = np.zeros(sum(lengths), np.int16)
        lows, highs = self.naturals(len(lengths), REACH), self.naturals(len(lengths), REACH)
        self.adapt_all(numbers, lengths, lows, highs)
        return numbers

    def cells(self, contexts: Array) -> Array:
        order, lengths = _in_order(contexts)
        cells = np.empty(contexts.size, np.int16)
        cells[order] = self.integers(lengths)
        return cells.reshape(contexts.shape)


@cache
def _small_first(below: int) -> Array:
    weights: Array = 1 / (1 + np.arange(below)) ** 2
    return weights


def _in_order(contexts: Array) -> tuple[Any, list[int]]:
    """The order of the cells by their context, and how many cells each context has."""
    contexts = contexts.reshape(-1)
    if not contexts.any():
        return slice(None), [len(contexts)]
    order = np.argsort(contexts, kind="stable")
    every = np.arange(int(contexts.max()) + 1, dtype=contexts.dtype)
    lengths = np.diff(np.searchsorted(contexts, every, "right", order), prepend=0)
    return order, lengths[lengths > 0].tolist()


def _bits(numbers: Array, weights: Array) -> float:
    """How many bits the numbers take with a model of these weights."""
    counts = np.bincount(numbers, minlength=len(weights))
    return float(counts @ np.log2(weights.sum() / weights))


def _write_segment(writer: _Writer, symbols: Array, width: int, num_levels: int) -> None:
    """The most frequent symbol, then which rows and columns hold others, then their cells.

    The cells are distances from the most frequent symbol. The last row is filled up with it.
    """
    center = _most_frequent(symbols)
    cells = np.full((-(-len(symbols) // width), width), center, np.uint8)
    cells.reshape(-1)[: len(symbols)] = symbols
    others = cells != center
    rows, columns = others.any(1), others.any(0)
    writer.number(center, num_levels)
    writer.naturals(rows, 2)
    writer.naturals(columns, 2)
    if rows.any():
        live = cells if rows.all() and columns.all() else cells[rows].compress(columns, axis=1)
        _write_grid(writer, live.astype(np.int16) - np.int16(center), num_levels)


def _read_segment(reader: _Reader, length: int, width: int, num_levels: int) -> Array:
    """The inverse of `_write_segment`."""
    center, shape = reader.number(num_levels), (-(-length // width), width)
    rows, columns = (reader.naturals(count, 2).astype(bool) for count in shape)
    live = int(rows.sum()), int(columns.sum())
    if not live[0] * live[1]:
        return np.full(length, center, np.uint8)
    cells = _read_grid(reader, live, num_levels).astype(np.uint8) + np.uint8(center)
    if live != shape:
        cells = np.pad(cells, ((1, 0), (1, 0)), constant_values=center)  # for all not coded
        cells = cells.take(np.cumsum(rows) * rows, axis=0)
        cells = cells.take(np.cumsum(columns) * columns, axis=1)
    return cells.reshape(-1)[:length]


def _write_grid(writer: _Writer, cells: Array, num_levels: int) -> None:
    """The outer products, the levels of rows and columns, and each cell's difference."""
    factors, left = best_factors(cells)
    levels = find_levels(np.abs(left))
    near = num_levels <= FEW and np.count_nonzero(left) >= 1000
    writer.number(factors.rank, RANK + 1)
    if factors.rank:
        writer.number(factors.shift - SHIFTS.start, len(SHIFTS))
        writer.number(factors.mean + FAR, 2 * FAR + 1)
        writer.integers(factors.numbers, factors.lengths(cells.shape))
    writer.naturals(levels.rows, LEVELS)
    writer.naturals(levels.columns, LEVELS)
    writer.number(int(near), 2)
    contexts = _contexts(levels.rows, levels.columns)
    if factors.rank:
        Prediction(factors, cells.shape).add_contexts(contexts)
    if near and cells.shape[1] > 1:
        writer.cells(left[:, ::2], contexts[:, ::2])
        writer.cells(left[:, 1::2], _beside(left[:, ::2], contexts))
    else:
        writer.cells(left, contexts)


def _read_grid(reader: _Reader, shape: tuple[int, int], num_levels: int) -> Array:
    """The inverse of `_write_grid`."""
    factors = _read_factors(reader, shape)
    rows, columns = reader.naturals(shape[0], LEVELS), reader.naturals(shape[1], LEVELS)
    near, contexts = reader.number(2), _contexts(rows, columns)
    predicted = Prediction(factors, shape) if factors.rank else None
    if predicted:
        predicted.add_contexts(contexts)
    if near and shape[1] > 1:
        left = np.empty(shape, np.int16)
        left[:, ::2] = reader.cells(contexts[:, ::2])
        left[:, 1::2] = reader.cells(_beside(left[:, ::2], contexts))
    else:
        left = reader.cells(contexts)
    if predicted:
        predicted.add_to(left)
    return left


def _read_factors(reader: _Reader, shape: tuple[int, int]) -> Factors:
    """The outer products; rank 0 if there are none."""
    rank = reader.number(RANK + 1)
    if not rank:
        return Factors()
    if rank > min(shape) // 4:
        raise WireError(f"{rank} outer products are too many for a grid of {shape}")
    shift = SHIFTS[reader.number(len(SHIFTS))]
    factors = Factors(rank, shift, reader.number(2 * FAR + 1) - FAR)
    return factors._replace(numbers=reader.integers(factors.lengths(shape)))


def _contexts(rows: Array, columns: Array) -> Array:
    """The context of each cell, without its prediction: the sum of the levels."""
    sums = rows.astype(np.uint8)[:, None] + columns.astype(np.uint8)
    return np.minimum(sums, LEVELS - 1)


def _beside(even: Array, contexts: Array) -> Array:
    """The contexts of odd columns: also how many of the neighbours, in even columns, are not 0."""
    filled, num = (even != 0).view(np.uint8), int(contexts.max()) + 1
    others = filled[:, : contexts.shape[1] // 2].copy()  # the neighbour on the left, and
    others[:, : filled.shape[1] - 1] += filled[:, 1:]  # on the right, except for the last column
    return contexts[:, 1::2] + others.astype(np.uint8 if 3 * num <= 256 else np.uint16) * num


def _read_mask(payload: Array, count: int, size: int) -> Array:
    check_mask(payload, size)
    return places_of(read_grids(payload, size, 2), count)


@dataclass
class ContextEntropy(Entropy):
    """Entropy coding of symbols and places by prediction, contexts and adaptive models.

    A tensor is seen as a matrix: its rows are the first dimension, or the first two. Symbols that
    are independent of each other cost their entropy and a few bytes; with structure, as in updates
    of dense layers, they cost much less (docs/codecs.md). Indices are seen as a matrix of zeros and
    ones. An entry that `BitPack` makes smaller is written as `BitPack` writes it. In messages of a
    quarter of a megabyte and more, most symbols are coded in lanes: at most half a per cent longer,
    and decoded faster.

    >>> import torch
    >>> symbols = Symbols(torch.zeros(1000, dtype=torch.uint8), num_levels=8)
    >>> sum(part.numel() for part in ContextEntropy().apply({"w": symbols}).values())
    7
    """

    symbol_methods: ClassVar[Mapping[int, Read]] = {
        **BitPack.symbol_methods,
        MODELLED: partial(join_bits, read=read_grids),
        LANED: partial(join_bits, read=partial(read_grids, has_lanes=True)),
    }
    place_methods: ClassVar[Mapping[int, Read]] = {**BitPack.place_methods, MASK: _read_mask}

    def _symbols(self, part: Symbols) -> tuple[Any, ...]:
        high, levels, lows = split_bits(part)
        grids, has_lanes = write_grids(high, levels, [part.values.shape], may_have_lanes=True)
        return LANED if has_lanes else MODELLED, *lows, grids

    def _places(self, part: Indices) -> tuple[int, bytes]:
        known = sum(map(math.prod, part.shapes)) == part.size
        return MASK, write_grids(mask_of(part), 2, part.shapes if known else [(part.size,)])[0]
