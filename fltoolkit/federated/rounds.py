"""Federated averaging: a server and many clients train one model, compressed both ways.

Here: a round, from drawing the cohort to a mean update. Not here: what a client does alone
(client.py), how long it takes and what comes late (clock.py), how updates are averaged (means.py),
how the model moves (server.py), servers that never wait for a round (asynchronous.py). Notebook 04
derives it.
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
from fltoolkit.codecs.base import Codec, Identity
from fltoolkit.federated.client import Local, LocalUpdate, check_count, travelling
from fltoolkit.federated.clock import Arrivals, Backlog, Drop, ReceivedUpdate
from fltoolkit.federated.means import Collecting, WithMasks
from fltoolkit.federated.privacy import GaussianDP
from fltoolkit.federated.samples import Clients
from fltoolkit.federated.server import Server, check_optimizer, move
from fltoolkit.federated.workers import Fleet, Workers, as_fleet, mean_loss, send_update
from fltoolkit.history import CHECKED, Record, checked_at_call, to_come
from fltoolkit.trees import Tree


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
    3. the first updates count (``server.arrivals``), and late ones of earlier rounds by staleness
    4. their mean (``server.mean``), weighted by sample counts, moves the server's model

    ::

        fedavg(model, clients, Channel(), rounds=20, cohort=10,
               local=Local(batch_size=10, lr=0.1, epochs=1))

    Both directions go through ``channel``: give it codecs for the kinds ``model`` and ``update``.
    Codec memory such as residuals belongs to the client's own link and is kept between its rounds.

    FedSGD is ``Local(batch_size=None, steps=1, ...)`` with everybody in the cohort; FedProx is
    ``Local(prox=...)`` above 0; FedAvgM, FedAdam and FedYogi (Reddi et al. 2020, arXiv 2003.00295)
    are server optimizers: any of torch.optim, or `Yogi`, with minus the mean update as gradient.
    Buffers (BatchNorm) are averaged. Frozen parameters are never sent: everybody has them from the
    beginning. A tied weight is sent once.

    Stragglers: when ``arrivals.wait_for`` updates have arrived, the round ends. The others are
    late. Their bytes count in the round that asked for them. A late update becomes part of the mean
    of the round in which it arrives, with the weight that ``arrivals.staleness`` gives it:
    staleness is the number of rounds since the model from which the client started. Until its
    update arrives, a client is busy and is not drawn. If a late update is dropped, its content is
    never sent again: the client's error feedback takes it as delivered.

    A client whose training gives NaN sends a ``control`` message that says so. A warning names this
    client, and the mean is made without it. Records hold

    - ``round`` and ``step`` (= round + 1)
    - ``loss``: the mean local loss of the clients in time, weighted by samples. It is not sent;
      only the experimenter sees it. It is missing if no client was in time
    - ``num_arrived``: updates in time; ``num_late``: late updates of this round's cohort;
      ``num_stale``: late updates of earlier rounds that arrived in this round; ``num_failed``:
      clients whose training failed
    - ``seconds``: virtual time since the beginning; ``nbytes_up``, ``nbytes_down``, ``nbytes``:
      totals

    To save a run and go on::

        parties = [Party("server", model, optimizer), backlog := Backlog()]
        save_run(folder, parties, channel)              # after any record
        done = load_run(folder, parties, channel)       # on another day
        fedavg(..., rounds=range(done, 20), server=Server(optimizer=..., backlog=backlog))

    Arguments are checked at the call, and the model is tried on two samples (not if the clients
    are a `Fleet` with a ``train`` of its own, which may read samples in its own way). Training
    begins when the first record is asked for.

    Args:
        model: the server's model. It is changed in place before each record. Clients also use the
            module to compute, and leave it as it was.
        clients: names to data ``(x, y)``, as tensors, numpy arrays or a torch Dataset; here in one
            process, but only the channel connects them. A `Fleet` also says how they train.
        rounds: how many rounds; ``range(done, rounds)`` for a run that goes on.
        cohort: how many clients take part in a round, or a `Cohort`.
        local: what each of them does: batch size, learning rate or optimizer, epochs or steps.
        server: what the server does with the updates: their mean, its optimizer, late updates,
            codecs that change. By default it waits for all, and adds their mean.
        seed: the seed of cohorts, batches and random layers.

    Raises:
        ValueError, TypeError: an argument is not allowed; raised at the call.
        FloatingPointError: training failed at every client of a cohort.
        RuntimeError: so many clients dropped out that the round would never end.

    >>> model = nn.Sequential(nn.Linear(2, 2), nn.LogSoftmax(dim=1))
    >>> share = torch.ones(4, 2), torch.zeros(4, dtype=torch.int64)
    >>> clients = {"ann": share, "bea": share, "cem": share}
    >>> local = Local(batch_size=2, lr=0.1, epochs=1)
    >>> for record in fedavg(model, clients, Channel(), rounds=2, cohort=2, local=local):
    ...     print(record["num_arrived"], record["nbytes_up"], record["nbytes_down"])
    2 102 102
    2 204 204
    """
    cohort = cohort if isinstance(cohort, Cohort) else Cohort(cohort)
    if not isinstance(server, Server):
        raise TypeError(f"server={server!r}: give what it does as one value, Server(mean=...)")
    workers = Workers(model, as_fleet(clients), local, seed, server.name)
    rounds = to_come("rounds", rounds)
    _check(workers, channel, cohort, server)
    arrivals = replace(server.arrivals, wait_for=server.arrivals.wait_for or cohort.size)
    backlog = Backlog() if server.backlog is None else server.backlog
    yield CHECKED

    totals = channel.begin(set(workers.clients), [model], sends_weights=True)
    name, record = server.name, Record()
    masked = isinstance(server.mean, WithMasks)
    collecting = isinstance(server.mean, Collecting)
    for round_ in rounds:
        channel.step = round_ + 1
        drawn = cohort.draw(backlog.idle(workers.clients), seed, round_)
        if server.tune is not None:
            _announce_codec(channel, name, drawn, server.tune(record) if record else None)

        due = arrivals.due(drawn, round_, backlog.seconds)  # a client that drops out is not in it
        received = []
        for some in _in_turn([*drawn]):
            starts = {c: channel.send(name, c, "model", travelling(model)) for c in some}
            asked = {c: start for c, start in starts.items() if c in due}
            for c, update in workers.learn(channel, asked, round_, backlog.optimizers).items():
                delta, masks = send_update(c, name, update, channel, masked, hold=collecting)
                weight, loss = drawn[c] * len(workers.clients[c][1]), _loss(update)
                received.append(ReceivedUpdate(c, round_, due[c], weight, loss, delta, masks))

        counting, counts = _close(received, len(drawn) - len(due), round_, arrivals, backlog)
        if counting and (collecting or channel.is_here(name)):
            move(model, _mean_of(counting, received, channel, server), server.optimizer)
        record = {"round": round_, "step": channel.step, **counts, **totals()}
        received, counting = [], []  # else they would stay in memory during the next round
        yield record


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

    It is `fedavg` with everybody in the cohort. All replicas start equal; an average needs the
    blocks of ``server.arrivals.wait_for`` of them. The others are backups: blocks that come late
    are dropped (or count by ``arrivals.staleness``). Nobody begins the next block before the
    average is made. A replica weighs as many samples as it has. These are the documented semantics
    of coMind's FederatedAveragingOptimizer (2018), whose ``interval_steps`` is ``local.steps``, and
    ``replicas_to_aggregate`` ``arrivals.wait_for``.

    >>> model = nn.Sequential(nn.Linear(2, 2), nn.LogSoftmax(dim=1))
    >>> share = torch.ones(4, 2), torch.zeros(4, dtype=torch.int64)
    >>> replicas, local = {"one": share, "two": share}, Local(batch_size=2, lr=0.1, steps=5)
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

