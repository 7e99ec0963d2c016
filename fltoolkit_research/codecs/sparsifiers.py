"""Relatives of `fltoolkit.codecs.TopK`: other places, other values there.

Here: `RandomK`, `RandTopK` and `STC`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fltoolkit.arrays import Array
from fltoolkit.codecs.places import PLACES, Shape, flat, shapes_behind, sparsify, take
from fltoolkit.codecs.quantize import FLOAT32_MAX
from fltoolkit.codecs.sparse import Sparse, TopK, num_kept
from fltoolkit.codecs.stage import (
    Indices,
    Parts,
    RandomStage,
    Symbols,
    floats,
    side,
    take_side,
    with_side,
)
from fltoolkit.wire import WireError, check_num_values

SEED, MEAN = "?|"  # names of side information: of RandomK and of STC


class _Random(RandomStage, Sparse):
    """The common part of the stages that draw places."""

    def __post_init__(self) -> None:
        RandomStage.__post_init__(self)
        Sparse.__post_init__(self)

    def _draw(self) -> int:
        """A random seed for the next message of this link, below 2**32."""
        return int(self.draw_key().generate_state(1)[0])


@dataclass
class RandomK(_Random):
    """Keep k values at random places of the whole tree. Their places cost 4 bytes: a seed.

    With ``unbiased=True`` the kept values are multiplied by n/k, so that the mean over many draws
    is the tree. `ErrorFeedback` and `masked_mean` need ``unbiased=False``.

    Source: Konečný et al. 2016, arXiv 1610.05492, "random mask"; Stich et al. 2018, arXiv
    1809.07599.

    >>> from fltoolkit.codecs import Pipeline
    >>> codec = Pipeline(RandomK(0.5))
    >>> [codec.decode(codec.encode({"w": torch.ones(4)}))["w"].tolist() for _ in range(2)]
    [[2.0, 2.0, 0.0, 0.0], [2.0, 0.0, 2.0, 0.0]]
    """

    fraction: float  # larger = less compression
    seed: int = 0
    unbiased: bool = True

    def apply(self, parts: Parts) -> Parts:
        """Return values, layout, and the seed from which the places are drawn."""
        seed = self._draw()

        def choose(tensors: list[Tensor], n: int) -> tuple[Array, Array]:
            places = random_places(seed, n, num_kept(self.fraction, n))
            return places, take(tensors, places)

        out = sparsify(parts, "model", choose)
        for name, values in floats(out).items():
            places = out.pop(side(name, PLACES))
            out[side(name, SEED)] = torch.from_numpy(np.array(seed, np.uint32).view(np.int32))
            if self.unbiased and isinstance(places, Indices):
                scaled = values * (places.size / values.numel())
                out[name] = scaled.clamp(-FLOAT32_MAX, FLOAT32_MAX)  # finite, though biased there
        return out

    def _restore(self, parts: Parts) -> Parts:
        """Draw the places again, from the seed in the message."""
        out = dict(parts)
        for name in with_side(parts, SEED):
            seed, values = take_side(out, name, SEED, torch.int32), parts[name]
            n = sum(map(math.prod, shapes_behind(parts, "model", name).values()))
            check_num_values(n)
            k = num_kept(self.fraction, n)
            if not isinstance(values, Tensor) or values.numel() != k:  # before memory is allocated
                raise WireError(f"entry {name!r}: expected {k} values, this codec's share of {n}")
            places = random_places(int(seed) & 0xFFFF_FFFF, n, k)
            out[side(name, PLACES)] = Indices(torch.from_numpy(places), n)
        return out


@dataclass
class RandTopK(_Random):
    """Randomized top-k of each row of activations: sometimes a smaller value is sent instead.

    Of each row (last dimension, d values), k = round(fraction * d) values are kept, and at least 1.
    They are picked one by one: with probability 1 - alpha one of the row's top k, otherwise one of
    the others, none twice. While ``training`` is False, this is plain top-k of each row; the
    receiver decodes both in the same way.

    In the paper the gradient comes back at the same places: see `SameMask`.

    Source: Zheng et al. 2023, arXiv 2305.18469.
    """

    fraction: float  # larger = less compression
    alpha: float = 0.1  # 0.05 to 0.3 in the paper; 0 is plain top-k
    seed: int = 0
    training: bool = True

    scope = "tensor"

    def apply(self, parts: Parts) -> Parts:
        """Return values, places and layout."""
        random = np.random.Generator(np.random.SFC64(self._draw())) if self.training else None
        return sparsify(parts, "tensor", lambda tensors, n: self._choose(tensors, random))

    def _allowed(self, shapes: Sequence[Shape]) -> set[int]:
        (shape,) = shapes
        d = shape[-1] if shape else 1
        return {math.prod(shape) // d * num_kept(self.fraction, d)}

    def _choose(
        self, tensors: list[Tensor], random: np.random.Generator | None
    ) -> tuple[Array, Array]:
        (tensor,) = tensors
        d = tensor.shape[-1] if tensor.dim() else 1
        k = num_kept(self.fraction, d)
        chosen, rest = largest_in_rows(tensor, k)
        if random is not None and k < d:
            # first the number of picks from the rest, then which: the same as picking one by one
            num_rest = random.binomial(k, self.alpha, size=len(chosen))
            chosen, rest = random.permuted(chosen, axis=1), random.permuted(rest, axis=1)
            width = min(k, d - k)
            swapped = np.arange(width) < num_rest[:, None]
            chosen[:, :width][swapped] = rest[:, :width][swapped]
        places = (np.sort(chosen, axis=1) + d * np.arange(len(chosen))[:, None]).reshape(-1)
        return places, take(tensors, places)


@dataclass
class STC(Sparse):
    """Sparse ternary compression: the signs of the whole tree's top k, and one magnitude for all.

    Each kept value is replaced by its sign times the mean magnitude of the kept values. It costs 1
    bit, plus its place. If fewer than k values are nonzero, some of the kept values are zeros: they
    stay zeros (a third symbol), and the mean is that of the others. Wrap the pipeline in
    `ErrorFeedback`.

    Source: Sattler et al. 2019, arXiv 1903.02891, algorithm 1.

    >>> from fltoolkit.codecs import Pipeline
    >>> codec = Pipeline(STC(0.5))
    >>> codec.decode(codec.encode({"w": torch.tensor([4.0, 0.1, -2.0, 0.0])}))
    {'w': tensor([ 3.,  0., -3.,  0.])}
    """

    fraction: float  # larger = less compression

    leaves_floats = False

    def apply(self, parts: Parts) -> Parts:
        """Return the signs, their one magnitude, the places and the layout."""
        out = TopK(self.fraction).apply(parts)
        for name, values in floats(out).items():
            num_nonzero = int(values.count_nonzero())
            mean = values.abs().sum(dtype=torch.float64) / max(num_nonzero, 1)
            ternary = num_nonzero < values.numel()
            signs = values.sign() + 1 if ternary else values > 0
            out[name] = Symbols(signs.byte(), 3 if ternary else 2)
            out[side(name, MEAN)] = mean.float()
        return out

    def _restore(self, parts: Parts) -> Parts:
        """Turn signs into values."""
        out = dict(parts)
        for name in with_side(parts, MEAN):
            mean, signs = take_side(out, name, MEAN), parts[name]
            if mean < 0:
                raise WireError(f"entry {name!r}: expected a magnitude of 0 or more, found {mean}")
            if not isinstance(signs, Symbols) or signs.num_levels not in (2, 3):
                raise WireError(f"entry {name!r}: expected 2 or 3 kinds of signs")
            step = 1 if signs.num_levels == 3 else 2
            out[name] = (signs.values.float() * step - 1) * mean
        return out


def largest_in_rows(tensor: Tensor, k: int) -> tuple[Array, Array]:
    """For each row: the columns of the k largest magnitudes, and all other columns; both sorted.

    A row is the last dimension. Of values with equal magnitude, the first ones are taken.
    """
    d = tensor.shape[-1] if tensor.dim() else 1
    magnitudes = (flat(tensor).view(np.int32) & 0x7FFF_FFFF).reshape(-1, d).astype(np.int64)
    ranks = (magnitudes << 32) - np.arange(d)  # no two are equal: the first value ranks higher
    order = np.argpartition(ranks, d - k, axis=1)
    return np.sort(order[:, d - k :], axis=1), np.sort(order[:, : d - k], axis=1)


def random_places(seed: int, n: int, k: int) -> Array:
    """k random places of n, in ascending order. Each set of k places is equally likely.

    Places are drawn with replacement until k different ones are found. If n - k is smaller than k,
    the n - k places that are left out are drawn instead. The numbers are made from raw bits, which
    numpy promises to keep the same in later versions.
    """
    bits = np.random.SFC64(seed)
    wanted = min(k, n - k)
    drawn = np.zeros(n, bool)
    while missing := wanted - np.count_nonzero(drawn):
        unit = (bits.random_raw(missing) >> np.uint64(12)) * 2.0**-52
        drawn[(unit * n).astype(np.int64)] = True
    return np.flatnonzero(drawn if wanted == k else ~drawn)
