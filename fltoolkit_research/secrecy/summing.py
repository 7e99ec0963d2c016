"""Codecs whose messages can be added before they are decoded, so that a mask can hide each of them.

Under a mask a message must be a vector of whole numbers, with one meaning for all clients. So a
codec may not depend on the range, the largest places or the frequencies of one client's values:

    SharedRotation  a rotation that all clients use; afterwards one range fits all values
    Grid            last: stochastic rounding to levels that all clients know; 1 bit is a vote

Stages one after the other are a codec as any other, and can be used in a `Channel` in the clear:
``Pipeline(SharedRotation(), Grid(4, top=0.1))``. Not here: masks (parties.py, four_rounds.py).
"""

import copy
import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fltoolkit.codecs.base import Codec, walk
from fltoolkit.codecs.stage import (
    Parts,
    RandomStage,
    Stage,
    Symbols,
    floats,
    side,
    take_side,
    take_symbols,
    with_side,
)
from fltoolkit.trees import check_finite
from fltoolkit_research.codecs.rotate import SEED, Rotate
from fltoolkit_research.secrecy.keys import Integers


@dataclass
class SharedRotation(Rotate):
    """`Rotate` with signs that all clients know, so that rotated updates add up.

    The signs depend on ``seed`` and ``round_`` only, and nothing is sent. One range fits all
    values of a rotated vector x: they look like draws from N(0, 1) times |x| / sqrt(n).

    Source: Suresh et al. 2017, arXiv 1611.00429, section 3, where the rotation is shared.
    """

    seed: int = 0
    round_: int = 0

    sums = True

    def draw_key(self) -> np.random.SeedSequence:
        """The same key for every client, and for every message of a round."""
        return np.random.SeedSequence([self.seed, self.round_])

    def apply(self, parts: Parts) -> Parts:
        """Rotate; the seed of the signs stays at home, since all know it."""
        out = super().apply(parts)
        out.pop(SEED, None)
        return out

    def undo(self, parts: Parts) -> Parts:
        """Rotate back."""
        if not floats(parts):
            return parts
        seed = self.draw_key().generate_state(1).view(np.int32)
        return super().undo({**parts, SEED: torch.from_numpy(seed.reshape(()))})


@dataclass
class Grid(RandomStage):
    """Rounding to 2^bits evenly spaced levels from -top to top, which all clients know.

    Nothing but the symbols is sent, so the symbols of several clients add up. Stochastic rounding
    is unbiased; values beyond ``top`` are clipped. With ``bits=1, stochastic=False`` each client
    votes for a direction; the sign of the mean is that of the majority.

    Args:
        bits: 1 to 24, the precision of float32. In the clear, through `BitPack`, at most 16.
        top: the largest value. After `SharedRotation`, n values have the size |x| / sqrt(n), and
            three to four times this clips hardly any of them.
        stochastic: False rounds to the nearest level.
        seed: of the rounding, which differs from client to client.
    """

    bits: int  # larger = more precise
    top: float
    stochastic: bool = True
    seed: int = 0

    leaves_floats = False
    sums = True

    def __post_init__(self) -> None:
        if not (isinstance(self.bits, int) and 1 <= self.bits <= 24):
            raise ValueError(f"bits={self.bits}: must be 1 to 24 bits per value")
        if not 0 < self.top < math.inf:
            raise ValueError(f"top={self.top}: the largest value of the grid, above 0 and finite")

    @property
    def num_levels(self) -> int:
        """2^bits."""
        return 1 << self.bits

    def apply(self, parts: Parts) -> Parts:
        """Values become symbols; those beyond ``top`` become the last level."""
        out, last = dict(parts), self.num_levels - 1
        random = np.random.SFC64(self.draw_key())
        for name, x in floats(parts).items():
            check_finite(name, x)
            flat = x.detach().reshape(-1).numpy().astype(np.float64)
            places = (flat.clip(-self.top, self.top) + self.top) * (last / 2 / self.top)
            if self.stochastic:  # 53 random bits each
                places += (random.random_raw(len(flat)) >> np.uint64(11)) * 2.0**-53
            else:
                places += 0.5
            symbols = np.floor(places).clip(0, last)
            out[name] = Symbols.of(torch.from_numpy(symbols).view(x.shape), self.num_levels)
            out[side(name, "g")] = torch.zeros((), dtype=torch.uint8)
        return out

    def undo(self, parts: Parts) -> Parts:
        """The levels that symbols mean."""
        return self.undo_mean(parts, 1)

    def undo_mean(self, parts: Parts, count: int) -> Parts:
        """The mean of ``count`` clients, whose symbols were added."""
        out, last = dict(parts), self.num_levels - 1
        for name in with_side(parts, "g"):
            take_side(out, name, "g", torch.uint8)
            total = take_symbols(out, name, count * last + 1).double()
            out[name] = (total * (2 * self.top / last / count) - self.top).float()
        return out


