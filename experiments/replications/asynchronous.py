"""A server that never waits for a round: FedBuff, on the virtual clock.

When a client is done, it sends its update at once, and another client begins with the newest model.
So nobody waits for stragglers, but updates are stale. docs/federated.md compares it with rounds:
it is not worth it there. Not here: the weight of a stale update (`fltoolkit.federated.clock`).
"""

import heapq
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from fltoolkit.channel import Channel
from fltoolkit.federated.client import Local, LocalUpdate, sent_entries
from fltoolkit.federated.clock import Clock, Even, Polynomial, Staleness, takes, weight_of
from fltoolkit.federated.samples import Clients
from fltoolkit.federated.server import SERVER, apply_update, check_optimizer
from fltoolkit.federated.workers import Fleet, Workers, as_fleet, send_update
from fltoolkit.history import CHECKED, Record, checked_at_call, to_come
from fltoolkit.trees import Tree, weighted_mean

_Sent = tuple[float, int, str, int, Tree]  # end, order, client, step and model at its start


@dataclass
class _Flight:
    """The state between two records: who is at work, from which model, and who is idle."""

    idle: list[str]
    random: np.random.Generator
    seconds: float = 0.0
    times_asked: Counter[str] = field(default_factory=Counter)  # how often each client was drawn
    at_work: list[_Sent] = field(default_factory=list)  # a heap by time, then by order
    missed_in_a_row: int = 0  # answers that did not come, since the last one that did

    def count_missed(self, num_clients: int) -> None:
        """Count an update that did not come. Raises RuntimeError if these are many in a row."""
        self.missed_in_a_row += 1
        if self.missed_in_a_row >= 10 * num_clients:
            raise RuntimeError(
                f"{self.missed_in_a_row} times in a row a client dropped out or failed in "
                "training, so the run would not end. Lower the clock's dropout or lr, or check the "
                "data"
            )


@dataclass(frozen=True, kw_only=True)
class AsyncServer:
    """What a server does that never waits for a round; `Server` is for rounds.

    Args:
        concurrency: how many clients are at work at any time; a new one is drawn from the others.
        staleness: the weight of an update, from how often the model has changed meanwhile.
        clock: how long each client takes; in place of the round it gets how often the client was at
            work before. A client that drops out is replaced with another one at once.
        optimizer: over ``model.parameters()``; it gets minus the change as gradient. By default the
            change is added.
    """

    concurrency: int
    staleness: Staleness = Polynomial()
    clock: Clock = Even()
    optimizer: torch.optim.Optimizer | None = None


@checked_at_call
def fedbuff(
    model: nn.Module,
    clients: Clients | Fleet,
    channel: Channel,
    *,
    rounds: int,
    local: Local,
    server: AsyncServer,
    buffer_size: int,
    seed: int = 0,
) -> Iterator[Record]:
    """The mean of each ``buffer_size`` updates changes the server's model; one record per mean.

    ``x <- x + 1/K sum_k staleness(t - tau_k) delta_k`` over the K updates in the buffer. A server
    optimizer gets minus this sum as gradient (the server learning rate of the paper is that of
    SGD). Source: Nguyen et al. 2022, arXiv 2106.06639, algorithm 1; ``Polynomial(0.5)`` is its
    weight.

    Records are those of `fedavg`. ``num_arrived`` is ``buffer_size``, ``num_stale`` is how many of
    these updates are stale, and ``staleness`` is their mean staleness.

    ``rounds`` is how often the server's model changes, ``buffer_size`` is K; for the others see
    `fedavg` and `AsyncServer`.
    """
    workers = Workers(model, as_fleet(clients), local, seed, SERVER)
    numbers = to_come("rounds", rounds)
    flight = _begun(workers, channel, server)
    yield CHECKED

    totals = channel.begin(set(workers.clients), [model], sends_weights=True)
    updates = _updates(workers, channel, server, flight)
    for t in numbers:
        channel.step = t + 1
        buffer = [next(updates) for _ in range(buffer_size)]
        s = [update.weight for update in buffer]
        if any(s):
            mean = weighted_mean([update.delta for update in buffer], s)  # sum s delta / sum s
            # the paper's 1/K sum s delta, as a share of the weighted mean
            share = sum(s) / buffer_size
            change = {
                n: t * share if t.is_floating_point() else (t * share).round()
                for n, t in mean.items()
            }
            apply_update(model, change, server.optimizer)
        late = [update.staleness for update in buffer]
        yield {
            "round": t,
            "step": t + 1,
            "loss": sum(update.loss for update in buffer) / buffer_size,
            "num_arrived": buffer_size,
            "num_stale": sum(staleness > 0 for staleness in late),
            "num_failed": sum(update.num_failed for update in buffer),
            "staleness": sum(late) / buffer_size,
            "seconds": flight.seconds,
            **totals(),
        }


# ------------------------------------------------------------------------------------ its steps


class _Update(NamedTuple):
    """A client's update, and what the server knows about it."""

    delta: Tree
    loss: float
    staleness: int  # how often the server's model has changed meanwhile
    weight: float
    num_failed: int  # clients whose training failed since the update before


def _begun(workers: Workers, channel: Channel, server: AsyncServer) -> _Flight:
    """The flight of a run, after checks."""
    check_optimizer(SERVER, workers.model, server.optimizer)
    most, concurrency = len(workers.clients), server.concurrency
    if not 1 <= concurrency <= most:
        raise ValueError(f"concurrency={concurrency}: must be 1 to {most} clients at work")
    if not workers.are_here(channel):
        raise ValueError(
            "fedbuff needs all clients in this process; over several processes use fedavg, whose "
            "server waits for the end of a round"
        )
    return _Flight(list(workers.clients), np.random.default_rng(workers.seed))


def _updates(
    workers: Workers, channel: Channel, server: AsyncServer, flight: _Flight
) -> Iterator[_Update]:
    """The updates as they come, while idle clients are drawn and sent the newest model.

    Raises RuntimeError if many in a row do not come.
    """
    asked, random, num_failed = flight.times_asked, flight.random, 0
    while True:
        while flight.idle and len(flight.at_work) < server.concurrency:
            client = flight.idle.pop(int(random.integers(len(flight.idle))))
            start = channel.send(SERVER, client, "model", sent_entries(workers.model))
            end, number = flight.seconds + takes(server.clock, client, asked[client]), asked.total()
            asked[client] += 1
            if end < math.inf:
                heapq.heappush(flight.at_work, (end, number, client, channel.step, start))
            else:
                flight.idle.append(client)
                flight.count_missed(len(workers.clients))

        flight.seconds, _, client, sent, start = heapq.heappop(flight.at_work)
        flight.idle.append(client)
        # how often it was at work before, in place of the round
        update = workers.learn(channel, {client: start}, asked[client] - 1)[client]
        _, delta, _ = send_update(client, SERVER, update, channel)
        if delta is None or not isinstance(update, LocalUpdate):
            num_failed += 1
            flight.count_missed(len(workers.clients))
            continue
        flight.missed_in_a_row, staleness = 0, channel.step - sent
        weight = weight_of(server.staleness, staleness)
        yield _Update(delta, update.loss, staleness, weight, num_failed)
        num_failed = 0
