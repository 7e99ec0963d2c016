"""DiLoCo and its relatives: many local steps, then workers exchange how far they have come.

Here: `diloco`, of which local AdamW with a plain mean, MuLoCo, SparseLoCo and FedAvg among few
workers are settings; `streaming_diloco`, which sends a fragment at a time while computing goes on.
Not here: where the messages go (exchange.py), a message at every step (data_parallel.py).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from fltoolkit.channel import Channel
from fltoolkit.federated.client import Local, check_count, sent_entries
from fltoolkit.federated.samples import Clients
from fltoolkit.federated.server import apply_update, check_optimizer
from fltoolkit.federated.workers import Fleet, RoundMemory, Workers, as_fleet, mean_loss, plus
from fltoolkit.history import CHECKED, Record, RoundRecord, Totals, checked_at_call, to_come
from fltoolkit.trees import Tree, difference
from fltoolkit_research.federated.exchange import Exchange, ThroughServer, balanced


@checked_at_call
def diloco(
    model: nn.Module,
    workers: Clients | Fleet,
    channel: Channel,
    *,
    rounds: int | range,
    local: Local,
    outer: torch.optim.Optimizer | None = None,
    exchange: Exchange = ThroughServer(),
    seed: int = 0,
) -> Iterator[RoundRecord]:
    """DiLoCo (Douillard et al. 2023, arXiv 2311.08105, algorithm 1); one record per round.

    A round:

    1. every worker takes H = ``local.steps`` inner steps on its own samples
    2. its update is how far it has come: end minus start, minus the paper's outer gradient
    3. the updates are averaged: ``exchange`` says where the messages go
    4. every worker moves the weights of the beginning of the round by the mean, through the same
       outer optimizer; so all of them begin the next round with equal weights

    Every worker weighs the same. As the replicas are equal between rounds, one model and one outer
    optimizer stand for all of them. docs/federated.md has the settings of MuLoCo and SparseLoCo.

    Args:
        model: what all workers hold between rounds; changed in place before each record.
        workers: names to data ``(x, y)``; for a run that goes on, or begins after steps of `ddp`, a
            `Fleet`, which keeps the states of their optimizers.
        channel: with codecs for the kinds that the exchange sends.
        rounds: how many rounds; ``range(done, rounds)`` for a run that goes on.
        local: the inner steps; with ``keep_state=True`` a worker's optimizer lives on.
        outer: a torch optimizer over ``model.parameters()``; None adds the mean, which is
            federated averaging.
        exchange: `ThroughServer`, `AllGather` or `Ring`.
        seed: of the batches.

    Records hold ``round``, ``step`` (inner steps of each worker so far), ``loss`` (mean of the
    workers in this process) and the running totals of bytes.

    Raises:
        ValueError, TypeError: an argument is not allowed; raised at the call.
        FloatingPointError: training failed at a worker, or the outer step leads to NaN.
    """
    team = Workers(model, as_fleet(workers), local, seed)
    rounds = to_come("rounds", rounds)
    check_inner_steps(local)
    check_optimizer("outer", model, outer)
    yield CHECKED

    totals = channel.begin(set(team.clients), [model])
    for round_ in rounds:
        channel.step = round_ + 1
        starts = dict.fromkeys(team.clients, sent_entries(team.model))
        loss, updates = inner_steps(team, channel, starts, round_)
        apply_update(team.model, exchange(channel, updates), outer)
        yield record_of(round_, local, loss, totals())


@dataclass(frozen=True)
class Stream:
    """How the fragments of a model are exchanged while the workers go on computing.

    Args:
        fragments: into how many parts the model is divided.
        overlap: how many rounds a message may take, 0 or more.
        blend: the paper's alpha, from 0 (take over the shared weights) to 1 (ignore them).
        exchange: `ThroughServer`, `AllGather` or `Ring`.
    """

    fragments: int
    overlap: int = 1
    blend: float = 0.5
    exchange: Exchange = ThroughServer()

    def __post_init__(self) -> None:
        check_count("fragments", self.fragments)


@dataclass
class Underway(RoundMemory):
    """What `streaming_diloco` keeps: each worker's weights, and the means that have not arrived."""

    weights: dict[str, Tree] = field(default_factory=dict)
    waiting: list[Tree] = field(default_factory=list)  # the oldest first
    name = "under way"  # of its file


