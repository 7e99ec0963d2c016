"""Servers that never wait for a round: FedAsync and FedBuff, on the virtual clock.

Some clients are at work at any time; whoever is done sends its update at once, and the next client
begins from the newest model. So nobody waits for stragglers, and updates are stale instead.
Not here: rounds (fedavg.py), what staleness weighs (clock.py). Next: plots.py.
"""

import heapq
import math
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from fltoolkit.channel import Channel
from fltoolkit.clock import Clock, Even, Polynomial, Staleness
from fltoolkit.fedavg import Clients, Train, client_seed, move, send_update
from fltoolkit.history import Record
from fltoolkit.local_sgd import LocalUpdate, local_updates
from fltoolkit.party import Party
from fltoolkit.split import _totals
from fltoolkit.trees import Tree, weighted_mean

__all__ = ["fedasync", "fedbuff"]


class _Landed(NamedTuple):
    """An update that has arrived, and the model it started from."""

    client: str
    seconds: float
    staleness: int  # how often the server's model has moved in between
    start: Tree
    delta: Tree
    loss: float


def fedasync(
    model: nn.Module,
    clients: Clients,
    channel: Channel,
    *,
    num_updates: int,
    concurrency: int,
    batch_size: int | None,
    lr: float,
    local_epochs: int | None = None,
    local_steps: int | None = None,
    prox: float = 0.0,
    loss_fn: Callable[[Tensor, Tensor], Tensor] = nn.functional.nll_loss,
    alpha: float = 0.6,
    staleness: Staleness = Polynomial(),
    clock: Clock = Even(),
    train: Train = local_updates,
    seed: int = 0,
    server: str = "server",
) -> Iterator[Record]:
    """Each client's model is mixed into the server's as soon as it arrives; a record an update.

    ``x <- (1 - a) x + a x_new`` with ``a = alpha * staleness(t - tau)``: t counts the server's
    moves, tau was t when the client was sent its model. Sample counts play no part.
    Source: Xie et al. 2019, arXiv 1903.03934, algorithm 1; ``prox`` is its rho.

    Records hold ``round`` (t), ``step`` (t + 1), ``client``, ``loss``, ``staleness``,
    ``num_failed`` since the last record, ``seconds`` and the totals of bytes. What is still under
    way at the end has not been sent. For the other arguments see `fedavg` and `fedbuff`.
    """
    if not 0 < alpha <= 1:
        raise ValueError(f"alpha={alpha}: the share of the new model, above 0 and at most 1")
    how = {"loss_fn": loss_fn, "lr": lr, "prox": prox, "batch_size": batch_size}
    how |= {"local_epochs": local_epochs, "local_steps": local_steps}
    _check(clients, num_updates, concurrency, server)
    totals, failed = _totals(channel, set(clients)), Counter[str]()
    landed = _landings(
        model, clients, channel, concurrency, clock, train, how, seed, server, failed
    )
    for t in range(num_updates):
        channel.step = t + 1
        update = next(landed)
        share = alpha * staleness(update.staleness)
        move(model, _toward(model.state_dict(), update.start, update.delta, share), None)
        yield {
            "round": t,
            "step": t + 1,
            "client": update.client,
            "loss": update.loss,
            "staleness": update.staleness,
            "num_failed": failed.total(),
            "seconds": update.seconds,
            **totals(),
        }
        failed.clear()


