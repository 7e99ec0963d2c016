"""Random rotation before quantization: `Rotate`, and `DRIVE` and `EDEN`, which are built on it.

A few large values make a quantizer bad: its range becomes wide, and all other values share the few
levels near zero. A rotation R spreads each value over all places, so that the values of y = R x
look like draws from N(0, 1) times |x| / sqrt(n), whatever x is. R is orthogonal, so an error in y
is an equally large error in x.

**Which rotation.** The values are multiplied with random signs D and then with a Hadamard matrix H,
whose entries are all 1/sqrt(n) or -1/sqrt(n), in n log n steps (`hadamard`). The matrix exists only
for powers of two. The papers pad with zeros, so that up to twice the values are sent. Here nothing
is padded. Let m be the largest power of two up to n. Step 1 rotates the first m values. Step 2
rotates, with new signs, the last m values of the result:

    x  [ ------ H D ------ ] [ as it is ]
       [ done ] [ ------ H D' --------- ]  y

For n = m one step would not be enough: of only two values a > b that are not zero it makes (a + b)
and (a - b), with signs that depend on a only, so b would never arrive. The two pieces of y may
differ in magnitude if those of x do. So `DRIVE` and `EDEN` send a scale, 4 bytes, for each piece.

**What is sent.** The seed of the signs: 4 bytes for each message, under `SEED`. The signs of an
entry are drawn from this seed and the entry's name.

**The same on every machine.** Both ends of a `Difference` decode a message and must hold the same
bits, but a matrix kernel chooses its own order of addition. So decoding only adds and subtracts
pairs of values, in the order of `_hadamard_in_order`, and the levels of `EDEN` are rounded to six
digits after the point. Only the sender encodes, so its last bits may differ between machines, and
where compiled loops are used (fltoolkit/compiled.py): these always add in that order.

Source: Suresh et al. 2017, arXiv 1611.00429, section 3 (signs and Hadamard, padded).
"""

import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fltoolkit import compiled
from fltoolkit.arrays import Array
from fltoolkit.codecs.floats import look_up, middles
from fltoolkit.codecs.quantize import FLOAT32_MAX, Draw, Quantizer, chunks, expect
from fltoolkit.codecs.stage import (
    Parts,
    RandomStage,
    check_number,
    expect_finite,
    floats,
    side,
    take_side,
)
from fltoolkit.trees import Tree, is_finite
from fltoolkit_research.codecs.codebooks import count_reached

__all__ = ["SEED", "gaussian_levels"]

SEED = side("", "h")
"""The name of the seed of the signs. It names no entry: the seed belongs to the whole message."""

DIGITS = 6  # of a level after the point: from the tenth on, digits differ between machines
MANY = 1 << 12  # values from which on compiled loops are used
RADIX = 16  # rows of the largest matrix that is multiplied with: faster than 8 and 32


def hadamard_plain(x: Tensor) -> Tensor:
    """`hadamard` by its definition: H [a, b] = [H a + H b, H a - H b] / sqrt(2)."""
    if len(x) == 1:
        return x
    a, b = map(hadamard_plain, x.chunk(2))
    return torch.cat([a + b, a - b]) / math.sqrt(2)


def hadamard(x: Tensor) -> Tensor:
    """The normalized Walsh-Hadamard transform of x [n], n a power of two; its own inverse.

    For n = c * r, H_n is the Kronecker product of H_c and H_r: write x as a matrix with r columns,
    multiply its rows with H_r, transpose it, and go on with the next factor r of n.
    """
    left, out, spare = len(x), torch.empty_like(x), torch.empty_like(x)
    while left > 1:
        r = min(RADIX, left)
        torch.mm(_matrix(r, x.dtype), x.reshape(-1, r).t(), out=out.view(r, -1))
        x, out, spare, left = out, spare, out, left // r
    return x


def _hadamard_in_order(x: Tensor) -> Tensor:
    """As `hadamard`, with the same bits on every machine: the rounding of each sum is defined.

    x is seen as a matrix of c rows, with c about sqrt(n). Adding and subtracting pairs of whole
    rows multiplies its columns with H_c. The same is done to the transposed matrix, for H_r.
    """
    n = len(x)
    c = 1 << (n.bit_length() - 1) // 2
    y = _butterflies(x.view(c, -1))
    y = _butterflies(y.t().contiguous()).t().reshape(-1)
    return y.mul_(torch.tensor([1 / math.sqrt(n)], dtype=x.dtype))