@checked_at_call
def streaming_diloco(
    model: nn.Module,
    workers: Clients | Fleet,
    channel: Channel,
    *,
    rounds: int | range,
    local: Local,
    stream: Stream,
    outer: torch.optim.Optimizer | None = None,
    memory: Underway | None = None,
    seed: int = 0,
) -> Iterator[RoundRecord]:
    """Streaming DiLoCo (Douillard et al. 2025, arXiv 2501.18512, alg. 2), one record per round.

    The model's entries are divided into ``stream.fragments`` of about equal size. A round:

    1. every worker takes ``local.steps`` steps, from its own weights
    2. one fragment is sent, the next one in each round: how far a worker's weights are from the
       fragment's shared weights. So each fragment is sent once in ``fragments`` rounds
    3. the mean of the fragment that was sent ``overlap`` rounds ago has arrived: its shared weights
       move by it, through the outer optimizer, and each worker mixes them into its own:
       ``blend * own + (1 - blend) * shared``

    With ``Stream(1, overlap=0, blend=0)`` this is `diloco`. With ``overlap=1`` a worker never waits
    if a round takes longer than the message does. The paper sends 4-bit
    floats, ``Pipeline(Float8(3, 0))``.

    Args:
        model: the shared weights; changed in place before each record.
        stream: into how many fragments the model is divided, and how each is exchanged.
        memory: each worker's weights and what is under way, for a run that goes on.

    The other arguments, the records and the errors are those of `diloco`.
    """
    team = Workers(model, as_fleet(workers), local, seed)
    rounds = to_come("rounds", rounds)
    check_inner_steps(local)
    check_optimizer("outer", model, outer)
    if stream.fragments > (most := len(sent_entries(team.model))):
        raise ValueError(f"fragments={stream.fragments}: the model has {most} entries to divide")
    memory, blend = memory or Underway(), stream.blend
    yield CHECKED

    totals = channel.begin(set(team.clients), [model])
    parts = balanced(sent_entries(team.model), stream.fragments)
    for worker in team.clients:
        memory.weights.setdefault(worker, copied(sent_entries(team.model)))
    for round_ in rounds:
        channel.step = round_ + 1
        loss, updates = inner_steps(team, channel, memory.weights, round_)
        memory.weights = {w: plus(memory.weights[w], update) for w, update in updates.items()}

        part, shared = parts[round_ % stream.fragments], sent_entries(team.model)
        progress = {
            w: {n: difference(memory.weights[w][n], shared[n]) for n in part} for w in team.clients
        }
        memory.waiting.append(stream.exchange(channel, progress))

        if len(memory.waiting) > stream.overlap:
            mean = memory.waiting.pop(0)
            apply_update(team.model, mean, outer)
            shared = sent_entries(team.model)
            for own in memory.weights.values():
                for n in mean:  # whole numbers are not mixed
                    whole = not shared[n].is_floating_point()
                    own[n] = shared[n] if whole else blend * own[n] + (1 - blend) * shared[n]
        yield record_of(round_, local, loss, totals())


# ---------------------------------------------------------------------------- steps of a round


def inner_steps(
    team: Workers, channel: Channel, starts: Mapping[str, Tree], round_: int
) -> tuple[Record, dict[str, Tree]]:
    """The inner steps of all workers: their mean loss, and each worker's update."""
    updates = team.learn_all(channel, starts, round_)
    loss = mean_loss([update.loss for update in updates.values()], [1] * len(updates))
    return loss, {worker: update.delta for worker, update in updates.items()}


def record_of(round_: int, local: Local, loss: Record, totals: Totals) -> Any:
    """The record of a round of ``local.steps`` inner steps."""
    return {"round": round_, "step": (round_ + 1) * (local.steps or 1), **loss, **totals}


def copied(tree: Tree) -> Tree:
    """The same values in memory of their own."""
    return {name: tensor.clone() for name, tensor in tree.items()}


def check_inner_steps(local: Local) -> None:
    """Raise ValueError if local training is not a number of steps."""
    if local.steps is None:
        raise ValueError(f"local.epochs={local.epochs}: give a number of inner steps, steps=50")
