"""Federated averaging: a server and many clients train one model, compressed both ways.

Here: a round, from drawing the cohort to a mean update. Not here: what a client does alone
(local_sgd.py), how long it takes and what comes late (clock.py), how the model moves
(server_step.py), servers that never wait for a round (fedasync.py). Notebook 04
derives it.
"""

import math
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Shaped
from torch import Tensor, nn

from fltoolkit.channel import Channel
from fltoolkit.codecs.base import Codec, Identity
from fltoolkit.federated._many_at_once import local_updates
from fltoolkit.federated.adaptive import Rule
from fltoolkit.federated.client import LocalUpdate
from fltoolkit.federated.clock import Arrival, Backlog, Clock, Drop, Even, Staleness, takes, weigh
from fltoolkit.federated.privacy import GaussianDP
from fltoolkit.federated.server import check_optimizer, move
from fltoolkit.history import Record
from fltoolkit.trees import Tree, is_finite, masked_mean, weighted_mean

__all__ = ["Clients", "Train", "fedavg", "interval_averaging"]

Clients = Mapping[str, tuple[Shaped[Tensor, "_ ..."], Shaped[Tensor, "_ ..."]]]
"""Client id to its ``(x, y)``, as `fltoolkit.data.load_emnist_federated` returns."""

Train = Callable[..., Sequence[LocalUpdate | FloatingPointError]]
"""`local_updates`, or anything that is called like it."""

# -------------------------------------------------------------------------------- the algorithm


def fedavg(
    model: nn.Module,
    clients: Clients,
    channel: Channel,
    *,
    rounds: int,
    cohort_size: int,
    batch_size: int | None,
    lr: float,
    local_epochs: int | None = None,
    local_steps: int | None = None,
    prox: float = 0.0,
    loss_fn: Callable[[Tensor, Tensor], Tensor] = nn.functional.nll_loss,
    wait_for: int | None = None,
    timeout: float = math.inf,
    staleness: Staleness = Drop(),
    clock: Clock = Even(),
    server_optimizer: torch.optim.Optimizer | None = None,
    masked: bool = False,
    with_replacement: bool = False,
    privacy: GaussianDP | None = None,
    tune: Rule | None = None,
    train: Train = local_updates,
    seed: int = 0,
    start_round: int = 0,
    backlog: Backlog | None = None,
    server: str = "server",
) -> Iterator[Record]:
    """Federated averaging (McMahan et al. 2017, arXiv 1602.05629, algorithm 1); a record a round.

    A round:

    1. the server draws a cohort and sends it the ``model``
    2. each client trains from what it decoded, and sends back an ``update``: end minus start
    3. the first ``wait_for`` updates count, and late ones of earlier rounds by their staleness
    4. their mean, weighted by sample counts, moves the server's model

    Both directions go through ``channel``: give it codecs for the kinds ``model`` and ``update``.
    Codec memory such as residuals belongs to a client's own link, however cohorts are drawn.

    FedSGD is ``local_steps=1, batch_size=None`` with everybody in the cohort; FedProx is
    ``prox > 0``; FedAvgM, FedAdam and FedYogi (Reddi et al. 2020, arXiv 2003.00295) are server
    optimizers: any of torch.optim, or `Yogi` of server_step.py, with minus the mean update as
    gradient. Buffers (BatchNorm) are averaged.

    Stragglers: when ``wait_for`` updates are in, the round ends. The others come late; they were
    sent and their bytes count, in the round that asked for them. A late update joins the round in
    which it arrives, with the weight that ``staleness`` gives it: staleness = rounds since the
    model it started from. Until then its client is busy and not drawn. What a dropped update
    carried is lost, residuals do not know.

    A client whose training gives NaN says so (a ``control`` message), is named in a warning,
    and left out. Records hold

    - ``round`` and ``step`` (= round + 1), ``loss``: mean local loss of those in time, weighted by
      samples (the experimenter's view, it is not sent); missing if nobody was in time
    - ``num_arrived`` in time, ``num_late`` of this round's cohort, ``num_stale``: late ones of
      earlier rounds that joined, ``num_failed``
    - ``seconds``: virtual, since the beginning; ``nbytes_up``, ``nbytes_down``, ``nbytes``: totals

    To save a run and go on::

        parties = [Party("server", model, server_optimizer), backlog := Backlog()]
        save_run(folder, parties, channel)              # after any record
        start_round = load_run(folder, parties, channel)

    Args:
        model: the server's, moved in place before each record; also the clients' workbench.
        clients: ids to data ``(x, y)``; here in one process, but only the channel connects them.
        cohort_size: clients a round (C times all of them, in the paper's words).
        batch_size: B; None for all samples at once.
        lr: of the clients' plain SGD.
        local_epochs: E. Give this, or
        local_steps: tau, the number of local steps.
        wait_for: how many updates a round needs; the others are backups. By default all.
        timeout: virtual seconds after which a round ends with what has arrived.
        server_optimizer: over ``model.parameters()``; by default the mean update is added.
        masked: average each coordinate over those who sent it (`masked_mean`), for top-k codecs.
        with_replacement: who is drawn twice works once and counts twice.
        privacy: clip updates and add noise, in place of the weighted mean; see `GaussianDP`.
        tune: asked before a round, with the record of the last, for the codec of the updates; what
            links remember is kept, and the cohort is told in ``control`` messages.
        train: how clients learn; `local_updates` is fast, any function called like it fits.
        start_round: rounds already done, for a run that goes on.
        backlog: late updates from before, for a run that goes on.
        server: its name in the ledger.

    Raises:
        FloatingPointError: training failed at every client of a cohort.
        RuntimeError: clients dropped out, so that the round would never end.
    """
    wait_for = cohort_size if wait_for is None else wait_for
    _check(clients, rounds - start_round, cohort_size, wait_for, timeout, with_replacement, server)
    if privacy is not None and (masked or with_replacement or not isinstance(staleness, Drop)):
        raise ValueError(
            f"privacy={privacy}: each update must count once and alike. Leave masked and "
            "with_replacement False and staleness=Drop()"
        )
    check_optimizer(server, model, server_optimizer)
    backlog = Backlog() if backlog is None else backlog
    how = {"loss_fn": loss_fn, "lr": lr, "prox": prox, "batch_size": batch_size}
    how |= {"local_epochs": local_epochs, "local_steps": local_steps}
    totals = channel.totals(set(clients))
    record: Record | None = None
    for round_ in range(start_round, rounds):
        channel.step = round_ + 1
        busy = backlog.busy()
        idle = [client for client in clients if client not in busy]
        cohort = _draw(idle, cohort_size, with_replacement, seed, round_)

        if tune is not None:
            _tell_codec(channel, server, cohort, tune(record) if record else None)
        starts = {c: channel.send(server, c, "model", model.state_dict()) for c in cohort}

        seconds = {c: backlog.seconds + takes(clock, c, round_) for c in cohort}
        at_work = [c for c in cohort if seconds[c] < math.inf]  # the others drop out
        updates = train(
            model,
            [starts[c] for c in at_work],
            [clients[c] for c in at_work],
            seeds=[client_seed(seed, round_, c) for c in at_work],
            **how,
        )

        answers = []
        for c, update in zip(at_work, updates, strict=True):
            delta, masks = send_update(c, server, update, channel, masked)
            weight = cohort[c] * len(clients[c][1])
            answers.append(Arrival(c, round_, seconds[c], weight, _loss(update), delta, masks))

        num_silent = len(cohort) - len(at_work)
        in_time, late, end = _first(answers, wait_for, num_silent, backlog.seconds + timeout)
        stale = [a for a in backlog.take(until=end) if weigh(staleness, round_ - a.round_) > 0]
        backlog.late += late

        if counting := in_time + stale:
            weights = [a.weight * weigh(staleness, round_ - a.round_) for a in counting]
            mean = _average(counting, weights, masked, privacy, round_)
            move(model, mean, server_optimizer)

        record = {
            "round": round_,
            "step": channel.step,
            **_mean_loss(in_time),
            "num_arrived": len(in_time),
            "num_late": len(late),
            "num_stale": len(stale),
            "num_failed": sum(a.delta is None for a in answers),
            "seconds": backlog.seconds,
            **totals(),
        }
        yield record


