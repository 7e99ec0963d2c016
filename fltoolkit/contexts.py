"""Contexts: what rows and columns tell about symbols, and the range coder that makes use of it.

Not here: which parts of a message are coded so (entropy.py). Next: entropy.py.

Symbols are seen as a grid. Each row and each column gets a level, from its mean distance to the
most frequent symbol, and each row a sign: how one-sided it is. Cells whose row and column levels
have the same sum, in rows of the same sign, are one context: they share a distribution. Updates
of a dense layer are sums of few products of a row's and a column's factor, so this sum says most
about a cell; dead rows and columns end in a context of their own, and cost nothing.

Distributions are not sent. Both sides count what was coded so far, in whole numbers, so that they
agree to the bit on any machine. The words come from the range coder of ``constriction``.

    varint      number of segments minus one; then for each but the last
    varint x 2    number of symbols, number of bytes
    then the segments, each of them
    varint      width of the grid; 0: no grid, one context
    varint      the first symbol at which a row begins (only if there is a grid)
    1 byte      the most frequent symbol
    1 byte      bits of the mean distance to it
    the rest    words of the range coder, little-endian, without zeros at the end: levels of rows,
                signs of rows, levels of columns, symbols by context
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fltoolkit.wire import WireError, _Reader, _varint

__all__ = ["Segment", "find_segment", "read_segments", "segments_of", "write_segments"]

LEVELS, SIGNS = 64, 7
MAX_LEVELS = 256
SEGMENT = 1 << 21  # about how many symbols are sorted at once: bounds memory, and stays in caches
MANY = 1 << 18  # symbols that are enough for fine levels, and too many to try everything
SMALL = 1 << 10  # tensors of fewer symbols share a segment with their neighbour

Array = NDArray[Any]
Grid = tuple[int, int]  # width, the first symbol at which a row begins
Segment = tuple[int, list[Grid]]  # number of symbols, grids to try


def segments_of(shapes: Sequence[Sequence[int]]) -> list[Segment]:
    """Tensors one after the other as segments: first dimension by the rest, or first two."""
    segments: list[Segment] = []
    for shape in shapes:
        length = math.prod(shape)
        widths = sorted({math.prod(shape[d:]) for d in range(1, min(len(shape), 3))} or {64})
        grids = [(width, 0) for width in widths]
        if segments and min(length, segments[-1][0]) < SMALL:
            before, other = segments.pop()
            segments.append((before + length, grids if length > before else other))
            continue
        block = max(SEGMENT // max(widths[-1], 1), 1) * widths[-1]
        while block and length >= 2 * block:
            segments.append((block, grids))
            length -= block
        segments.append((length, grids))
    return segments


def write_segments(values: Array, num_levels: int, segments: Sequence[Segment]) -> bytes:
    """Code symbols (one dimension) of 2 to 256 levels; segments must add up to them all."""
    out, start = [], 0
    for length, grids in segments:
        out.append(_write_best(values[start : start + length], num_levels, grids))
        start += length
    assert start == len(values)
    head = [_varint(len(out) - 1)]
    for (length, _), data in zip(segments[:-1], out[:-1], strict=True):
        head.append(_varint(length) + _varint(len(data)))
    return b"".join(head + out)


def read_segments(payload: Array, count: int, num_levels: int) -> Array:
    """The ``count`` symbols again, as uint8. Raises WireError for damaged bytes.

    The caller has checked that so many bytes may mean so many symbols.
    """
    reader, sizes, left = _Reader(payload.data), [], count
    if not 2 <= num_levels <= MAX_LEVELS:
        raise reader.error(f"expected 2 to {MAX_LEVELS} levels, found {num_levels}")
    for _ in range(reader.count("the number of segments")):
        length, nbytes = reader.number("a segment's length"), reader.count("its bytes")
        if length > left:
            raise reader.error(f"expected at most {left} symbols in a segment, found {length}")
        sizes.append((length, nbytes))
        left -= length
    sizes.append((left, len(payload)))
    out, start = [], reader.offset
    for length, nbytes in sizes:
        out.append(_read(payload[start : start + nbytes], length, num_levels))
        start += nbytes
    return np.concatenate(out)


def _write_best(values: Array, num_levels: int, grids: Sequence[Grid]) -> bytes:
    """The shortest over the grids; none is tried too, if it may be shorter."""
    grids = [grid for grid in grids if 1 < grid[0] <= len(values) // 2]
    if len(grids) > 1 and len(values) > MANY:
        sample = values[: len(values) // 8]
        grids = [min(grids, key=lambda grid: len(_write(sample, num_levels, *grid)))]
    out = [_write(values, num_levels, *grid) for grid in grids]
    counts = np.bincount(values)
    counts = counts[counts > 0]
    entropy_nbytes = float(counts @ np.log2(len(values) / counts)) / 8
    if not out or min(map(len, out)) > entropy_nbytes:
        out.append(_write(values, num_levels, 0, 0))
    return min(out, key=len)


def _write(values: Array, num_levels: int, width: int, begin: int) -> bytes:
    from constriction import stream

    counts = np.bincount(values, minlength=1)
    center = int(counts.argmax())
    distance = int(np.abs(np.arange(len(counts)) - center) @ counts) // max(len(values), 1)
    head = _varint(width) + (_varint(begin) if width else b"")
    head += bytes([center, distance.bit_length()])
    encoder = stream.queue.RangeEncoder()

    def write(symbols: Array, lengths: list[int], prior: Array) -> None:
        symbols = symbols.astype(np.int32)

        def code(start: int, stop: int, model: Any) -> Array:
            encoder.encode(symbols[start:stop], model)
            return symbols[start:stop]

        _adapt(code, lengths, prior)

    if width:
        before = -begin % width
        rows, signs, columns = _levels(values, width, before, center)
        for levels, number in ((rows, LEVELS), (signs, SIGNS), (columns, LEVELS)):
            write(levels, [len(levels)], np.ones(number, np.int64))
        order, lengths = _sort(rows, signs, columns, slice(before, before + len(values)))
        values = values[order]
    else:
        lengths = [len(values)]
    write(values, lengths, _bell(center, distance.bit_length(), num_levels))
    return head + encoder.get_compressed().astype("<u4").tobytes().rstrip(b"\0")


def _read(data: Array, count: int, num_levels: int) -> Array:
    from constriction import stream

    reader = _Reader(data.data)
    width = reader.number("the width")
    before = -reader.number("the begin of a row") % width if width else 0
    center, bits = reader.byte("the most frequent symbol"), reader.byte("bits of the distance")
    if bits > 8 or center >= num_levels or width > count // 2:
        raise reader.error(f"width {width}, symbol {center} or {bits} bits are not possible")
    words = data[reader.offset :].tobytes()
    words = words.ljust(max(-(-len(words) // 4) * 4, 4), b"\0")
    decoder = stream.queue.RangeDecoder(np.frombuffer(words, "<u4").astype(np.uint32))

    def read(lengths: list[int], prior: Array) -> Array:
        symbols = np.empty(sum(lengths), np.uint8)

        def code(start: int, stop: int, model: Any) -> Array:
            decoded = decoder.decode(model, stop - start)
            symbols[start:stop] = decoded
            return decoded

        try:
            _adapt(code, lengths, prior)
        except AssertionError:  # so constriction says that no symbol fits
            raise WireError("the range coder's words are damaged") from None
        return symbols

    bell = _bell(center, bits, num_levels)
    if not width:
        return read([count], bell)
    num_rows = -(-(before + count) // width)
    rows = read([num_rows], np.ones(LEVELS, np.int64))
    signs = read([num_rows], np.ones(SIGNS, np.int64))
    columns = read([width], np.ones(LEVELS, np.int64))
    order, lengths = _sort(rows, signs, columns, slice(before, before + count))
    values = np.empty(count, np.uint8)
    values[order] = read(lengths, bell)
    return values


def _bell(center: int, bits: int, num_levels: int) -> Array:
    """What to expect before anything was counted: 1 / (1 + (distance / spread)**2)."""
    square = 1 << 2 * bits
    return (square << 10) // (square + (np.arange(num_levels) - center) ** 2)


def _adapt(code: Callable[[int, int, Any], Array], lengths: list[int], prior: Array) -> None:
    """Code the contexts one after the other, each from what was seen of it so far.

    ``code(start, stop, model)`` writes or reads some symbols and returns them. A context's model
    is renewed whenever it has grown by half: the counts of its symbols, and ``prior``, which
    weighs as much as 48 of them. The next context's prior is what this one counted.
    """
    from constriction import stream

    start, num_levels = 0, len(prior)
    for length in lengths:
        base = 1 + 16 // num_levels + prior * (48 * 64) // int(prior.sum())
        counts, done = np.zeros(num_levels, np.int64), 0
        while done < length:
            stop = min(length, done + max(8, done // 2))
            weights = (base + 64 * counts).astype(np.float64)
            model = stream.model.Categorical(weights, perfect=False)
            symbols = code(start + done, start + stop, model)
            counts += np.bincount(symbols, minlength=num_levels)
            done = stop
        start += length
        prior = counts


def _levels(values: Array, width: int, before: int, center: int) -> tuple[Array, Array, Array]:
    """Level of each row, sign of each row, level of each column.

    A level is how far the mean distance from ``center`` (of zeros and ones: the odds) lies below
    the greatest, in quarters of a power of two, or in halves where there is less to learn from.
    A sign is the mean over the mean distance, 3 for none.
    """
    step, most = (4, 3) if len(values) > MANY else (2, 1)
    after = -(before + len(values)) % width
    if before or after:
        values = np.pad(values, (before, after), constant_values=center)
    cells = values.astype(np.int16).reshape(-1, width) - np.int16(center)
    distances = np.abs(cells)
    by_row, by_column = (distances.sum(axis, dtype=np.int64) for axis in (1, 0))
    of_ones = distances.max() <= 1

    def level(sums: Array, length: int) -> Array:
        sizes = sums / (length - sums + 0.25) if of_ones else sums
        share = np.maximum(sizes / max(sizes.max(), 1e-9), 1e-9)
        return np.minimum(np.round(-step * np.log2(share)), LEVELS - 1).astype(np.uint8)

    one_sided = cells.sum(1, dtype=np.int64) / np.maximum(by_row, 1)
    signs = np.round((most + 0.5) * one_sided).clip(-most, most) + SIGNS // 2
    return level(by_row, width), signs.astype(np.uint8), level(by_column, len(by_row))


def _sort(rows: Array, signs: Array, columns: Array, used: slice) -> tuple[Array, list[int]]:
    """Which cells to code one after the other, and how many belong to each context."""
    cells = np.minimum(rows[:, None] + columns, LEVELS - 1) + signs[:, None] * np.uint16(LEVELS)
    contexts = cells.reshape(-1)[used]
    lengths = np.bincount(contexts)
    return np.argsort(contexts, kind="stable"), lengths[lengths > 0].tolist()


def find_segment(mask: Array, window: int = 1 << 16) -> Segment:
    """All of a mask, and the grid that it, or most of it, likely is.

    Candidates for the width are the distances at which ones repeat most, one per octave; the
    width is the one whose rows and columns tell most about the mask.
    """
    window = min(window, 1 << (len(mask) // 2).bit_length())
    power: Any = 0
    for start in np.linspace(0, max(len(mask) - window, 0), 6, dtype=int).tolist():
        piece = torch.from_numpy(mask[start : start + window]).float()
        power = power + torch.fft.rfft(piece - piece.mean(), n=2 * window).abs() ** 2
    repeats = torch.fft.irfft(power)[:window].numpy()
    octaves = [1 << e for e in range(3, window.bit_length() - 1)]
    widths = [low + int(repeats[low : 2 * low].argmax()) for low in octaves]
    widths = [width for width in widths if 2 * width <= len(mask)]
    if not widths:
        return len(mask), []
    width = min(widths, key=lambda width: _grid_bits(mask, width))
    ones, begin, reach = np.cumsum(mask, dtype=np.int64), 0, width // 2
    if _grid_bits(mask, width) > 2 * _bits(ones[-1:], len(mask)):
        return len(mask), []  # rows and columns tell nothing
    while reach:  # ever finer around the best begin so far
        begins = {(begin + reach * i // 16) % width for i in range(-16, 17)}
        begin = min(sorted(begins), key=lambda begin: _bits(np.diff(ones[begin::width]), width))
        reach //= 8
    return len(mask), [(width, begin)]


def _grid_bits(mask: Array, width: int) -> float:
    """About how many bits tell the ones of each row, and of each column."""
    cells = mask[: len(mask) // width * width].reshape(-1, width)
    by_row, by_column = cells.sum(1, dtype=np.int64), cells.sum(0, dtype=np.int64)
    return (_bits(by_row, width) + _bits(by_column, len(cells))) * len(mask) / cells.size


def _bits(ones: Array, length: int) -> float:
    """About how many bits tell so many ones each among ``length`` places, and their level."""
    share = np.clip(ones / length, 1e-9, 1 - 1e-9)
    bits = share * np.log2(share) + (1 - share) * np.log2(1 - share)
    return 2 * len(ones) - float(bits.sum()) * length
