"""Split federated learning whose clients wait for no gradient, and may need no backward pass.

Here: `local_loss`, and a client's step in two forms: `Forward`, which only computes losses, and
`Backward`, its twin with gradients; ``learn=None`` leaves the first part as it is, for comparison.
Not here: SplitFed, where the server sends gradients back (`fltoolkit.split.train_splitfed`).
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from experiments.replications.zeroth_order import Directions, direction, followed
from fltoolkit.channel import Channel
from fltoolkit.federated.client import Local, batch_indices, loss_of, sent_entries
from fltoolkit.federated.samples import Clients
from fltoolkit.federated.workers import client_seed, plus
from fltoolkit.history import CHECKED, Record, checked_at_call
from fltoolkit.party import LossFn, Party
from fltoolkit.split.clients import FED_SERVER
from fltoolkit.trees import Tree, weighted_mean
from fltoolkit_research.federated.data_parallel import trainable


class Lean(nn.Module):
    """What a client has: the part before the cut, and a small head of its own behind it."""

    def __init__(self, bottom: nn.Module, head: nn.Module):
        super().__init__()
        self.bottom, self.head = bottom, head

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The activations at the cut, and the output of the head."""
        h = self.bottom(x)
        return h, self.head(h)


Learn = Callable[[Lean, Tree, Tensor, Tensor, LossFn, int], tuple[Tree, Tensor, float]]
"""A client's step ``(net, weights, x, y, loss_fn, seed)``: new weights, activations, and loss."""


@dataclass(frozen=True)
class Forward:
    """A step along an estimated gradient, by ``1 + along.count`` forward passes.

    For P random directions u of normal values the slopes ``g = (loss(w + mu u) - loss(w)) / mu``
    make the step ``w <- w - lr/P (g_1 u_1 + ... + g_P u_P)``. Seeds make the directions, so that
    none has to be kept.
    """

    lr: float
    along: Directions = Directions(1)

    @torch.no_grad()
    def __call__(
        self, net: Lean, w: Tree, x: Tensor, y: Tensor, loss_fn: LossFn, seed: int
    ) -> tuple[Tree, Tensor, float]:
        """One step; the activations are those before it."""
        h, output = functional_call(net, w, (x,))
        loss, mu, slopes = float(loss_of(loss_fn, output, y)), self.along.mu, []
        random = np.random.default_rng([seed, 3])
        seeds = torch.from_numpy(random.integers(2**31, size=self.along.count))
        for each in seeds.tolist():
            there = plus(w, direction(w, each, self.along.rank), mu)
            there_loss = float(loss_of(loss_fn, functional_call(net, there, (x,))[1], y))
            slopes.append((there_loss - loss) / mu)
        lr = self.lr / self.along.count
        return followed(w, seeds, torch.tensor(slopes), lr, self.along.rank), h, loss


@dataclass(frozen=True)
class Backward:
    """A step along the gradient of the head's loss: one forward and one backward pass."""

    lr: float

    def __call__(
        self, net: Lean, w: Tree, x: Tensor, y: Tensor, loss_fn: LossFn, seed: int
    ) -> tuple[Tree, Tensor, float]:
        """One step; the activations are those before it."""
        w = {name: t.detach().requires_grad_() for name, t in w.items()}
        h, output = functional_call(net, w, (x,))
        loss = loss_of(loss_fn, output, y)
        grads = torch.autograd.grad(loss, list(w.values()))
        moved = {n: t.detach() - self.lr * g for (n, t), g in zip(w.items(), grads, strict=True)}
        return moved, h.detach(), loss.item()


@checked_at_call
def local_loss(
    net: Lean,
    server: Party,
    clients: Clients,
    channel: Channel,
    *,
    rounds: int,
    local: Local,
    learn: Learn | None,
    steps_per_upload: int = 1,
    seed: int = 0,
) -> Iterator[Record]:
    """Split federated learning by a loss at the clients; one record per round.

    With `Forward` it is HERON-SFL (Kou et al. 2026, arXiv 2601.09076; the abstract and a summary by
    others were read, not the body). With `Backward` it is its twin of first order, a local loss as
    in CSE-FSL (arXiv 2302.05599).
    A round, with the clients in an order drawn from ``seed``:

    1. each client takes ``local.steps`` steps by ``learn``, which reduce the loss of its own head
    2. with every ``steps_per_upload``-th of them it sends the activations that it has computed, and
       their labels; the server takes a step of its own, and sends nothing back
    3. the fed server averages the clients' parts and heads by sample counts, and sends the average

    With None the part before the cut stays as it is: only activations and labels are sent.

    ``net`` holds the average, and ``server`` the rest of the network. Of ``local`` the batch size,
    ``steps`` and ``loss_fn`` count. Records hold ``round``, ``step`` (uploads so far), the mean
    ``loss`` of the server, and the running totals of bytes.
    """
    if local.steps is None or local.steps % steps_per_upload:
        raise ValueError(
            f"steps={local.steps}, steps_per_upload={steps_per_upload}: give Local(..., steps=...) "
            "a number of steps that uploads divide"
        )
    if sent_entries(net).keys() != trainable(net).keys():
        raise ValueError("the clients' part has buffers (such as BatchNorm's), which no step moves")
    yield CHECKED

    totals = channel.begin({*clients}, [net, server.module], sends_weights=learn is not None)
    names, sizes = list(clients), [len(y) for _, y in clients.values()]
    for round_ in range(rounds):
        start, ends, losses = sent_entries(net), {}, []
        for place in np.random.default_rng([seed, round_]).permutation(len(names)).tolist():
            k, w = names[place], start
            (x, y), at = clients[k], client_seed(seed, round_, k)
            for step, rows in enumerate(batch_indices(len(y), local, at), 1):
                if learn is None:
                    with torch.no_grad():
                        h = net.bottom(x[rows])
                else:
                    w, h, loss = learn(net, w, x[rows], y[rows], local.loss_fn, at + step)
                    _check(k, round_, loss, w)
                if step % steps_per_upload == 0:
                    channel.step += 1
                    got = channel.send(k, server.name, "activations", {"h": h})["h"]
                    labels = channel.send(k, server.name, "labels", {"y": y[rows]})["y"]
                    losses.append(server.loss_and_grad(got, labels)[0])
            ends[k] = w
        if learn is not None:
            sent = [channel.send(k, FED_SERVER, "model", ends[k]) for k in names]
            mean = weighted_mean(sent, sizes)
            net.load_state_dict([channel.send(FED_SERVER, k, "model", mean) for k in names][-1])
        yield {"round": round_, "step": channel.step, "loss": float(np.mean(losses)), **totals()}


def _check(k: str, round_: int, loss: float, weights: Tree) -> None:
    if not math.isfinite(loss) or not all(t.isfinite().all() for t in weights.values()):
        raise FloatingPointError(
            f"client {k!r}, round {round_}: the loss of its head is {loss}, or the step from it "
            "led to NaN. Lower lr, or check this client's samples"
        )
