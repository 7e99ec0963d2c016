"""Who drops out of a secure sum, drawn at random."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fltoolkit_research.secrecy import ROUNDS


@dataclass(frozen=True)
class RandomDropouts:
    """In each sum a fixed share of the clients drops out, each in a round drawn for it.

    Args:
        fraction: of the clients, rounded down.
        seed: of who, and when.

    >>> RandomDropouts(0.5)(["ann", "ben", "cem", "dora"], step=1)
    {'dora': 'masked', 'ann': 'shares'}
    """

    fraction: float
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.fraction < 1:
            raise ValueError(f"fraction={self.fraction}: of the clients, from 0 to below 1")

    def __call__(self, clients: Sequence[str], step: int) -> dict[str, str]:
        """Who drops out of this sum, and when."""
        random = np.random.default_rng([self.seed, step])
        order = random.permutation(len(clients)).tolist()
        chosen = order[: int(self.fraction * len(clients))]
        return {clients[k]: ROUNDS[int(random.integers(len(ROUNDS)))] for k in chosen}
