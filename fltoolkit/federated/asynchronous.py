"""Servers that never wait for a round: FedAsync and FedBuff, on the virtual clock.

At any time some clients are at work. When a client is done, it sends its update at once, and
another client begins with the newest model. So no client waits for stragglers, but updates are
stale. Not here: rounds (rounds.py), the weight of a stale update (clock.py).
"""

import heapq
import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from fltoolkit.channel import Channel
from fltoolkit.federated.client import Local, LocalUpdate, check_function, travelling
from fltoolkit.federated.clock import Clock, Even, Polynomial, Staleness, takes, weight_of
from fltoolkit.federated.samples import Clients
from fltoolkit.federated.server import check_optimizer, move
from fltoolkit.federated.workers import Fleet, Workers, as_fleet, send_update
from fltoolkit.history import CHECKED, Record, checked_at_call, to_come
from fltoolkit.trees import Tree, weighted_mean

_Asked = tuple[float, int, str, int, Tree]  # end, order, client, step and model at its start


@dataclass
class Flight:
    """The state between two records: who is at work, from which model, and who is idle.

    Give a flight to an `AsyncServer` if you want to save the run and go on later; `save_run`
    accepts it like a party. For runs in rounds, `Backlog` does the same.

    >>> flight = Flight(idle=["ann", "bea"])
    >>> sorted(flight.state_dict())
    ['asked', 'at_work', 'idle', 'missed_in_a_row', 'random', 'seconds']
    """

    seconds: float = 0.0
    idle: list[str] = field(default_factory=list)
    asked: Counter[str] = field(default_factory=Counter)  # how often each client was asked
    at_work: list[_Asked] = field(default_factory=list)  # a heap by time, then by order
    missed_in_a_row: int = 0  # answers that did not come, since the last one that did
    random: np.random.Generator | None = None  # None: the run has not begun
    optimizers: dict[str, dict[str, Any]] = field(default_factory=dict)  # as in Backlog
    name = "in flight"  # of the file in which it is saved

    def begin(self, workers: Workers, done: int) -> None:
        """Go on as it was saved, or begin with everybody idle."""
        if self.random is None:
            if done:
                raise ValueError(f"to go on from {done}, give the flight saved with the run")
            self.idle, self.random = list(workers.clients), np.random.default_rng(workers.seed)
        if strangers := {*self.idle, *(row[2] for row in self.at_work)} ^ {*workers.clients}:
            raise ValueError(f"clients {sorted(strangers)}: not the same as when the run was saved")

    def state_dict(self) -> dict[str, Any]:
        """Plain values and tensors, so that it can be saved without pickle."""
        random = "" if self.random is None else json.dumps(self.random.bit_generator.state)
        own = {
            "seconds": self.seconds,
            "idle": list(self.idle),
            "missed_in_a_row": self.missed_in_a_row,
        }
        own |= {"optimizers": self.optimizers} if self.optimizers else {}
        return {**own, "asked": dict(self.asked), "at_work": self.at_work, "random": random}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved `state_dict`."""
        self.seconds, self.idle = state["seconds"], list(state["idle"])
        self.asked, self.missed_in_a_row = Counter(state["asked"]), state["missed_in_a_row"]
        self.at_work, self.random = list(state["at_work"]), None
        self.optimizers = dict(state.get("optimizers", {}))
        if state["random"]:
            self.random = np.random.default_rng()
            self.random.bit_generator.state = json.loads(state["random"])


@dataclass(frozen=True, kw_only=True)
class AsyncServer:
    """What a server does that never waits for a round; `Server` is for rounds.

    Args:
        concurrency: how many clients are at work at any time; a new one is drawn from the others.
        staleness: the weight of an update, from how often the model has changed meanwhile.
        clock: how long each client takes. The function is called with the number of times that the
            client was at work before, in place of the round. A client that drops out sends nothing,
            and the model is sent to another client at once.
        optimizer: over ``model.parameters()``; it gets minus the change as gradient. By default the
            change is added.
        flight: who is at work, for a run that goes on.

    >>> AsyncServer(concurrency=10).staleness
    Polynomial(a=0.5)
    """

    concurrency: int
    staleness: Staleness = Polynomial()
    clock: Clock = Even()
    optimizer: torch.optim.Optimizer | None = None
    flight: Flight | None = None

    def __post_init__(self) -> None:
        check_function("staleness", self.staleness)
        check_function("clock", self.clock)


class _Arrived(NamedTuple):
    """An update that has arrived, and the model it started from."""

    client: str
    seconds: float
    staleness: int  # how often the server's model has changed in between
    weight: float  # for this staleness
    start: Tree
    delta: Tree
    loss: float


@checked_at_call
def fedasync(
    model: nn.Module,
    clients: Clients | Fleet,
    channel: Channel,
    *,
    num_updates: int | range,
    local: Local,
    server: AsyncServer,
    alpha: float = 0.6,
    seed: int = 0,
) -> Iterator[Record]:
    """Each client's model is mixed into the server's as soon as it arrives; one record per update.

    ``x <- (1 - a) x + a x_new`` with ``a = alpha * server.staleness(t - tau)``: t is how often the
    server's model has changed, and tau is the value of t when the model was sent to the client. The
    numbers of samples are not used. Source: Xie et al. 2019, arXiv 1903.03934, algorithm 1;
    ``local.prox`` is its rho.

    Records hold ``round`` (t), ``step`` (t + 1), ``client``, ``loss``, ``staleness``,
    ``num_failed`` (clients whose training failed since the last record), ``seconds`` and the totals
    of bytes. Updates that are not ready at the end are not sent. For the other arguments see
    `fedavg` and `AsyncServer`. Arguments are checked at the call. To save a run and go on::

        parties = [Party("server", model), flight := Flight()]
        save_run(folder, parties, channel)              # after any record
        done = load_run(folder, parties, channel)       # on another day
        fedasync(..., num_updates=range(done, 1000), server=AsyncServer(..., flight=flight))

    >>> from fltoolkit.federated import Scripted
    >>> model = nn.Sequential(nn.Linear(2, 2), nn.LogSoftmax(dim=1))
    >>> share = torch.ones(4, 2), torch.zeros(4, dtype=torch.int64)
    >>> clients, clock = {"ann": share, "bea": share}, Scripted({"ann": [1.0], "bea": [2.5]})
    >>> local, server = Local(2, lr=0.1, epochs=1), AsyncServer(concurrency=2, clock=clock)
    >>> records = fedasync(model, clients, Channel(), num_updates=4, local=local, server=server)
    >>> for record in records:
    ...     print(record["client"], record["seconds"], record["staleness"])
    ann 1.0 0
    ann 2.0 0
    bea 2.5 2
    ann 3.0 1
    """
    if not 0 < alpha <= 1:
        raise ValueError(f"alpha={alpha}: the share of the new model, above 0 and at most 1")
    workers = Workers(model, as_fleet(clients), local, seed, "server")
    at_work = _AtWork(workers, channel, server, to_come("num_updates", num_updates))
    yield CHECKED

    totals = channel.begin(set(workers.clients), [model], sends_weights=True)
    for t, [update] in at_work.updates(1):
        share = alpha * update.weight
        way = _toward(model.state_dict(), update.start, update.delta, share)
        move(model, way, server.optimizer)
        about: Record = {"client": update.client, "loss": update.loss}
        about |= {"staleness": update.staleness, "num_failed": at_work.num_failed}
        yield {"round": t, "step": t + 1, **about, "seconds": update.seconds, **totals()}


@checked_at_call
def fedbuff(
    model: nn.Module,
    clients: Clients | Fleet,
    channel: Channel,
    *,
    rounds: int | range,
    local: Local,
    server: AsyncServer,
    buffer_size: int,
    seed: int = 0,
) -> Iterator[Record]:
    """After each ``buffer_size`` updates, their mean changes the server's model and a record comes.

    ``x <- x + 1/K sum_k staleness(t - tau_k) delta_k`` over the K updates in the buffer. A server
    optimizer gets minus this sum as gradient (the server learning rate of the paper is that of
    SGD). Source: Nguyen et al. 2022, arXiv 2106.06639, algorithm 1; ``Polynomial(0.5)`` is its
    weight.

    Records are those of `fedavg`. ``num_arrived`` is ``buffer_size``, ``num_stale`` is how many of
    these updates are stale, and ``staleness`` is their mean staleness.

    Args:
        rounds: how often the server's model changes; ``range(done, rounds)`` for a run that goes
            on.
        server: how many clients are at work, how long they take, and what a stale update weighs.
        buffer_size: K.

    >>> model = nn.Sequential(nn.Linear(2, 2), nn.LogSoftmax(dim=1))
    >>> share = torch.ones(4, 2), torch.zeros(4, dtype=torch.int64)
    >>> clients, local = {"ann": share, "bea": share}, Local(batch_size=2, lr=0.1, epochs=1)
    >>> how = {"local": local, "server": AsyncServer(concurrency=2), "buffer_size": 2}
    >>> records = fedbuff(model, clients, Channel(), rounds=2, **how)
    >>> [(record["seconds"], record["num_arrived"]) for record in records]
    [(1.0, 2), (2.0, 2)]
    """
    if buffer_size < 1:
        raise ValueError(f"buffer_size={buffer_size}: must be at least 1 update")
    workers = Workers(model, as_fleet(clients), local, seed, "server")
    at_work = _AtWork(workers, channel, server, to_come("rounds", rounds))
    yield CHECKED

    totals = channel.begin(set(workers.clients), [model], sends_weights=True)
    for t, buffer in at_work.updates(buffer_size):
        weights = [update.weight for update in buffer]
        if any(weights):
            mean = weighted_mean([update.delta for update in buffer], weights)
            move(model, _scaled(mean, sum(weights) / buffer_size), server.optimizer)
        yield {
            "round": t,
            "step": t + 1,
            "loss": sum(update.loss for update in buffer) / buffer_size,
            "num_arrived": buffer_size,
            "num_stale": sum(update.staleness > 0 for update in buffer),
            "num_failed": at_work.num_failed,
            "staleness": sum(update.staleness for update in buffer) / buffer_size,
            "seconds": buffer[-1].seconds,
            **totals(),
        }


# ------------------------------------------------------------------------------------ its steps


@dataclass
class _AtWork:
    """The clients at work, and their updates in the order of their arrival."""

    workers: Workers
    channel: Channel
    server: AsyncServer
    moves: range  # of the server's model: the numbers of those to come
    num_failed: int = 0  # clients whose training failed since the last move

    def __post_init__(self) -> None:
        check_optimizer("server", self.workers.model, self.server.optimizer)
        most, concurrency = len(self.workers.clients), self.server.concurrency
        if not 1 <= concurrency <= most:
            raise ValueError(f"concurrency={concurrency}: must be 1 to {most} clients at work")
        if not self.workers.are_here(self.channel):
            raise ValueError(
                "fedasync and fedbuff need all clients in this process; over several processes use "
                "fedavg, whose server waits for the end of a round"
            )
        self.flight = Flight() if self.server.flight is None else self.server.flight
        self.flight.begin(self.workers, self.moves.start)

    def updates(self, count: int) -> Iterator[tuple[int, list[_Arrived]]]:
        """For each move of the server's model: its number, and the updates that it waits for."""
        for move_ in self.moves:
            self.channel.step = move_ + 1
            yield move_, [self._next() for _ in range(count)]
            self.num_failed = 0

    def _next(self) -> _Arrived:
        """The next update that arrives; clients whose training fails are counted on the way."""
        flight = self.flight
        while True:
            self._send_models()
            flight.seconds, _, client, step, start = heapq.heappop(flight.at_work)
            number = flight.asked[client] - 1
            updates = self.workers.learn(self.channel, {client: start}, number, flight.optimizers)
            update = updates[client]
            delta, _ = send_update(client, self.workers.server, update, self.channel)
            flight.idle.append(client)
            if delta is not None and isinstance(update, LocalUpdate):
                flight.missed_in_a_row = 0
                late = self.channel.step - step
                weight = weight_of(self.server.staleness, late)
                return _Arrived(client, flight.seconds, late, weight, start, delta, update.loss)
            self.num_failed += 1
            self._count_missed()

    def _send_models(self) -> None:
        """Draw idle clients and send them the model, until ``concurrency`` clients are at work."""
        flight, channel, server = self.flight, self.channel, self.workers.server
        idle, asked, random = flight.idle, flight.asked, flight.random
        assert random is not None
        while idle and len(flight.at_work) < self.server.concurrency:
            client = idle.pop(int(random.integers(len(idle))))
            start = channel.send(server, client, "model", travelling(self.workers.model))
            seconds = flight.seconds + takes(self.server.clock, client, asked[client])
            number = asked.total()
            asked[client] += 1
            if seconds < math.inf:
                heapq.heappush(flight.at_work, (seconds, number, client, channel.step, start))
            else:
                idle.append(client)
                self._count_missed()

    def _count_missed(self) -> None:
        """Count one more missing answer; raise if there are too many in a row, to end the loop."""
        self.flight.missed_in_a_row += 1
        if self.flight.missed_in_a_row >= 10 * len(self.workers.clients):
            raise RuntimeError(
                f"{self.flight.missed_in_a_row} times in a row a client dropped out or failed in "
                "training: nobody is left to learn from. Lower the clock's dropout or lr, or check "
                "the data"
            )


def _toward(own: Tree, start: Tree, delta: Tree, share: float) -> Tree:
    """How much the server's model changes: a share of the difference to the client's model."""
    way = {name: start[name] + d - own[name].to(d) for name, d in delta.items()}
    return _scaled(way, share)


def _scaled(tree: Tree, factor: float) -> Tree:
    return {
        n: t * factor if t.is_floating_point() else (t * factor).round() for n, t in tree.items()
    }
