"""Federated averaging: a server and many clients train one model, compressed both ways.

Here: the rounds; begin with `one_round`, whose docstring has the steps of one. Notebook 04 derives
it.
"""

from __future__ import annotations  # `help(fedavg)` shows the names of types

import math
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from fltoolkit.channel import Channel
from fltoolkit.codecs.base import Codec, Identity, walk
from fltoolkit.federated.client import Local, check_count, sent_entries
from fltoolkit.federated.clock import Arrivals, Backlog, Drop, ReceivedUpdate, takes
from fltoolkit.federated.means import Collecting, RunningMean, WithMasks, mean_of_all
from fltoolkit.federated.samples import Clients
from fltoolkit.federated.server import Server, apply_update, check_optimizer
from fltoolkit.federated.workers import (
    Fleet,
    Workers,
    as_fleet,
    mean_loss,
    send_update,
    what_is_wrong,
)
from fltoolkit.history import CHECKED, FedAvgRecord, Record, checked_at_call, to_come
from fltoolkit.links import Link
from fltoolkit.party import TrainingWarning
from fltoolkit.trees import Tree, dense_nbytes

AT_A_TIME, MOST = 1000, 1 << 28  # clients, or bytes of their models, that are sent before an update


@checked_at_call
def fedavg(
    model: nn.Module,
    clients: Clients | Fleet,
    channel: Channel,
    *,
    rounds: int | range,
    cohort: int,
    local: Local,
    server: Server | None = None,
    seed: int = 0,
) -> Iterator[FedAvgRecord]:
    """Federated averaging (McMahan et al. 2017, arXiv 1602.05629, alg. 1); one record per round.

    A round:

    1. the server draws a cohort and sends it the ``model``
    2. each client trains from what it decoded, and sends back an ``update``: end minus start
    3. the first updates count (``server.arrivals``); late ones are dropped, or count in a later
       round with the weight ``server.arrivals.staleness``
    4. their mean (``server.mean``), weighted by sample counts, moves the server's model

    Frozen parameters are never sent, and a tied weight is sent once. Buffers are averaged. A client
    whose training gives NaN sends a ``control`` message, and the mean is made without it, as it is
    without an update that holds NaN or has other shapes than the model.
    docs/federated.md has late clients, server optimizers and saved runs. Notebook 04 writes a round
    by hand.

    Args:
        model: the server's, changed in place before each record. Clients only compute with it.
        clients: names to data ``(x, y)``, or a `Fleet`, which also has the function that trains.
        channel: with codecs for the kinds ``model`` and ``update``.
        rounds: how many rounds; ``range(done, rounds)`` for a run that goes on.
        cohort: how many clients take part in a round (C times all of them, in the paper's words).
        local: batch size, learning rate or optimizer, epochs or steps of a client.
        server: by default it waits for all updates, and adds their mean.
        seed: of cohorts, batches and random layers.

    Records hold ``round``, ``step`` (= round + 1), ``loss`` (mean local loss of the clients in
    time, weighted by samples; only the experimenter sees it), ``num_arrived`` (updates in time),
    ``num_late`` (of this cohort), ``num_stale`` (late ones of earlier rounds that count now),
    ``num_failed``, ``seconds`` (virtual time so far), with `mean_of_senders` ``share_sent`` (the
    share of their values that the updates hold), and the totals ``nbytes_up``, ``nbytes_down``,
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
    server = Server() if server is None else server
    if not isinstance(server, Server):
        raise TypeError(f"server={server!r}: give what it does as one value, Server(mean=...)")
    workers = Workers(model, as_fleet(clients), local, seed, server.name)
    rounds = to_come("rounds", rounds)
    _check(workers, channel, cohort, server)
    backlog = Backlog() if server.backlog is None else server.backlog
    yield CHECKED  # the call ends here; what follows runs with the first record

    totals = channel.begin(set(workers.clients), [model], sends_weights=True)
    record: Any = {}
    for round_ in rounds:
        channel.step = round_ + 1
        drawn = draw_cohort(backlog.idle(workers.clients), cohort, seed, round_)
        if server.tune is not None:
            _announce_codec(channel, server, drawn, record)
        outcome = one_round(workers, channel, drawn, server, backlog, round_)
        record = {"round": round_, "step": channel.step, **outcome, **totals()}
        yield record


def one_round(
    workers: Workers,
    channel: Channel,
    cohort: Sequence[str],
    server: Server,
    backlog: Backlog,
    round_: int,
) -> Record:
    """A round with this cohort; returns what its record says of it.

    1. send the model to each client of the cohort
    2. let each client train, and send its update back; who drops out sends nothing
    3. end the round: which updates are in time, which late, and which late ones came meanwhile
    4. make the mean of the updates that count now
    5. move the server's model by it

    Changes ``workers.model``, and ``backlog``: the virtual time, and the updates that are late.
    """
    arrivals = server.arrivals
    times = {k: backlog.seconds + takes(arrivals.clock, k, round_) for k in cohort}
    due = {k: time for k, time in times.items() if time < math.inf}  # the others drop out
    model, updates = sent_entries(workers.model), []
    size = min(AT_A_TIME, 1 + MOST // (dense_nbytes(model) + 1))  # parts, so that memory suffices
    comes = channel.is_here(server.name) and not isinstance(server.mean, Collecting)
    running = None if backlog.late or size >= len(cohort) else _running_mean(workers, server, due)
    for first in range(0, len(cohort), size):
        part = cohort[first : first + size]
        starts = {k: channel.send(server.name, k, "model", model) for k in part}
        answering = {k: starts[k] for k in part if k in due}
        for k, update in workers.learn(channel, answering, round_).items():
            weight = len(workers.clients[k][1])
            loss, delta, masks = send_update(k, server.name, update, channel, server.mean)
            arrived = delta if comes else None
            if arrived and isinstance(server.mean, WithMasks) and not masks:
                _check_masks(channel.links.codecs_of(Link(k, server.name, "update")).receiving)
            if arrived is not None and (wrong := what_is_wrong(arrived, model)):
                warnings.warn(
                    f"client {k!r} is left out of round {round_}: it sent {wrong}", stacklevel=4
                )
                loss, delta, masks = math.nan, None, {}
            elif running is not None and arrived is not None:
                running.add(arrived, weight)
                delta = {}  # it is in the sum
            updates.append(ReceivedUpdate(k, round_, due[k], weight, loss, delta, masks))

    in_time, late, came = _end_round(updates, len(cohort) - len(due), arrivals, backlog)
    stale = arrivals.with_staleness(came, round_)
    counting = arrivals.with_staleness(in_time, round_) + stale
    mean: Tree = {}
    if counting and isinstance(server.mean, Collecting):  # it sends the updates itself
        deltas = {u.client: u.delta for u in counting if u.delta is not None}
        mean = server.mean.collect(channel, server.name, deltas, [u.client for u in late])
    elif counting and channel.is_here(server.name):
        mean = server.mean(counting) if running is None else running.mean()
    if mean and channel.is_here(server.name):
        apply_update(workers.model, mean, server.optimizer)
    return {
        **mean_loss([u.loss for u in in_time], [u.weight for u in in_time]),
        "num_arrived": len(in_time),
        "num_late": len(late),
        "num_stale": len(stale),
        "num_failed": sum(u.delta is None for u in updates),
        **_share_sent(counting),
        "seconds": backlog.seconds,
    }


def draw_cohort(clients: Sequence[str], size: int, seed: int, round_: int) -> list[str]:
    """The cohort of a round, in the order drawn; all clients if there are fewer.

    >>> draw_cohort(["ann", "bea", "cem"], 2, seed=0, round_=0)
    ['cem', 'ann']
    """
    order = np.random.default_rng([seed, round_]).permutation(len(clients))
    return [clients[k] for k in order[:size]]


@checked_at_call
def interval_averaging(
    model: nn.Module,
    replicas: Clients | Fleet,
    channel: Channel,
    *,
    num_averages: int | range,
    local: Local,
    server: Server | None = None,
    seed: int = 0,
) -> Iterator[FedAvgRecord]:
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
        raise ValueError(f"local.epochs={local.epochs}: an interval has steps, Local(steps=...)")
    how: dict[str, Any] = {"local": local, "server": server, "seed": seed}
    records = fedavg(model, replicas, channel, rounds=num_averages, cohort=len(replicas), **how)
    yield CHECKED
    yield from records


# ---------------------------------------------------------------------------- steps of a round


def _share_sent(counting: Sequence[ReceivedUpdate]) -> Record:
    """Which share of the values the updates hold, if the mean asks for their masks."""
    masks = [mask for update in counting for mask in update.masks.values()]
    total = sum(mask.numel() for mask in masks)
    return {"share_sent": sum(int(mask.sum()) for mask in masks) / total} if total else {}


def _running_mean(workers: Workers, server: Server, due: dict[str, float]) -> RunningMean | None:
    """For large rounds: a mean that adds updates as they arrive, if all of them count, in order."""
    arrivals, all_count = server.arrivals, server.mean is mean_of_all
    waits = arrivals.wait_for is None and arrivals.timeout == math.inf
    if not (all_count and waits and len({*due.values()}) == 1):
        return None
    return RunningMean(math.fsum(len(workers.clients[k][1]) for k in due))


def _announce_codec(
    channel: Channel, server: Server, cohort: Sequence[str], last_record: Record
) -> None:
    """Let ``server.tune`` choose the updates' codec, and send its name to the cohort."""
    if last_record and server.tune and (codec := server.tune(last_record)) is not None:
        channel.change_codec("update", codec, keep=True)
    name = repr(channel.codecs.get("update", Identity())).encode()
    for client in cohort:
        message = {"codec": torch.frombuffer(bytearray(name), dtype=torch.uint8)}
        channel.send(server.name, client, "control", message)


