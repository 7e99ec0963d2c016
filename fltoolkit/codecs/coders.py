"""Coders: symbols and indices become bytes without loss, at the end of a pipeline.

`BitPack` uses a fixed number of bits for each symbol. `Entropy` uses fewer bits for symbols that it
can predict. `Deflate` and `Zstd` are there for comparison. Each coder decodes only the methods that
it writes itself, so a message cannot make a receiver do work that its own codec never asks for.
Not here: how values become symbols (quantize.py).

A coded entry is one uint8 tensor under ``side(name, CODED)``; the bytes alone say how to read them:

    1 byte    method (see the constants below)
    varints   symbols: num_levels, number of dimensions, each dimension; indices: size, count
    the rest  what the method makes of them; DEFLATED and ZSTANDARD hold, compressed, another entry
              from its first byte on
"""

import math
import zlib
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from fltoolkit.arrays import Array
from fltoolkit.codecs._contexts import read_grids, write_grids
from fltoolkit.codecs._range_coder import range_coder
from fltoolkit.codecs.stage import Coder, Indices, Parts, Symbols, is_main, side
from fltoolkit.wire import MAX_DIMENSIONS, Pieces, Reader, WireError, check_num_values, varint

__all__ = ["CODED"]

CODED = "#"
"""How the name of a coded entry ends, after the separator."""

# Methods. Symbols: PACKED (nominal width), BYTES (whole bytes), MODELLED (by contexts), LANED (also
# by contexts, in large messages). Indices: RICE, BITMAP, MASK. Compressed: DEFLATED, ZSTANDARD.
# Numbers 2 and 5 were used by earlier versions
PACKED, BYTES, _, RICE, BITMAP, _, DEFLATED, ZSTANDARD, MODELLED, MASK, LANED = range(11)
PLAIN = frozenset({PACKED, RICE, BITMAP})
MAX_LEVELS = 1 << 16
MAX_SIZE = 1 << 40
# Symbols that are all alike take no bytes. A small message must not make the receiver allocate
# memory without limit. So many symbols need a minimum of bytes; a shorter message is padded.
FREE_SYMBOLS, SYMBOLS_PER_BYTE = 1 << 16, 1 << 12
SPARSEST = 1 << 11  # if fewer than one in so many is chosen, gaps are faster, and as small


@dataclass
class BitPack(Coder):
    """Fixed width: ceil(log2(num_levels)) bits per symbol; indices as Rice-coded gaps or a bitmap.

    >>> from fltoolkit.codecs.stage import Symbols
    >>> ten = Symbols(torch.arange(10, dtype=torch.uint8), num_levels=128)  # 7 bits each
    >>> BitPack().apply({"w": ten})["w" + side("", CODED)].numel() - 5  # without method and shape
    9
    """

    methods: ClassVar[frozenset[int]] = PLAIN  # the methods that this coder writes and reads

    def apply(self, parts: Parts) -> Parts:
        """Every `Symbols` and `Indices` becomes bytes."""
        return {
            name: part
            if isinstance(part, Tensor)
            else torch.frombuffer(_joined(part.buffers), dtype=torch.uint8)
            for name, part in self.pieces(parts).items()
        }

    def pieces(self, parts: Parts) -> dict[str, Tensor | Pieces]:
        """As `apply`, but the bytes of an entry are joined only when the message is packed."""
        out: dict[str, Tensor | Pieces] = {}
        for name, part in parts.items():
            if isinstance(part, Tensor):
                out[name] = part
            else:
                out[side(name, CODED)] = Pieces(self._encode(part))
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
        return _entry(part, *(_packed(part) if isinstance(part, Symbols) else _gaps(part)))

    def _decode(self, data: Array, before: int) -> Symbols | Indices:
        """Decode one entry that this coder may have written; ``before`` as in `_decode` below."""
        return _decode(data, self.methods, before)


