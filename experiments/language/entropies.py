"""How the entropy of the gradients moves in a pilot run, and ranks that follow it at equal bytes.

    python -m experiments.language.entropies  # a minute and a half

The pilot is PowerSGD of rank 4 with seed 0, which no row of the tables has. Its ranks are the fixed
schedules of data_parallel.py: they follow the entropies by the rule of `EntropySchedule`, stay
between 1 and 8, and their mean is 4, so that they send the bytes of rank 4, also backwards.
"""

import math
from typing import ClassVar

from experiments.language.data_parallel import RANK_4, Setting, trained
from experiments.language.task import Task
from experiments.replications.entropy_schedule import EntropySchedule, left_out
from fltoolkit.trees import Tree

MEAN, MOST, SHAPE = 4, 8, (64, 256)  # of the ranks; of the largest matrices


class Pilot(EntropySchedule):
    """A constant rank; notes the entropy of each window, of all links together."""

    noted: ClassVar[dict[int, list[float]]] = {}

    def due(self, tree: Tree) -> int:
        """The constant rank."""
        known, rank = len(self.means), super().due(tree)
        if len(self.means) > known:
            self.noted.setdefault(known, []).append(self.means[-1])
        return rank


def ranks_by(entropies: list[float]) -> tuple[int, ...]:
    """Ranks whose errors are equal by these entropies, and whose mean is `MEAN`.

    >>> ranks_by([0.0, -0.05, -0.1, -0.15])
    (8, 5, 2, 1)
    """
    left, middle = left_out(*SHAPE), sum(entropies) / len(entropies)
    for allowed in range(0, -20_000, -1):  # it shrinks until the mean is met
        logs = [allowed / 1000 - 2 * (each - middle) for each in entropies]
        found = [next(r for r, share in enumerate(left) if share <= math.exp(e)) for e in logs]
        bounded = tuple(min(max(rank, 1), MOST) for rank in found)
        if sum(bounded) >= MEAN * len(entropies):
            return bounded
    raise ValueError(f"entropies={entropies}: no ranks up to {MOST} have a mean of {MEAN}")


def main() -> None:
    """Run the pilot and print."""
    codecs = {**RANK_4, "update": Pilot(MEAN, 1.0, MEAN)}
    trained(Task(), Setting("pilot", "ddp", codecs=codecs), 0)
    entropies = [sum(each) / len(each) for _, each in sorted(Pilot.noted.items())]
    print("entropy, nats a value:", *(f"{each:.2f}" for each in entropies))
    print("ranks:", ranks_by(entropies))


if __name__ == "__main__":
    main()
