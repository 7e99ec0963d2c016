"""How the updates of a round are averaged: a mean is a function of received updates.

A mean also decides how updates are sent: one by one (`Mean`), with masks (`WithMasks`), or by
itself (`Collecting`).
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch

from fltoolkit.channel import Channel
from fltoolkit.federated.clock import ReceivedUpdate
from fltoolkit.trees import Tree, masked_mean, weighted_mean

Mean = Callable[[Sequence[ReceivedUpdate]], Tree]
"""``mean(received)``: the update by which the server's model moves; see `ReceivedUpdate`."""


@dataclass(frozen=True)
class WithMasks:
    """A mean that needs to know which coordinates of each update were sent.

    With such a mean, updates are sent by `Channel.send_masked`, and each received update holds its
    masks. With any other mean the masks are empty.

    >>> from torch import tensor
    >>> both = [
    ...     ReceivedUpdate("ann", 0, 1.0, 10, 0.3, {"w": tensor(delta)}, {"w": tensor(mask)})
    ...     for delta, mask in (([1.0, 0.0], [True, False]), ([3.0, 4.0], [True, True]))
    ... ]
    >>> mean_of_senders(both), mean_of_all(both)
    ({'w': tensor([2., 4.])}, {'w': tensor([2., 2.])})
    """

    mean: Mean

    def __call__(self, received: Sequence[ReceivedUpdate]) -> Tree:
        """The mean of these updates."""
        return self.mean(received)


@runtime_checkable
class Collecting(Protocol):
    """A mean that sends the updates itself, because the server may not see a single one.

    When the round has ended, `collect` sends all updates that are in time, such as
    `fltoolkit_research.secrecy.SecureSum`.
    """

    def collect(
        self, channel: Channel, server: str, updates: Mapping[str, Tree], late: Collection[str]
    ) -> Tree:
        """Send what must be sent, and return the mean of ``updates``, by client; at least one.

        These are in time; the updates of the clients in ``late`` come too late in this round.
        """


def mean_of_all(received: Sequence[ReceivedUpdate]) -> Tree:
    """The mean of the updates by their weights; see `fltoolkit.trees.weighted_mean`.

    Source: McMahan et al. 2017, arXiv 1602.05629, algorithm 1.
    """
    return weighted_mean(deltas(received), [u.weight for u in received])


class RunningMean:
    """`mean_of_all` of updates that are added one by one and forgotten, with the same bits.

    ``total`` is the weight of all updates that are to come. If one does not come, the mean is
    scaled at the end, which may change last bits.

    >>> from torch import tensor
    >>> running = RunningMean(total=4)
    >>> for delta, weight in (([0.0], 3), ([4.0], 1)):
    ...     running.add({"w": tensor(delta)}, weight)
    >>> running.mean()
    {'w': tensor([1.])}
    """

    def __init__(self, total: float):
        self.total, self.added = total, 0.0
        self.sums: Tree = {}  # in float64
        self.dtypes: dict[str, torch.dtype] = {}

    def add(self, tree: Tree, weight: float) -> None:
        """Add one update."""
        self.added += weight
        for name, values in tree.items():
            share = values.detach().cpu().to(torch.float64, copy=True).mul_(weight / self.total)
            self.sums[name] = self.sums[name].add_(share) if name in self.sums else share
            self.dtypes[name] = values.dtype

    def mean(self) -> Tree:
        """The mean of what was added; whole numbers are rounded."""
        scale = self.total / self.added
        return {
            name: (sums * scale if dtype.is_floating_point else (sums * scale).round()).to(dtype)
            for (name, sums), dtype in zip(self.sums.items(), self.dtypes.values(), strict=True)
        }


@WithMasks
def mean_of_senders(received: Sequence[ReceivedUpdate]) -> Tree:
    """The mean of each coordinate over the clients that sent it, for top-k codecs.

    See `fltoolkit.trees.masked_mean`, and `WithMasks` for an example.
    """
    return masked_mean(deltas(received), [u.masks for u in received], [u.weight for u in received])


def deltas(received: Sequence[ReceivedUpdate]) -> list[Tree]:
    """The updates, without those of clients whose training failed."""
    return [u.delta for u in received if u.delta is not None]
