"""Seeds and scalars: clients send how steep the loss is in random directions, and no gradient.

Here: `decomfl`, which with several directions of low rank is an evolution strategy, and `fedkseed`,
whose directions are few and fixed. A seed makes a direction, so a message has the same length for
every model. Not here: updates with a value for each parameter (`fltoolkit.federated.fedavg`).
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from experiments.replications.drift import plain_rounds
from experiments.replications.gossip import copied
from fltoolkit.channel import Channel
from fltoolkit.federated.client import (
    Local,
    batch_indices,
    check_count,
    filled,
    loss_of,
    sent_entries,
)
from fltoolkit.federated.samples import Clients
from fltoolkit.federated.server import SERVER
from fltoolkit.federated.workers import Fleet, RoundMemory, Workers, as_fleet, client_seed, plus
from fltoolkit.history import CHECKED, Record, checked_at_call
from fltoolkit.shapes import Float, Int
from fltoolkit.trees import Tree, weighted_mean
from fltoolkit_research.federated.data_parallel import trainable


@dataclass(frozen=True)
class Directions:
    """The random directions along which clients measure how steep the loss is.

    Args:
        count: how many; in `decomfl` for each step, in `fedkseed` for the whole run.
        rank: of a direction's matrices; None: full. See `direction`.
        mu: how far from the weights the losses are measured, above 0.
    """

    count: int
    rank: int | None = None
    mu: float = 1e-3

    def __post_init__(self) -> None:
        check_count("count", self.count)
        check_count("rank", self.rank)


@dataclass
class Followed(RoundMemory):
    """What `decomfl` keeps: where each client is, and the seeds and slopes of all rounds so far."""

    first: Tree = field(default_factory=dict)  # the first model, which everybody knows
    weights: dict[str, Tree] = field(default_factory=dict)  # of clients that have taken part
    seen: dict[str, int] = field(default_factory=dict)  # how many rounds are in these weights
    past: list[Tree] = field(default_factory=list)  # of each round, "seeds" and mean "slopes"
    name = "followed"  # of its file


@dataclass
class Sums(RoundMemory):
    """What `fedkseed` keeps: the first model, and one sum for each direction."""

    first: Tree = field(default_factory=dict)
    sums: Tensor = field(default_factory=lambda: torch.zeros(0))
    name = "sums"  # of its file


@checked_at_call
def decomfl(
    model: nn.Module,
    clients: Clients | Fleet,
    channel: Channel,
    *,
    rounds: int | range,
    cohort: int,
    local: Local,
    along: Directions = Directions(1),
    memory: Followed | None = None,
    seed: int = 0,
) -> Iterator[Record]:
    """DeComFL (Li et al. 2024, arXiv 2405.15861); one record per round.

    A round:

    1. the server draws P = ``along.count`` seeds for each of K = ``local.steps`` local steps. It
       sends them to a cohort, with the seeds and mean slopes of all rounds that a client has missed
    2. each client takes the steps that it missed, and now has the server's weights, to the bit
    3. each client takes K steps ``w <- w - lr/P (g_1 z_1 + ... + g_P z_P)``, where seeds make the
       directions z, and g is the slope of its loss along z. Then it undoes these steps
    4. it sends its K P slopes; the server takes the same K steps with their mean

    The first model is not sent. As in the paper every client weighs the same.

    With ``steps=1`` and ``Directions(P, rank=1)`` this is an evolution strategy with perturbations
    of low rank in pairs w + mu z and w - mu z: EGGROLL (Sarkar et al. 2025, arXiv 2511.16652)
    without its normalization of scores, and with all clients evaluating each pair.

    The arguments are those of `fedavg`: ``local`` with ``lr`` and ``steps``, a model without
    buffers that are saved. ``along`` are the directions along which each step measures a slope,
    ``memory`` holds each client's weights, and all seeds and slopes so far. Records hold ``round``,
    ``step`` and the running totals of bytes.
    """
    team = Workers(model, as_fleet(clients), local, seed, SERVER)
    cohorts = plain_rounds(team, channel, rounds, cohort)
    _check(model, local)
    memory = memory or Followed()
    yield CHECKED

    totals = channel.begin(set(team.clients), [model])
    memory.first = memory.first or copied(sent_entries(model))
    past, lr = memory.past, (local.lr or 0.0) / along.count
    count = (local.steps or 1) * along.count  # slopes of a client in a round
    for round_, drawn in cohorts:
        random = np.random.default_rng([seed, round_, 1])
        seeds = torch.from_numpy(random.integers(2**31, size=count, dtype=np.int32))
        received = []
        for k in drawn:
            missed = past[memory.seen.get(k, 0) :]
            got = channel.send(SERVER, k, "control", _news(missed, seeds))
            before = memory.weights.get(k, memory.first)
            w = followed(before, got["seeds"][:-count], got["slopes"], lr, along.rank)
            memory.weights[k], memory.seen[k] = w, len(past)
            steps = got["seeds"][-count:].view(-1, along.count)
            slopes = _slopes(team, k, w, steps, along, round_)
            received.append(channel.send(k, SERVER, "update", {"slopes": slopes}))
        mean = weighted_mean(received, [1.0] * len(received))["slopes"]
        past.append({"seeds": seeds, "slopes": mean})
        end = followed(sent_entries(model), seeds, mean, lr, along.rank)
        model.load_state_dict(filled(model, end))
        yield {"round": round_, "step": channel.step, **totals()}


def _news(missed: Sequence[Tree], seeds: Tensor) -> Tree:
    """Seeds and mean slopes of the rounds that a client has missed, and the seeds of this one."""
    return {
        "seeds": torch.cat([*(each["seeds"] for each in missed), seeds]),
        "slopes": torch.cat([*(each["slopes"] for each in missed), torch.zeros(0)]),
    }


@checked_at_call
def fedkseed(
    model: nn.Module,
    clients: Clients | Fleet,
    channel: Channel,
    *,
    rounds: int | range,
    cohort: int,
    local: Local,
    along: Directions = Directions(1024),
    memory: Sums | None = None,
    seed: int = 0,
) -> Iterator[Record]:
    """FedKSeed (Qin et al. 2023, arXiv 2312.06353): few directions, fixed; one record per round.

    All steps of all clients go along the same K = ``along.count`` directions z_1 ... z_K. So the
    weights are ``w_0 - lr (a_1 z_1 + ... + a_K z_K)``, where w_0 is the first model. A round:

    1. the server sends the K sums a to a cohort, and each client computes the weights from them
    2. each client takes ``local.steps`` steps ``w <- w - lr g z_j``, each along a direction that it
       draws, where g is the slope of its loss
    3. it sends the numbers of these directions and its slopes
    4. the server adds each slope, divided by the size of the cohort, to the sum of its direction

    The first model and the K seeds are not sent, since all parties know them. Every client weighs
    the same. All directions are equally likely; FedKSeed-Pro, which prefers those with large
    slopes, is not here.

    Arguments and records are those of `decomfl`; a message to a client holds a number for each of
    the K directions.
    """
    team = Workers(model, as_fleet(clients), local, seed, SERVER)
    cohorts = plain_rounds(team, channel, rounds, cohort)
    _check(model, local)
    memory = memory or Sums()
    yield CHECKED

    totals, lr = channel.begin(set(team.clients), [model]), local.lr or 0.0
    random = np.random.default_rng([seed, 2])
    seeds = torch.from_numpy(random.integers(2**31, size=along.count, dtype=np.int32))
    memory.first = memory.first or copied(sent_entries(model))
    memory.sums = memory.sums if len(memory.sums) else torch.zeros(along.count)
    known, w = torch.zeros(0), memory.first  # the last sums, and the weights that they stand for
    for round_, drawn in cohorts:
        sums = memory.sums.clone()
        for k in drawn:
            got = channel.send(SERVER, k, "control", {"sums": memory.sums})["sums"]
            if not torch.equal(got, known):  # equal sums make equal weights
                known, w = got, followed(memory.first, seeds, got, lr, along.rank)
            random = np.random.default_rng([client_seed(seed, round_, k), 1])
            places = random.integers(along.count, size=local.steps, dtype=np.int32)
            chosen = torch.from_numpy(places)
            slopes = _slopes(team, k, w, seeds[chosen][:, None], along, round_)
            news = channel.send(k, SERVER, "update", {"candidates": chosen, "slopes": slopes})
            sums.index_add_(0, news["candidates"], news["slopes"] / len(drawn))
        memory.sums = known = sums
        w = followed(memory.first, seeds, sums, lr, along.rank)
        model.load_state_dict(filled(model, w))
        yield {"round": round_, "step": channel.step, **totals()}


def direction(tree: Tree, seed: int, rank: int | None = None) -> Tree:
    """Standard normal values in the shapes of a tree, which depend on the seed alone.

    With a rank, an entry of two or more dimensions [rows, ...] is ``A B' / sqrt(rank)``, where A
    and B are normal and have so many columns. Its values still have the mean square 1.

    >>> one, two = (direction({"w": torch.zeros(3)}, seed=7)["w"] for _ in range(2))
    >>> torch.equal(one, two), torch.equal(one, direction({"w": one}, seed=8)["w"])
    (True, False)
    >>> int(torch.linalg.matrix_rank(direction({"w": torch.zeros(5, 6)}, seed=7, rank=2)["w"]))
    2
    """
    drawn = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=drawn)

    def like(t: Tensor) -> Tensor:
        if rank is None or t.dim() < 2:
            return normal(*t.shape)
        a, b = normal(len(t), rank), normal(rank, t.numel() // len(t))
        return (a @ b / math.sqrt(rank)).view(t.shape)

    return {name: like(t) for name, t in tree.items()}


def followed(
    weights: Tree,
    seeds: Int[Tensor, " steps"],
    slopes: Float[Tensor, " steps"],
    lr: float,
    rank: int | None = None,
) -> Tree:
    """The weights after a step ``w - lr g z`` for each seed and slope."""
    weights = copied(weights)
    for seed, g in zip(seeds.tolist(), slopes.tolist(), strict=True):
        if g:  # in the first rounds of `fedkseed` most sums are zero
            for name, z in direction(weights, seed, rank).items():
                weights[name].add_(z, alpha=-lr * g)
    return weights


@torch.no_grad()
def slope(model: nn.Module, weights: Tree, z: Tree, mu: float, x: Any, y: Any, loss: Any) -> float:
    """How fast the loss grows along z: ``(loss(w + mu z) - loss(w - mu z)) / (2 mu)``."""
    there, back = (
        float(loss_of(loss, functional_call(model, plus(weights, z, sign * mu), (x,)), y))
        for sign in (1, -1)
    )
    return (there - back) / (2 * mu)


def _slopes(
    team: Workers, k: str, w: Tree, seeds: Tensor, along: Directions, round_: int
) -> Tensor:
    """The slopes that a client measures on its way: a step for each row of seeds."""
    (x, y), local, found = team.clients[k], team.local, []
    batches = batch_indices(len(y), local, client_seed(team.seed, round_, k))
    for row, rows in zip(seeds, batches, strict=True):
        each = [
            slope(team.model, w, z, along.mu, x[rows], y[rows], local.loss_fn)
            for z in (direction(w, s, along.rank) for s in row.tolist())
        ]
        if not np.isfinite(each).all():
            raise FloatingPointError(f"client {k!r}, round {round_}: a slope is {each}; lower lr")
        found += each
        w = followed(w, row, torch.tensor(each), (local.lr or 0.0) / len(row), along.rank)
    return torch.tensor(found)


def _check(model: nn.Module, local: Local) -> None:
    if local.lr is None or local.steps is None or local.prox or local.clip_norm:
        raise ValueError(
            "a step is w - lr g z and nothing else: give Local(batch_size, lr=..., steps=...)"
        )
    if sent_entries(model).keys() != trainable(model).keys():
        raise ValueError("the model has buffers (such as BatchNorm's), which no direction moves")
