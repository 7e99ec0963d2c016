"""DiLoCo and its relatives: many local steps, then workers exchange how far they have come.

Here: `diloco`, of which local AdamW with a plain mean, MuLoCo, SparseLoCo and FedAvg among few
workers are settings.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import nn

from fltoolkit.channel import Channel
from fltoolkit.federated.client import Local, sent_entries
from fltoolkit.federated.samples import Clients
from fltoolkit.federated.server import apply_update, check_optimizer
from fltoolkit.federated.workers import Fleet, Workers, as_fleet, mean_loss
from fltoolkit.history import CHECKED, Record, RoundRecord, Totals, checked_at_call, to_come
from fltoolkit.trees import Tree
from fltoolkit_research.federated.exchange import Exchange, ThroughServer


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


def check_inner_steps(local: Local) -> None:
    """Raise ValueError if local training is not a number of steps."""
    if local.steps is None:
        raise ValueError(f"local.epochs={local.epochs}: give a number of inner steps, steps=50")
