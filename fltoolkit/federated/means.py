"""How the updates of a round are averaged: a mean is a function of arrivals.

Not here: the arithmetic (trees.py), a mean with noise (privacy.py).
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from fltoolkit import trees
from fltoolkit.channel import Channel
from fltoolkit.federated.clock import Arrival
from fltoolkit.trees import Tree

__all__ = ["Collecting", "Mean", "WithMasks", "masked_mean", "weighted_mean"]

Mean = Callable[[Sequence[Arrival]], Tree]
"""``mean(arrivals)``: the update by which the server's model moves.

Each arrival has a ``delta``, a ``weight`` (number of samples, times its staleness weight) and the
``client``. `weighted_mean`, `masked_mean` and `GaussianDP` fit, and so does a function of your own.
"""


@dataclass(frozen=True)
class WithMasks:
    """A mean that needs to know which coordinates of each update were sent.

    With such a mean, `fedavg` asks the channel for the masks (`Channel.send_masked`), and each
    arrival holds them. With any other mean, masks are not computed, and arrivals hold empty ones.

    >>> import torch
    >>> from fltoolkit.federated import Arrival
    >>> masks = [{"w": torch.tensor([True, False])}, {"w": torch.tensor([True, True])}]
    >>> deltas = [{"w": torch.tensor([1.0, 0.0])}, {"w": torch.tensor([3.0, 4.0])}]
    >>> both = [Arrival("ann", 0, 1.0, 10, 0.3, d, m) for d, m in zip(deltas, masks, strict=True)]
    >>> masked_mean(both), weighted_mean(both)
    ({'w': tensor([2., 4.])}, {'w': tensor([2., 2.])})
    """

    mean: Mean

    def __call__(self, arrivals: Sequence[Arrival]) -> Tree:
        """The mean of these arrivals."""
        return self.mean(arrivals)


@runtime_checkable
class Collecting(Protocol):
    """A mean that sends the updates itself, because the server may not see a single one.

    With such a mean, `fedavg` sends no update. `fltoolkit.secrecy.SecureSum` is one.

    >>> isinstance(weighted_mean, Collecting)
    False
    """

    def collect(
        self, channel: Channel, server: str, updates: Mapping[str, Tree], late: Collection[str]
    ) -> Tree:
        """Send what must be sent, and return the mean of ``updates``, which are in time.

        Args:
            channel: carries and counts all messages.
            server: the name of the server.
            updates: of the clients that are in time, by name; at least one.
            late: the clients of this round whose updates come too late.
        """


def weighted_mean(arrivals: Sequence[Arrival]) -> Tree:
    """The mean of the updates by their weights; see `trees.weighted_mean`.

    Source: McMahan et al. 2017, arXiv 1602.05629, algorithm 1.

    >>> import torch
    >>> from fltoolkit.federated import Arrival
    >>> deltas = {"ann": torch.tensor([0.0]), "bea": torch.tensor([4.0])}
    >>> samples = {"ann": 30, "bea": 10}
    >>> weighted_mean([Arrival(k, 0, 1.0, samples[k], 0.3, {"w": deltas[k]}, {}) for k in deltas])
    {'w': tensor([1.])}
    """
    return trees.weighted_mean(deltas(arrivals), [a.weight for a in arrivals])


@WithMasks
def masked_mean(arrivals: Sequence[Arrival]) -> Tree:
    """The mean of each coordinate over the clients that sent it, for top-k codecs.

    See `trees.masked_mean`, and `WithMasks` for an example.
    """
    masks = [a.masks for a in arrivals]
    return trees.masked_mean(deltas(arrivals), masks, [a.weight for a in arrivals])


def deltas(arrivals: Sequence[Arrival]) -> list[Tree]:
    """The updates, without clients that said that their training failed."""
    return [a.delta for a in arrivals if a.delta is not None]