def fedbuff(
    model: nn.Module,
    clients: Clients,
    channel: Channel,
    *,
    rounds: int,
    buffer_size: int,
    concurrency: int,
    batch_size: int | None,
    lr: float,
    local_epochs: int | None = None,
    local_steps: int | None = None,
    prox: float = 0.0,
    loss_fn: Callable[[Tensor, Tensor], Tensor] = nn.functional.nll_loss,
    staleness: Staleness = Polynomial(),
    clock: Clock = Even(),
    server_optimizer: torch.optim.Optimizer | None = None,
    train: Train = local_updates,
    seed: int = 0,
    server: str = "server",
) -> Iterator[Record]:
    """The server's model moves by every ``buffer_size`` updates that arrive; a record a move.

    ``x <- x + 1/K sum_k staleness(t - tau_k) delta_k`` over the K updates in the buffer; a server
    optimizer gets minus that as gradient (the paper's server learning rate: SGD's).
    Source: Nguyen et al. 2022, arXiv 2106.06639, algorithm 1; ``Polynomial(0.5)`` is its weight.

    Records are those of `fedavg`, with ``num_arrived`` = ``buffer_size``, ``num_stale`` of them,
    and ``staleness``, their mean.

    Args:
        rounds: how often the server's model moves.
        buffer_size: K.
        concurrency: clients at work at any time, each drawn from those who are not.
        clock: asked with how often the client was at work before. Who drops out never delivers,
            and another client is sent the model in its place at once.
    """
    if buffer_size < 1:
        raise ValueError(f"buffer_size={buffer_size}: must be at least 1 update")
    how = {"loss_fn": loss_fn, "lr": lr, "prox": prox, "batch_size": batch_size}
    how |= {"local_epochs": local_epochs, "local_steps": local_steps}
    _check(clients, rounds, concurrency, server)
    Party(server, model, server_optimizer)  # complains about an optimizer of something else
    totals, failed = _totals(channel, set(clients)), Counter[str]()
    landed = _landings(
        model, clients, channel, concurrency, clock, train, how, seed, server, failed
    )
    for t in range(rounds):
        channel.step = t + 1
        buffer = [next(landed) for _ in range(buffer_size)]
        weights = [staleness(update.staleness) for update in buffer]
        if any(weights):
            mean = weighted_mean([update.delta for update in buffer], weights)
            move(model, _scaled(mean, sum(weights) / buffer_size), server_optimizer)
        yield {
            "round": t,
            "step": t + 1,
            "loss": sum(update.loss for update in buffer) / buffer_size,
            "num_arrived": buffer_size,
            "num_stale": sum(update.staleness > 0 for update in buffer),
            "num_failed": failed.total(),
            "staleness": sum(update.staleness for update in buffer) / buffer_size,
            "seconds": buffer[-1].seconds,
            **totals(),
        }
        failed.clear()


def _landings(
    model: nn.Module,
    clients: Clients,
    channel: Channel,
    concurrency: int,
    clock: Clock,
    train: Train,
    how: dict[str, Any],
    seed: int,
    server: str,
    failed: Counter[str],
) -> Iterator[_Landed]:
    """Updates in the order of their arrival; whenever one has come, another client begins."""
    random = np.random.default_rng(seed)
    idle, asked, fruitless = list(clients), Counter[str](), 0
    at_work: list[tuple[float, int, str, int, Tree]] = []  # a heap by time, then by order
    number, now = count(), 0.0
    while True:
        while idle and len(at_work) < concurrency:
            client = idle.pop(int(random.integers(len(idle))))
            start = channel.send(server, client, "model", model.state_dict())
            seconds = now + clock(client, asked[client])
            asked[client] += 1
            if seconds < math.inf:
                heapq.heappush(at_work, (seconds, next(number), client, channel.step, start))
            else:
                idle.append(client)
                fruitless = _count_up(fruitless, clients)
        now, _, client, step, start = heapq.heappop(at_work)
        client_s = client_seed(seed, asked[client] - 1, client)
        (update,) = train(model, [start], [clients[client]], seeds=[client_s], **how)
        delta, _ = send_update(client, server, update, channel)
        idle.append(client)
        if delta is None or not isinstance(update, LocalUpdate):
            failed[client] += 1
            fruitless = _count_up(fruitless, clients)
            continue
        fruitless = 0
        yield _Landed(client, now, channel.step - step, start, delta, update.loss)


def _count_up(fruitless: int, clients: Clients) -> int:
    """One more answer that did not come; too many in a row are an error, not an endless loop."""
    if fruitless + 1 >= 10 * len(clients):
        raise RuntimeError(
            f"{fruitless + 1} times in a row a client dropped out or failed in training: nobody is "
            "left to learn from. Lower the clock's dropout or lr, or check the data"
        )
    return fruitless + 1


def _toward(own: Tree, start: Tree, delta: Tree, share: float) -> Tree:
    """How far the server's model moves: a share of the way to the client's."""
    way = {name: start[name] + d - own[name].to(d) for name, d in delta.items()}
    return _scaled(way, share)


def _scaled(tree: Tree, factor: float) -> Tree:
    return {
        n: t * factor if t.is_floating_point() else (t * factor).round() for n, t in tree.items()
    }


def _check(clients: Clients, num_moves: int, concurrency: int, server: str) -> None:
    if num_moves < 1:
        raise ValueError(f"{num_moves} moves of the server's model: must be at least 1")
    if not 1 <= concurrency <= len(clients):
        raise ValueError(f"concurrency={concurrency}: must be 1 to {len(clients)} clients at work")
    if server in clients:
        raise ValueError(f"a client and the server are both called {server!r}: give server=")
