"""Seeds and scalars: clients send how steep the loss is in random directions, and no gradient.

Here: `decomfl`. A direction has as many values as the model, but a seed makes it, so a message has
the same length for every model. Not here: updates with a value for each parameter (rounds.py).
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int32
from torch import Tensor, nn
from torch.func import functional_call

from fltoolkit.channel import Channel
from fltoolkit.federated.client import (
    Local,
    batch_indices,
    filled,
    loss_of,
    travelling,
)
from fltoolkit.federated.data_parallel import Fleet, learning
from fltoolkit.federated.drift import everybody_here, plus
from fltoolkit.federated.rounds import Cohort
from fltoolkit.federated.samples import Clients
from fltoolkit.federated.workers import Workers, client_seed
from fltoolkit.history import CHECKED, Record, checked_at_call, to_come
from fltoolkit.trees import Tree, weighted_mean

__all__ = ["decomfl", "direction", "followed", "slope"]


@checked_at_call
def decomfl(
    model: nn.Module,
    clients: Clients,
    channel: Channel,
    *,
    rounds: int | range,
    cohort: int | Cohort,
    local: Local,
    mu: float = 1e-3,
    seed: int = 0,
    fleet: Fleet | None = None,
    server: str = "server",
) -> Iterator[Record]:
    """DeComFL (Li et al. 2024, arXiv 2405.15861), with one direction per step; a record per round.

    A round:

    1. the server draws a seed for each of K = ``local.steps`` local steps. It sends them to a
       cohort, with the seeds and mean slopes of all rounds that a client has missed
    2. each client takes the steps that it missed, and now has the server's weights, to the bit
    3. each client takes K steps ``w <- w - lr g z``, where the seed makes the direction z, and g is
       the slope of its loss along z, from two losses: see `slope`. Then it forgets these steps
    4. it sends its K slopes; the server takes the same K steps with their mean

    Every client begins with the first model, which is not sent. As in the paper every client weighs
    the same.

    Args:
        model, clients, channel, rounds, cohort, seed, server: as in `fedavg`. The model may have
            no buffers that are saved.
        local: with ``lr`` and ``steps``.
        mu: how far from the weights the losses are measured.
        fleet: each client's weights, and all seeds and slopes so far, for a run that goes on.

    Records hold ``round``, ``step`` and the running totals of bytes.

    A message of two slopes is as long for a model of ten million parameters:

    >>> x, local = torch.ones(2, 1), Local(2, lr=0.1, steps=2, loss_fn=nn.functional.mse_loss)
    >>> owners = {"ann": (x, 0 * x), "ben": (x, 4 * x)}
    >>> model, channel = nn.Linear(1, 1, bias=False), Channel()
    >>> for record in decomfl(model, owners, channel, rounds=40, cohort=2, local=local):
    ...     pass
    >>> round(model.weight.item(), 2)
    2.0
    >>> {t.nbytes for t in channel.transfers if t.kind == "update"}
    {23}
    """
    cohort = cohort if isinstance(cohort, Cohort) else Cohort(cohort)
    team = Workers(model, clients, local, seed=seed, server=server)
    rounds = to_come("rounds", rounds)
    everybody_here(team, channel, cohort)
    _check(model, local, mu)
    fleet = Fleet() if fleet is None else fleet
    yield CHECKED

    totals = channel.begin(set(team.clients), [model])
    first = {name: t.clone() for name, t in travelling(model).items()}
    past, steps = fleet.waiting, local.steps or 1
    for round_ in rounds:
        channel.step = round_ + 1
        seeds = torch.from_numpy(
            np.random.default_rng([seed, round_, 1]).integers(2**31, size=steps, dtype=np.int32)
        )
        received = []
        for k in cohort.draw([*team.clients], seed, round_):
            own = fleet.weights.get(k, {"seen": torch.tensor(0)} | first)
            missed = past[int(own["seen"]) :]
            news = {
                "seeds": torch.cat([*(each["seeds"] for each in missed), seeds]),
                "slopes": torch.cat([*(each["slopes"] for each in missed), torch.zeros(0)]),
            }
            got = channel.send(server, k, "control", news)
            w = followed(own, got["seeds"][:-steps], got["slopes"], local.lr or 0.0)
            fleet.weights[k] = w | {"seen": torch.tensor(len(past))}
            slopes = _slopes(team, k, w, got["seeds"][-steps:], mu, round_)
            received.append(channel.send(k, server, "update", {"slopes": slopes}))
        mean = weighted_mean(received, [1.0] * len(received))["slopes"]
        past.append({"seeds": seeds, "slopes": mean})
        model.load_state_dict(
            filled(model, followed(travelling(model), seeds, mean, local.lr or 0.0))
        )
        yield {"round": round_, "step": round_ + 1, **totals()}


def direction(tree: Tree, seed: int) -> Tree:
    """Standard normal values in the shapes of a tree, which depend on the seed alone.

    >>> one, two = (direction({"w": torch.zeros(3)}, seed=7)["w"] for _ in range(2))
    >>> torch.equal(one, two), torch.equal(one, direction({"w": one}, seed=8)["w"])
    (True, False)
    """
    drawn = torch.Generator().manual_seed(seed)
    return {name: torch.randn(t.shape, generator=drawn) for name, t in tree.items()}


def followed(
    weights: Tree, seeds: Int32[Tensor, " steps"], slopes: Float[Tensor, " steps"], lr: float
) -> Tree:
    """The weights after a step ``w - lr g z`` for each seed and slope.

    >>> start, seeds = {"w": torch.zeros(2)}, torch.tensor([3], dtype=torch.int32)
    >>> end = followed(start, seeds, torch.tensor([2.0]), lr=0.5)
    >>> torch.equal(end["w"], -direction(start, 3)["w"])
    True
    """
    weights = {name: t for name, t in weights.items() if name != "seen"}
    for seed, g in zip(seeds.tolist(), slopes.tolist(), strict=True):
        weights = plus(weights, direction(weights, seed), -lr * g)
    return weights


@torch.no_grad()
def slope(model: nn.Module, weights: Tree, z: Tree, mu: float, x: Any, y: Any, loss: Any) -> float:
    """How fast the loss grows along z: ``(loss(w + mu z) - loss(w - mu z)) / (2 mu)``.

    >>> model, w, x = nn.Linear(1, 1, bias=False), {"weight": torch.ones(1, 1)}, torch.ones(4, 1)
    >>> z = {"weight": torch.tensor([[3.0]])}
    >>> round(slope(model, w, z, 0.01, x, 0 * x, nn.functional.mse_loss), 3)  # of w^2, times 3
    6.0
    """
    there, back = (
        float(loss_of(loss, functional_call(model, plus(weights, z, sign * mu), (x,)), y))
        for sign in (1, -1)
    )
    return (there - back) / (2 * mu)


def _slopes(team: Workers, k: str, w: Tree, seeds: Tensor, mu: float, round_: int) -> Tensor:
    """The slopes that a client measures on its way; the last batches are those of this round."""
    (x, y), local, found = team.clients[k], team.local, []
    batches = batch_indices(len(y), local, client_seed(team.seed, round_, k))
    for seed, rows in zip(seeds.tolist(), batches, strict=True):
        g = slope(team.model, w, direction(w, seed), mu, x[rows], y[rows], local.loss_fn)
        if not np.isfinite(g):
            raise FloatingPointError(f"client {k!r}, round {round_}: the slope is {g}; lower lr")
        found.append(g)
        w = plus(w, direction(w, seed), -(local.lr or 0.0) * g)
    return torch.tensor(found)


def _check(model: nn.Module, local: Local, mu: float) -> None:
    if local.lr is None or local.steps is None or local.prox or local.clip_norm:
        raise ValueError(
            "a step is w - lr g z and nothing else: give Local(batch_size, lr=..., steps=...)"
        )
    if not mu > 0:
        raise ValueError(f"mu={mu}: how far from the weights losses are measured, above 0")
    if travelling(model).keys() != learning(model).keys():
        raise ValueError("the model has buffers (such as BatchNorm's), which no direction moves")
