"""PowerSGD whose rank follows the entropy of the gradient over windows of messages, and its nulls.

Here: `EntropySchedule`, after EDGC (Yi, Duan et al. 2025, arXiv 2511.10333), and `FixedSchedule`,
ranks by a list, such as the same ones in another order. Not here: the low rank itself (lowrank.py).

The paper's: the entropy is estimated from a sample of the values at some of the steps; a model of
random matrices turns a change of entropy into another rank with the same error; the rank changes
between windows, after a warm-up; PowerSGD. What we read of the paper is its abstract and summaries
of its body, from which the formulas are derived. Ours: each directed link decides for itself, and
its messages tell the rank; the whole model is one stage, while the paper has a rank for each stage
of a pipeline; the warm-up has the first rank, while the paper compresses nothing there; and
``scale``, without which our ranks would jump between the least and the most.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from experiments.replications.lowrank import PowerSGD, _sides
from fltoolkit.codecs import ErrorFeedback, Pipeline, Quantize
from fltoolkit.trees import Tree, check_finite

SAMPLED = 4  # one value of so many (the paper's gradient sampling rate is its inverse)
EVERY = 5  # one message of so many (the inverse of its iteration sampling rate)
BINS, WIDEST = 512, 8.0  # of the histogram, in standard deviations to each side


def entropy(tensors: Iterable[Tensor]) -> float:
    """Differential entropy in nats of the values of all tensors, by a histogram; -inf if all equal.

    Normal values with deviation sigma have ``ln(sigma) + ln(2 pi e) / 2``.

    >>> entropy([torch.tensor([0.0, 0.0])])
    -inf
    """
    values = torch.cat([tensor.detach().flatten() for tensor in tensors]).double()
    deviation = float(values.std(correction=0))
    if deviation == 0:
        return -math.inf
    counts = torch.histc((values / deviation).clamp(-WIDEST, WIDEST), BINS, -WIDEST, WIDEST)
    share = counts[counts > 0] / len(values)
    return math.log(deviation) - float(share @ (share * BINS / (2 * WIDEST)).log())


@lru_cache(maxsize=16)
def left_out(m: int, n: int) -> list[float]:
    """Which share of its sum of squares a random matrix [m, n] loses at rank 0, 1, ..., min(m, n).

    The paper's g(r; m, n), drawn once: its squares of singular values are nearly those of the
    Marchenko-Pastur law.
    """
    drawn = torch.randn(m, n, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    squares = torch.linalg.svdvals(drawn).square().flip(0).cumsum(0).flip(0)
    return [*(squares / squares[0]).tolist(), 0.0]


def rank_for(left: Sequence[float], rank: int, rise: float) -> int:
    """The smallest rank whose error is at most that of ``rank`` before the entropy rose.

    Squares grow by ``exp(2 * rise)``, so the share that may be left out shrinks by as much.

    >>> [rank_for([1.0, 0.6, 0.3, 0.1, 0.0], 2, rise) for rise in (-1.0, -0.4, 0.0, 0.5, 1.0)]
    [0, 1, 2, 3, 4]
    """
    allowed = left[min(rank, len(left) - 1)] * math.exp(-2 * rise)
    return next(r for r, share in enumerate(left) if share <= allowed)


class AnyRank(PowerSGD):
    """`PowerSGD` whose rank may change from message to message: the shape of P and Q tells it."""

    def _sent_rank(self, part: Tensor) -> int:
        return len(part) if part.dim() else self.rank

    def _start(self, name: str, n: int) -> Tensor:
        """The first rows of the warm start, and zeros, which become random, for further ones."""
        warm, start = self.warm.get(name, torch.zeros(0, n)), torch.zeros(self.rank, n)
        start[: len(warm)] = warm[: self.rank]
        return start.double()


class FixedSchedule(ErrorFeedback):
    """Error feedback around `AnyRank` and 8 bits: ``ranks[k]`` in the k-th window of messages.

    After the last window its rank stays.

    >>> codec, tree = FixedSchedule((2, 1), window=1), {"w": torch.ones(40, 60)}
    >>> [len(codec.encode(tree)) for _ in range(3)]  # P and Q have 200 values, then 100
    [244, 143, 143]
    """

    def __init__(self, ranks: Sequence[int], window: int = 30):
        self.low_rank = AnyRank(min(ranks))
        super().__init__(Pipeline(self.low_rank, Quantize(8)))
        if window < 1:
            raise ValueError(f"window={window}: so many messages have the same rank, 1 or more")
        self.ranks, self.window, self.messages = tuple(ranks), window, 0

    def encode(self, tree: Tree) -> bytes:
        """A message of the rank that is due."""
        self.low_rank.rank = self.due(tree)
        message = super().encode(tree)
        self.messages += 1
        return message

    def due(self, tree: Tree) -> int:
        """The rank of the next message."""
        return self.ranks[min(self.messages // self.window, len(self.ranks) - 1)]

    def start_link(self, salt: int) -> None:
        self.messages = 0
        super().start_link(salt)

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "messages": self.messages}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.messages = state["messages"]
        super().load_state_dict(state)

    def __repr__(self) -> str:
        return f"FixedSchedule({self.ranks}, window={self.window})"


class EntropySchedule(FixedSchedule):
    """The rank of each window is that whose error would be the first one's, by entropy.

    The entropy is that of the matrices before error feedback, its mean over a window. The first
    ``warm_up`` windows have ``rank``, and the last of them is what later ones are compared with.
    ``scale`` multiplies the rise of the entropy (the paper's rule has 1), and ranks stay between 1
    and ``most``.
    """

    sampled: list[float]  # the entropies of this window
    means: list[float]  # of the windows before

    def __init__(self, rank: int, scale: float, most: int, window: int = 30, warm_up: int = 2):
        super().__init__((rank,), window)
        if not (1 <= rank <= most and warm_up >= 1 and scale > 0):
            raise ValueError(
                f"rank={rank}, most={most}, warm_up={warm_up}, scale={scale}: give a rank from 1 "
                "to most, one window of warm-up or more, and a scale above 0"
            )
        self.rank, self.scale, self.most, self.warm_up = rank, scale, most, warm_up
        self.start_link(0)

    def due(self, tree: Tree) -> int:
        """At the end of a window choose the rank of the next one; measure now and then."""
        matrices = {
            n: t for n, t in tree.items() if t.is_floating_point() and t.dim() > 1 and t.numel()
        }
        done, since = divmod(self.messages, self.window)
        if matrices and done >= self.warm_up and since == 0:
            before, now = self.means[min(self.warm_up, len(self.means)) - 1], self.means[-1]
            rise = self.scale * (now - before) if math.isfinite(now - before) else 0.0
            m, n = _sides(max(matrices.values(), key=Tensor.numel).shape)
            self.chosen = min(max(rank_for(left_out(m, n), self.rank, rise), 1), self.most)
        if matrices and since % EVERY == 0:
            for name, tensor in matrices.items():
                check_finite(name, tensor)
            self.sampled.append(entropy(t.flatten()[::SAMPLED] for t in matrices.values()))
        if self.sampled and since == self.window - 1:
            self.means.append(sum(self.sampled) / len(self.sampled))
            self.sampled = []
        return self.chosen

    def start_link(self, salt: int) -> None:
        self.chosen = self.rank
        self.sampled, self.means = [], []
        super().start_link(salt)

    def state_dict(self) -> dict[str, Any]:
        mine = {"chosen": self.chosen, "sampled": [*self.sampled], "means": [*self.means]}
        return {**super().state_dict(), **mine}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.chosen = state["chosen"]
        self.sampled, self.means = [*state["sampled"]], [*state["means"]]
        super().load_state_dict(state)

    def __repr__(self) -> str:
        numbers = f"{self.rank}, {self.scale}, {self.most}"
        return f"EntropySchedule({numbers}, window={self.window}, warm_up={self.warm_up})"