def bits_of_sum(num_clients: int, num_levels: int) -> int:
    """b: with so many bits, the sum of one symbol of each client never wraps around modulo 2^b.

    It is the symbols' own bits and about log2 of the number of clients.

    >>> bits_of_sum(100, num_levels=4), bits_of_sum(10, num_levels=256)
    (9, 12)
    """
    return (num_clients * (num_levels - 1)).bit_length()


class Summed:
    """A vector on its way through a codec that can sum: from values to whole numbers and back.

    Args:
        codec: a pipeline whose messages can be added; see `check_can_sum`.
        num_values: the length of the vectors.
        round_: the round, from which all clients draw the same signs; a stage with the attribute
            ``round_`` gets it.

    Raises ValueError for a codec that cannot sum; the text gives the reason.
    """

    def __init__(self, codec: Codec, num_values: int, round_: int):
        check_can_sum(codec)
        self._stages = [copy.copy(stage) for stage in walk(codec) if isinstance(stage, Stage)]
        for stage in self._stages:
            if hasattr(stage, "round_"):
                stage.round_ = round_
        self._known, symbols = self._apply(torch.zeros(num_values, dtype=torch.float32), salt=0)
        self.num_levels = symbols.num_levels
        self.num_numbers = symbols.values.numel()

    def numbers(self, vector: Tensor, salt: int) -> Integers:
        """One client's symbols; its rounding is drawn from ``salt``."""
        return self._apply(vector, salt)[1].values.reshape(-1).numpy().astype(np.uint64)

    def mean(self, total: Integers, count: int) -> Tensor:
        """The mean of ``count`` clients, from the sum of their symbols."""
        values = torch.from_numpy(total.astype(np.int64))
        parts = {**self._known, "x": Symbols(values, count * (self.num_levels - 1) + 1)}
        for stage in reversed(self._stages):
            parts = stage.undo_mean(parts, count) if isinstance(stage, Grid) else stage.undo(parts)
        mean = parts["x"]
        assert isinstance(mean, Tensor)
        return mean

    def _apply(self, vector: Tensor, salt: int) -> tuple[Parts, Symbols]:
        parts: Parts = {"x": vector}
        for number, stage in enumerate(self._stages):
            own = copy.copy(stage)
            own.start_link(salt + number)
            parts = own.apply(parts)
        symbols = parts["x"]
        assert isinstance(symbols, Symbols)
        return {name: part for name, part in parts.items() if name != "x"}, symbols


def check_can_sum(codec: Codec) -> None:
    """Raise ValueError for a codec whose messages cannot be added under a mask.

    All stages must have ``sums = True``: each sender uses the same levels and the same places, and
    no coder follows. The last one is a `Grid`.
    """
    _, *stages = walk(codec)
    wrong = [repr(stage) for stage in stages if not getattr(stage, "sums", False)]
    if not wrong and any(isinstance(stage, Grid) for stage in stages):
        return
    wrong = wrong or [repr(codec)]
    raise ValueError(
        f"{codec!r} cannot be summed under a mask, because of {wrong[0]}: what it sends depends on "
        "one client's values alone, or does not end in whole numbers. Use stages with sums = True, "
        "and a Grid at the end: Pipeline(SharedRotation(), Grid(4, top=0.1))"
    )
