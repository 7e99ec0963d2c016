"""FLoRA-NA's mean of LoRA factors: the two factors whose product is nearest to the mean product.

Source: Nguyen et al. 2025, arXiv 2509.26399, read in the abstract: the server estimates factors
whose product diverges least from the mean of the clients' products, and sends no more than these.
How it does so is ours: least squares for one factor and then for the other, from the plain means.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from fltoolkit.federated import Mean, ReceivedUpdate, mean_of_all
from fltoolkit.trees import Tree
from fltoolkit_research.finetuning import FineTuned, LowRankChange

SWEEPS = 5


def nearest_factors(tuned: FineTuned) -> Mean:
    """A mean for `fedavg` with a model of `lora`; all its changes must have both factors."""

    @torch.no_grad()
    def mean(received: Sequence[ReceivedUpdate]) -> Tree:
        mean_update, total = mean_of_all(received), sum(u.weight for u in received)
        for name, change in tuned.changes.items():
            assert isinstance(change, LowRankChange)
            assert change.a is not None
            start = (change.b, change.drawn + change.a)
            names = tuple(f"changes.{name}.{letter}" for letter in "ba")
            target = torch.zeros(())
            for u in received:
                target = target + u.weight / total * torch.mm(*moved(start, u.delta or {}, names))
            b, a = nearest(target, moved(start, mean_update, names)[1])
            mean_update |= {names[0]: b - start[0], names[1]: a - start[1]}
        return mean_update

    return mean


def moved(start: Sequence[Tensor], update: Tree, names: Sequence[str]) -> list[Tensor]:
    """Two factors after an update of them."""
    return [factor + update[name] for factor, name in zip(start, names, strict=True)]


def nearest(target: Tensor, a: Tensor) -> tuple[Tensor, Tensor]:
    """Factors b and a of a product near the target, [rows, columns]; ``a`` is where to begin.

    >>> target = torch.tensor([[2.0, 2.0], [1.0, 1.0]])
    >>> b, a = nearest(target, torch.tensor([[1.0, 0.0]]))
    >>> torch.allclose(b @ a, target)
    True
    """
    for _ in range(SWEEPS):
        b = torch.linalg.lstsq(a.T, target.T).solution.T
        a = torch.linalg.lstsq(b, target).solution
    return b, a
