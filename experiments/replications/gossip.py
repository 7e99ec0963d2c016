"""Workers that train one model without a server and never hold quite the same weights.

Here: `noloco`, where a worker averages with a random partner, and `sparta`, where all average a few
random values at a time.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from fltoolkit.channel import Channel
from fltoolkit.federated.client import Local, check_count, sent_entries
from fltoolkit.federated.samples import Clients
from fltoolkit.federated.workers import Fleet, RoundMemory, Workers, as_fleet, client_seed, plus
from fltoolkit.history import CHECKED, Record, checked_at_call, to_come
from fltoolkit.trees import Tree, as_vector, from_vector
from fltoolkit_research.federated.exchange import Exchange, ThroughServer, all_gather
from fltoolkit_research.federated.local_steps import check_inner_steps, inner_steps, record_of


def copied(tree: Tree) -> Tree:
    """The same values in memory of their own."""
    return {name: tensor.clone() for name, tensor in tree.items()}


@dataclass
class Apart(RoundMemory):
    """What each worker holds: weights of its own, and with `noloco` a momentum."""

    weights: dict[str, Tree] = field(default_factory=dict)
    momenta: dict[str, Tree] = field(default_factory=dict)
    name = "apart"  # of its file

    def begin(self, model: nn.Module, workers: Clients) -> None:
        """Give each worker the common weights and no momentum, unless it goes on with its own."""
        start = sent_entries(model)
        for worker in workers:
            self.weights.setdefault(worker, copied(start))
            self.momenta.setdefault(worker, {n: torch.zeros_like(t) for n, t in start.items()})


@checked_at_call
def noloco(
    model: nn.Module,
    workers: Clients | Fleet,
    channel: Channel,
    *,
    rounds: int | range,
    local: Local,
    group: int = 2,
    outer: tuple[float, float] = (0.7, 0.5),
    memory: Apart | None = None,
    seed: int = 0,
) -> Iterator[Record]:
    """NoLoCo (Kolehmainen et al. 2025, arXiv 2506.10911): local steps, then a random partner.

    A round:

    1. every worker takes ``local.steps`` inner steps from its own weights phi, and ends at theta
    2. the workers are dealt into groups of ``group``, anew in each round. All workers draw the same
       groups from ``seed``, so the groups are not sent
    3. in each group everybody sends its theta to the others (kind ``model``)
    4. every worker moves its own weights by its own momentum:
       ``m <- momentum * m + lr * (mean of theta in the group - phi)``, ``phi <- phi + m``

    The paper's step has a factor for how far the workers came and another for how far their weights
    are apart. In the authors' code both are ``lr``, and then the sum needs theta alone. Their code
    sends phi and theta - phi, which is twice as much; the paper can send phi while the worker
    computes.

    With one group of all workers this is `diloco` with ``torch.optim.SGD(lr=, momentum=)`` outside.
    Weights are sent here and not updates, so no codec may leave some of them out.

    Args:
        model: holds the first worker's weights before each record, and the common weights at the
            beginning. It may have no whole numbers as buffers.
        group: how many workers average; it divides the number of workers. With 1 nothing is sent.
        outer: learning rate and momentum of step 4; by default the authors' for pairs.
        memory: what each worker holds, for a run that goes on.

    The other arguments and the records are those of `diloco`.

    Two of four workers exchange at a time: four messages in a round, where a server has eight.
    """
    team = Workers(model, as_fleet(workers), local, seed)
    rounds = to_come("rounds", rounds)
    check_inner_steps(local)
    check_count("group", group)
    if (number := len(team.clients)) % group:
        raise ValueError(f"group={group}: must divide the number of workers, {number}")
    lr, momentum = outer
    memory = memory or Apart()
    yield CHECKED

    totals = channel.begin(set(team.clients), [model], sends_weights=True)
    memory.begin(model, team.clients)
    for round_ in rounds:
        channel.step = round_ + 1
        loss, updates = inner_steps(team, channel, memory.weights, round_)
        for members in _dealt(list(team.clients), group, seed, round_):
            ends = {w: plus(memory.weights[w], updates[w]) for w in members}
            _, mean = all_gather(channel, ends, "model")
            for worker in filter(channel.is_here, members):
                own, m = memory.weights[worker], memory.momenta[worker]
                m = {n: momentum * m[n] + lr * (mean[n] - own[n]) for n in own}
                memory.momenta[worker], memory.weights[worker] = m, plus(own, m)
        _show(model, memory, channel)
        yield record_of(round_, local, loss, totals())


@checked_at_call
def sparta(
    model: nn.Module,
    workers: Clients | Fleet,
    channel: Channel,
    *,
    rounds: int | range,
    local: Local,
    fraction: float = 0.005,
    exchange: Exchange = ThroughServer(),
    memory: Apart | None = None,
    seed: int = 0,
) -> Iterator[Record]:
    """SPARTA: after each local step all workers average a few random values of the model.

    A round:

    1. every worker takes ``local.steps`` steps from its own weights; one step in the original
    2. ``fraction`` of the values are drawn from ``seed``, the same ones at all workers, so their
       places are not sent
    3. their means replace them at every worker: ``exchange`` says where the messages go

    A message is ``1 / fraction`` times smaller than the model, and each value is averaged about
    every ``1 / fraction`` rounds. With ``fraction=1`` this is `diloco` with a plain mean. Each
    message holds other values, so `ErrorFeedback` cannot be used.

    Source: Baioumy and Cheema 2025 (SPARTA, openreview.net/forum?id=stFPf3gzq1), as implemented in
    exo-gym, which also sends the drawn places.

    ``fraction`` is above 0 and at most 1, ``exchange`` is `ThroughServer` or `AllGather`; the other
    arguments and the records are those of `noloco`.
    """
    team = Workers(model, as_fleet(workers), local, seed)
    rounds = to_come("rounds", rounds)
    check_inner_steps(local)
    if not 0 < fraction <= 1:
        raise ValueError(f"fraction={fraction}: of the values, above 0 and at most 1")
    memory = memory or Apart()
    yield CHECKED

    totals = channel.begin(set(team.clients), [model])
    memory.begin(model, team.clients)
    for round_ in rounds:
        channel.step = round_ + 1
        loss, updates = inner_steps(team, channel, memory.weights, round_)
        flat = {w: as_vector(plus(memory.weights[w], update)) for w, update in updates.items()}
        size = len(next(iter(flat.values())))
        drawn = _shuffled(size, seed, round_)[: max(1, round(fraction * size))]
        mean = exchange(channel, {worker: {"drawn": own[drawn]} for worker, own in flat.items()})
        for worker, own in flat.items():
            own[drawn] = mean["drawn"]
            memory.weights[worker] = from_vector(own, memory.weights[worker])
        _show(model, memory, channel)
        yield record_of(round_, local, loss, totals())


# ---------------------------------------------------------------------------- steps of a round


def _shuffled(count: int, seed: int, round_: int) -> Tensor:
    """The numbers below ``count`` in an order that all workers draw alike."""
    generator = torch.Generator().manual_seed(client_seed(seed, round_, "all workers"))
    return torch.randperm(count, generator=generator)


def _dealt(workers: list[str], group: int, seed: int, round_: int) -> Iterator[list[str]]:
    """The groups of a round."""
    order = [workers[k] for k in _shuffled(len(workers), seed, round_)]
    for start in range(0, len(order), group):
        yield order[start : start + group]


def _show(model: nn.Module, memory: Apart, channel: Channel) -> None:
    """The model becomes that of the first worker in this process."""
    first = next(filter(channel.is_here, memory.weights), next(iter(memory.weights)))
    model.load_state_dict(memory.weights[first], strict=False)