@dataclass
class Entropy(BitPack):
    """Entropy coding of symbols and places: by prediction, contexts and range coding.

    A tensor is seen as a matrix: its rows are the first dimension, or the first two. A sum of a few
    outer products predicts the symbols, and the row and the column of a symbol tell how good the
    prediction is (see _contexts.py). Symbols that are independent of each other cost their entropy
    and a few bytes. Symbols with structure, as in updates of dense layers, cost much less. Indices
    are seen as a matrix of zeros and ones. An entry that `BitPack` makes smaller is written as
    `BitPack` writes it. In messages of a quarter of a megabyte and more, most symbols are coded in
    lanes (_lanes.py): the message is at most half a per cent longer, and is decoded faster.
    ``python -m benchmarks.entropy_coders`` compares coders.

    >>> symbols = Symbols(torch.zeros(1000, dtype=torch.uint8), num_levels=8)
    >>> sum(part.numel() for part in Entropy().apply({"w": symbols}).values())
    7
    """

    methods = PLAIN | {MODELLED, MASK, LANED}

    @property
    def range_coder(self) -> str:
        """Which range coder is used here: ``constriction``, or ``plain`` where it is missing."""
        return range_coder().name

    def _encode(self, part: Symbols | Indices) -> list[Any]:
        entry = None
        if isinstance(part, Symbols):
            if part.num_levels > 1 and part.values.numel():
                entry = _entry(part, *_modelled(part))
                if _length(entry) <= _nbytes(part.values.numel(), _width(part.num_levels)):
                    return entry
        elif len(part.values) and part.size <= FREE_SYMBOLS + SPARSEST * len(part.values):
            entry = _entry(part, *_masked(part))
        plain = super()._encode(part)
        return plain if entry is None else min(plain, entry, key=_length)


@dataclass
class Deflate(BitPack):
    """zlib, for comparison: over packed symbols or whole bytes, whichever is smaller.

    >>> symbols = Symbols(torch.zeros(1000, dtype=torch.uint8), num_levels=8)
    >>> sum(part.numel() for part in Deflate().apply({"w": symbols}).values()) < 50
    True
    """

    level: int = 6

    methods = PLAIN | {DEFLATED}

    def _encode(self, part: Symbols | Indices) -> list[Any]:
        plain = _joined(super()._encode(part))
        return [min((plain, *map(self._squeeze, [plain, *_unpacked(part)])), key=len)]

    def _squeeze(self, entry: bytearray) -> bytearray:
        return bytearray(_pad(bytes([DEFLATED]) + zlib.compress(entry, self.level), len(entry)))

    def _decode(self, data: Array, before: int) -> Symbols | Indices:
        if not len(data) or data[0] not in self.methods - PLAIN:
            return super()._decode(data, before)
        return _decode(self._expand(data.tobytes()), PLAIN | {BYTES}, before)

    def _expand(self, entry: bytes) -> Array:
        """Undo `_squeeze`; the result is never longer than the limit for so many bytes."""
        try:
            expanded = self._inflate(entry[1:], FREE_SYMBOLS + SYMBOLS_PER_BYTE * len(entry))
        except (zlib.error, EOFError) as error:
            raise WireError(f"damaged bytes: {error}") from None
        return np.frombuffer(bytearray(expanded), np.uint8)

    def _inflate(self, data: bytes, most: int) -> bytes:
        return zlib.decompressobj().decompress(data, most)


@dataclass
class Zstd(Deflate):
    """Zstandard, for comparison; needs the package ``zstandard``.

    >>> symbols = Symbols(torch.zeros(1000, dtype=torch.uint8), num_levels=8)
    >>> sum(part.numel() for part in Zstd().apply({"w": symbols}).values()) < 50
    True
    """

    level: int = 1

    methods = PLAIN | {ZSTANDARD}

    def _squeeze(self, entry: bytearray) -> bytearray:
        squeezed = _zstandard().ZstdCompressor(level=self.level).compress(entry)
        return bytearray(_pad(bytes([ZSTANDARD]) + squeezed, len(entry)))

    def _inflate(self, data: bytes, most: int) -> bytes:
        window = 1 << max(most.bit_length(), 17)  # a frame may ask for 128 MiB of memory otherwise
        zstandard = _zstandard()
        reader = zstandard.ZstdDecompressor(max_window_size=window).stream_reader(data)
        try:
            return reader.read(most)
        except zstandard.ZstdError as error:
            raise WireError(f"damaged bytes: {error}") from None


