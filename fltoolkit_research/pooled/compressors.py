"""Samples as bytes, without loss: a table of the values that occur, the smallest of compressors.

Of the bytes that `Smallest` makes of one entry, the first says how to read the rest:

    ENTROPY     an entry as `fltoolkit_research.codecs.ContextEntropy` writes it
    PREDICTED   varint: pixels in a row; then the errors of a prediction, as ENTROPY
    LZMA, BZ2   varints: num_levels, dimensions, each dimension; then the compressed symbols, one or
                two bytes (little-endian) each
"""

import bz2
import lzma
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from fltoolkit.arrays import Array
from fltoolkit.codecs.coders import CODED, MAX_LEVELS, BitPack, read_levels_and_shape, read_symbols
from fltoolkit.codecs.pipeline import Pipeline
from fltoolkit.codecs.stage import (
    Indices,
    Parts,
    Stage,
    Symbols,
    floats,
    side,
    take_side,
    take_symbols,
    with_side,
)
from fltoolkit.wire import Reader, WireError, varint
from fltoolkit_research.codecs.contexts import ContextEntropy
from fltoolkit_research.codecs.narrow import Narrow

ENTROPY, PREDICTED, LZMA, BZ2 = range(4)
# with more than twice TRIED symbols, all methods are tried on the first TRIED of them; those whose
# messages are shorter than NEARLY times the shortest are then tried on all symbols
TRIED, NEARLY = 1 << 18, 1.1
TABLE = "v"  # the name of the side information: the values that occur, in increasing order
# lc and pb: pixels depend on the pixel before them, and not on their place among four bytes
FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 6, "lc": 3, "lp": 0, "pb": 0}]


def lossless(*stages: Stage) -> Pipeline:
    """The codec of samples and labels that loses nothing, or no more than ``stages`` lose.

    Whole numbers become symbols (`Narrow`), then the given stages run, then values of which few
    are distinct become symbols (`Distinct`), and `Smallest` compresses all symbols.

    >>> from fltoolkit.codecs import Quantize
    >>> lossless(Quantize(1))
    Pipeline(Narrow(), Quantize(bits=1, stochastic=False, seed=0, per='tensor'), Smallest())
    >>> pixels = {"x": torch.arange(6400).reshape(100, 64) % 17 / 16}
    >>> message = lossless().encode(pixels)
    >>> torch.equal(lossless().decode(message)["x"], pixels["x"]), len(message) < 6400
    (True, True)
    """
    leaves_floats = all(stage.leaves_floats for stage in stages)
    return Pipeline(Narrow(), *stages, *[Distinct()] * leaves_floats, Smallest())