AT_A_TIME = 1000  # clients of a round: of more, only the updates that have arrived are in memory


def _in_turn(cohort: list[str]) -> Iterator[list[str]]:
    return (cohort[k : k + AT_A_TIME] for k in range(0, len(cohort), AT_A_TIME))


def _announce_codec(
    channel: Channel, server: str, cohort: Iterable[str], codec: Codec | None
) -> None:
    """Change the codec of the updates, and send its name to the cohort."""
    if codec is not None:
        channel.change_codec("update", codec, keep=True)
    name = repr(channel.codecs.get("update", Identity())).encode()
    for client in cohort:
        message = {"codec": torch.frombuffer(bytearray(name), dtype=torch.uint8)}
        channel.send(server, client, "control", message)


def _close(
    received: Sequence[ReceivedUpdate],
    num_silent: int,
    round_: int,
    arrivals: Arrivals,
    backlog: Backlog,
) -> tuple[list[ReceivedUpdate], Record]:
    """End a round: the updates that count, with their weights, and what the record says of them.

    The round ends with the ``wait_for``-th update, when all clients have answered, or at the
    timeout. If two updates arrive at the same time, the client that was drawn first comes first.
    """
    updates = sorted((u for u in received if u.delta is not None), key=lambda u: u.seconds)
    if received and not updates:
        raise FloatingPointError(
            f"round {round_}: training failed at {sorted(u.client for u in received)}, which is "
            "everybody who was asked. The model has diverged or the data hold NaN: lower lr or "
            "check the data. All records so far are good."
        )
    wait_for = arrivals.wait_for or len(received)
    if len(updates) >= wait_for:
        end = updates[wait_for - 1].seconds
    else:
        end = math.inf if num_silent or not received else max(u.seconds for u in received)
    if (end := min(end, backlog.seconds + arrivals.timeout)) == math.inf:
        raise RuntimeError(
            f"wait_for={wait_for}, updates that come: {len(updates)}, clients that dropped "
            f"out: {num_silent}. The round would never end: give a timeout, or wait for fewer"
        )
    num_in_time = sum(u.seconds <= end for u in updates[:wait_for])
    in_time, late = updates[:num_in_time], updates[num_in_time:]
    stale = arrivals.weighed(backlog.take(until=end), round_)
    backlog.late += late
    return arrivals.weighed(in_time, round_) + stale, {
        **mean_loss([u.loss for u in in_time], [u.weight for u in in_time]),
        "num_arrived": len(in_time),
        "num_late": len(late),
        "num_stale": len(stale),
        "num_failed": len(received) - len(updates),
        "seconds": end,
    }


def _mean_of(
    counting: Sequence[ReceivedUpdate],
    received: Sequence[ReceivedUpdate],
    channel: Channel,
    server: Server,
) -> Tree:
    """The mean of the updates that count; a mean that collects also hears who came too late."""
    if not isinstance(server.mean, Collecting):
        return server.mean(counting)
    own = {u.client: u.delta for u in counting if u.delta is not None}
    late = [u.client for u in received if u.delta is not None and u.client not in own]
    return server.mean.collect(channel, server.name, own, late)


def _loss(update: LocalUpdate | FloatingPointError) -> float:
    return update.loss if isinstance(update, LocalUpdate) else math.nan


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
    if isinstance(mean, GaussianDP | Collecting) and (cohort.with_replacement or not drops):
        raise ValueError(
            f"mean={mean}: each update must count once and alike. Leave with_replacement False and "
            "staleness=Drop()"
        )
    if server.tune is not None and not workers.are_here(channel):
        raise ValueError("tune needs the bytes of all clients, and some are in other processes")
