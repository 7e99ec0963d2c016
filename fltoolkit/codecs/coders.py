"""Coders: symbols and indices become bytes without loss, at the end of a pipeline.

`BitPack` uses a fixed number of bits for each symbol. Other coders are subclasses, which add
methods: `Entropy` (entropy.py), and `fltoolkit_research.codecs` has more. Each coder decodes only
the methods that it writes itself, so a message cannot make a receiver do work that its own codec
never asks for. Not here: how values become symbols (quantize.py).

A coded entry is one uint8 tensor under ``side(name, CODED)``; the bytes alone say how to read them:

    1 byte    method (see the constants below)
    varints   symbols: num_levels, number of dimensions, each dimension; indices: size, count
    the rest  what the method makes of them
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from fltoolkit.arrays import Array
from fltoolkit.codecs.stage import Coder, Indices, Parts, Symbols, is_main, side
from fltoolkit.wire import MAX_DIMENSIONS, Reader, WireError, check_num_values, varint

__all__ = ["CODED"]

CODED = "#"
"""How the name of a coded entry ends, after the separator."""

# The methods of `BitPack`. Others have 11 and 12 (entropy.py), 8 to 10 (contexts.py of research), 1
# and 6 (deflate.py of experiments/replications) and 7 (zstandard.py there). Nothing writes 2 and 5
PACKED = 0  # symbols, each in as many bits as the largest needs
RICE = 3  # indices as Rice-coded gaps
BITMAP = 4  # indices as a mask, one bit for each place
MAX_LEVELS = 1 << 16
MAX_SIZE = 1 << 40
# Symbols that are all alike take no bytes, and a small message must not make the receiver allocate
# memory without limit: so many symbols need a minimum of bytes, and a shorter message is padded.
FREE_SYMBOLS, SYMBOLS_PER_BYTE = 1 << 16, 1 << 12

Read = Callable[[Array, int, int], Array]
"""Reads the bytes behind a header: so many symbols of so many levels, or places below a size."""


def _nbytes(count: int, bits: int) -> int:
    return -(-count * bits // 8)


def _cuts(width: int) -> list[tuple[int, int]]:
    """The pieces of 32, 16, 8, 4, 2 or 1 bits that ``width`` bits are cut into: (shift, bits)."""
    cuts, shift = [], 0
    for bits in (32, 16, 8, 4, 2, 1):
        if width & bits:
            cuts.append((shift, bits))
            shift += bits
    return cuts


def _pack(values: Array, width: int) -> list[Array]:
    """Pack values below 2**width, piece by piece: 7 bits are cut into 4, 2 and 1 bits.

    Pieces of whole bytes are written as little-endian numbers. Smaller pieces share bytes. If the
    pieces of 4 bits take m bytes, then byte i holds the piece of value i in its low bits and the
    piece of value i + m in its high bits. So packing shifts long rows that are contiguous in
    memory.
    """
    out: list[Array] = []
    for shift, bits in _cuts(width):
        piece: Array = values >> shift if shift else values
        if bits >= 8:
            out.append(np.ascontiguousarray(piece, f"<u{bits // 8}"))
            continue
        piece = piece.astype(np.uint8, copy=False)
        if shift + bits < width:
            piece = piece & np.uint8((1 << bits) - 1)
        nbytes = _nbytes(len(piece), bits)
        packed: Array = np.zeros(nbytes, np.uint8)
        for row in reversed(range(8 // bits)):
            packed <<= np.uint8(bits)
            part = piece[row * nbytes : (row + 1) * nbytes]
            packed[: len(part)] |= part
        out.append(packed)
    return out


def _unpack(payload: Array, count: int, width: int) -> Array:
    """The inverse of `_pack`: uint8 up to 8 bits, else int64. Ignores bytes after the end."""
    if _packed_nbytes(count, width) > len(payload):
        raise WireError(f"expected {count} times {width} bits, found {len(payload)} bytes")
    if width == 8:
        return payload[:count]
    values: Array = np.zeros(count, np.uint8 if width <= 8 else np.int64)
    for shift, bits in _cuts(width):
        nbytes = _nbytes(count, bits)
        packed, payload = payload[:nbytes], payload[nbytes:]
        if bits >= 8:
            piece = packed.view(f"<u{bits // 8}").astype(values.dtype, copy=False)
            np.bitwise_or(values, piece << shift, out=values)
            continue
        mask = np.uint8((1 << bits) - 1)
        for row in range(8 // bits):
            part = values[row * nbytes : (row + 1) * nbytes]
            if shift:
                piece = (packed[: len(part)] >> np.uint8(row * bits)) & mask
                np.bitwise_or(part, piece.astype(values.dtype, copy=False) << shift, out=part)
            else:
                np.right_shift(packed[: len(part)], np.uint8(row * bits), out=part)
                part &= mask
    return values


def _packed_nbytes(count: int, width: int) -> int:
    """How many bytes `_pack` makes."""
    return sum(_nbytes(count, bits) for _, bits in _cuts(width))


def _num_last(count: int, width: int) -> int:
    """How many values at the end follow as one number: count % 8, but only if that saves a byte.

    Eight values fill whole bytes in each piece. In the number the first value has the lowest bits.
    """
    return count % 8 if _nbytes(count, width) < _packed_nbytes(count, width) else 0


def _pack_tight(values: Array, width: int) -> list[Array]:
    """As `_pack`, but in ceil(len(values) * width / 8) bytes."""
    last = _num_last(len(values), width)
    first = len(values) - last
    number = sum(int(value) << width * i for i, value in enumerate(values[first:]))
    end = np.frombuffer(number.to_bytes(_nbytes(last, width), "little"), np.uint8)
    return [*_pack(values[:first], width), end]


def _unpack_tight(payload: Array, count: int, width: int) -> Array:
    """The inverse of `_pack_tight`."""
    last = _num_last(count, width)
    values = _unpack(payload, count - last, width)
    if not last:
        return values
    start = _packed_nbytes(count - last, width)
    if len(payload) < start + _nbytes(last, width):
        raise WireError(f"expected {count} times {width} bits, found {len(payload)} bytes")
    number = int.from_bytes(payload[start : start + _nbytes(last, width)].tobytes(), "little")
    end = [number >> width * i & (1 << width) - 1 for i in range(last)]
    return np.concatenate([values, np.array(end, values.dtype)])


def numbers_of(part: Symbols) -> Array:
    """The symbols in one dimension, checked."""
    values = part.values.detach().contiguous().numpy(force=True).reshape(-1)
    if not 1 <= part.num_levels <= MAX_LEVELS:
        raise ValueError(f"num_levels={part.num_levels}: symbols have 1 to {MAX_LEVELS} levels")
    if values.dtype == np.uint8 and part.num_levels == 256:
        return values  # all values of uint8 are allowed
    if len(values) and not (values.min() >= 0 and values.max() < part.num_levels):
        raise ValueError(f"symbols must be 0 to {part.num_levels - 1}, found {values.max()}")
    return values


def _width(num_levels: int) -> int:
    """How many bits one symbol takes."""
    return (num_levels - 1).bit_length()


def split_bits(part: Symbols) -> tuple[Array, int, list[Array]]:
    """The highest 8 bits of each symbol, how many levels they have, and the lower bits, packed.

    Lower bits are nearly random, so a coder that counts or predicts leaves them as they are.
    """
    values, low = numbers_of(part), max(_width(part.num_levels) - 8, 0)
    if not low:
        return values, part.num_levels, []
    return values >> low, (part.num_levels - 1 >> low) + 1, _pack(values & ((1 << low) - 1), low)


def join_bits(payload: Array, count: int, num_levels: int, read: Read) -> Array:
    """The inverse of `split_bits`: ``read`` gets the bytes behind the lower bits."""
    low = max(_width(num_levels) - 8, 0)
    lows = _unpack(payload, count, low)
    high = read(payload[_packed_nbytes(count, low) :], count, (num_levels - 1 >> low) + 1)
    return (high.astype(np.int64) << low) | lows if low else high


def steps(values: Array, before: int) -> Array:
    """As ``np.diff(values, prepend=before)``, which takes ten times as long for few values."""
    out = values.copy()
    out[1:] -= values[:-1]
    out[:1] -= before
    return out


def _gaps(part: Indices) -> tuple[Any, ...]:
    """Rice-coded gaps or a bitmap, whichever is smaller.

    Gaps are smaller if fewer than about one place in four is chosen.
    """
    places = part.values.numpy(force=True)
    count, size = len(places), part.size
    if size > MAX_SIZE or (count and not (places[0] >= 0 and places[-1] < size)):
        raise ValueError(f"indices must be below size={size}, and that at most {MAX_SIZE}")
    gaps = steps(places, -1) - 1
    if count and gaps.min() < 0:
        raise ValueError("indices must be strictly increasing")
    # quotients cost 1 + gap // 2**shift bits, remainders shift bits: convex in shift
    shift = (size // count).bit_length() - 1 if count else 0
    cost = int((gaps >> shift).sum()) + count * (1 + shift)
    while shift and (less := int((gaps >> shift - 1).sum()) + count * shift) <= cost:
        shift, cost = shift - 1, less
    if cost / 8 + 2 >= _nbytes(size, 1):
        return BITMAP, np.packbits(mask_of(part), bitorder="little")
    unary = np.zeros(cost - count * shift, np.uint8)
    unary[np.cumsum((gaps >> shift) + 1) - 1] = 1
    ones = np.packbits(unary, bitorder="little")
    return RICE, bytes([shift]), *_pack(gaps & ((1 << shift) - 1), shift), ones


def _read_gaps(payload: Array, count: int, size: int) -> Array:
    shift = int(payload[0]) if len(payload) else 0
    if shift > 40 or count << shift > size or count > 8 * len(payload):
        raise WireError(f"Rice parameter {shift} does not fit {count} indices below {size}")
    remainders = _unpack(payload[1:], count, shift).astype(np.int64)
    unary = payload[1 + _packed_nbytes(count, shift) :]
    ends = np.flatnonzero(np.unpackbits(unary, bitorder="little"))
    if len(ends) != count:
        raise WireError(f"expected the gaps of {count} indices, found {len(ends)}")
    quotients = steps(ends, -1) - 1
    if int(quotients.sum()) << shift > size:  # before numbers of 64 bits would overflow
        raise WireError(f"expected indices below {size}, found larger gaps")
    places = np.cumsum((quotients << shift) + remainders + 1) - 1
    if count and places[-1] >= size:
        raise WireError(f"expected indices below {size}, found {places[-1]}")
    return places


def _read_bitmap(payload: Array, count: int, size: int) -> Array:
    if len(payload) != _nbytes(size, 1):
        raise WireError(f"expected a bitmap of {size} bits, found {len(payload)} bytes")
    return places_of(np.unpackbits(payload, count=size, bitorder="little"), count)


def mask_of(part: Indices) -> Array:
    """A one for each place that is meant, and a zero for each other one: uint8."""
    mask = np.zeros(part.size, np.uint8)
    mask[part.values.numpy(force=True)] = 1
    return mask


def places_of(mask: Array, count: int) -> Array:
    """The inverse of `mask_of`. Raises WireError unless there are ``count`` places."""
    if len(places := np.flatnonzero(mask)) != count:
        raise WireError(f"expected a mask with {count} ones, found {len(places)}")
    return places


def check_mask(payload: Array, size: int) -> None:
    """Raise WireError unless a message of this length may hold a mask of this size."""
    if size > FREE_SYMBOLS + SYMBOLS_PER_BYTE * len(payload):
        raise WireError(f"{len(payload)} bytes are too few for a mask of {size}")
    check_num_values(size)


def entry(part: Symbols | Indices, method: int, *payload: Any) -> list[Any]:
    """Method and header, then the payload: the pieces of an entry."""
    if isinstance(part, Symbols):
        numbers = [part.num_levels, part.values.dim(), *part.values.shape]
        payload = (*payload, bytes(max(least_nbytes(part.values.numel()) - length(payload), 0)))
    else:
        numbers = [part.size, len(part.values)]
    return [bytes([method]) + b"".join(map(varint, numbers)), *payload]


def length(pieces: Iterable[Any]) -> int:
    """How many bytes the pieces of an entry have."""
    return sum(memoryview(piece).nbytes for piece in pieces)


def least_nbytes(count: int) -> int:
    """How many bytes a message with so many symbols must have at least; shorter ones are padded."""
    return max((count - FREE_SYMBOLS) // SYMBOLS_PER_BYTE + 1, 0)


def read_levels_and_shape(reader: Reader, before: int) -> tuple[int, list[int]]:
    """The number of levels and the shape, checked; ``before`` as in `BitPack._decode`."""
    num_levels, dimensions = reader.number("num_levels"), reader.number("dimensions")
    if dimensions > MAX_DIMENSIONS:
        raise reader.error(f"expected at most {MAX_DIMENSIONS} dimensions, found {dimensions}")
    shape = [reader.number("a dimension") for _ in range(dimensions)]
    if not 1 <= num_levels <= MAX_LEVELS:
        raise reader.error(f"expected 1 to {MAX_LEVELS} levels, found {num_levels}")
    if math.prod(max(d, 1) for d in shape) >= 2**56:
        raise reader.error(f"expected a possible shape, found {shape}")
    check_num_values(before + math.prod(shape))
    return num_levels, shape


def read_symbols(reader: Reader, values: Array, num_levels: int, shape: list[int]) -> Symbols:
    """Decoded numbers as symbols; raises WireError for numbers that have no level."""
    if len(values) and num_levels != 256 and int(values.max()) >= num_levels:
        raise reader.error(f"expected symbols below {num_levels}, found {values.max()}")
    dtype = np.uint8 if num_levels <= 256 else np.int32
    values = values.astype(dtype, copy=False).reshape(shape)
    return Symbols(torch.from_numpy(values), num_levels)


@dataclass
class BitPack(Coder):
    """Fixed width: ceil(log2(num_levels)) bits per symbol; indices as Rice-coded gaps or a bitmap.

    >>> from fltoolkit.codecs.stage import Symbols
    >>> ten = Symbols(torch.arange(10, dtype=torch.uint8), num_levels=128)  # 7 bits each
    >>> BitPack().apply({"w": ten})["w" + side("", CODED)].numel() - 5  # without method and shape
    9
    """

    # the methods that this coder writes and reads
    symbol_methods: ClassVar[Mapping[int, Read]] = {
        PACKED: lambda payload, count, levels: _unpack_tight(payload, count, _width(levels))
    }
    place_methods: ClassVar[Mapping[int, Read]] = {RICE: _read_gaps, BITMAP: _read_bitmap}

    def apply(self, parts: Parts) -> Parts:
        """Every `Symbols` and `Indices` becomes bytes."""
        out: Parts = {}
        for name, part in parts.items():
            if isinstance(part, Tensor):
                out[name] = part
            else:
                joined = bytearray().join(self._encode(part))
                out[side(name, CODED)] = torch.frombuffer(joined, dtype=torch.uint8)
        return out

    def undo(self, parts: Parts) -> Parts:
        """Bytes become `Symbols` and `Indices` again. Raises WireError for damaged ones."""
        out: Parts = {}
        total = {True: 0, False: 0}  # values of main entries, and of side information
        for coded, part in parts.items():
            name = coded.removesuffix(side("", CODED))
            if name == coded:
                out[name] = part
                continue
            if not isinstance(part, Tensor) or part.dtype != torch.uint8 or part.dim() != 1:
                raise WireError(f"entry {coded!r}: expected bytes, one dimension of uint8")
            if name in parts:
                raise WireError(f"entry {name!r} is there twice: as it is, and coded")
            try:
                data = np.ascontiguousarray(part.numpy())
                out[name] = decoded = self._decode(data, total[is_main(name)])
                total[is_main(name)] += decoded.values.numel()
            except WireError as error:
                raise WireError(f"entry {name!r}: {error}") from None
        return out

    def _encode(self, part: Symbols | Indices) -> list[Any]:
        """The bytes of an entry, in pieces."""
        if isinstance(part, Indices):
            return entry(part, *_gaps(part))
        return entry(part, PACKED, *_pack_tight(numbers_of(part), _width(part.num_levels)))

    def _decode(self, data: Array, before: int) -> Symbols | Indices:
        """Read the header, check that its numbers are possible, and let the method read the rest.

        ``before`` is the number of values in the entries before this one: the limit on the number
        of values holds for all entries together.
        """
        reader = Reader(data.data)
        method = reader.byte("the method")
        if method in self.symbol_methods:
            num_levels, shape = read_levels_and_shape(reader, before)
            count, payload = math.prod(shape), data[reader.offset :]
            if count > FREE_SYMBOLS + SYMBOLS_PER_BYTE * len(payload):
                raise reader.error(f"{len(payload)} bytes are too few for symbols of shape {shape}")
            values = self.symbol_methods[method](payload, count, num_levels)
            return read_symbols(reader, values, num_levels, shape)
        if method not in self.place_methods:
            raise reader.error(
                f"expected a method of this coder, found {method}: another coder made this, or "
                "another version of fltoolkit"
            )
        size, count = reader.number("size"), reader.number("the number of indices")
        if count > size or size > MAX_SIZE:
            raise reader.error(f"{count} indices below {size} are not possible")
        check_num_values(before + count)
        places = self.place_methods[method](data[reader.offset :], count, size)
        return Indices(torch.from_numpy(places), size)