def _entry(part: Symbols | Indices, method: int, *payload: Any) -> list[Any]:
    """Method and header, then the payload: the pieces of an entry."""
    if isinstance(part, Symbols):
        numbers = [part.num_levels, part.values.dim(), *part.values.shape]
        short = _least(part.values.numel()) - _length([*payload])
        payload = (*payload, bytes(max(short, 0)))
    else:
        numbers = [part.size, len(part.values)]
    return [bytes([method]) + b"".join(map(varint, numbers)), *payload]


def _joined(pieces: list[Any]) -> bytearray:
    return bytearray().join(pieces)


def _length(pieces: list[Any]) -> int:
    return sum(memoryview(piece).nbytes for piece in pieces)


def _pad(data: bytes, count: int) -> bytes:
    """Append zeros to data that are too short for ``count`` symbols."""
    return data.ljust(_least(count), b"\0")


def _least(count: int) -> int:
    """How many bytes a message with so many symbols must have at least."""
    return max((count - FREE_SYMBOLS) // SYMBOLS_PER_BYTE + 1, 0)


def _decode(data: Array, methods: Collection[int], before: int) -> Symbols | Indices:
    """Read the header, check that its numbers are possible, and let the method read the rest.

    ``before`` is the number of values in the entries before this one. The limit on the number of
    values holds for all entries together.
    """
    reader = Reader(data.data)
    method = reader.byte("the method")
    if method not in methods:
        raise reader.error(
            f"expected a method of this coder, one of {sorted(methods)}, found {method}: another "
            "coder made this, or another version of fltoolkit"
        )
    if method in (PACKED, BYTES, MODELLED, LANED):
        num_levels, shape = read_levels_and_shape(reader, before)
        count, payload = math.prod(shape), data[reader.offset :]
        if count > FREE_SYMBOLS + SYMBOLS_PER_BYTE * len(payload):
            raise reader.error(f"{len(payload)} bytes are too few for symbols of shape {shape}")
        if method in (MODELLED, LANED):
            values = _read_modelled(payload, count, num_levels, method == LANED)
        else:
            values = _unpack_tight(payload, count, _width(num_levels, whole=method == BYTES))
        return read_symbols(reader, values, num_levels, shape)
    size, count = reader.number("size"), reader.number("the number of indices")
    if count > size or size > MAX_SIZE:
        raise reader.error(f"{count} indices below {size} are not possible")
    check_num_values(before + count)
    read = {RICE: _read_rice, BITMAP: _read_bitmap, MASK: _read_mask}[method]
    return Indices(torch.from_numpy(read(data[reader.offset :], count, size)), size)


def read_levels_and_shape(reader: Reader, before: int) -> tuple[int, list[int]]:
    """The number of levels and the shape of symbols, checked; ``before`` as in `_decode`."""
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


def _numbers(part: Symbols) -> Array:
    """The symbols in one dimension, checked."""
    values = part.values.detach().contiguous().numpy(force=True).reshape(-1)
    if not 1 <= part.num_levels <= MAX_LEVELS:
        raise ValueError(f"num_levels={part.num_levels}: symbols have 1 to {MAX_LEVELS} levels")
    if values.dtype == np.uint8 and part.num_levels == 256:
        return values  # all values of uint8 are allowed
    if len(values) and not (values.min() >= 0 and values.max() < part.num_levels):
        raise ValueError(f"symbols must be 0 to {part.num_levels - 1}, found {values.max()}")
    return values


def _packed(part: Symbols, whole: bool = False) -> tuple[Any, ...]:
    return PACKED + whole, *_pack_tight(_numbers(part), _width(part.num_levels, whole))


def _width(num_levels: int, whole: bool = False) -> int:
    """How many bits one symbol takes; with ``whole``, how many bits its whole bytes take."""
    bits = (num_levels - 1).bit_length()
    return 8 + 8 * (bits > 8) if whole else bits


def _unpacked(part: Symbols | Indices) -> list[bytearray]:
    """Longer forms of an entry, from which other compressors sometimes make a shorter result."""
    if isinstance(part, Symbols):
        return [_joined(_entry(part, *_packed(part, whole=True)))]
    few = part.size > 64 * len(part.values)
    return [] if few else [_joined(_entry(part, *_bitmap(part)))]


def _pieces(width: int) -> list[tuple[int, int]]:
    """The pieces of 32, 16, 8, 4, 2 or 1 bits that ``width`` bits are cut into: (shift, bits)."""
    pieces, shift = [], 0
    for bits in (32, 16, 8, 4, 2, 1):
        if width & bits:
            pieces.append((shift, bits))
            shift += bits
    return pieces


def _pack(values: Array, width: int) -> list[Array]:
    """Pack values below 2**width, piece by piece: 7 bits are cut into 4, 2 and 1 bits.

    Pieces of whole bytes are written as little-endian numbers. Smaller pieces share bytes. If the
    pieces of 4 bits take m bytes, then byte i holds the piece of value i in its low bits and the
    piece of value i + m in its high bits. So packing shifts long rows that are contiguous in
    memory.
    """
    out: list[Array] = []
    for shift, bits in _pieces(width):
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
    """The inverse of `_pack`: uint8 up to 8 bits, else int64. Bytes after the end are ignored."""
    if _packed_nbytes(count, width) > len(payload):
        raise WireError(f"expected {count} times {width} bits, found {len(payload)} bytes")
    if width == 8:
        return payload[:count]
    values: Array = np.zeros(count, np.uint8 if width <= 8 else np.int64)
    for shift, bits in _pieces(width):
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


def _pack_tight(values: Array, width: int) -> list[Array]:
    """As `_pack`, but in ceil(len(values) * width / 8) bytes.

    Eight values fill whole bytes in each piece. So only where that saves something, `_pack` takes
    a multiple of 8 values, and up to 7 values follow as one little-endian number, the first value
    in its lowest bits. Version 0.1.0 never did this; the length tells the two forms apart.
    """
    rest = len(values) % 8
    if not _is_tight(_nbytes(len(values), width), len(values), width):
        return _pack(values, width)
    number = sum(int(value) << width * i for i, value in enumerate(values[-rest:]))
    tail = np.frombuffer(number.to_bytes(_nbytes(rest, width), "little"), np.uint8)
    return [*_pack(values[:-rest], width), tail]


def _unpack_tight(payload: Array, count: int, width: int) -> Array:
    """The inverse of `_pack_tight`; reads what `_pack` wrote as well."""
    if not _is_tight(len(payload), count, width):
        return _unpack(payload, count, width)
    rest, start = count % 8, count // 8 * width
    number = int.from_bytes(payload[start : start + _nbytes(rest, width)].tobytes(), "little")
    tail = [number >> width * i & (1 << width) - 1 for i in range(rest)]
    values = _unpack(payload, count - rest, width)
    return np.concatenate([values, np.array(tail, values.dtype)])


def _is_tight(nbytes: int, count: int, width: int) -> bool:
    """Whether so many bytes hold ``count`` values, but not with each piece rounded up."""
    return _nbytes(count, width) <= nbytes < _packed_nbytes(count, width)


def _packed_nbytes(count: int, width: int) -> int:
    """How many bytes `_pack` makes."""
    return sum(_nbytes(count, bits) for _, bits in _pieces(width))


def _nbytes(count: int, bits: int) -> int:
    return -(-count * bits // 8)


def _gaps(part: Indices) -> tuple[Any, ...]:
    """Rice-coded gaps or a bitmap, whichever is smaller.

    Gaps are smaller if fewer than about one place in four is chosen.
    """
    places = part.values.numpy(force=True)
    count, size = len(places), part.size
    if size > MAX_SIZE or (count and not (places[0] >= 0 and places[-1] < size)):
        raise ValueError(f"indices must be below size={size}, and that at most {MAX_SIZE}")
    gaps = np.diff(places, prepend=-1) - 1
    if count and gaps.min() < 0:
        raise ValueError("indices must be strictly increasing")
    # quotients cost 1 + gap // 2**shift bits, remainders shift bits: convex in shift
    shift = (size // count).bit_length() - 1 if count else 0
    cost = int((gaps >> shift).sum()) + count * (1 + shift)
    while shift and (less := int((gaps >> shift - 1).sum()) + count * shift) <= cost:
        shift, cost = shift - 1, less
    if cost / 8 + 2 >= _nbytes(size, 1):
        return _bitmap(part)
    unary = np.zeros(cost - count * shift, np.uint8)
    unary[np.cumsum((gaps >> shift) + 1) - 1] = 1
    ones = np.packbits(unary, bitorder="little")
    return RICE, bytes([shift]), *_pack(gaps & ((1 << shift) - 1), shift), ones


def _mask(part: Indices) -> Array:
    mask = np.zeros(part.size, np.uint8)
    mask[part.values.numpy(force=True)] = 1
    return mask


def _bitmap(part: Indices) -> tuple[int, Array]:
    return BITMAP, np.packbits(_mask(part), bitorder="little")


def _read_rice(payload: Array, count: int, size: int) -> Array:
    shift = int(payload[0]) if len(payload) else 0
    if shift > 40 or count << shift > size or count > 8 * len(payload):
        raise WireError(f"Rice parameter {shift} does not fit {count} indices below {size}")
    payload = payload[1:]
    remainders = _unpack(payload, count, shift).astype(np.int64)
    start = _packed_nbytes(count, shift)
    ends = np.flatnonzero(np.unpackbits(payload[start:], bitorder="little"))
    if len(ends) != count or (count and int(ends[-1]) + 1 - count << shift > size):
        raise WireError(f"expected the gaps of {count} indices, found {len(ends)}")
    places = np.cumsum((np.diff(ends, prepend=-1) - 1 << shift) + remainders + 1) - 1
    if count and places[-1] >= size:
        raise WireError(f"expected indices below {size}, found {places[-1]}")
    return places


def _read_bitmap(payload: Array, count: int, size: int) -> Array:
    if len(payload) != _nbytes(size, 1):
        raise WireError(f"expected a bitmap of {size} bits, found {len(payload)} bytes")
    bits = np.unpackbits(payload, bitorder="little")
    if (found := np.count_nonzero(bits)) != count:
        raise WireError(f"expected a bitmap with {count} ones, found {found}")
    places = np.flatnonzero(bits)
    if count and places[-1] >= size:
        raise WireError(f"expected a bitmap of places below {size}, found {places[-1]}")
    return places


def _modelled(part: Symbols) -> tuple[Any, ...]:
    """Code the highest 8 bits by context. Lower bits are nearly random and are sent as they are."""
    values, low = _numbers(part), _low(part.num_levels)
    levels = (part.num_levels - 1 >> low) + 1
    high = values >> low if low else values
    lows = _pack(values & ((1 << low) - 1), low) if low else []
    grids, has_lanes = write_grids(high, levels, [part.values.shape], may_have_lanes=True)
    return LANED if has_lanes else MODELLED, *lows, grids


def _read_modelled(payload: Array, count: int, num_levels: int, has_lanes: bool) -> Array:
    low = _low(num_levels)
    lows = _unpack(payload, count, low)
    levels = (num_levels - 1 >> low) + 1
    grids = payload[_packed_nbytes(count, low) :]
    high = read_grids(grids, count, levels, has_lanes=has_lanes)
    return (high.astype(np.int64) << low) | lows if low else high


def _low(num_levels: int) -> int:
    return max(_width(num_levels) - 8, 0)


def _masked(part: Indices) -> tuple[int, bytes]:
    """Code zeros and ones by context, tensor by tensor if `Indices.shapes` is known."""
    known = sum(map(math.prod, part.shapes)) == part.size
    grids, _ = write_grids(_mask(part), 2, part.shapes if known else [(part.size,)])
    return MASK, _pad(grids, part.size)


def _read_mask(payload: Array, count: int, size: int) -> Array:
    if size > FREE_SYMBOLS + SYMBOLS_PER_BYTE * len(payload):
        raise WireError(f"{len(payload)} bytes are too few for a mask of {size}")
    check_num_values(size)
    bits = read_grids(payload, size, 2)
    if (found := np.count_nonzero(bits)) != count:
        raise WireError(f"expected a mask with {count} ones, found {found}")
    return np.flatnonzero(bits)


def _zstandard() -> Any:
    try:
        import zstandard
    except ImportError:
        raise ImportError("Zstd() needs a package: pip install zstandard") from None
    return zstandard
