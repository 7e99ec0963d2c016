"""EF21-Muon: both ends keep a copy of what the other knows, and send what changed, compressed.

Here: `ef21_muon`. Not here: how a matrix is made orthogonal (muon in
`fltoolkit_research.federated`), codecs.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch import nn

from experiments.replications.decoupled_momentum import check_unclipped, hidden_matrices
from fltoolkit.channel import Channel
from fltoolkit.federated.client import Local
from fltoolkit.federated.samples import Clients
from fltoolkit.federated.workers import Fleet, RoundMemory, Workers, as_fleet
from fltoolkit.history import CHECKED, Record, checked_at_call, to_come
from fltoolkit.trees import Tree, weighted_mean
from fltoolkit_research.federated.data_parallel import (
    check_one_step,
    gradients_of_each_step,
    move_all,
    shared_optimizer,
    trainable,
)
from fltoolkit_research.federated.muon import orthogonalized

SERVER = "server"  # its name in the ledger


@dataclass
class Estimates(RoundMemory):
    """What the two ends remember; all trees are empty before the first step."""

    momenta: dict[str, Tree] = field(default_factory=dict)  # M_j, of each worker
    known: dict[str, Tree] = field(default_factory=dict)  # G_j: what the server knows of M_j
    model: Tree = field(default_factory=dict)  # X, the server's
    name = "estimates"  # of its file


@checked_at_call
def ef21_muon(
    model: nn.Module,
    workers: Clients | Fleet,
    channel: Channel,
    *,
    steps: int | range,
    local: Local,
    momentum: float = 0.95,
    memory: Estimates | None = None,
    seed: int = 0,
) -> Iterator[Record]:
    """EF21-Muon (Gruntkowska et al. 2025, arXiv 2510.00643): error feedback for Muon.

    The server has the weights X; the workers have a copy W of them, which lags behind. A step, of
    the variant with batches, momentum and messages compressed in both directions:

    1. every worker computes the gradient g of its own batch at W, and
       ``M_j <- momentum * M_j + (1 - momentum) * g``
    2. it sends ``R_j = C(M_j - G_j)`` (kind ``update``); it and the server add R_j to G_j
    3. the server moves X along the mean G of all G_j: a hidden matrix along ``-orthogonalized(G)``
    4. it sends ``S = C(X - W)`` to all (kind ``model``), and all add S to W

    What a codec leaves out stays in M_j - G_j and in X - W, so it is given **without**
    `ErrorFeedback`. Without any codec, X = W and G is the momentum of the mean gradient: Muon
    without Nesterov's look ahead.

    The steps follow the abstract and public summaries; the paper's own listing was not at hand, so
    no number of an algorithm stands here. One thing is ours: parameters that are no hidden matrices
    move as with `Muon`, by AdamW, whose gradient is the mean G of gradients (their momentum is 0);
    the paper's oracle moves such layers by other norms, such as signs.

    Args:
        model: holds W, as every worker does; changed in place before each record.
        local: with ``steps=1``, without ``clip_norm``, and with ``optimizer=muon_for(model,
            momentum=None)``, which knows the hidden matrices.
        momentum: of the hidden matrices, 1 minus the paper's beta.
        memory: for a run that goes on.

    The other arguments and the records are those of `ddp`.

    Raises FloatingPointError if a loss or a message of a worker is not finite; it names the worker.
    """
    team = Workers(model, as_fleet(workers), local, seed)
    check_one_step(team)
    steps = to_come("steps", steps)
    check_unclipped(local)
    kept = memory or Estimates()
    yield CHECKED

    totals, optimizer = channel.begin(set(team.clients), [model]), shared_optimizer(team)
    params = trainable(model)
    hidden = hidden_matrices(optimizer, params)
    if not kept.model:
        kept.model = {n: p.detach().clone() for n, p in params.items()}
    for step, loss, grads in gradients_of_each_step(team, channel, steps):
        for worker, gradient in grads.items():
            zeros = {n: torch.zeros_like(g) for n, g in gradient.items()}
            m, known = kept.momenta.get(worker, zeros), kept.known.get(worker, zeros)
            m = {n: g + momentum * (m[n] - g) if n in hidden else g for n, g in gradient.items()}
            change = {n: m[n] - known[n] for n in m}
            if not all(bool(c.isfinite().all()) for c in change.values()):
                raise FloatingPointError(
                    f"worker {worker!r}, step {step}: its gradient holds NaN or infinite values. "
                    "Look at its data, or lower the learning rate. All records so far are good"
                )
            sent = channel.send(worker, SERVER, "update", change)
            kept.momenta[worker] = m
            kept.known[worker] = {n: known[n] + sent[n].to(known[n]) for n in m}
        mean = weighted_mean([*kept.known.values()], [1.0] * len(kept.known))
        along = {n: orthogonalized(g) if n in hidden else g for n, g in mean.items()}
        at_workers = {n: p.detach().clone() for n, p in params.items()}
        _load(params, kept.model)
        move_all(team, optimizer, along)
        kept.model = {n: p.detach().clone() for n, p in params.items()}
        shift = {n: kept.model[n] - w for n, w in at_workers.items()}
        shift = channel.broadcast(SERVER, [*team.clients], "model", shift)
        _load(params, {n: w + shift[n].to(w) for n, w in at_workers.items()})
        yield {"step": step, **loss, **totals()}


@torch.no_grad()
def _load(params: dict[str, nn.Parameter], values: Tree) -> None:
    for name, param in params.items():
        param.copy_(values[name])
