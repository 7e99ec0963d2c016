"""Quantization: fewer bits for each value.

Here: evenly spaced levels (`PlainQuantize` to be read and `Quantize` to be used), and what all
quantizers share.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch

from fltoolkit.arrays import Array
from fltoolkit.codecs.stage import (
    Parts,
    RandomStage,
    Stage,
    Symbols,
    check_number,
    floats,
    side,
    take_side,
    take_symbols,
    with_side,
)
from fltoolkit.wire import WireError

CHUNK = 1 << 16  # how many values are worked on at a time: they fit into the cache
DITHER = 1 << 16  # random numbers are drawn in steps of 1/DITHER
FLOAT32_MAX = float(torch.finfo(torch.float32).max)

Draw = Callable[[int], Array]  # so many numbers in [0, 1), in steps of 1/DITHER, as float32


def chunks(n: int, width: int) -> Iterator[tuple[slice, slice]]:
    """Slices (of rows, of values) of at most CHUNK values, if n values are cut into rows of width.

    The last row may be shorter. A chunk is either some whole rows or a piece of one.
    """
    whole = n // width * width
    for first in range(0, whole, step := max(CHUNK // width, 1) * width):
        last = min(first + step, whole)
        for start in range(first, last, CHUNK):
            yield slice(first // width, last // width), slice(start, min(start + CHUNK, last))
    for start in range(whole, n, CHUNK):
        yield slice(whole // width, whole // width + 1), slice(start, min(start + CHUNK, n))


class Levels(NamedTuple):
    """Evenly spaced levels, row by row: symbol q means base + (q - zero) * step.

    The methods compute symbol = floor((x - base) / step + zero + u) in chunks and in place, with
    u = 1/2 (nearest rounding) or u uniform in [0, 1) (stochastic, which is right on average).
    """

    base: Array  # [rows] float64
    step: Array  # [rows] float64; 0 where all values equal base
    width: int  # values per row
    num_levels: int
    zero: int = 0  # the symbol of ``base`` itself

    def symbols(self, values: Array, draw: Draw | None) -> Array:
        """Nearest (``draw`` None) or stochastically rounded symbols of float32 values [n].

        No value lies outside the levels.
        """
        out = np.empty(len(values), np.uint8 if self.num_levels <= 256 else np.int32)
        real = self._dtype()
        base: Array = self.base[:, None].astype(real)
        scale = self._scale(base)
        # memory for one chunk, used again: new memory takes longer than the arithmetic
        memory: Array = np.empty(CHUNK, real)
        for rows, places in chunks(len(values), self.width):
            x = values[places].reshape(rows.stop - rows.start, -1)
            y: Array = memory[: x.size].reshape(x.shape)
            np.subtract(x, base[rows], out=y)
            y *= scale[rows]
            if draw is None:
                np.rint(y, out=y)
            else:
                if self.zero:
                    y += real(self.zero)
                y += draw(x.size).reshape(x.shape)
            np.copyto(out[places], y.reshape(-1), casting="unsafe")  # cuts off the fraction
        return out

    def _scale(self, base: Array) -> Array:
        """[rows, 1] 1 / step, or slightly less where rounding would lead above the top level.

        255.00001 must not become 256. It is enough to check the largest value that a row can hold,
        since rounding never changes the order of two values.
        """
        real, levels = base.dtype.type, self.num_levels - 1 - self.zero
        with np.errstate(divide="ignore"):
            scale: Array = np.where(self.step > 0, 1 / self.step, 0)[:, None].astype(real)
        largest = (self.base + levels * self.step)[:, None].astype(np.float32).astype(real)
        while (above := (largest - base) * scale > levels).any():
            scale[above] = np.nextafter(scale[above], real(0))
        return scale

    def values(self, symbols: Array) -> Array:
        """The float32 values [n] that symbols mean."""
        out = np.empty(len(symbols), np.float32)
        real = self._dtype()
        base: Array = self.base[:, None].astype(real)
        step: Array = self.step[:, None].astype(real)
        memory: Array = np.empty(0 if real == np.float32 else CHUNK, real)
        for rows, places in chunks(len(symbols), self.width):
            q = symbols[places].reshape(rows.stop - rows.start, -1)
            flat = memory[: q.size] if len(memory) else out[places]
            y: Array = flat.reshape(q.shape)
            np.copyto(y, q)
            if self.zero:
                y -= real(self.zero)
            y *= step[rows]
            y += base[rows]
            if len(memory):
                out[places] = flat
        return out

    def _dtype(self) -> Any:
        """The dtype to compute in: float32, which is twice as fast, or float64 where it is needed.

        Float32 has 24 significant bits: 8 for the symbol and 16 for its dither. It cannot hold the
        reciprocal of a denormal number or the difference of the largest numbers.
        """
        steps = self.step[self.step > 0]
        plain = not len(steps) or 1e-30 < steps.min() <= steps.max() < 1e30
        return np.float32 if plain and self.num_levels <= 256 else np.float64


class Quantizer(Stage):
    """The common part of all stages that make symbols: the loop over the entries, and checks."""

    what: ClassVar[str]  # the name of the side information
    dtype: ClassVar[torch.dtype] = torch.float32  # and its dtype
    bits: int
    leaves_floats = False

    @property
    def num_levels(self) -> int:
        """How many symbols there are: 2^bits, unless a subclass overrides it."""
        return 1 << self.bits

    def _quantize(self, values: Array, shape: torch.Size, draw: Draw | None) -> tuple[Array, Array]:
        """Symbols [n] of float32 values [n], n > 0, and side information."""
        raise NotImplementedError

    def _restore(self, symbols: Array, shape: torch.Size, info: Array) -> Array:
        """Float32 values [n]; symbols are in range and floats in ``info`` are finite."""
        raise NotImplementedError

    def _start_message(self) -> Draw | None:
        """The source of this message's random numbers, if the stage needs any."""
        return None

    def apply(self, parts: Parts) -> Parts:
        """Each float32 entry becomes `Symbols` of its shape."""
        out, draw = dict(parts), self._start_message()
        for name, tensor in floats(parts).items():
            values = tensor.detach().contiguous().numpy(force=True).reshape(-1)
            symbols, info = self._quantize(values, tensor.shape, draw)
            out[name] = Symbols(torch.from_numpy(symbols).reshape(tensor.shape), self.num_levels)
            out[side(name, self.what)] = torch.from_numpy(info)
        return out

    def undo(self, parts: Parts) -> Parts:
        """Each entry with this stage's side information becomes float32 again."""
        out = dict(parts)
        for name in with_side(parts, self.what):
            symbols = take_symbols(out, name, self.num_levels)
            info = take_side(out, name, self.what, self.dtype, shape=None)
            flat = symbols.contiguous().numpy(force=True).reshape(-1)
            try:
                values = self._restore(flat, symbols.shape, info.numpy(force=True))
            except WireError as error:
                raise WireError(f"entry {name!r}: {error}") from None
            out[name] = torch.from_numpy(values).reshape(symbols.shape)
        return out


