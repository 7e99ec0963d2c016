"""The wire format: a tree becomes one frame of bytes and back.

If you write a format of your own inside a message (as codecs/coders.py does), use `varint` and its
`Reader`. `write_layout` and `read_layout` write and read the header of a frame without the frame.

Frame, version 1. All numbers are little-endian; a varint is an unsigned LEB128 number.

    1 byte    0xF1: a mark (F) and the version (1)
    varint    length of the header in bytes
    header    per entry:
      varint  length of the name in bytes, then the name in UTF-8
      1 byte  dtype code (see DTYPES), low 4 bits; number of dimensions, high 4 bits
      varint  one per dimension: its length
    payload   the values of each entry, in the same order, without gaps
    4 bytes   checksum: low 32 bits of a chain of XXH3-64 digests, first of everything before the
              payload (seed 0, or the digest of what both ends hold: see `bound_to`), then of each
              entry's values (seed: the digest before)

A message with one tensor of up to four dimensions, below 16,384 each, costs at most 16 bytes
beyond its values and a name of usual length. Nothing is pickled, and a frame holds at most 16,384
entries.

**How large a message may become.** Reading a frame takes no more memory than the frame has bytes.
Undoing compression takes more memory, because the message is shorter than its values. Two rules
make sure that a small message from a stranger cannot fill the receiver's memory. Both are checked
before memory is allocated. A message that breaks one of them raises a WireError.

1. A message of n bytes becomes at most ``2^24 + 4096 n`` values (`most_values`). The messages of a
   `Pipeline` always keep this rule. Only messages of more than 16 million values could break it,
   if nearly all of these values are equal or left out; the pipeline makes such messages longer.
2. A receiver that knows how many values to expect sets a limit: ``with at_most(num_values): ...``.
"""

import math
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor
from xxhash import xxh3_64_intdigest

from fltoolkit.trees import Tree

__all__ = [
    "DTYPES",
    "MAX_DIMENSIONS",
    "MAX_ENTRIES",
    "Reader",
    "WireError",
    "at_most",
    "bound_to",
    "check_num_values",
    "most_values",
    "pack",
    "read_layout",
    "unpack",
    "varint",
    "write_layout",
]

if sys.byteorder != "little":  # pragma: no cover
    raise ImportError("fltoolkit's wire format is written for little-endian machines only")

MARK = b"\xf1"
CHECKSUM_NBYTES = 4
MAX_DIMENSIONS = 15  # of a tensor: the number takes four bits in the header
MAX_ENTRIES = 1 << 14  # of a frame: reading one takes some microseconds, even if it is empty
FREE_VALUES = 1 << 24  # that any message may become, however short it is; see `most_values`
VALUES_PER_BYTE = 1 << 12  # that it may become in addition, for each of its bytes

DTYPES = (
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.float64,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.bool,
)
"""The dtypes that can be sent. The place in this tuple is the dtype's code in the header."""

_CODES = {dtype: code for code, dtype in enumerate(DTYPES)}


class WireError(ValueError):
    """A message is not a valid frame. The error says at which byte, and what was expected there.

    >>> message = pack({"h": torch.tensor([1.0, 2.0])})
    >>> unpack(message[:-1])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    fltoolkit.wire.WireError: offset 6: expected 8 payload bytes and a checksum of 4, ...
    """


_limit: ContextVar[int] = ContextVar("limit", default=sys.maxsize)


def most_values(nbytes: int) -> int:
    """How many values a message of so many bytes may become at most: ``2^24 + 4096 nbytes``.

    >>> most_values(1000)
    20873216
    """
    return FREE_VALUES + VALUES_PER_BYTE * nbytes


