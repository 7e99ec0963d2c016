"""Grids of pairs behind a rotation, beside NF4."""

import math
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from experiments.audit import rule
from experiments.audit.claim import Claim, Finding, Runs, Values, judged, spread
from fltoolkit.codecs import Pipeline, stage
from fltoolkit_research.codecs import EDEN, ContextEntropy, Rotate

BLOCK = 64  # values that share a scale of NF4, in float32
OTHERS = {
    "EDEN": Pipeline(EDEN(4, unbiased=False)),
    "EDEN, coded": Pipeline(EDEN(4, unbiased=False), ContextEntropy()),
}


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
class Pairs(stage.Stage):
    """Each pair of values becomes one of 4^bits points, written as two symbols of ``bits`` bits.

    A point takes as many bits as the two values would, so an entry keeps its shape; its values are
    even in number.
    """

    bits: int
    leaves_floats = False

    def apply(self, parts: stage.Parts) -> stage.Parts:
        """Symbols, and the root of the mean square."""
        out = dict(parts)
        for name, tensor in stage.floats(parts).items():
            flat, scale = tensor.reshape(-1), tensor.square().mean().sqrt()
            point = nearest(flat.view(-1, 2) / scale.clamp(min=1e-30), normal_grid(self.bits))
            both = torch.stack([point >> self.bits, point & (1 << self.bits) - 1], 1)
            symbols = both.to(torch.uint8).view(tensor.shape)
            out[name], out[stage.side(name, "p")] = stage.Symbols(symbols, 1 << self.bits), scale
        return out

    def undo(self, parts: stage.Parts) -> stage.Parts:
        """The points of the grid."""
        out = dict(parts)
        for name in stage.with_side(parts, "p"):
            symbols = stage.take_symbols(out, name, 1 << self.bits)
            flat = symbols.reshape(-1).long()
            point = (flat[::2] << self.bits) + flat[1::2]
            values = normal_grid(self.bits)[point].view(symbols.shape)
            out[name] = values * stage.take_side(out, name, "p")
        return out


def nf4(values: Tensor) -> Tensor:
    """The values after NF4: 16 quantiles of normal values (Dettmers et al. 2023, 2305.14314)."""
    offset, normal = 0.9677083, torch.distributions.Normal(0.0, 1.0)
    above = normal.icdf(torch.linspace(offset, 0.5, 9)[:-1])
    below = -normal.icdf(torch.linspace(offset, 0.5, 8)[:-1])
    levels = torch.cat([below, torch.zeros(1), above]).sort().values
    levels = levels / levels.abs().max()
    blocks = values.view(-1, BLOCK)
    scales = blocks.abs().amax(1, keepdim=True)
    nearest = (blocks / scales)[..., None].sub(levels).abs().argmin(-1)
    return (levels[nearest] * scales).view(-1)


def measure(seed: int, quick: bool) -> Values:
    """Bits per value and the squared error over the values' own square."""
    drawn = torch.randn(200_000, generator=torch.Generator().manual_seed(seed))
    values = drawn[: 2_048 if quick else 199_680]  # whole blocks
    power, found = values.square().mean(), {"NF4, bits": 4 + 32 / BLOCK}
    found["NF4"] = float((nf4(values) - values).square().mean() / power)
    for name, codec in {"pairs": Pipeline(Rotate(), Pairs(2 if quick else 4)), **OTHERS}.items():
        message = codec.encode({"w": values})
        error = (codec.decode(message)["w"] - values).square().mean() / power
        found |= {name: float(error), f"{name}, bits": 8 * len(message) / len(values)}
    return found


def judge(runs: Runs) -> Finding:
    """A smaller error than NF4's, in no more bits."""
    error = {name: runs.all("errors", name) for name in ("pairs", "NF4", *OTHERS)}
    bits = {name: runs.all("errors", f"{name}, bits") for name in error}
    listed = ", ".join(f"{n} {spread(error[n], '.4f')} in {spread(bits[n])}" for n in error)
    less = [a - b for a, b in zip(error["pairs"], error["NF4"], strict=True)]
    fewer = [a - b for a, b in zip(bits["pairs"], bits["NF4"], strict=True)]
    words = (
        f"Squared error over the values' own square, and bits per value: {listed}. NF4 is without "
        "its second quantization of scales."
    )
    return Finding(judged(rule.every(rule.at_most(less, 0), rule.at_most(fewer, 0))), words)


CLAIM = Claim(
    title="HIGGS: rotation and grids of least error are better than NF4",
    group="codecs",
    source="Malinovskii et al. 2024, arXiv 2411.17525, abstract",
    quote="a simple data-free LLM quantization method using Hadamard rotations and MSE-optimal "
    "grids, dubbed HIGGS, which outperforms all prior data-free approaches such as the extremely "
    "popular NF4 quantized format",
    ours="The squared error of 199,680 normal values in 4 bits, two at a time. The paper counts "
    "the perplexity of language models.",
    judge=judge,
    measures={"errors": measure},
    seeds=range(10, 15),
)
