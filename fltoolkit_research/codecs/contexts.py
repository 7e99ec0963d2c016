"""Contexts: code each symbol by what is already known about it from the rest of the update.

Not here: which parts of a message are coded in this way (coders.py).

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

Distributions are not sent: both sides count the symbols that were coded so far. Each of the four
steps is only used if it seems to save more than it costs. A decoder computes in whole numbers. It
uses floating-point numbers only where rounding is the same everywhere, so that all machines decode
the same bits.

    varint      number of segments, then for each segment
    varint x 2  number of symbols (not sent for the last segment), width of the grid
    then, if the message has lanes (_lanes.py), which take the long runs of one distribution:
    varint x 2  number of lanes, number of their words
    4, 2 bytes  the state of each lane, each of their words, little-endian
    the rest    words of one range coder (_range_coder.py), little-endian, without zeros at the end.
                `_code_segment`, and the functions that it calls, define each segment

Low rank: Vogels et al. 2019, arXiv 1905.13727. Contexts and adaptive models for parameters, from
the last symbol only: Wiedemann et al. 2020, DeepCABAC, arXiv 1907.11900, in ISO/IEC 15938-17.
"""

import math
from collections.abc import Sequence

import numpy as np

from fltoolkit.arrays import Array
from fltoolkit.codecs._lanes import LEAST, MOST, LaneReader, can_take, num_lanes, write_lanes
from fltoolkit.codecs._outer_products import (
    FAR,
    LEVELS,
    RANK,
    REACH,
    SHIFTS,
    Factors,
    Levels,
    Prediction,
    best_factors,
    find_levels,
    one_thread,
)
from fltoolkit.codecs._range_coder import range_coder
from fltoolkit.wire import Reader, WireError, varint

MAX_LEVELS = 256
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
    coder, start, head = _Coder(), 0, b""
    segments = _segments(shapes)
    with one_thread():
        for length, widths in segments:
            symbols = values[start : start + length]
            start += length
            width = _best_width(symbols, widths)
            head += (varint(length) if start < len(values) else b"") + varint(width)
            _code_segment(coder, symbols, length, width, num_levels)
    assert start == len(values)
    in_lanes = coder.in_lanes() if may_have_lanes else b""
    return varint(len(segments)) + head + in_lanes + coder.words(), bool(in_lanes)


def read_grids(payload: Array, count: int, num_levels: int, *, has_lanes: bool = False) -> Array:
    """Decode ``count`` symbols, as uint8. Raises WireError for damaged bytes.

    The caller has checked that a message of this length may hold so many symbols.
    """
    reader, left = Reader(payload.data), count
    segments: list[tuple[int, int]] = []
    if not 2 <= num_levels <= MAX_LEVELS:
        raise reader.error(f"expected 2 to {MAX_LEVELS} levels, found {num_levels}")
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
    coder = _Coder(payload[reader.offset :].tobytes(), lanes)
    with one_thread():
        parts = [_code_segment(coder, None, *s, num_levels) for s in segments]
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