def padding_nbytes(num_values: int, nbytes: int) -> int:
    """How many bytes a message is too short for so many values by `most_values`; usually 0."""
    return max(-(-(num_values - FREE_VALUES) // VALUES_PER_BYTE) - nbytes, 0)


@contextmanager
def at_most(num_values: int) -> Iterator[None]:
    """Inside this context, a message with more values than ``num_values`` raises WireError.

    The values of all entries are counted together, whatever their dtype. If two limits are in
    force, the smaller one counts. A frame without a codec (`unpack`) is not checked.

    >>> from fltoolkit.codecs import Pipeline, Quantize
    >>> message = Pipeline(Quantize(1)).encode({"w": torch.zeros(1000)})
    >>> with at_most(999):
    ...     Pipeline(Quantize(1)).decode(message)
    Traceback (most recent call last):
    fltoolkit.wire.WireError: entry 'w': the message becomes 1000 values, at most 999 may be
    """
    if not isinstance(num_values, int) or num_values < 0:
        raise ValueError(f"num_values={num_values!r}: a whole number of values, 0 or more")
    token = _limit.set(min(num_values, _limit.get()))
    try:
        yield
    finally:
        _limit.reset(token)


def check_num_values(num_values: int) -> None:
    """Raise WireError if the message being decoded would become more values than it may.

    If ``undo`` of a stage makes more values than it was given, it must call this function first.

    >>> with at_most(999):
    ...     check_num_values(1000)
    Traceback (most recent call last):
    fltoolkit.wire.WireError: the message becomes 1000 values, at most 999 may be
    """
    if num_values > _limit.get():
        raise WireError(f"the message becomes {num_values} values, at most {_limit.get()} may be")


_bound: ContextVar[tuple[int, str]] = ContextVar("bound", default=(0, ""))


@contextmanager
def bound_to(held: Tree, otherwise: str) -> Iterator[None]:
    """Inside this context, the checksum of a frame also covers ``held``, which is not sent.

    A codec whose ``decode`` needs what earlier messages have left at the receiver encodes and
    decodes in this context, with what the sender and the receiver hold at that moment. A message
    that is repeated, comes too early or was meant for another receiver then raises WireError in
    `unpack`, before anything was changed. No message becomes longer by this. Contexts can be
    nested.

    ``otherwise`` ends the text of the error: what is wrong if the message is not damaged, and what
    to do.

    >>> with bound_to({"known": torch.tensor([1.0])}, "it is not for this receiver"):
    ...     message = pack({"w": torch.tensor([5.0])})
    >>> with bound_to({"known": torch.tensor([2.0])}, "it is not for this receiver"):
    ...     unpack(message)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    fltoolkit.wire.WireError: offset 10: ... damaged on its way, or it is not for this receiver
    """
    token = _bound.set((_chained(_frame(held), _bound.get()[0]), f", or {otherwise}"))
    try:
        yield
    finally:
        _bound.reset(token)


def pack(tree: Tree) -> bytes:
    """Turn a tree into one frame. Lossless; copies each value once, into the message.

    Raises TypeError for an entry that cannot be sent (a sparse, complex, quantized or nested
    tensor, one without values such as on the device "meta"), and ValueError for more than 16,384
    entries.

    >>> pack({"h": torch.tensor([[1.0, 2.0]])}).hex(" ")
    'f1 05 01 68 20 01 02 00 00 80 3f 00 00 00 40 a0 e1 57 d8'
    """
    parts = _frame(tree)
    if len(tree) > MAX_ENTRIES:
        raise ValueError(f"{len(tree)} entries in a message, at most {MAX_ENTRIES}: send several")
    parts.append(_checksum(_chained(parts, _bound.get()[0])))
    return b"".join(parts)


def unpack(message: bytes | bytearray | memoryview) -> Tree:
    """Read a frame back into a tree: the same names, dtypes, shapes and values, in order.

    Each payload is copied once, into memory that torch aligns, because the rounding of matrix
    kernels can depend on the alignment. Raises WireError for anything that is not exactly one
    undamaged frame, and TypeError if ``message`` is not bytes.

    >>> unpack(pack({"h": torch.tensor([[1.0, 2.0]]), "y": torch.tensor(7)}))
    {'h': tensor([[1., 2.]]), 'y': tensor(7)}
    """
    if not isinstance(message, bytes | bytearray | memoryview):
        raise TypeError(
            f"a message is bytes, as pack(tree) and codec.encode(tree) make them, not a "
            f"{type(message).__name__}"
        )
    view = memoryview(message)
    view = view.cast("B") if view.c_contiguous else memoryview(bytes(view))
    reader = Reader(view)
    if (mark := reader.byte("the frame's mark")) != MARK[0]:
        raise WireError(
            f"offset 0: expected 0x{MARK.hex()} (fltoolkit frame, version 1), found 0x{mark:02x}"
        )
    offset = reader.count("the header's length") + reader.offset
    entries, payload_nbytes = read_layout(bytes(view[reader.offset : offset]), reader.offset)
    end = offset + payload_nbytes
    if len(view) != end + CHECKSUM_NBYTES:
        raise WireError(
            f"offset {offset}: expected {payload_nbytes} payload bytes and a checksum of "
            f"{CHECKSUM_NBYTES}, {end + CHECKSUM_NBYTES} bytes in all, but there are {len(view)}"
        )
    head = view[:offset]
    seed, otherwise = _bound.get()
    digest = xxh3_64_intdigest(head, seed)
    tree: Tree = {}
    for name, dtype, shape, nbytes in entries:
        tree[name] = tensor = torch.empty(shape, dtype=dtype)
        if nbytes:
            memory: Any = _memory(tensor) if dtype == torch.bfloat16 else tensor.numpy()
            memoryview(memory).cast("B")[:] = view[offset : offset + nbytes]
            digest = xxh3_64_intdigest(memory, digest)
            offset += nbytes
            if dtype == torch.bool and int(tensor.view(torch.uint8).max()) > 1:
                raise WireError(f"offset {offset}: entry {name!r} is bool, expected bytes 0 or 1")
        else:
            digest = xxh3_64_intdigest(b"", digest)
    if (checksum := _checksum(digest)) != view[end:]:
        raise WireError(
            f"offset {end}: expected checksum {checksum.hex()}, found {view[end:].hex()}: "
            f"the message was damaged on its way{otherwise}"
        )
    return tree


def _frame(tree: Tree) -> list[Any]:
    """A frame without its checksum: mark, length and layout, then the memory of each entry."""
    try:
        layout = write_layout(tuple([(name, t.dtype, t.shape) for name, t in tree.items()]))
        return [MARK + varint(len(layout)) + layout, *map(_memory, tree.values())]
    except Exception:  # torch raises many kinds of errors for tensors of unusual kinds
        check_tree(tree)
        raise


def _chained(parts: list[Any], digest: int) -> int:
    """The digest of all parts; each part's seed is the digest of the parts before."""
    for part in parts:
        digest = xxh3_64_intdigest(part, digest)
    return digest


def _memory(tensor: Tensor) -> Any:
    """The values as a C-contiguous buffer: the memory of the tensor itself if that is possible."""
    if not tensor.data_ptr() and tensor.numel():  # reading it would end the process
        raise TypeError("a tensor without values")
    if tensor.dtype == torch.bfloat16:  # numpy has no bfloat16: its 16 bits are sent as an integer
        tensor = tensor.detach().resolve_neg().contiguous().view(torch.int16)
    return np.ascontiguousarray(tensor.numpy(force=True))


def _checksum(digest: int) -> bytes:
    return (digest & 0xFFFFFFFF).to_bytes(CHECKSUM_NBYTES, "little")


def check_tree(tree: Mapping[str, Any]) -> None:
    """Raise TypeError for a tree that cannot be packed; the error says what is allowed."""
    if not isinstance(tree, Mapping):
        raise TypeError(f"give a dict of tensors (a state_dict), not a {type(tree).__name__}")
    for name, tensor in tree.items():
        if not isinstance(name, str):
            raise TypeError(f"entry {name!r}: names are strings")
        if not isinstance(tensor, Tensor):
            raise TypeError(f"entry {name!r} is {type(tensor).__name__}: a message holds tensors")
        if not _has_values(tensor):
            allowed = ", ".join(str(dtype).removeprefix("torch.") for dtype in DTYPES)
            raise TypeError(
                f"entry {name!r} is a {type(tensor).__name__} of {tensor.dtype}, "
                f"{tensor.layout}, on {tensor.device}: a message holds dense tensors with values, "
                f"of {allowed}. Convert it, such as with to_dense, dequantize or view_as_real"
            )
        if tensor.dim() > MAX_DIMENSIONS:
            raise TypeError(f"entry {name!r} has {tensor.dim()} dimensions, at most 15 can be sent")


def _has_values(tensor: Tensor) -> bool:
    """Whether a tensor has values of a dtype that can be sent, which can be read here."""
    try:
        dense = tensor.layout is torch.strided and not tensor.is_nested
        if not dense or tensor.dtype not in _CODES or tensor.is_meta:
            return False
        if type(tensor) not in (Tensor, torch.nn.Parameter):
            _memory(tensor)  # some subclasses have no values
        return bool(tensor.data_ptr()) or not tensor.numel()
    except Exception:
        return False


# name, dtype, shape, bytes of the values
LayoutEntry = tuple[str, torch.dtype, tuple[int, ...], int]


@lru_cache(maxsize=256)
def write_layout(entries: tuple[tuple[str, torch.dtype, tuple[int, ...]], ...]) -> bytes:
    """Names, dtypes and shapes as in a frame's header: its third line in the format above.

    >>> write_layout((("h", torch.float32, (1, 2)),)).hex(" ")
    '01 68 20 01 02'
    """
    layout = bytearray()
    for name, dtype, shape in entries:
        encoded = name.encode()
        layout += varint(len(encoded)) + encoded
        layout.append(len(shape) << 4 | _CODES[dtype])
        for length in shape:
            layout += varint(length)
    return bytes(layout)


def read_layout(layout: bytes, base: int = 0) -> tuple[tuple[LayoutEntry, ...], int]:
    """Read the bytes of `write_layout`: each entry, and the number of bytes of all their values.

    ``base`` is the offset of the layout in the message, for errors. Raises WireError for anything
    that is not such a layout, also for a repeated name. The function allocates no memory of the
    sizes that it reads.

    >>> read_layout(write_layout((("h", torch.float32, (1, 2)),)))
    ((('h', torch.float32, (1, 2), 8),), 8)
    """
    # a protocol sends the same shapes again and again, so small layouts are cached
    read = _read_layout if len(layout) <= 4096 else _read_layout.__wrapped__
    return read(layout, base)


@lru_cache(maxsize=256)
def _read_layout(layout: bytes, base: int) -> tuple[tuple[LayoutEntry, ...], int]:
    reader = Reader(memoryview(layout), base)
    entries: list[LayoutEntry] = []
    while reader.offset < len(layout):
        if len(entries) == MAX_ENTRIES:
            raise reader.error(f"expected at most {MAX_ENTRIES} entries, found more")
        entries.append(reader.entry())
    if len({name for name, *_ in entries}) != len(entries):
        raise WireError(f"offset {base}: expected each name once, found one repeated")
    return tuple(entries), sum(nbytes for *_, nbytes in entries)


@lru_cache(maxsize=256)
def varint(number: int) -> bytes:
    """Unsigned LEB128: 7 bits in each byte, lowest first; the high bit says that more follow.

    >>> varint(5).hex(), varint(300).hex()
    ('05', 'ac02')
    """
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


class Reader:
    r"""Reads bytes that may be damaged: never past their end, and without trusting a size in them.

    The argument ``what`` of a method says what is expected, for the WireError if it is not there.
    ``base`` is the offset of the bytes in the message; offsets in errors are counted from there.

    >>> reader = Reader(memoryview(b"\x05\xac\x02"))
    >>> reader.number("a length"), reader.number("a length"), reader.offset
    (5, 300, 3)
    >>> reader.byte("the method")
    Traceback (most recent call last):
    fltoolkit.wire.WireError: offset 3: expected the method, but the data end here
    """

    def __init__(self, view: memoryview, base: int = 0):
        self.view = view
        self.base = base
        self.offset = 0  # of the next byte

    def entry(self) -> LayoutEntry:
        """One entry of a layout."""
        length = self.count("a name's length")
        raw = bytes(self.view[self.offset : self.offset + length])
        try:
            name = raw.decode()
        except UnicodeDecodeError:
            raise self.error(f"expected a name in UTF-8, found {raw[:40]!r}") from None
        self.offset += length
        kind = self.byte(f"the dtype of {name!r}")
        dims, code = kind >> 4, kind & 0x0F
        if code >= len(DTYPES):
            raise self.error(f"expected dtype code below {len(DTYPES)} for {name!r}, found {code}")
        what = f"a dimension of {name!r}"
        shape = tuple([self.number(what) for _ in range(dims)])
        if math.prod(max(length, 1) for length in shape) >= 2**56:
            raise self.error(f"expected a possible shape, found {shape} for {name!r}")
        dtype = DTYPES[code]
        return name, dtype, shape, math.prod(shape) * dtype.itemsize

    def count(self, what: str) -> int:
        """A number of bytes, of which so many must still follow."""
        count = self.number(what)
        if count > len(self.view) - self.offset:
            left = len(self.view) - self.offset
            raise self.error(f"expected {what} to be at most the {left} bytes left, found {count}")
        return count

    def number(self, what: str) -> int:
        """A varint."""
        number = 0
        for shift in range(0, 63, 7):
            byte = self.byte(what)
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
        raise self.error(f"expected {what} as a varint of at most 9 bytes")

    def byte(self, what: str) -> int:
        """The next byte."""
        if self.offset >= len(self.view):
            raise self.error(f"expected {what}, but the data end here")
        self.offset += 1
        return self.view[self.offset - 1]

    def error(self, message: str) -> WireError:
        """What to raise, with the place in the message in front."""
        return WireError(f"offset {self.base + self.offset}: {message}")