def interval_averaging(
    model: nn.Module,
    replicas: Clients,
    channel: Channel,
    *,
    num_averages: int,
    interval_steps: int,
    replicas_to_aggregate: int | None = None,
    **settings: Any,
) -> Iterator[Record]:
    """Average the weights of all replicas every ``interval_steps`` local steps.

    It is `fedavg` with everybody in the cohort. All replicas start equal; an average needs the
    blocks of ``replicas_to_aggregate`` of them, the others are backups, whose blocks are dropped
    when they come late (or see ``staleness``); nobody begins the next block before the average is
    made. A replica weighs as many samples as it has. These are the documented semantics of
    coMind's FederatedAveragingOptimizer (2018). ``settings`` are those of `fedavg`.
    """
    return fedavg(
        model,
        replicas,
        channel,
        rounds=num_averages,
        cohort_size=len(replicas),
        local_steps=interval_steps,
        wait_for=replicas_to_aggregate,
        **settings,
    )


# ---------------------------------------------------------------------------- steps of a round


def _draw(
    idle: Sequence[str], size: int, with_replacement: bool, seed: int, round_: int
) -> Counter[str]:
    """The cohort of a round, in the order drawn, and how often each client was drawn."""
    random = np.random.default_rng([seed, round_])
    if with_replacement and idle:
        return Counter(idle[k] for k in random.integers(len(idle), size=size))
    return Counter(idle[k] for k in random.permutation(len(idle))[:size])


def _tell_codec(channel: Channel, server: str, cohort: Iterable[str], codec: Codec | None) -> None:
    """Change the codec of the updates, and tell the cohort which one is in force."""
    if codec is not None:
        channel.change_codec("update", codec, keep=True)
    name = repr(channel.codecs.get("update", Identity())).encode()
    for client in cohort:
        told = {"codec": torch.frombuffer(bytearray(name), dtype=torch.uint8)}
        channel.send(server, client, "control", told)


