"""Clipping and noise on the average, so that it says little about any single client: DP-FedAvg.

It is a simulation in one process, to study how much accuracy privacy costs. It guarantees nothing
for real data: see `GaussianDP`.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from fltoolkit.federated.clock import ReceivedUpdate
from fltoolkit.federated.means import deltas
from fltoolkit.trees import Tree, weighted_mean


def clipped(tree: Tree, clip: float) -> Tree:
    """The tree, shortened to the length ``clip`` if it is longer (Euclidean, all float entries)."""
    norms = [t.double().norm() for t in tree.values() if t.is_floating_point()]
    norm = math.hypot(*(float(n) for n in norms))
    if norm <= clip:
        return dict(tree)
    factor = clip / norm
    return {name: t * factor if t.is_floating_point() else t for name, t in tree.items()}


@dataclass(frozen=True)
class GaussianDP:
    """The mean of clipped updates plus Gaussian noise: ``Server(mean=GaussianDP(...))``.

    ``(sum_k clipped(delta_k) + N(0, (noise_multiplier * clip)^2)) / m`` for m updates. All updates
    have the same weight, because otherwise one client could change the mean by more than ``clip /
    m``. Source: McMahan et al. 2018, arXiv 1710.06963, algorithm 1, with equal weights.

    The server clips the decoded updates, so the bound holds for all codecs. Before you publish an
    epsilon: the server sees each update (central privacy); m is assumed to be public; `epsilon` is
    for clients that take part independently, not for cohorts of a fixed size; integer buffers get
    no noise; and anyone who knows ``seed`` can subtract it.
    """

    counts_each_once = True  # updates need equal weights, see `fedavg`

    clip: float  # larger = updates are shortened less, and more noise is added
    noise_multiplier: float  # larger = more private
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.clip < math.inf:
            raise ValueError(f"clip={self.clip}: the longest update, above 0 and finite")
        if not 0 <= self.noise_multiplier < math.inf:
            raise ValueError(f"noise_multiplier={self.noise_multiplier}: must be 0 or more, finite")

    def __call__(self, received: Sequence[ReceivedUpdate]) -> Tree:
        """The noisy mean of a round's updates; sample counts play no part."""
        return self.mean(deltas(received), received[0].round_)

    def mean(self, updates: Sequence[Tree], round_: int) -> Tree:
        """The noisy mean; the noise is a function of seed and round."""
        mean = weighted_mean([clipped(delta, self.clip) for delta in updates], [1.0] * len(updates))
        random = np.random.default_rng([self.seed, round_])
        sigma = self.noise_multiplier * self.clip / len(updates)
        return {
            name: t + sigma * torch.from_numpy(random.standard_normal(t.shape)).to(t)
            if t.is_floating_point()
            else t
            for name, t in mean.items()
        }

    def epsilon(self, *, rounds: int, fraction: float, delta: float) -> float:
        """Epsilon at this delta after so many rounds with a ``fraction`` q of all clients in each.

        It is computed with Google's dp-accounting: Renyi accounting of the Poisson-subsampled
        Gaussian mechanism.
        """
        if not self.noise_multiplier:
            return math.inf

        def one_round(events: Any) -> Any:
            noise = events.GaussianDpEvent(self.noise_multiplier)
            return events.PoissonSampledDpEvent(fraction, noise)

        return renyi_epsilon(one_round, rounds, delta)


def renyi_epsilon(one_round: Callable[[Any], Any], rounds: int, delta: float) -> float:
    """Epsilon by Google's dp-accounting; ``one_round(dp_accounting)`` is the event of a round."""
    try:
        import dp_accounting
        from dp_accounting.rdp import RdpAccountant
    except ImportError as error:
        wanted = "dp-accounting>=0.5.1"
        raise ImportError(f"epsilon needs {wanted}: pip install '{wanted}'") from error
    return float(RdpAccountant().compose(one_round(dp_accounting), rounds).get_epsilon(delta))
