"""Federated averaging: a server and many clients train one model, compressed both ways.

Here: a round; begin with `_Averaging.one_round`, the whole algorithm on one screen. Not here: what
a client does alone (client.py), how long it takes and what comes late (clock.py), how updates are
averaged (means.py), how the model moves (server.py), servers that never wait for a round
(asynchronous.py). Notebook 04 derives it.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import nn

from fltoolkit.channel import Channel
from fltoolkit.codecs.base import Identity
from fltoolkit.federated.client import Local, check_count, sent_entries
from fltoolkit.federated.clock import Arrivals, Backlog, Drop, ReceivedUpdate
from fltoolkit.federated.means import Collecting, mean_update
from fltoolkit.federated.samples import Clients
from fltoolkit.federated.server import Server, apply_update, check_optimizer
from fltoolkit.federated.workers import Fleet, Workers, as_fleet, mean_loss, send_update
from fltoolkit.history import CHECKED, Record, checked_at_call, to_come


@dataclass(frozen=True)
class Cohort:
    """How many clients take part in a round, and how they are drawn.

    Args:
        size: clients per round (C times all of them, in the paper's words).
        with_replacement: a client may be drawn more than once. It still trains once and sends one
            update, and this update counts as often as the client was drawn.

    >>> Cohort(2).draw(["ann", "bea", "cem"], seed=0, round_=0)
    Counter({'cem': 1, 'ann': 1})
    """

    size: int
    with_replacement: bool = False

    def __post_init__(self) -> None:
        if self.size is None:
            raise TypeError("cohort=None: give the number of clients in a round")
        check_count("cohort size", self.size)

    def draw(self, idle: Sequence[str], seed: int, round_: int) -> Counter[str]:
        """The cohort of a round, in the order drawn, and how often each client was drawn."""
        random = np.random.default_rng([seed, round_])
        if self.with_replacement and idle:
            return Counter(idle[k] for k in random.integers(len(idle), size=self.size))
        return Counter(idle[k] for k in random.permutation(len(idle))[: self.size])


# -------------------------------------------------------------------------------- the algorithm


@checked_at_call
def fedavg(
    model: nn.Module,
    clients: Clients | Fleet,
    channel: Channel,
    *,
    rounds: int | range,
    cohort: int | Cohort,
    local: Local,
    server: Server = Server(),
    seed: int = 0,
) -> Iterator[Record]:
    """Federated averaging (McMahan et al. 2017, arXiv 1602.05629, alg. 1); one record per round.

    A round:

    1. the server draws a cohort and sends it the ``model``
    2. each client trains from what it decoded, and sends back an ``update``: end minus start
    3. the first updates count (``server.arrivals``); late ones are dropped, or count in a later
       round with the weight ``server.arrivals.staleness``
    4. their mean (``server.mean``), weighted by sample counts, moves the server's model

    Frozen parameters are never sent, and a tied weight is sent once. Buffers are averaged. A client
    whose training gives NaN sends a ``control`` message, and the mean is made without it.
    docs/federated.md has late clients, server optimizers and saved runs. Notebook 04 writes a round
    by hand.

    Args:
        model: the server's, changed in place before each record. Clients only compute with it.
        clients: names to data ``(x, y)``, or a `Fleet`, which also has the function that trains.
        channel: with codecs for the kinds ``model`` and ``update``.
        rounds: how many rounds; ``range(done, rounds)`` for a run that goes on.
        cohort: how many clients take part in a round, or a `Cohort`.
        local: batch size, learning rate or optimizer, epochs or steps of a client.
        server: by default it waits for all updates, and adds their mean.
        seed: of cohorts, batches and random layers.

    Records hold ``round``, ``step`` (= round + 1), ``loss`` (mean local loss of the clients in
    time, weighted by samples; only the experimenter sees it), ``num_arrived`` (updates in time),
    ``num_late`` (of this cohort), ``num_stale`` (late ones of earlier rounds that count now),
    ``num_failed``, ``seconds`` (virtual time so far) and the totals ``nbytes_up``, ``nbytes_down``,
    ``nbytes``.

    Raises:
        ValueError, TypeError: an argument is not allowed; raised at the call.
        FloatingPointError: training failed at every client of a cohort.
        RuntimeError: so many clients dropped out that the round would never end.

    >>> model = nn.Sequential(nn.Linear(2, 2), nn.LogSoftmax(dim=1))
    >>> data = torch.ones(4, 2), torch.zeros(4, dtype=torch.int64)
    >>> clients = {"ann": data, "bea": data, "cem": data}
    >>> local = Local(batch_size=2, lr=0.1, epochs=1)
    >>> for record in fedavg(model, clients, Channel(), rounds=2, cohort=2, local=local):
    ...     print(record["num_arrived"], record["nbytes_up"], record["nbytes_down"])
    2 102 102
    2 204 204
    """
    if not isinstance(server, Server):
        raise TypeError(f"server={server!r}: give what it does as one value, Server(mean=...)")
    workers = Workers(model, as_fleet(clients), local, seed, server.name)
    rounds = to_come("rounds", rounds)
    averaging = _Averaging(workers, channel, cohort, server)
    yield CHECKED  # the call ends here; what follows runs with the first record

    totals = channel.begin(set(workers.clients), [model], sends_weights=True)
    record: Record = {}
    for round_ in rounds:
        channel.step = round_ + 1
        outcome = averaging.one_round(round_, last_record=record)
        record = {"round": round_, "step": channel.step, **outcome, **totals()}
        yield record


class _Averaging:
    """The values that all rounds of a run use; `one_round` is the algorithm."""

    def __init__(self, workers: Workers, channel: Channel, cohort: int | Cohort, server: Server):
        cohort = cohort if isinstance(cohort, Cohort) else Cohort(cohort)
        _check(workers, channel, cohort, server)
        self.workers, self.channel, self.cohort, self.server = workers, channel, cohort, server
        wait_for = server.arrivals.wait_for or cohort.size
        self.arrivals = replace(server.arrivals, wait_for=wait_for)
        self.backlog = Backlog() if server.backlog is None else server.backlog

    def one_round(self, round_: int, last_record: Record) -> Record:
        """Draw a cohort, send the model, train, send the updates back, and apply their mean."""
        workers, channel, server = self.workers, self.channel, self.server
        backlog = self.backlog  # the late updates of earlier rounds, and the virtual time
        drawn = self.cohort.draw(backlog.idle(workers.clients), workers.seed, round_)
        _announce_codec(channel, server, drawn, last_record)

        due = self.arrivals.due(drawn, round_, backlog.seconds)  # without clients that drop out
        model, received = sent_entries(workers.model), []
        for part in _in_parts(drawn):  # a thousand clients at a time, so that memory suffices
            starts = {k: channel.send(server.name, k, "model", model) for k in part}
            remaining = {k: starts[k] for k in part if k in due}
            for k, update in workers.learn(channel, remaining, round_, backlog.optimizers).items():
                n_k = drawn[k] * len(workers.clients[k][1])  # times drawn, times its samples
                sent = send_update(k, server.name, update, channel, server.mean)
                received.append(ReceivedUpdate(k, round_, due[k], n_k, *sent))

        in_time, late, stale = self._separate_late(received, len(drawn) - len(due), round_)
        counting = self.arrivals.weighed(in_time, round_) + stale
        # empty if no update counts, or if the server is in another process
        if mean := mean_update(server.mean, channel, server.name, counting, late):
            apply_update(workers.model, mean, server.optimizer)
        return _counts(received, in_time, late, stale) | {"seconds": backlog.seconds}

    def _separate_late(
        self, received: Sequence[ReceivedUpdate], num_silent: int, round_: int
    ) -> tuple[list[ReceivedUpdate], list[ReceivedUpdate], list[ReceivedUpdate]]:
        """End the round: which updates are in time, which are late, which late ones count now.

        The late updates of this round join the backlog, and count in a later round.
        """
        arrivals, backlog = self.arrivals, self.backlog
        end = _end_of_round(received, num_silent, arrivals, backlog.seconds)
        good = sorted((u for u in received if u.delta is not None), key=lambda u: u.seconds)
        in_time = [u for u in good[: arrivals.wait_for] if u.seconds <= end]
        late = good[len(in_time) :]
        stale = arrivals.weighed(backlog.take(until=end), round_)
        backlog.late += late
        return in_time, late, stale


def interval_averaging(
    model: nn.Module,
    replicas: Clients | Fleet,
    channel: Channel,
    *,
    num_averages: int | range,
    local: Local,
    server: Server = Server(),
    seed: int = 0,
) -> Iterator[Record]:
    """Average the weights of all replicas every ``local.steps`` steps.

    It is `fedavg` with all clients in the cohort, which has the documented semantics of coMind's
    FederatedAveragingOptimizer (2018): ``interval_steps`` is ``local.steps``, and
    ``replicas_to_aggregate`` is ``server.arrivals.wait_for``.

    >>> model = nn.Sequential(nn.Linear(2, 2), nn.LogSoftmax(dim=1))
    >>> data = torch.ones(4, 2), torch.zeros(4, dtype=torch.int64)
    >>> replicas, local = {"one": data, "two": data}, Local(batch_size=2, lr=0.1, steps=5)
    >>> records = interval_averaging(model, replicas, Channel(), num_averages=3, local=local)
    >>> [record["num_arrived"] for record in records]
    [2, 2, 2]
    """
    if isinstance(local, Local) and local.steps is None:
        raise ValueError(
            f"local.epochs={local.epochs}: an interval is a number of steps, Local(steps=...)"
        )
    how: dict[str, Any] = {"local": local, "server": server, "seed": seed}
    return fedavg(model, replicas, channel, rounds=num_averages, cohort=len(replicas), **how)


# ---------------------------------------------------------------------------- steps of a round

AT_A_TIME = 1000


def _in_parts(cohort: Iterable[str]) -> Iterator[list[str]]:
    """The cohort in parts of `AT_A_TIME` clients: so many models at a time are in memory."""
    order = [*cohort]
    return (order[k : k + AT_A_TIME] for k in range(0, len(order), AT_A_TIME))


def _announce_codec(
    channel: Channel, server: Server, cohort: Iterable[str], last_record: Record
) -> None:
    """Let ``server.tune``, if any, choose the updates' codec; send its name to the cohort."""
    if server.tune is None:
        return
    if last_record and (codec := server.tune(last_record)) is not None:
        channel.change_codec("update", codec, keep=True)
    name = repr(channel.codecs.get("update", Identity())).encode()
    for client in cohort:
        message = {"codec": torch.frombuffer(bytearray(name), dtype=torch.uint8)}
        channel.send(server.name, client, "control", message)


def _end_of_round(
    received: Sequence[ReceivedUpdate], num_silent: int, arrivals: Arrivals, now: float
) -> float:
    """When the round ends: with update ``wait_for``, with the last answer, or at the timeout.

    Raises FloatingPointError if the training of all clients that have answered failed.
    """
    times = sorted(u.seconds for u in received if u.delta is not None)
    if received and not times:
        raise FloatingPointError(
            f"round {received[0].round_}: training failed at {sorted(u.client for u in received)}, "
            "the whole cohort. The model has diverged or the data hold NaN: lower lr or check the "
            "data. All records so far are good."
        )
    wait_for = arrivals.wait_for
    assert wait_for is not None
    if len(times) >= wait_for:
        end = times[wait_for - 1]
    else:
        end = math.inf if num_silent or not received else max(u.seconds for u in received)
    if (end := min(end, now + arrivals.timeout)) == math.inf:
        raise RuntimeError(
            f"wait_for={wait_for}, updates that come: {len(times)}, clients that dropped out: "
            f"{num_silent}. The round would never end: give a timeout, or wait for fewer"
        )
    return end


def _counts(
    received: Sequence[ReceivedUpdate],
    in_time: Sequence[ReceivedUpdate],
    late: Sequence[ReceivedUpdate],
    stale: Sequence[ReceivedUpdate],
) -> Record:
    """The mean loss of the clients in time, and how many updates of each kind there were."""
    loss = mean_loss([u.loss for u in in_time], [u.weight for u in in_time])
    counts = {"num_arrived": len(in_time), "num_late": len(late), "num_stale": len(stale)}
    return {**loss, **counts, "num_failed": sum(u.delta is None for u in received)}


def _check(workers: Workers, channel: Channel, cohort: Cohort, server: Server) -> None:
    check_optimizer(server.name, workers.model, server.optimizer)
    num_clients, arrivals, mean = len(workers.clients), server.arrivals, server.mean
    if cohort.size > num_clients and not cohort.with_replacement:
        raise ValueError(f"cohort={cohort.size}: must be 1 to {num_clients} clients")
    if arrivals.wait_for is not None and arrivals.wait_for > cohort.size:
        raise ValueError(
            f"wait_for={arrivals.wait_for}: must be 1 to {cohort.size} updates, the cohort's size"
        )
    drops = isinstance(arrivals.staleness, Drop)
    equal = isinstance(mean, Collecting) or getattr(mean, "counts_each_once", False)
    if equal and (cohort.with_replacement or not drops):
        raise ValueError(
            f"mean={mean}: each update must count once, with the same weight. Leave "
            "with_replacement=False and staleness=Drop()"
        )
    if server.tune is not None and not workers.are_here(channel):
        raise ValueError("tune needs the bytes of all clients, and some are in other processes")