class RandomQuantizer(RandomStage, Quantizer):
    """The common part of quantizers with random rounding: a new generator for each message."""

    def _start_message(self) -> Draw | None:
        """Make the function that draws u for rounding.

        Drawing random bits takes long, so 16 of them serve two values, half a chunk apart: as u for
        one value and as 1 - u for the other. Each value on its own is rounded as with a number of
        its own, and the error of a sum of values can only become smaller (antithetic variates).
        """
        generator, memory = np.random.SFC64(self.draw_key()), np.empty(CHUNK, np.float32)

        def draw(n: int) -> Array:
            half = -(-n // 2)
            bits = generator.random_raw(-(-half // 4)).view(np.uint16)[:half]  # 4 in each 64 bits
            np.multiply(bits, np.float32(1 / DITHER), out=memory[:half])
            np.subtract(np.float32(1 - 1 / DITHER), memory[: n - half], out=memory[half:n])
            return memory[:n]

        return draw


@dataclass
class PlainQuantize(Stage):
    """`Quantize(bits)` as its formula: each can decode the other one's messages.

    >>> from fltoolkit.codecs import Pipeline
    >>> codec, tree = Pipeline(PlainQuantize(2)), {"w": torch.tensor([0.0, 1.1, 3.0])}
    >>> codec.decode(Pipeline(Quantize(2)).encode(tree))
    {'w': tensor([0., 1., 3.])}
    """

    bits: int  # 1 to 16
    leaves_floats = False

    def __post_init__(self) -> None:
        check_number("bits", self.bits, 1, 16)

    def apply(self, parts: Parts) -> Parts:
        """Each value becomes the number q of its nearest level; low and high are sent as well."""
        out = dict(parts)
        for name, x in floats(parts).items():
            low, high = x.double().aminmax()
            step = (high - low) / (2**self.bits - 1) or 1.0
            q = ((x.double() - low) / step).round()
            out[name] = Symbols.of(q, 2**self.bits)
            out[side(name, "r")] = torch.stack([low, high]).float()[None]
        return out

    def undo(self, parts: Parts) -> Parts:
        """Each q becomes low + q * step."""
        out = dict(parts)
        for name in with_side(parts, "r"):
            q = take_symbols(out, name, 2**self.bits)
            low, high = take_side(out, name, "r", shape=(1, 2))[0].double()
            out[name] = (low + q.double() * (high - low) / (2**self.bits - 1)).float()
        return out


@dataclass
class Quantize(RandomQuantizer):
    """Evenly spaced levels from the smallest to the largest value: x becomes lo + q * step.

    step = (hi - lo) / (2^bits - 1). The error is at most step / 2 (nearest rounding) or below step
    (stochastic rounding, which is unbiased), plus the rounding error of float32 numbers as large as
    lo and hi. A constant tensor arrives exactly. lo and hi are sent as two float32 numbers: for
    each tensor (``per="tensor"``), each index of the first dimension (``per="channel"``, for two
    and more dimensions) or each block of so many values of the flattened tensor: ``per=4096`` takes
    0.016 bits a value and is needed where one vector holds a whole network, whose layers differ.

    >>> parts = Quantize(2).apply({"w": torch.tensor([0.0, 1.1, 3.0])})
    >>> parts["w"].values, Quantize(2).undo(parts)["w"]
    (tensor([0, 1, 3], dtype=torch.uint8), tensor([0., 1., 3.]))
    """

    bits: int  # 1 to 16; smaller = more compression
    stochastic: bool = False
    seed: int = 0
    per: str | int = "tensor"

    what = "r"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("bits", self.bits, 1, 16)
        if self.per not in ("tensor", "channel"):
            check_number("per ('tensor', 'channel' or a block size)", self.per, 2)

    def _start_message(self) -> Draw | None:
        return super()._start_message() if self.stochastic else None

    def _width(self, shape: torch.Size) -> int:
        n = shape.numel()
        if isinstance(self.per, int):
            return min(self.per, n)
        return n // shape[0] if self.per == "channel" and len(shape) > 1 else n

    def _grid(self, ranges: Array, width: int) -> Levels:
        lo, hi = ranges.astype(np.float64).T
        return Levels(lo, (hi - lo) / (self.num_levels - 1), width, self.num_levels)

    def _quantize(self, values: Array, shape: torch.Size, draw: Draw | None) -> tuple[Array, Array]:
        width = self._width(shape)
        ranges = self._ranges(values, width)
        return self._grid(ranges, width).symbols(values, draw), ranges

    def _ranges(self, values: Array, width: int) -> Array:
        """The smallest and the largest value of each row, float32 [rows, 2]."""
        if width == len(values):  # torch finds both in one pass
            return np.array([[*torch.aminmax(torch.from_numpy(values))]], np.float32)
        ranges = np.full((-(-len(values) // width), 2), [np.inf, -np.inf], np.float32)
        for rows, places in chunks(len(values), width):
            x, (lo, hi) = values[places].reshape(rows.stop - rows.start, -1), ranges[rows].T
            if width <= 64:  # numpy is slow along short rows, and fast along their columns
                x = np.asfortranarray(x)
            np.minimum(lo, x.min(axis=1), out=lo)
            np.maximum(hi, x.max(axis=1), out=hi)
        return ranges

    def _restore(self, symbols: Array, shape: torch.Size, info: Array) -> Array:
        width = self._width(shape)
        expect(info, (-(-len(symbols) // width), 2))
        if not (info[:, 0] <= info[:, 1]).all():
            raise WireError("expected ranges from low to high")
        return self._grid(info, width).values(symbols)


def expect(info: Array, shape: tuple[int, ...], low: float = -np.inf) -> None:
    """Raise WireError if received side information has another shape or values below ``low``."""
    if info.shape != shape or (info < low).any():
        raise WireError(f"expected side information {shape}, {low} or more, found {info.shape}")