@dataclass
class Distinct(Stage):
    """Send a table of the values that occur, and of each value its number in the table: exact.

    Pixels that were 8 bits before they were scaled have at most 256 distinct values. An entry with
    more than 65,536 of them, or whose table would be longer than a quarter of it, is sent as it is.
    """

    def apply(self, parts: Parts) -> Parts:
        """Each entry of few distinct values becomes `Symbols`, and their table travels along."""
        out = dict(parts)
        for name, values in floats(parts).items():
            bits = values.detach().contiguous().cpu().view(torch.int32)  # tells 0.0 from -0.0
            found = torch.unique(bits)
            if len(found) > min(MAX_LEVELS, values.numel() // 4):
                continue
            table, order = found.view(torch.float32).sort(stable=True)
            rank = torch.empty_like(order)
            rank[order] = torch.arange(len(order))
            out[name] = Symbols.of(rank[torch.searchsorted(found, bits)], len(table))
            out[side(name, TABLE)] = table
        return out

    def undo(self, parts: Parts) -> Parts:
        """The values again."""
        out = dict(parts)
        for name in with_side(parts, TABLE):
            table = take_side(out, name, TABLE, shape=None)
            if table.dim() != 1:
                raise WireError(f"entry {name!r}: expected a table of values, one dimension")
            out[name] = table[take_symbols(out, name, len(table)).long()]
        return out


@dataclass
class Smallest(BitPack):
    """The smallest of four forms, and a byte that says which: for samples, which are sent once.

    The four forms are `ContextEntropy`; the same after a prediction of each pixel from its
    neighbours, as in PNG and JPEG-LS; LZMA (as in xz and 7z); and bzip2. On MNIST LZMA is the
    smallest for 8 bits per pixel and bzip2 for 1 bit; for a text it is bzip2. Of a large entry all
    four are tried on the first quarter of a million symbols, and the best of them on all.

    Source of the prediction: Weinberger, Seroussi and Sapiro 2000, "The LOCO-I lossless image
    compression algorithm", section III-A (also the median edge detector of JPEG-LS). A row of
    pixels is the last dimension; if samples have one dimension and the root of its length is a
    whole number, they are taken as square images.
    """

    def _encode(self, part: Symbols | Indices) -> list[bytearray]:
        if isinstance(part, Indices) or not part.values.numel():
            return [_form(ENTROPY, part)]
        methods = [ENTROPY, LZMA, BZ2] + [PREDICTED] * bool(_row(part.values.shape))
        if part.values.numel() > 2 * TRIED:
            some = part.values[: max(TRIED // part.values[0].numel(), 1)]
            sizes = {method: len(_form(method, part._replace(values=some))) for method in methods}
            methods = [m for m in methods if sizes[m] < NEARLY * min(sizes.values())]
        return [min((_form(method, part) for method in methods), key=len)]

    def _decode(self, data: Array, before: int) -> Symbols | Indices:
        reader = Reader(data.data)
        method = reader.byte("the method")
        if method == ENTROPY:
            return _plain(data[1:])
        if method == PREDICTED:
            width = reader.number("pixels in a row")
            part = _plain(data[reader.offset :])
            if not isinstance(part, Symbols) or not width or width != _row(part.values.shape):
                raise reader.error(f"expected the rows of images, found {width} pixels in a row")
            errors = part.values.numpy()
            pixels = _from_errors(errors.reshape(len(errors), -1, width), part.num_levels)
            return Symbols(torch.from_numpy(pixels).reshape(errors.shape), part.num_levels)
        if method not in (LZMA, BZ2):
            raise reader.error(f"expected a method from {ENTROPY} to {BZ2}, found {method}")
        num_levels, shape = read_levels_and_shape(reader, before)
        size = 1 if num_levels <= 256 else 2
        whole = _expand(method, data[reader.offset :].tobytes(), math.prod(shape) * size)
        return read_symbols(reader, np.frombuffer(bytearray(whole), f"<u{size}"), num_levels, shape)


def _form(method: int, part: Symbols | Indices) -> bytearray:
    """The part by one method, with the byte that says which."""
    first = bytearray([method])
    if method == ENTROPY or isinstance(part, Indices):
        return first + _entropy(part)
    values = part.values.detach().contiguous().numpy(force=True)
    if method == PREDICTED:
        width = _row(values.shape)
        errors = _errors(values.reshape(len(values), -1, width), part.num_levels)
        residue = Symbols(torch.from_numpy(errors).reshape(part.values.shape), part.num_levels)
        return first + varint(width) + _entropy(residue)
    whole = values.astype("<u1" if part.num_levels <= 256 else "<u2").tobytes()
    squeeze = partial(lzma.compress, format=lzma.FORMAT_RAW, filters=FILTERS)
    packed = squeeze(whole) if method == LZMA else bz2.compress(whole)
    header = map(varint, (part.num_levels, values.ndim, *values.shape))
    return first + b"".join(header) + packed


def _entropy(part: Symbols | Indices) -> bytes:
    """The part as `ContextEntropy` writes it."""
    (coded,) = ContextEntropy().apply({"x": part}).values()
    assert isinstance(coded, Tensor)
    return coded.numpy().tobytes()


def _plain(data: Array) -> Symbols | Indices:
    """The inverse of `_entropy`."""
    coded = torch.from_numpy(np.ascontiguousarray(data))
    part = ContextEntropy().undo({side("x", CODED): coded})["x"]
    assert not isinstance(part, Tensor)
    return part


def _expand(method: int, payload: bytes, nbytes: int) -> bytes:
    """Exactly so many bytes, or a WireError; never more than these are allocated."""
    try:
        if method == BZ2:
            whole = bz2.BZ2Decompressor().decompress(payload, nbytes)
        else:
            expander = lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=FILTERS)
            whole = expander.decompress(payload, nbytes)
    except (OSError, EOFError, ValueError, lzma.LZMAError) as error:
        raise WireError(f"damaged bytes: {error}") from None
    if len(whole) != nbytes:
        raise WireError(f"expected {nbytes} bytes of symbols, found {len(whole)}")
    return whole


def side_of_square(shape: Sequence[int]) -> int:
    """The pixels in a row of square images [samples, pixels]; 0 if the shape has none."""
    length = math.isqrt(shape[1]) if len(shape) == 2 else 0
    return length if length and length**2 == shape[1] else 0


def _row(shape: tuple[int, ...] | torch.Size) -> int:
    """Pixels in a row of an image; 0 if the entry does not look like images."""
    if len(shape) > 2:
        return shape[-1]
    return length if (length := side_of_square(shape)) > 1 else 0


def _errors(pixels: Array, num_levels: int) -> Array:
    """What the prediction leaves, modulo ``num_levels``; images are [samples, rows, columns]."""
    padded = np.pad(pixels.astype(np.int32), ((0, 0), (1, 0), (1, 0)))
    left, up, corner = padded[:, 1:, :-1], padded[:, :-1, 1:], padded[:, :-1, :-1]
    errors = (padded[:, 1:, 1:] - _predicted(left, up, corner)) % num_levels
    return errors.astype(pixels.dtype)


def _from_errors(errors: Array, num_levels: int) -> Array:
    """The inverse of `_errors`: pixel by pixel, for all images at once."""
    samples, rows, columns = errors.shape
    padded = np.zeros((rows + 1, columns + 1, samples), np.int32)
    steps = errors.transpose(1, 2, 0).astype(np.int32)
    for i in range(rows):
        for j in range(columns):
            guess = _predicted(padded[i + 1, j], padded[i, j + 1], padded[i, j])
            padded[i + 1, j + 1] = (guess + steps[i, j]) % num_levels
    return np.ascontiguousarray(padded[1:, 1:].transpose(2, 0, 1)).astype(errors.dtype)


def _predicted(left: Array, up: Array, corner: Array) -> Array:
    """The median of ``left``, ``up`` and ``left + up - corner``: what a pixel is likely to be."""
    return np.clip(left + up - corner, np.minimum(left, up), np.maximum(left, up))