def _end_round(
    updates: Sequence[ReceivedUpdate], num_silent: int, arrivals: Arrivals, backlog: Backlog
) -> tuple[list[ReceivedUpdate], list[ReceivedUpdate], list[ReceivedUpdate]]:
    """The cohort's updates in time and late, and the late ones of earlier rounds that came now.

    The round ends with update ``wait_for``, with the last answer, or at the timeout. The backlog's
    time is this end afterwards. It gives away those that came, and keeps the cohort's late ones.

    Raises FloatingPointError if the training of all clients that have answered failed.
    """
    good = sorted((u for u in updates if u.delta is not None), key=lambda u: u.seconds)
    if updates and not good:
        raise FloatingPointError(
            f"round {updates[0].round_}: training failed at {sorted(u.client for u in updates)}, "
            "the whole cohort. The model has diverged or the data hold NaN: lower lr or check the "
            "data. All records so far are good."
        )
    wait_for = arrivals.wait_for or len(updates) + num_silent
    if len(good) >= wait_for and good:
        end = good[wait_for - 1].seconds
    else:
        end = math.inf if num_silent or not updates else max(u.seconds for u in updates)
    if (end := min(end, backlog.seconds + arrivals.timeout)) == math.inf:
        raise RuntimeError(
            f"wait_for={wait_for}, updates that come: {len(good)}, clients that dropped out: "
            f"{num_silent}. The round would never end: give a timeout, or wait for fewer"
        )
    in_time = [u for u in good[: arrivals.wait_for] if u.seconds <= end]
    late = good[len(in_time) :]
    came = backlog.take(until=end)
    backlog.late += late
    return in_time, late, came