class _Coder:
    """A range coder with adaptive models, and beside it, in large messages, lanes.

    A method that is given numbers writes them; a method that is given None reads them.
    """

    def __init__(self, words: bytes | None = None, lanes: LaneReader | None = None):
        self._reader = None if words is None else range_coder()(words)
        self._calls: list[tuple[Array, Array]] = []  # numbers and weights that are to be written
        self._lanes = lanes

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

    def number(self, value: int, below: int) -> int:
        """Code one whole number below ``below``; all numbers are equally likely."""
        return int(self._code(np.array([value], np.int32), np.ones(below))[0])

    def naturals(self, values: Array | None, count: int, below: int) -> Array:
        """Code whole numbers of 0 and more, in one context: the largest first, then all."""
        top = 0 if values is None else int(values.max(initial=0))
        small_first = 1 / (1 + np.arange(below)) ** 2
        top = int(self._code(np.array([top], np.int32), small_first)[0])
        out = np.zeros(count, np.int32) if values is None else values.astype(np.int32).clip(0)
        if top:
            self._adapt(out, np.full(top + 1, 4 / (top + 1)))
        return out

    def integers(self, values: Array | None, lengths: list[int]) -> Array:
        """Code whole numbers around 0, context after context: the ranges first, then the numbers.

        The first context begins with weights 1 / (1 + (6 value / range)**2). Each other context
        begins with the counts of the context before. Either beginning weighs as much as 8 +
        range / 2 numbers that were already seen.
        """
        out = np.zeros(sum(lengths), np.int16) if values is None else values.astype(np.int16)
        starts, below, above = np.cumsum([0, *lengths[:-1]]), None, None
        if values is not None:
            below, above = -np.minimum.reduceat(out, starts), np.maximum.reduceat(out, starts)
        lows, highs = (self.naturals(x, len(lengths), REACH).tolist() for x in (below, above))
        square = ((lows[0] + highs[0]) // 6 + 1) ** 2
        expected = (square << 20) // (square + np.arange(-REACH, REACH) ** 2)
        for start, length, low, high in zip(starts, lengths, lows, highs, strict=True):
            window, numbers = slice(REACH - low, REACH + high + 1), out[start : start + length]
            counts = np.array([length])
            if reach := low + high:
                seen = (8 + reach // 2) / max(int(expected[window].sum()), 1)
                prior = expected[window] * seen + min(0.3, 16 / reach)
                if values is not None:
                    numbers += low
                counts = self._adapt(numbers, prior, is_last=start + length == len(out))
                numbers -= low
            expected = np.zeros(2 * REACH, np.int64)
            expected[window] = counts
        return out

    def _adapt(self, numbers: Array, prior: Array, *, is_last: bool = True) -> Array:
        """Code the numbers of one context; make a new model each time their count has tripled.

        Returns the counts of the numbers; of the last context, of some of them only.
        """
        done, counts = 0, np.zeros(len(prior), np.int64)
        while done < len(numbers):
            part = numbers[done : 3 * done + 8]
            self._code(part, prior + counts)
            done += len(part)
            if done < len(numbers) or not is_last:
                counts += np.bincount(part, minlength=len(prior))
        return counts

    def _code(self, numbers: Array, weights: Array) -> Array:
        if not self._reader:
            self._calls.append((numbers.astype(np.int16), weights))  # the caller may change them
            return numbers
        taken = 0
        if self._lanes and can_take(len(numbers), len(weights)):
            first = self._lanes.read(len(numbers), weights)
            taken = len(first)
            numbers[:taken] = first
        if taken < len(numbers):
            numbers[taken:] = self._reader.read(len(numbers) - taken, weights)
        return numbers


def _bits(numbers: Array, weights: Array) -> float:
    """How many bits the numbers take with a model of these weights."""
    counts = np.bincount(numbers, minlength=len(weights))
    return float(counts @ np.log2(weights.sum() / weights))


def _code_segment(
    coder: _Coder, values: Array | None, length: int, width: int, num_levels: int
) -> Array:
    """Code one segment.

    Coded are the most frequent symbol, then which rows and columns hold other symbols, then the
    cells of these rows and columns, as distances from the most frequent symbol.
    """
    center = coder.number(0 if values is None else _most_frequent(values), num_levels)
    shape = -(-length // width), width
    cells = np.full(shape, center, np.uint8)
    rows = columns = away = None
    if values is not None:
        cells.reshape(-1)[:length] = values
        others = cells != center
        rows, columns = others.any(1), others.any(0)
    rows = coder.naturals(rows, shape[0], 2).astype(bool)
    columns = coder.naturals(columns, shape[1], 2).astype(bool)
    live = int(rows.sum()), int(columns.sum())
    if not live[0] * live[1]:
        return cells.reshape(-1)[:length]
    if values is not None:
        kept = cells if live == shape else cells[rows].compress(columns, axis=1)
        away = kept.astype(np.int16) - np.int16(center)
    away = _code_grid(coder, away, live, num_levels)
    if values is None:
        symbols = away.astype(np.uint8) + np.uint8(center)
        if live == shape:
            return symbols.reshape(-1)[:length]
        symbols = np.pad(symbols, ((1, 0), (1, 0)), constant_values=center)  # for all not coded
        cells = symbols.take(np.cumsum(rows) * rows, axis=0)
        cells = cells.take(np.cumsum(columns) * columns, axis=1)
    return cells.reshape(-1)[:length]


def _code_grid(
    coder: _Coder, cells: Array | None, shape: tuple[int, int], num_levels: int
) -> Array:
    """Code the outer products, the levels of rows and columns, and each cell's difference."""
    factors, levels, near = Factors(), Levels(), 0
    if cells is not None:
        factors, cells = best_factors(cells)
        levels = find_levels(np.abs(cells))
        near = int(num_levels <= FEW and np.count_nonzero(cells) >= 1000)
    factors = _code_factors(coder, factors, shape)
    rows = coder.naturals(levels.rows, shape[0], LEVELS).astype(np.uint8)
    columns = coder.naturals(levels.columns, shape[1], LEVELS).astype(np.uint8)
    contexts = np.minimum(rows[:, None] + columns, LEVELS - 1)
    predicted = Prediction(factors, shape) if factors.rank else None
    if predicted:
        predicted.add_contexts(contexts)
    if coder.number(near, 2) and shape[1] > 1:
        left = _code_alternating(coder, cells, contexts)
    else:
        left = _code_by_context(coder, cells, contexts)
    if predicted and cells is None:
        predicted.add_to(left)
    return left


def _code_alternating(coder: _Coder, cells: Array | None, contexts: Array) -> Array:
    """Code even columns, then odd ones, whose contexts also count the neighbours that are not 0."""
    known = np.zeros(contexts.shape, np.int16) if cells is None else cells
    known[:, ::2] = _code_by_context(
        coder, None if cells is None else cells[:, ::2], contexts[:, ::2]
    )
    filled, num = (known[:, ::2] != 0).view(np.uint8), int(contexts.max()) + 1
    others = filled[:, : contexts.shape[1] // 2].copy()  # the neighbour on the left, and
    others[:, : filled.shape[1] - 1] += filled[:, 1:]  # on the right, except for the last column
    contexts = contexts[:, 1::2] + others.astype(np.uint8 if 3 * num <= 256 else np.uint16) * num
    known[:, 1::2] = _code_by_context(coder, None if cells is None else cells[:, 1::2], contexts)
    return known


def _code_by_context(coder: _Coder, cells: Array | None, contexts: Array) -> Array:
    """Code the cells, which are numbers around 0, context by context."""
    shape, contexts = contexts.shape, contexts.reshape(-1)
    if not contexts.any():  # one context: its cells are in order
        left = coder.integers(None if cells is None else cells.reshape(-1), [len(contexts)])
        return left.reshape(shape)
    order = np.argsort(contexts, kind="stable")
    every = np.arange(int(contexts.max()) + 1, dtype=contexts.dtype)
    lengths = np.diff(np.searchsorted(contexts, every, "right", order), prepend=0)
    numbers = None if cells is None else cells.reshape(-1)[order]
    numbers = coder.integers(numbers, lengths[lengths > 0].tolist())
    if cells is None:
        cells = np.empty(len(order), np.int16)
        cells[order] = numbers
    return cells.reshape(shape)


def _code_factors(coder: _Coder, factors: Factors, shape: tuple[int, int]) -> Factors:
    """Code the rank; if it is not 0, also the unit, the mean, and the numbers of the products."""
    rank = coder.number(factors.rank, RANK + 1)
    if not rank:
        return factors
    if rank > min(shape) // 4:
        raise WireError(f"{rank} outer products are too many for a grid of {shape}")
    shift = SHIFTS[coder.number(factors.shift - SHIFTS.start, len(SHIFTS))]
    mean = coder.number(factors.mean + FAR, 2 * FAR + 1) - FAR
    lengths = [shape[0]] * rank + [shape[1]] * rank
    return Factors(rank, shift, mean, coder.integers(factors.numbers, lengths))
