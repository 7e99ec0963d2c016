"""DeMo and Dion: each worker keeps one part of its momentum and sends the other.

Here: `demo`, which sends the largest cosines, and `dion`, which sends two narrow matrices. Not
here: where messages go, and several steps between two messages (exchange and local_steps in
`fltoolkit_research.federated`).
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import torch
from torch import Tensor, nn

from fltoolkit.channel import Channel
from fltoolkit.federated.client import Local, check_count
from fltoolkit.federated.samples import Clients
from fltoolkit.federated.workers import Fleet, RoundMemory, Workers, as_fleet
from fltoolkit.history import CHECKED, Record, checked_at_call, to_come
from fltoolkit.shapes import Float
from fltoolkit.trees import Tree
from fltoolkit_research.federated.data_parallel import (
    check_one_step,
    gradients_of_each_step,
    move_all,
    shared_optimizer,
    trainable,
)
from fltoolkit_research.federated.exchange import Exchange, ThroughServer, all_gather


@dataclass
class Momenta(RoundMemory):
    """The part of its momentum that each worker has not sent yet."""

    of: dict[str, Tree] = field(default_factory=dict)
    name = "momenta"  # of its file


@checked_at_call
def demo(
    model: nn.Module,
    workers: Clients | Fleet,
    channel: Channel,
    *,
    steps: int | range,
    local: Local,
    decay: float = 0.999,
    chunk: int = 64,
    memory: Momenta | None = None,
    seed: int = 0,
) -> Iterator[Record]:
    """DeMo (Peng, Quesnelle and Kingma 2024, arXiv 2411.19870, algorithm 1); one record per step.

    A step:

    1. every worker adds the gradient of its own batch to its own momentum:
       ``m <- decay * m + g``
    2. it transforms the momentum, ``chunk`` values at a time, by a discrete cosine transform, and
       sends what its codec keeps of that, such as the largest coefficients
    3. it subtracts what was sent from its momentum. The rest stays for later steps, so no error
       feedback is needed
    4. every worker transforms the mean of all coefficients back, and takes a step with the
       **sign** of the result

    Messages go from each worker to all others (kind ``update``), as in the paper. Give the channel
    a codec such as ``Pipeline(TopK(4 / 64, scope="tensor"), Half(), Entropy())``: the paper keeps
    the k largest of each chunk, this codec as many of each tensor. The paper's chunks are squares
    of a matrix; here they follow the order in which the values lie in memory.

    ``local`` has ``steps=1`` and no ``clip_norm``; the paper's optimizer is SGD. ``memory`` holds
    each worker's momentum; the other arguments and the records are those of `ddp`.
    """
    team = Workers(model, as_fleet(workers), local, seed)
    check_one_step(team)
    steps = to_come("steps", steps)
    check_count("chunk", chunk)
    check_unclipped(local)
    momenta = (memory or Momenta()).of
    yield CHECKED

    totals, optimizer = channel.begin(set(team.clients), [model]), shared_optimizer(team)
    for step, loss, grads in gradients_of_each_step(team, channel, steps):
        coefficients = {}
        for worker, gradient in grads.items():
            old = momenta.get(worker) or {n: torch.zeros_like(g) for n, g in gradient.items()}
            momenta[worker] = {n: decay * old[n] + g for n, g in gradient.items()}
            coefficients[worker] = {n: cosines(m, chunk) for n, m in momenta[worker].items()}
        sent, mean = all_gather(channel, coefficients, "update")
        for worker in filter(channel.is_here, grads):
            momenta[worker] = _without(momenta[worker], sent[worker])
        params = trainable(model).items()
        signs = {name: from_cosines(mean[name], param.shape).sign() for name, param in params}
        move_all(team, optimizer, signs)
        yield {"step": step, **loss, **totals()}


def _without(momentum: Tree, sent: Tree) -> Tree:
    """What is left of a momentum when the coefficients that were sent are taken out."""
    return {n: m - from_cosines(sent[n], m.shape).to(m) for n, m in momentum.items()}


MU = 0.95  # of `dion`: how much of its momentum a step keeps


@checked_at_call
def dion(
    model: nn.Module,
    workers: Clients | Fleet,
    channel: Channel,
    *,
    steps: int | range,
    local: Local,
    rank: int,
    exchange: Exchange = ThroughServer(),
    memory: Momenta | None = None,
    seed: int = 0,
) -> Iterator[Record]:
    """Dion (Ahn et al. 2025, arXiv 2504.05295): orthonormal steps from two narrow means.

    Like `Muon`, it moves a hidden matrix [m, n] equally far in each direction, but in ``rank``
    directions only, and no whole matrix is sent. A step:

    1. every worker adds the gradient of its own batch to its own momentum: ``M <- M + G``
    2. the means of ``P = M Q`` [m, rank] and of the gradients of all other parameters are exchanged
    3. the columns of P are made orthonormal, and the mean of ``R = M^T P`` [n, rank] is exchanged
    4. every worker subtracts ``(1 - mu) P R^T`` from its momentum, with the paper's mu of 0.95. The
       rest stays for later steps, which is the error feedback
    5. ``Q <- R`` with columns of length 1, and a hidden matrix moves along ``-sqrt(m / n) P Q^T``

    Both means are linear in M, so the steps are those of one worker with the mean gradient; only
    ``rank * (m + n)`` values of a matrix travel, as with `PowerSGD`.

    Args:
        local: with ``steps=1``, without ``clip_norm``, and with ``optimizer=muon_for(model,
            momentum=None)``, which knows the hidden matrices and moves the rest with AdamW.
        rank: how many directions of a matrix move; larger: more bytes.
        exchange: `ThroughServer`, `AllGather` or `Ring`.

    The other arguments and the records are those of `ddp`.

    Of the hidden matrix [8, 6] a worker sends 8 and 6 values in place of 48:

    >>> from fltoolkit_research.federated.muon import muon_for
    >>> shapes = ((2, 6), (6, 8), (8, 1))
    >>> model = nn.Sequential(*(nn.Linear(*shape, bias=False) for shape in shapes))
    >>> workers, channel = {"ann": (torch.ones(4, 2), torch.ones(4, 1))}, Channel()
    >>> optimizer = muon_for(model, momentum=None)
    >>> local = Local(2, optimizer=optimizer, steps=1, loss_fn=nn.functional.mse_loss)
    >>> _ = list(dion(model, workers, channel, steps=1, local=local, rank=1))
    >>> [transfer.nbytes_dense // 4 for transfer in channel.transfers]  # and 12 + 8 of the others
    [28, 28, 6, 6]
    """
    team = Workers(model, as_fleet(workers), local, seed)
    check_one_step(team)
    steps = to_come("steps", steps)
    check_count("rank", rank)
    check_unclipped(local)
    kept = (memory or Momenta()).of
    yield CHECKED

    totals, optimizer = channel.begin(set(team.clients), [model]), shared_optimizer(team)
    shapes = hidden_matrices(optimizer, trainable(model))
    for worker in team.clients:
        kept.setdefault(worker, _no_momentum(shapes, rank, seed))
    for step, loss, grads in gradients_of_each_step(team, channel, steps):
        momenta = {w: {n: kept[w][n] + g[n] for n in shapes} for w, g in grads.items()}
        q = {n: next(iter(kept.values()))[n + ".Q"] for n in shapes}
        narrow = {w: g | {n: m @ q[n] for n, m in momenta[w].items()} for w, g in grads.items()}
        mean = exchange(channel, narrow)
        p = {n: torch.linalg.qr(mean[n]).Q for n in shapes}
        other = {w: {n + ".R": m.T @ p[n] for n, m in own.items()} for w, own in momenta.items()}
        r = exchange(channel, other)
        for n, (rows_, columns) in shapes.items():
            q[n] = nn.functional.normalize(r[n + ".R"], dim=0)
            mean[n] = min(1.0, rows_ / columns) ** 0.5 * p[n] @ q[n].T
        for worker, m in momenta.items():
            rest = {n: m[n] - (1 - MU) * p[n] @ r[n + ".R"].T for n in shapes}
            kept[worker] = rest | {n + ".Q": q[n] for n in shapes}
        move_all(team, optimizer, mean)
        yield {"step": step, **loss, **totals()}


def hidden_matrices(
    optimizer: torch.optim.Optimizer, params: Mapping[str, Tensor]
) -> dict[str, torch.Size]:
    """The shapes of the matrices that the optimizer moves as directions, by name."""
    groups = [g for g in optimizer.param_groups if g.get("hidden") and g.get("momentum") is None]
    found = {id(param) for group in groups for param in group["params"]}
    if not found:
        raise ValueError(
            "the optimizer has no hidden matrices without momentum of their own: "
            "give optimizer=muon_for(model, momentum=None)"
        )
    return {name: param.shape for name, param in params.items() if id(param) in found}


def _no_momentum(shapes: Mapping[str, torch.Size], rank: int, seed: int) -> Tree:
    """Momenta of zeros, and the same random Q at every worker."""
    generator, found = torch.Generator().manual_seed(seed), {}
    for name, (rows, columns) in shapes.items():
        found[name] = torch.zeros(rows, columns)
        width = min(rank, rows, columns)
        found[name + ".Q"] = torch.randn(columns, width, generator=generator)
    return found


def check_unclipped(local: Local) -> None:
    if local.clip_norm is not None:
        raise ValueError(
            f"clip_norm={local.clip_norm}: here steps are signs or directions, whose length says "
            "nothing about gradients. Leave clip_norm out"
        )


def cosines(values: Float[Tensor, "..."], chunk: int) -> Float[Tensor, "chunks chunk"]:
    """The orthonormal discrete cosine transform (DCT-II) of each ``chunk`` values in a row.

    ``c_0 = sum_j x_j / sqrt(n)``, ``c_k = sqrt(2 / n) sum_j x_j cos(pi (j + 1/2) k / n)``; the last
    chunk is filled up with zeros. It keeps the sum of squares.

    >>> cosines(torch.tensor([3.0, 3.0, 1.0, -1.0]), 2).round(decimals=4)
    tensor([[4.2426, 0.0000],
            [0.0000, 1.4142]])
    """
    flat = values.flatten()
    filled = nn.functional.pad(flat, (0, -len(flat) % chunk)).reshape(-1, chunk)
    return filled @ _transform(chunk).to(flat).t()


def from_cosines(
    coefficients: Float[Tensor, "chunks chunk"], shape: torch.Size
) -> Float[Tensor, "..."]:
    """The inverse of `cosines`, for a tensor of this shape.

    >>> values = torch.tensor([[3.0, 1.0, 4.0], [1.0, 5.0, 9.0]])
    >>> from_cosines(cosines(values, 4), values.shape).round(decimals=4)
    tensor([[3., 1., 4.],
            [1., 5., 9.]])
    """
    flat = (coefficients @ _transform(coefficients.shape[1]).to(coefficients)).flatten()
    return flat[: shape.numel()].reshape(shape)


@lru_cache(maxsize=8)
def _transform(n: int) -> Tensor:
    """The DCT-II as an orthogonal matrix [n, n], in float64."""
    k = torch.arange(n, dtype=torch.float64)
    matrix = (math.pi / n * k[:, None] * (k[None, :] + 0.5)).cos() * math.sqrt(2 / n)
    matrix[0] /= math.sqrt(2)
    return matrix