def _check_masks(codec: Codec) -> None:
    """Raise ValueError for a sparse codec without masks; warn of a dense one, which needs none."""
    if any(getattr(part, "leaves_out", False) for part in walk(codec)):
        raise ValueError(
            f"mean_of_senders: {codec} leaves out values and does not say which, because a later "
            "or earlier stage mixes them. Use mean_of_all, or a sparse stage alone"
        )
    if codec != Identity():
        words = f"mean_of_senders: {codec} sends all values, so this is mean_of_all"
        warnings.warn(words, TrainingWarning, stacklevel=5)


def _check(workers: Workers, channel: Channel, cohort: int, server: Server) -> None:
    check_optimizer(server.name, workers.model, server.optimizer)
    check_cohort(cohort, len(workers.clients))
    arrivals, mean = server.arrivals, server.mean
    if arrivals.wait_for is not None and arrivals.wait_for > cohort:
        raise ValueError(
            f"wait_for={arrivals.wait_for}: must be 1 to {cohort} updates, the cohort's size"
        )
    once = isinstance(mean, Collecting) or getattr(mean, "counts_each_once", False)
    if once and not isinstance(arrivals.staleness, Drop):
        raise ValueError(
            f"mean={mean}: each update must count once, with the same weight. Leave "
            "staleness=Drop()"
        )
    statistics = [n for n, buffer in workers.model.named_buffers() if buffer.is_floating_point()]
    if once and statistics:
        raise ValueError(
            f"mean={mean}: it would round or change {statistics[0]!r}, which is no weight but a "
            "statistic of the samples, such as a running variance. Use layers without buffers, for "
            "example nn.GroupNorm or BatchNorm with track_running_stats=False"
        )
    if server.tune is not None and not workers.are_here(channel):
        raise ValueError("tune needs the bytes of all clients, and some are in other processes")


def check_cohort(cohort: int, num_clients: int) -> None:
    """Raise ValueError unless a cohort of so many of the clients can be drawn."""
    check_count("cohort", cohort)
    if cohort is None or cohort > num_clients:
        raise ValueError(f"cohort={cohort}: must be 1 to {num_clients} clients")
