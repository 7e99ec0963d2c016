"""Where the messages of an average go: through a server, from everybody to everybody, or in a ring.

Each exchange takes what every worker has (a gradient, an update) and returns the mean that all of
them hold afterwards, to the bit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from fltoolkit.channel import Channel
from fltoolkit.trees import Tree, weighted_mean


class Exchange(Protocol):
    """``exchange(channel, trees)``: the mean of the workers' trees, which all of them then hold.

    >>> import torch
    >>> workers = {"ann": {"w": torch.tensor([1.0])}, "ben": {"w": torch.tensor([3.0])}}
    >>> for exchange in (ThroughServer(), AllGather(), Ring()):
    ...     channel = Channel()
    ...     print(exchange(channel, workers)["w"].item(), len(channel.transfers), "messages")
    2.0 4 messages
    2.0 2 messages
    2.0 4 messages
    """

    def __call__(self, channel: Channel, trees: Mapping[str, Tree]) -> Tree:
        """Send what must be sent, and return the mean."""
        ...


@dataclass(frozen=True)
class ThroughServer:
    """Each worker sends to a server, which sends the mean back to all: 2 N messages per round.

    The workers' messages have the kind ``update``, the server's ``model``. The mean is encoded once
    for all workers (`Channel.broadcast`), so all of them hold the same. Both directions are sums of
    changes, so `ErrorFeedback` may be used in both.
    """

    server: str = "server"  # its name in the ledger

    def __call__(self, channel: Channel, trees: Mapping[str, Tree]) -> Tree:
        """The mean as every worker decodes it."""
        arrived = [channel.send(w, self.server, "update", tree) for w, tree in trees.items()]
        mean = weighted_mean(arrived, [1.0] * len(arrived))
        return channel.broadcast(self.server, [*trees], "model", mean)


@dataclass(frozen=True)
class AllGather:
    """Each worker sends the same message to all others, and computes the mean: N (N - 1) messages.

    All messages have the kind ``update``. Every worker uses what the others decode from its own
    message, so all means are equal. Records have 0 bytes up and down, and all in ``nbytes``.
    """

    def __call__(self, channel: Channel, trees: Mapping[str, Tree]) -> Tree:
        """The mean as every worker computes it."""
        return all_gather(channel, trees, "update")[1]


def all_gather(
    channel: Channel, trees: Mapping[str, Tree], kind: str
) -> tuple[dict[str, Tree], Tree]:
    """Each worker sends its tree to all others: what they decode of each, and the mean of these."""
    decoded = {
        worker: channel.broadcast(worker, [w for w in trees if w != worker], kind, tree)
        for worker, tree in trees.items()
    }
    return decoded, weighted_mean([*decoded.values()], [1.0] * len(decoded))


@dataclass(frozen=True)
class Ring:
    """Ring all-reduce: each worker talks to its neighbour only, and sends 2 (N - 1) / N trees.

    The entries are divided into N chunks of about equal size. A chunk travels around the ring, and
    each worker adds its own values (kind ``update``). After N - 1 messages its last worker holds
    the sum, and the mean travels on around the ring (kind ``model``); the ledger has these messages
    as sent by that worker to all others. A lossy codec loses something at each of the additions.

    Source: Patarasuk and Yuan 2009, "Bandwidth optimal all-reduce algorithms for clusters of
    workstations"; it is what torch's DistributedDataParallel does.
    """

    def __call__(self, channel: Channel, trees: Mapping[str, Tree]) -> Tree:
        """The mean as every worker holds it."""
        workers = list(trees)
        count, held = len(workers), {w: dict(tree) for w, tree in trees.items()}
        chunks = balanced(held[workers[0]], count)
        for turn in range(count - 1):
            passed_on = []
            for place, worker in enumerate(workers):
                part = {name: held[worker][name] for name in chunks[(place - turn) % count]}
                neighbour = workers[(place + 1) % count]
                passed_on.append((neighbour, channel.send(worker, neighbour, "update", part)))
            for neighbour, part in passed_on:
                if channel.is_here(neighbour):
                    held[neighbour].update({n: held[neighbour][n] + t for n, t in part.items()})
        mean: Tree = {}
        for place, worker in enumerate(workers):
            part = {n: held[worker][n] / count for n in chunks[(place + 1) % count]}
            others = [w for w in workers if w != worker]
            mean.update(channel.broadcast(worker, others, "model", part))
        return {name: mean[name] for name in trees[workers[0]]}


def balanced(tree: Tree, count: int) -> list[list[str]]:
    """The names of a tree in ``count`` groups of about equal size, dealt from the largest entry."""
    groups: list[list[str]] = [[] for _ in range(count)]
    sizes = [0] * count
    for name in sorted(tree, key=lambda name: -tree[name].numel()):
        smallest = sizes.index(min(sizes))
        groups[smallest].append(name)
        sizes[smallest] += tree[name].numel()
    order: Sequence[str] = [*tree]
    return [sorted(group, key=order.index) for group in groups]