def _butterflies(matrix: Tensor) -> Tensor:
    """Multiply the columns with the Hadamard matrix of entries 1 and -1."""
    source, target = matrix, torch.empty_like(matrix)
    half = len(matrix) // 2
    while half:
        pairs, out = (y.view(-1, 2, half * matrix.shape[1]) for y in (source, target))
        torch.add(pairs[:, 0], pairs[:, 1], out=out[:, 0])
        torch.sub(pairs[:, 0], pairs[:, 1], out=out[:, 1])
        spare = torch.empty_like(matrix) if source is matrix else source
        source, target, half = target, spare, half // 2
    return source


@lru_cache(maxsize=32)
def _matrix(n: int, dtype: torch.dtype) -> Tensor:
    """The Hadamard matrix of n rows, divided by sqrt(n)."""
    return torch.stack([hadamard_plain(row) for row in torch.eye(n, dtype=torch.float64)]).to(dtype)


def _bits(seed: int, name: str, n: int) -> Array:
    """A bit for each of m values that the first step moves, then for those of the second: uint8.

    They are raw bits: numpy promises to keep these the same in later versions.
    """
    key = np.random.SeedSequence([seed, zlib.crc32(name.encode())])
    return np.random.SFC64(key).random_raw(-(-2 * _moved(n) // 64)).view(np.uint8)


def _moved(n: int) -> int:
    """m, the largest power of two up to n."""
    return 1 << (n.bit_length() - 1)


def _signs(bits: Array, m: int) -> Tensor:
    """1 or -1 for each value that the two steps move: float32 [2, m]."""
    return torch.from_numpy(_signs_of_bytes().take(bits, axis=0)).view(-1)[: 2 * m].view(2, m)


@lru_cache(maxsize=1)
def _signs_of_bytes() -> Array:
    """[256, 8] the signs that the bits of each byte mean, as float32."""
    bits = np.unpackbits(np.arange(256, dtype=np.uint8)).reshape(256, 8)
    return np.float32(2) * bits - np.float32(1)


def _rotate(x: Tensor, bits: Array) -> Tensor:
    """y = R x, for x [n]."""
    if library := _library(x):
        return _compiled(library, x, bits, back=False)
    (one, two), m, y = _signs(bits, _moved(len(x))), _moved(len(x)), x.clone()
    y[:m] = hadamard(y[:m] * one)
    y[-m:] = hadamard(y[-m:] * two)
    return y


def _rotate_back(y: Tensor, bits: Array) -> Tensor:
    """x, the inverse of `_rotate`: the same steps, the last one first."""
    library = _library(y)
    return _compiled(library, y, bits, back=True) if library else _back_in_order(y, bits)


def _back_in_order(y: Tensor, bits: Array) -> Tensor:
    (one, two), m, x = _signs(bits, _moved(len(y))), _moved(len(y)), y.clone()
    x[-m:] = _hadamard_in_order(x[-m:]) * two
    x[:m] = _hadamard_in_order(x[:m]) * one
    return x


def _library(x: Tensor) -> Any:
    """The compiled loops, if these values are for them: float32, and many."""
    return x.dtype == torch.float32 and len(x) >= MANY and compiled.functions(same_bits)


def _compiled(library: Any, x: Tensor, bits: Array, back: bool) -> Tensor:
    """`_rotate` or `_rotate_back` by compiled loops, which add in order both ways."""
    m, y = _moved(len(x)), x.numpy().copy()
    one, two, none = bits[: m // 8], bits[m // 8 : m // 4], np.full(m // 8, 255, np.uint8)
    first, second = (y[:m], one), (y[-m:], two)
    for values, signs in (second, first) if back else (first, second):
        before, after = (none, signs) if back else (signs, none)
        compiled.call(library.rotate, values, before, after, m, 1 / math.sqrt(m))
    return torch.from_numpy(y)


def same_bits(library: Any) -> bool:
    """Whether the compiled loops turn some values back as the plain code does."""
    for n in (4096, 9000, 17_000):  # with each number of levels modulo 3, as they are compiled
        y = torch.from_numpy(np.random.SFC64(n).random_raw(n).astype(np.int64).astype(np.float32))
        bits = _bits(0, "w", n)
        if not torch.equal(_compiled(library, y, bits, back=True), _back_in_order(y, bits)):
            return False
    return True


def _within_float32(turn: Callable[[Tensor, Array], Tensor], x: Tensor, bits: Array) -> Tensor:
    """turn(x, bits), without overflow in sums; a value beyond float32 becomes its largest."""
    y = turn(x, bits)
    if is_finite(y):
        return y
    return turn(x.double(), bits).clamp(-FLOAT32_MAX, FLOAT32_MAX).float()


def _pieces(n: int) -> list[slice]:
    """The places that only step 1 has changed, if there are any, and those of step 2."""
    m = _moved(n)
    return [slice(n - m), slice(n - m, n)] if m < n else [slice(n)]


class _Rotating(RandomStage):
    """The common part of all stages here: the rotation of each entry, and its seed."""

    def apply(self, parts: Parts) -> Parts:
        """Rotate each float32 entry, which keeps its shape, and add the seed."""
        if SEED in parts:
            raise ValueError("these values are rotated already: one such stage is enough")
        seed = int(self.draw_key().generate_state(1)[0])
        out = dict(parts)
        for name, tensor in floats(parts).items():
            x = tensor.detach().reshape(-1)
            y = _within_float32(_rotate, x, _bits(seed, name, len(x)))
            out[name] = y.view(tensor.shape)
            out[SEED] = torch.from_numpy(np.array(seed, np.uint32).view(np.int32))
        return out

    def undo(self, parts: Parts) -> Parts:
        """Rotate each float32 entry back."""
        out = dict(parts)
        entries = expect_finite(floats(parts))
        if not entries:
            return out
        seed = take_side(out, "", "h", torch.int32)
        for name, tensor in entries.items():
            y = tensor.reshape(-1)
            x = _within_float32(_rotate_back, y, _bits(int(seed) & 0xFFFF_FFFF, name, len(y)))
            out[name] = x.view(tensor.shape)
        return out

    def masks(self, parts: Parts, later: Tree) -> Tree:
        """None: each value depends on many that were sent."""
        return {}


@dataclass
class Rotate(_Rotating):
    """A random rotation of each tensor, for the quantizer that comes next; exact up to rounding.

    ``Pipeline(Rotate(), Quantize(4))`` helps if a few values are much larger than most, as in
    updates, and if symbols are packed at a fixed width; it destroys what an entropy coder needs. At
    one and two bits `DRIVE` and `EDEN` lose much less. Stochastic rounding stays unbiased. A
    rotated number beyond float32 becomes its largest.

    Source: Konečný et al. 2016, arXiv 1610.05492, "structured random rotations"; Suresh et al.
    2017, arXiv 1611.00429, section 3.

    >>> one = torch.zeros(4096)
    >>> one[7] = 1.0
    >>> bool(Rotate().apply({"w": one})["w"].abs().max() < 0.1)
    True
    """

    seed: int = 0


@lru_cache(maxsize=8)
def gaussian_levels(bits: int) -> tuple[float, ...]:
    """The 2^bits levels with the least mean squared error on N(0, 1), ascending.

    Lloyd's algorithm, a thousand steps: each level moves to the mean of the density between the
    middles to its two neighbours. It starts from quantiles of N(0, 3), since many levels end close
    to these (Panter and Dite 1951).

    Source: Lloyd 1982, "Least squares quantization in PCM", method I; Max 1960, table I.
    """
    check_number("bits", bits, 1, 8)
    shares = (torch.arange(1 << bits, dtype=torch.float64) + 0.5) / (1 << bits)
    levels = torch.special.ndtri(shares) * math.sqrt(3)
    ends = torch.tensor([math.inf], dtype=torch.float64)
    for _ in range(1000):
        edges = torch.cat([-ends, (levels[1:] + levels[:-1]) / 2, ends])
        density = (-edges * edges / 2).exp() / math.sqrt(2 * math.pi)
        levels = -density.diff() / torch.special.ndtr(edges).diff()
    return tuple(levels.tolist())


class _Coded(_Rotating, Quantizer):
    """The common part of `DRIVE` and `EDEN`: rotate, take the nearest fixed level, send a scale.

    Each piece of a tensor is coded by itself; the module's docstring says which pieces.
    """

    unbiased: bool

    what = "g"

    def apply(self, parts: Parts) -> Parts:
        """Each float32 entry becomes `Symbols` of its shape, with scales; add the seed."""
        return Quantizer.apply(self, _Rotating.apply(self, parts))

    def undo(self, parts: Parts) -> Parts:
        """Each entry that has scales becomes float32 again."""
        return _Rotating.undo(self, Quantizer.undo(self, parts))

    def _levels(self) -> Array:
        """The levels, in ascending order, for values of mean square 1."""
        return np.array(gaussian_levels(self.bits))

    def _quantize(self, values: Array, shape: torch.Size, draw: Draw | None) -> tuple[Array, Array]:
        coded = [self._code(values[piece]) for piece in _pieces(len(values))]
        scales = _within(np.array([scale for _, scale in coded]))
        return np.concatenate([symbols for symbols, _ in coded]), scales

    def _code(self, y: Array) -> tuple[Array, float]:
        """The symbols of one piece, and its scale."""
        pieces, levels = [place for _, place in chunks(len(y), len(y))], self._levels()
        energy = sum(_dot(y[place], y[place]) for place in pieces)
        bounds = _within(middles(levels) * math.sqrt(energy / len(y)))
        symbols = count_reached(y, bounds)
        if energy == 0:
            return symbols, 0.0
        c = look_up(levels.astype(np.float32), symbols)
        product = sum(_dot(y[place], c[place]) for place in pieces)
        if self.unbiased:
            return symbols, energy / product
        return symbols, product / sum(_dot(c[place], c[place]) for place in pieces)

    def _restore(self, symbols: Array, shape: torch.Size, info: Array) -> Array:
        pieces, values = _pieces(len(symbols)), np.empty(len(symbols), np.float32)
        expect(info, (len(pieces),), low=0)
        levels = np.round(self._levels(), DIGITS)
        for piece, scale in zip(pieces, info.astype(np.float64), strict=True):
            values[piece] = look_up(_within(levels * scale), symbols[piece])
        return values


@dataclass
class DRIVE(_Coded):
    """One bit per value: the signs of the rotated tensor, and a scale.

        |y|^2 / |y|_1  (``unbiased``), so that <C(y), y> = |y|^2 in every message, or
        |y|_1 / d      (otherwise), which has the least error: for `ErrorFeedback`.

    If rotated values look normal, |C(x)-x|^2 is 0.571 |x|^2 for the first scale (pi/2 - 1) and
    0.363 |x|^2 for the second (1 - 2/pi). The first scale is unbiased for rotations that are drawn
    uniformly; with signs and Hadamard matrices nearly so, and only for tensors of many values.

    Source: Vargaftik et al. 2021, arXiv 2105.08339.
    """

    seed: int = 0
    unbiased: bool = True

    bits = 1  # not a field: this stage always has one bit

    def _levels(self) -> Array:
        return np.array([-1.0, 1.0])


@dataclass
class EDEN(_Coded):
    """A few bits per value: the rotated tensor in the best levels for normal values, and a scale.

    Each value of a piece y of d rotated values is replaced by the nearest of `gaussian_levels`
    times |y| / sqrt(d). With c, these levels without this factor, C(y) = s c, where

        s = |y|^2 / <y, c>  (``unbiased``), so that <C(y), y> = |y|^2 in every message, or
        s = <y, c> / |c|^2  (otherwise), which has the least error: for `ErrorFeedback`.

    If rotated values look normal, |C(x)-x|^2 is D / (1 - D) times |x|^2 for the first scale and D
    times |x|^2 for the second. Here D is the mean squared error of the levels on N(0, 1): 0.363,
    0.117, 0.0345 and 0.0095 for 1 to 4 bits. With one bit, `EDEN` is `DRIVE`.

    Source: Vargaftik et al. 2022, arXiv 2108.08842.
    """

    bits: int  # 1 to 8; smaller = more compression
    seed: int = 0
    unbiased: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("bits", self.bits, 1, 8)


def _dot(a: Array, b: Array) -> float:
    """<a, b> in float64, always in the same order."""
    return float(np.einsum("i,i->", a, b, dtype=np.float64))


def _within(values: Array) -> Array:
    """The values as float32; values beyond the largest float32 become the largest."""
    return np.clip(values, -FLOAT32_MAX, FLOAT32_MAX).astype(np.float32)
