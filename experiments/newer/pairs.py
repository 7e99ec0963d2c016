"""Two values at a time: does a grid of pairs (HIGGS) beat what the package has, per bit?

    python -m experiments.newer.pairs            # measures and prints the table
    python -m experiments.newer.pairs --write    # writes it into docs/newer_methods.md

HIGGS (Malinovskii et al. 2024, arXiv 2411.17525) rotates with a Hadamard matrix, so that values
look normal, and replaces each pair of values with the nearest point of the grid of least error for
pairs of normal values. `Pairs` does the second part. It is not in the package: the page says why.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor, nn

from experiments.newer.report import command
from experiments.newer.setting import SEEDS
from experiments.tables import markdown
from fltoolkit.codecs import Codec, Pipeline, Quantize
from fltoolkit.codecs.stage import (
    Parts,
    Stage,
    Symbols,
    floats,
    side,
    take_side,
    take_symbols,
    with_side,
)
from fltoolkit_research.codecs import EDEN, ContextEntropy, LloydMax, Rotate
from fltoolkit_research.intervals import mean_ci
from fltoolkit_research.models import gpt

SIZE = 200_000


def nearest(pairs: Tensor, grid: Tensor) -> Tensor:
    """The number of the nearest grid point of each pair."""
    half = grid.square().sum(1) / 2
    return torch.cat([(half - some @ grid.T).argmin(1) for some in pairs.split(8192)])


@lru_cache(maxsize=4)
def normal_grid(bits: int) -> Tensor:
    """4^bits points of little error for pairs of normal values: Lloyd's method on 100,000 of them.

    The start is drawn from a wider normal distribution, whose density is that of the best points.
    """
    random = torch.Generator().manual_seed(0)
    pairs = torch.randn(100_000, 2, generator=random)
    grid = math.sqrt(2) * torch.randn(4**bits, 2, generator=random)
    for _ in range(50):
        own = nearest(pairs, grid)
        counts = torch.bincount(own, minlength=len(grid))[:, None]
        sums = torch.zeros_like(grid).index_add_(0, own, pairs)
        grid = torch.where(counts > 0, sums / counts.clamp(min=1), grid)
    return grid


@dataclass
class Pairs(Stage):
    """Each pair of values becomes one of 4^bits points, written as two symbols of ``bits`` bits.

    So an entry keeps its shape, and no stage has to make more values than it was given.
    """

    bits: int
    leaves_floats = False

    def apply(self, parts: Parts) -> Parts:
        """Symbols, and the root of the mean square."""
        out = dict(parts)
        for name, tensor in floats(parts).items():
            flat, scale = tensor.reshape(-1), tensor.square().mean().sqrt()
            if len(flat) % 2:
                flat = torch.cat([flat, flat.new_zeros(1)])
            point = nearest(flat.view(-1, 2) / scale.clamp(min=1e-30), normal_grid(self.bits))
            both = torch.stack([point >> self.bits, point & (1 << self.bits) - 1], 1)
            symbols = both.view(-1)[: tensor.numel()].to(torch.uint8).view(tensor.shape)
            out[name], out[side(name, "p")] = Symbols(symbols, 1 << self.bits), scale
        return out

    def undo(self, parts: Parts) -> Parts:
        """The points of the grid."""
        out = dict(parts)
        for name in with_side(parts, "p"):
            symbols = take_symbols(out, name, 1 << self.bits)
            flat = symbols.reshape(-1).long()
            if len(flat) % 2:  # the second half of the last point was cut off with its value
                flat = torch.cat([flat, flat.new_zeros(1)])
            point = (flat[::2] << self.bits) + flat[1::2]
            values = normal_grid(self.bits)[point].view(-1)[: symbols.numel()]
            out[name] = values.view(symbols.shape) * take_side(out, name, "p")
        return out


def codecs(bits: int) -> dict[str, Codec]:
    """What is compared at about so many bits per value."""
    return {
        f"pairs, {bits} bits": Pipeline(Rotate(), Pairs(bits)),
        f"pairs, {bits} bits, coded": Pipeline(Rotate(), Pairs(bits), ContextEntropy()),
        f"EDEN, {bits} bits": Pipeline(EDEN(bits, unbiased=False)),
        f"EDEN, {bits} bits, coded": Pipeline(EDEN(bits, unbiased=False), ContextEntropy()),
        f"Lloyd-Max, {bits} bits, coded": Pipeline(LloydMax(bits), ContextEntropy()),
        f"rotated, evenly spaced, {bits + 1} bits, coded": Pipeline(
            Rotate(), Quantize(bits + 1), ContextEntropy()
        ),
    }


def normal_values(seed: int) -> Tensor:
    """What rotated values look like."""
    return torch.randn(SIZE, generator=torch.Generator().manual_seed(seed))


def gradient(seed: int) -> Tensor:
    """The gradient of a small language model at its first weights, for random characters."""
    model, random = gpt(65, seed=seed), torch.Generator().manual_seed(seed)
    x = torch.randint(65, (16, 64), generator=random)
    nn.functional.nll_loss(model(x), x.roll(-1, 1)).backward()
    return torch.cat([p.grad.reshape(-1) for p in model.parameters() if p.grad is not None])


def weighed(codec: Codec, values: Tensor) -> tuple[float, float]:
    """Bits per value, and the squared error over the least that any code of so many bits makes.

    For normal values the least is 4^-bits of their variance (Shannon 1959).
    """
    message = codec.encode({"w": values})
    error = (codec.decode(message)["w"] - values).square().mean() / values.square().mean()
    bits = 8 * len(message) / len(values)
    return bits, float(error) * 4**bits


def table(seeds: Sequence[int] = SEEDS) -> str:
    """A row for each codec."""
    found = []
    for bits in (2, 3, 4):
        for name, codec in codecs(bits).items():
            cells = []
            for make in (normal_values, gradient):
                each = [weighed(codec, make(seed)) for seed in seeds]
                cells += [mean_ci([b for b, _ in each]), mean_ci([e for _, e in each])]
            found.append([name, *cells])
    return markdown(
        "code | bits per value, normal values | error over the least possible "
        "| bits per value, a gradient | error over that of normal values",
        found,
    )


if __name__ == "__main__":
    torch.set_num_threads(1)
    command("pairs", table, SEEDS)
