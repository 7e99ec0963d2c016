"""Noise that each client adds before a secure sum, so that nobody sees the sum without it.

Here: the distributed discrete Gaussian mechanism, and a clip that adapts.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fltoolkit.channel import Channel
from fltoolkit.codecs.stage import Parts
from fltoolkit.federated.workers import client_seed
from fltoolkit.trees import Tree, check_finite
from fltoolkit_research.federated.privacy import clipped, renyi_epsilon
from fltoolkit_research.secrecy.accounting import Promise
from fltoolkit_research.secrecy.four_rounds import Layout, Sum, plain_sum, secure_sum
from fltoolkit_research.secrecy.graph import graph_of
from fltoolkit_research.secrecy.keys import Integers
from fltoolkit_research.secrecy.summing import SharedRotation

BETA = math.exp(-0.5)  # in the bound on the length of rounded vectors
WIDTHS = 4.0  # standard deviations of the sum that fit into half of the modulus
BIT_SIZE = 0.2  # size of the number that says if an update was clipped, as a share of the clip


def discrete_gaussian(sigma: float, count: int, random: np.random.Generator) -> Integers:
    """``count`` whole numbers k with probabilities proportional to exp(-k^2 / (2 sigma^2)).

    From a table of the distribution in float64, out to twelve sigma. An exact sampler, which leaves
    no traces of rounding to an attacker, is Canonne, Kamath and Steinke 2020, arXiv 2004.00010,
    algorithm 3; this one is for measuring.

    >>> numbers = discrete_gaussian(3.0, 10_000, np.random.default_rng(0))
    >>> round(float(numbers.std()), 1), numbers.dtype
    (3.0, dtype('int64'))
    """
    levels, table = _distribution(sigma)
    return levels[np.searchsorted(table, random.random(count) * table[-1], side="right")]


@lru_cache(maxsize=1)  # all clients of a round have one sigma
def _distribution(sigma: float) -> tuple[Integers, NDArray[np.float64]]:
    half = math.ceil(12 * sigma)
    levels = np.arange(-half, half + 1)
    return levels, np.cumsum(np.exp(-(levels**2) / (2 * sigma**2)))


@dataclass
class NoisySum:
    """The noisy mean of updates by a secure sum: ``Server(mean=NoisySum(...))``.

    Each client clips its update, rotates it with signs that all share, rounds it stochastically to
    whole numbers and adds discrete Gaussian noise; the secure sum adds all modulo 2^bits. The noise
    of all clients together has the standard deviation ``noise_multiplier`` times the clip.

    Source: Kairouz, Liu and Steinke 2021, arXiv 2102.06387, algorithms 1 and 2; epsilon by theorem
    1. The clip adapts as in Andrew, Thakkar, McMahan and Ramaswamy 2021, arXiv 1905.03871,
    algorithm 1: each client adds whether its update was short enough, as one more number of the
    vector, under the same noise.

    Numbers are multiples of a step that is as fine as the modulus allows: ``2^bits`` steps are
    eight standard deviations of the sum. With few bits the rounding makes vectors longer, which
    costs epsilon or accuracy.

    An epsilon holds if ``num_clients`` are left in each round, since a client that drops out adds
    no noise; whoever knows the seed can subtract the noise.

    Args:
        clip: the longest update, to begin with. It moves if ``quantile`` is given: read ``clip``.
        noise_multiplier: of the sum. Larger: more private.
        bits: of the sum; a masked value takes as many, however many clients there are.
        quantile: None keeps the clip; otherwise the share of updates that should not be clipped.
        clip_rate: how fast the clip adapts (eta_C of the paper).
        secret: False adds the same whole numbers in the clear, in equal bits, to study accuracy.
        neighbours: see `SecureSum`.
        seed: of rotation, rounding and noise.

    >>> dp = NoisySum(clip=1.0, noise_multiplier=0.5, bits=16, secret=False)
    >>> updates = {f"client {k}": {"w": torch.tensor([0.6, -0.8])} for k in range(50)}
    >>> torch.round(dp.collect(Channel(), "server", updates, [])["w"], decimals=1)
    tensor([ 0.6000, -0.8000])
    """

    clip: float
    noise_multiplier: float
    bits: int = 16
    quantile: float | None = None
    clip_rate: float = 0.2
    secret: bool = True
    neighbours: int | None = None
    seed: int = 0
    round_: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        if not (self.clip > 0 and self.noise_multiplier > 0 and 4 <= self.bits <= 32):
            raise ValueError(f"{self!r}: clip and noise are above 0, and a sum has 4 to 32 bits")

    def __call__(self, *_: object) -> Tree:
        """Not to be called: `fedavg` calls ``collect``, because this mean sends the updates."""
        raise TypeError("NoisySum sends the updates itself: give fedavg Server(mean=...)")

    def collect(
        self, channel: Channel, server: str, updates: Mapping[str, Tree], late: Collection[str]
    ) -> Tree:
        """The noisy mean of those who are in time; late clients drop out before round 3."""
        self.round_ += 1
        clients = [*updates, *late]
        layout = Layout(next(iter(updates.values())))
        num_values = layout.num_values + (self.quantile is not None)
        step = self.step(len(clients), num_values)
        vectors = dict.fromkeys(clients, np.zeros(num_values, np.int64))
        for u, update in updates.items():
            if channel.is_here(u):
                vectors[u] = self._numbers(layout, update, u, len(clients), step)
        total, left = self._add(channel, server, vectors, late)
        if total is None:
            return layout.tree(torch.zeros(layout.num_values))
        half = 1 << (self.bits - 1)
        centred = (total.astype(np.int64) + half) % (2 * half) - half
        mean = self._turned(torch.from_numpy(centred * (step / len(left))).float(), back=True)
        if self.quantile is not None:
            passed = float(mean[-1]) / (BIT_SIZE * self.clip) + 0.5
            self.clip *= math.exp(-self.clip_rate * (min(1.0, max(0.0, passed)) - self.quantile))
            mean = mean[:-1]
        return layout.tree(mean)

    def step(self, num_clients: int, num_values: int) -> float:
        """gamma of the paper: what the whole number 1 means.

        All sums within `WIDTHS` standard deviations fit into the modulus, if updates agree fully.
        """
        agreed = num_clients * self._longest / math.sqrt(num_values)
        spread = math.hypot(agreed, self.noise_multiplier * self._longest)
        room = (2**self.bits / (2 * WIDTHS)) ** 2 - num_clients / 4  # rounding takes some
        if room <= 0:
            raise ValueError(f"bits={self.bits}: too few for the sum of {num_clients} clients")
        return spread / math.sqrt(room)

    def divergence(self, num_clients: int, num_values: int) -> tuple[float, float]:
        """rho and xi: the Renyi divergence of order alpha of one round is at most xi + rho alpha.

        Theorem 1 of Kairouz et al.: rho = Delta_2^2 / (2 n sigma^2), with the length Delta_2 of a
        rounded vector; xi = tau d, because a sum of discrete Gaussians is none, but nearly.
        """
        step, clip = self.step(num_clients, num_values), self._longest
        noise = self.noise_multiplier * clip / step  # sqrt(n) sigma, in steps
        k = np.arange(1, num_clients)
        own = noise**2 / num_clients
        apart = 10 * float(np.exp(-2 * math.pi**2 * own * k / (k + 1)).sum())  # tau
        return _longest_rounded(clip / step, num_values) / (2 * noise**2), apart * num_values

    def promise(
        self, *, num_clients: int, num_values: int, rounds: int, delta: float | None = None
    ) -> Promise:
        """What so many rounds promise each client, if all clients take part in each of them.

        Rounds are composed by ``dp-accounting`` as zero-concentrated privacy. ``delta`` None: 1 /
        num_clients^1.1.

        >>> dp = NoisySum(clip=1.0, noise_multiplier=4.0, bits=16)
        >>> print(dp.promise(num_clients=100, num_values=650, rounds=20))  # doctest: +ELLIPSIS
        epsilon 3.38 at delta 0.00630957: whoever guesses ...
        """
        delta = num_clients**-1.1 if delta is None else delta
        divergence = self.divergence(num_clients, num_values)
        return Promise(renyi_epsilon(lambda a: a.ZCDpEvent(*divergence), rounds, delta), delta)

    @property
    def _longest(self) -> float:
        """The longest vector of a client: the update, and the number that says if it was short."""
        return self.clip * (math.hypot(1, BIT_SIZE / 2) if self.quantile is not None else 1)

    def _numbers(
        self, layout: Layout, update: Tree, client: str, num_clients: int, step: float
    ) -> Integers:
        """Algorithm 1: clip, rotate, round by chance, add this client's noise, modulo 2^bits."""
        for name, tensor in update.items():
            check_finite(name, tensor)
        vector = layout.vector(clipped(update, self.clip))
        if self.quantile is not None:
            short = float(layout.vector(update).double().norm() <= self.clip)
            vector = torch.cat([vector, vector.new_tensor([(short - 0.5) * BIT_SIZE * self.clip])])
        random = np.random.default_rng([client_seed(self.seed, self.round_, client)])
        scaled = self._turned(vector, back=False).double().numpy() / step
        rounded = self._rounded(scaled, self._longest / step, random)
        sigma = self.noise_multiplier * self._longest / step / math.sqrt(num_clients)
        return (rounded + discrete_gaussian(sigma, len(rounded), random)) % (1 << self.bits)

    def _rounded(
        self, x: NDArray[np.float64], length: float, random: np.random.Generator
    ) -> Integers:
        """Stochastic rounding, again until the result is no longer than theorem 1 allows."""
        longest = _longest_rounded(length, len(x))
        while True:
            rounded = np.floor(x + random.random(len(x))).astype(np.int64)
            if float((rounded**2).sum()) <= longest:
                return rounded

    def _turned(self, vector: Tensor, *, back: bool) -> Tensor:
        rotation = SharedRotation(seed=self.seed, round_=self.round_)
        parts: Parts = {"x": vector}
        turned = (rotation.undo(parts) if back else rotation.apply(parts))["x"]
        assert isinstance(turned, Tensor)
        return turned

    def _add(
        self, channel: Channel, server: str, vectors: Mapping[str, Integers], late: Collection[str]
    ) -> Sum:
        """The sum modulo 2^bits, secret or in the clear."""
        silent = dict.fromkeys(late, "masked")
        if not self.secret:
            return plain_sum(channel, server, vectors, silent, self.bits)
        graph_seed = client_seed(self.seed, self.round_, "graph")
        graph = graph_of(len(vectors), self.neighbours, graph_seed)
        return secure_sum(channel, server, vectors, bits=self.bits, graph=graph, silent=silent)


def _longest_rounded(length: float, num_values: int) -> float:
    """The squared length that a vector of this length may have after rounding: Delta_2^2."""
    root, extra = math.sqrt(num_values), math.sqrt(2 * math.log(1 / BETA))
    return min((length + root) ** 2, length**2 + num_values / 4 + extra * (length + root / 2))