def client_seed(seed: int, round_: int, client: str) -> int:
    """Of a client's batches in a round: the same whoever else is in the cohort."""
    key = [seed, round_, zlib.crc32(client.encode())]
    return int(np.random.SeedSequence(key).generate_state(1)[0])


def send_update(
    client: str,
    server: str,
    update: LocalUpdate | FloatingPointError,
    channel: Channel,
    masked: bool = False,
) -> tuple[Tree | None, Tree]:
    """A client sends what it has learned; returns what arrives of it, and which coordinates.

    If training has failed, it says so instead, in a ``control`` message, and None arrives: no NaN
    touches the codec's memory or the server.
    """
    if isinstance(update, LocalUpdate) and not all(map(is_finite, update.delta.values())):
        update = FloatingPointError("its update holds NaN or infinite values")
    if isinstance(update, FloatingPointError):
        warnings.warn(
            f"client {client!r} is left out of round {channel.step - 1}: {update}", stacklevel=3
        )
        channel.send(client, server, "control", {"failed": torch.ones((), dtype=torch.uint8)})
        return None, {}
    if masked:
        return channel.send_masked(client, server, "update", update.delta)
    return channel.send(client, server, "update", update.delta), {}


def _first(
    answers: list[Arrival], wait_for: int, num_silent: int, deadline: float
) -> tuple[list[Arrival], list[Arrival], float]:
    """Who is in time, who is late, and when the round ends.

    It ends with the ``wait_for``-th update, when everybody has answered, or at the deadline. Of
    two that arrive together, the one drawn first comes first.
    """
    answers = sorted(answers, key=lambda a: a.seconds)
    updates = [a for a in answers if a.delta is not None]
    if answers and not updates:
        raise FloatingPointError(
            f"round {answers[0].round_}: training failed at {sorted(a.client for a in answers)}, "
            "which is everybody who was asked. The model has diverged or the data hold NaN: lower "
            "lr or check the data. All records so far are good."
        )
    if len(updates) >= wait_for:
        end = updates[wait_for - 1].seconds
    else:
        end = math.inf if num_silent or not answers else answers[-1].seconds
    if (end := min(end, deadline)) == math.inf:
        raise RuntimeError(
            f"wait_for={wait_for}, updates that come: {len(updates)}, clients that dropped out: "
            f"{num_silent}. The round would never end: give a timeout, or wait for fewer"
        )
    num_in_time = sum(a.seconds <= end for a in updates[:wait_for])
    return updates[:num_in_time], updates[num_in_time:], end


def _average(
    arrivals: list[Arrival],
    weights: list[float],
    masked: bool,
    privacy: GaussianDP | None,
    round_: int,
) -> Tree:
    deltas = [a.delta for a in arrivals if a.delta is not None]
    if privacy is not None:
        return privacy.mean(deltas, round_)
    if masked:
        return masked_mean(deltas, [a.masks for a in arrivals], weights)
    return weighted_mean(deltas, weights)


def _loss(update: LocalUpdate | FloatingPointError) -> float:
    return math.nan if isinstance(update, FloatingPointError) else update.loss


def _mean_loss(in_time: list[Arrival]) -> Record:
    """Over samples; nothing if nobody was in time, since NaN is no JSON."""
    num_samples = sum(a.weight for a in in_time)
    loss = sum(a.loss * a.weight for a in in_time)
    return {"loss": loss / num_samples} if num_samples else {}


def _check(
    clients: Clients,
    rounds_left: int,
    cohort_size: int,
    wait_for: int,
    timeout: float,
    with_replacement: bool,
    server: str,
) -> None:
    if rounds_left < 1:
        raise ValueError(f"rounds leaves {rounds_left} rounds to train; it counts from 0")
    if server in clients:
        raise ValueError(f"a client and the server are both called {server!r}: give server=")
    of_first = None
    for client, (x, y) in clients.items():
        of_first = of_first or (client, _like(x, y))
        if _like(x, y) != of_first[1]:
            raise ValueError(
                f"client {client!r} has {_like(x, y)}, and {of_first[0]!r} {of_first[1]}: all "
                "learn one model, so their samples must be of one shape and dtype"
            )
        if len(x) != len(y) or not len(y):
            raise ValueError(
                f"client {client!r} has {len(x)} samples and {len(y)} labels: need one each, and "
                "at least 1"
            )
    if cohort_size < 1 or (cohort_size > len(clients) and not with_replacement):
        raise ValueError(f"cohort_size={cohort_size}: must be 1 to {len(clients)} clients")
    if not 1 <= wait_for <= cohort_size:
        raise ValueError(f"wait_for={wait_for}: must be 1 to cohort_size={cohort_size} updates")
    if not timeout > 0:
        raise ValueError(f"timeout={timeout}: virtual seconds above 0")


def _like(x: Tensor, y: Tensor) -> str:
    """Shape and dtype of one sample and its label."""
    return f"samples {list(x.shape[1:])} {x.dtype}, labels {list(y.shape[1:])} {y.dtype}"
