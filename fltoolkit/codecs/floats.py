"""Small floats: an exponent and a few significant bits for each value.

Here: `Float8` and its family, and float16 (`Half`). Not here: evenly spaced levels (quantize.py).
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
import torch

from fltoolkit.arrays import Array
from fltoolkit.codecs.quantize import CHUNK, Draw, Quantizer, chunks, expect
from fltoolkit.codecs.stage import Parts, Stage, check_number, expect_finite, floats, tensors_of
from fltoolkit.wire import WireError

MANY = 1 << 18  # with more values than this, the best bias of `Float8` is found by their classes


@dataclass
class Float8(Quantizer):
    """A float of 1 + exponent + mantissa bits, at most 8: E4M3, E5M2, E2M5 and all their family.

    Code (sign, E, M) means sign * M * 2^(1 - bias - mantissa) for E = 0 (subnormal), else
    sign * (2^mantissa + M) * 2^(E - bias - mantissa). All codes are numbers: there is no infinity
    and no NaN. Values are rounded to the nearest code, ties away from zero. Values beyond the
    largest code become the largest code. Values below the finest step of bias 127
    (2^(-126 - mantissa)) are lost.

    ``bias="search"`` takes for each tensor the bias with the least squared error; it is sent as
    int8. Chen et al. 2021, arXiv 2107.09786, send activations as 8-bit floats with a searched bias;
    the search here is our own.

    >>> parts = Float8(bias=7).apply({"w": torch.tensor([1.0, 1.1, 1000.0])})
    >>> Float8(bias=7).undo(parts)["w"]
    tensor([  1.0000,   1.1250, 480.0000])
    """

    exponent: int = 4
    mantissa: int = 3
    bias: str | int = "search"

    what = "b"
    dtype = torch.int8

    def __post_init__(self) -> None:
        check_number("exponent", self.exponent, 1, 7)
        # with the sign, at most 8 bits
        check_number("mantissa", self.mantissa, 0, 7 - self.exponent)
        if self.bias != "search":
            check_number("bias ('search' or a number)", self.bias, self._biases()[0], 127)

    @property
    def num_levels(self) -> int:
        """2^(1 + exponent + mantissa), two of them zeros."""
        return 2 << (self.exponent + self.mantissa)

    def _biases(self) -> range:
        """What fits into int8 and keeps the largest value within float32."""
        return range((1 << self.exponent) - 128, 128)

    def _quantize(self, values: Array, shape: torch.Size, draw: Draw | None) -> tuple[Array, Array]:
        bias = self._search(values) if self.bias == "search" else self.bias
        return self._codes(values, int(bias)), np.array(bias, np.int8)

    def _codes(self, values: Array, bias: int) -> Array:
        """The table's code for the upper 16 bits of each value, nearly always without a look-up.

        Exponent and mantissa are the highest bits of a magnitude: add half of the last bit that is
        kept, and shift. What is no normal number then, or beyond the largest, is looked up.
        """
        table, _ = _float_tables(self.exponent, self.mantissa, bias)
        drop, bits, least = 7 - self.mantissa, self.exponent + self.mantissa, 1 << self.mantissa
        begin = np.uint16((128 - bias << 7) - (1 << drop >> 1))  # where normal numbers begin
        symbols, memory = np.empty(len(values), np.uint8), np.empty((3, CHUNK), np.uint16)
        for _, places in chunks(len(values), len(values)):
            upper, code, sign = memory[:, : places.stop - places.start]
            np.right_shift(values[places].view(np.uint32), 16, out=upper, casting="unsafe")
            np.bitwise_and(upper, 0x7FFF, out=code)
            code -= begin  # numbers below it wrap around
            code >>= np.uint16(drop)
            others = np.flatnonzero(code > (1 << bits) - 1 - least)
            code += np.uint16(least)
            np.right_shift(np.bitwise_and(upper, 0x8000, out=sign), 15 - bits, out=sign)
            code |= sign
            np.copyto(symbols[places], code, casting="unsafe")
            symbols[places][others] = table[upper[others]]
        return symbols

    def _restore(self, symbols: Array, shape: torch.Size, info: Array) -> Array:
        expect(info, ())
        if int(info) not in self._biases():
            raise WireError(f"bias {info} gives values beyond the range of float32")
        return look_up(_float_tables(self.exponent, self.mantissa, int(info))[1], symbols)

    def _search(self, values: Array) -> int:
        """The bias with the least squared error; for many values, of their 8 highest bits' middles.

        As long as nothing saturates, a larger bias only adds levels: so start at the largest such.
        From there on the error that saturation alone makes only grows: stop when that is too much.
        """
        low, high = torch.aminmax(torch.from_numpy(values))  # torch finds both in one pass
        biases, largest = self._biases(), max(float(high), -float(low))
        fits = [bias for bias in biases if self._largest(bias) >= largest]
        best, least = biases[0], np.inf
        counts = np.broadcast_to(np.float64(1), len(values))
        if len(values) > MANY:
            values, counts = _classes(values)
        for bias in range(fits[-1] if fits else biases[0], 128):
            if self._saturation(values, counts, bias) >= least:
                break
            if (error := self._error(values, counts, bias)) < least:
                best, least = bias, error
        return best

    def _largest(self, bias: int) -> float:
        top = (2 << self.mantissa) - 1  # its significand, like its exponent, has ones only
        return math.ldexp(top, (1 << self.exponent) - 1 - bias - self.mantissa)

    def _saturation(self, values: Array, counts: Array, bias: int) -> float:
        """The squared error of the values beyond the largest level."""
        total, top = 0.0, self._largest(bias)
        for _, places in chunks(len(values), len(values)):
            beyond = np.maximum(np.abs(values[places]).astype(np.float64) - top, 0)
            total += float(beyond * beyond @ counts[places])
        return total

    def _error(self, values: Array, counts: Array, bias: int) -> float:
        """The squared error of all values."""
        codes, levels = _float_tables(self.exponent, self.mantissa, bias)
        total, upper, rounded = 0.0, values.view(np.uint16)[1::2], levels[codes]
        for _, places in chunks(len(values), len(values)):
            wrong = values[places].astype(np.float64) - rounded.take(upper[places], mode="clip")
            total += float(wrong * wrong @ counts[places])
        return total


@dataclass
class Half(Stage):
    """IEEE float16: 11 significant bits; values above 65504 saturate, those below 2^-25 become 0.

    From 2^-14 (6.1e-5) to 65504 the error of a value is at most 2^-11 of the value.

    >>> parts = Half().apply({"w": torch.tensor([0.1, 1e6])})
    >>> Half().undo(parts)["w"].tolist()
    [0.0999755859375, 65504.0]
    """

    dtype: ClassVar[torch.dtype] = torch.float16
    leaves_floats = False

    def apply(self, parts: Parts) -> Parts:
        """Each float32 entry becomes a tensor of the narrower dtype."""
        top = torch.finfo(self.dtype).max
        narrow = {name: t.clamp(-top, top).to(self.dtype) for name, t in floats(parts).items()}
        return {**parts, **narrow}

    def undo(self, parts: Parts) -> Parts:
        """Convert to float32 again."""
        wide = {name: part.float() for name, part in tensors_of(parts, self.dtype).items()}
        return {**parts, **expect_finite(wide)}


def middles(levels: Array) -> Array:
    """Where the nearest level changes, as float64."""
    return (levels[1:].astype(np.float64) + levels[:-1]) / 2


def look_up(levels: Array, symbols: Array) -> Array:
    """The level of each symbol, ``levels[symbols]``, computed in chunks."""
    values = np.empty(len(symbols), np.float32)
    for _, places in chunks(len(symbols), len(symbols)):
        np.take(levels, symbols[places], out=values[places], mode="clip")
    return values


def _classes(values: Array) -> tuple[Array, Array]:
    """The middles of the classes of float32 values with equal upper 16 bits, and their sizes.

    The middles give the error of a small float to about a thousandth, in a hundredth of the time.
    """
    bits, counts, memory = values.view(np.uint32), np.zeros(1 << 16, np.int64), np.empty(MANY, "i4")
    for start in range(0, len(bits), MANY):
        part = bits[start : start + MANY]
        upper = np.right_shift(part, 16, out=memory[: len(part)], casting="unsafe")
        # torch takes 32-bit numbers as they are, which numpy turns into 64-bit ones first
        counts += torch.bincount(torch.from_numpy(upper), minlength=1 << 16).numpy()
    used = np.flatnonzero(counts)
    middle = (used.astype(np.uint32) << 16 | 0x8000).view(np.float32)
    return middle, counts[used].astype(np.float64)


@lru_cache(maxsize=64)
def _float_tables(exponent: int, mantissa: int, bias: int) -> tuple[Array, Array]:
    """Codes by the upper 16 bits of a float32, and the float32 that each code means.

    The upper 16 bits hold 8 significant bits of a number. Where the nearest code changes has at
    most mantissa + 2 <= 8 of them, so the lower 16 bits never matter.
    """
    code = np.arange(1 << (exponent + mantissa))
    e, m = code >> mantissa, code & ((1 << mantissa) - 1)
    significand = np.where(e > 0, m + (1 << mantissa), m)
    values = np.ldexp(significand, np.maximum(e, 1) - bias - mantissa)  # not negative, ascending
    upper = np.minimum(np.arange(1 << 15, dtype=np.uint32), 0x7F7F)  # above: infinite or NaN
    inputs = (upper << 16).view(np.float32)
    codes = np.searchsorted(middles(values), inputs, side="right").astype(np.uint8)
    sign = np.uint8(len(values))  # one bit above exponent and mantissa
    return np.concatenate([codes, codes | sign]), np.concatenate([values, -values]).astype("f4")
