"""Muon: momentum whose matrices are made orthogonal, for the hidden layers; AdamW for the rest."""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from fltoolkit.federated.client import MakeOptimizer
from fltoolkit.shapes import Float

COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # of the quintic that brings singular values near 1
STEPS = 5


class Muon(torch.optim.Optimizer):
    """Muon for some matrices, AdamW for all other parameters, in one optimizer.

    A matrix W [m, n] with gradient G moves by its orthogonalized Nesterov momentum:
    ``M <- momentum * M + G``, ``W <- W - lr * sqrt(max(1, m / n)) * orthogonalized(G + momentum *
    M)``: every direction of the momentum moves equally far. It is meant for hidden matrices only:
    embeddings, the last layer and vectors are moved by AdamW. `muon_for` finds which are hidden.

    ``torch.optim.Muon`` (since torch 2.9) takes matrices only and computes in bfloat16.

    Source: Jordan et al. 2024, "Muon: an optimizer for hidden layers in neural networks". AdamW:
    Loshchilov and Hutter 2017, arXiv 1711.05101.

    Args:
        params: the parameters, in the order of ``model.parameters()``.
        hidden: the places in ``params`` of the matrices that Muon moves.
        lr: the learning rate of the hidden matrices.
        momentum: of the hidden matrices. None: their gradients are directions already (`dion`),
            which are neither added up nor made orthogonal.
        adamw_lr: the learning rate of all others. A schedule scales both rates alike.
        betas: AdamW's.
        weight_decay: of all parameters, times their learning rate.
    """

    def __init__(
        self,
        params: Iterable[Tensor],
        hidden: Sequence[int],
        *,
        lr: float = 0.04,
        momentum: float | None = 0.95,
        adamw_lr: float = 6e-3,
        betas: tuple[float, float] = (0.9, 0.95),
        weight_decay: float = 0.0,
    ):
        each = list(params)
        chosen = {k for k in hidden if k < len(each)}
        if flat := [k for k in sorted(chosen) if each[k].dim() != 2]:
            raise ValueError(f"hidden={list(hidden)}: the parameters at {flat} are no matrices")
        both = [
            {"params": [each[k] for k in sorted(chosen)], "lr": lr, "hidden": True},
            {"params": [p for k, p in enumerate(each) if k not in chosen], "lr": adamw_lr},
        ]
        defaults = {"momentum": momentum, "betas": betas, "weight_decay": weight_decay}
        super().__init__([g for g in both if g["params"]], {**defaults, "lr": lr, "hidden": False})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Move every parameter that has a gradient."""
        for group in self.param_groups:
            for param in group["params"]:
                if param.grad is not None:
                    param.mul_(1 - group["lr"] * group["weight_decay"])
                    (self._muon if group["hidden"] else self._adamw)(param, param.grad, group)

    def _muon(self, param: Tensor, gradient: Tensor, group: dict) -> None:
        direction = gradient
        if group["momentum"] is not None:
            momentum = self.state[param].setdefault("momentum", torch.zeros_like(param))
            momentum.mul_(group["momentum"]).add_(gradient)
            direction = orthogonalized(gradient + group["momentum"] * momentum)
        param.sub_(direction, alpha=group["lr"] * max(1.0, param.shape[0] / param.shape[1]) ** 0.5)

    def _adamw(self, param: Tensor, gradient: Tensor, group: dict) -> None:
        state, (b1, b2) = self.state[param], group["betas"]
        state["step"] = state.get("step", 0) + 1
        m = state.setdefault("m", torch.zeros_like(param)).lerp_(gradient, 1 - b1)
        v = state.setdefault("v", torch.zeros_like(param)).lerp_(gradient.square(), 1 - b2)
        deviation = (v / (1 - b2 ** state["step"])).sqrt_().add_(1e-8)
        param.addcdiv_(m, deviation, value=-group["lr"] / (1 - b1 ** state["step"]))


def muon_for(model: nn.Sequential, **settings: Any) -> MakeOptimizer:
    """A function that makes a `Muon` for this model, for ``Local(optimizer=...)``.

    Hidden are all matrices that learn, except those in the first item of the row (embeddings) and
    in the last (the head). ``settings`` are those of `Muon`.

    >>> row = nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 5))
    >>> muon_for(row, lr=0.02).keywords
    {'hidden': (1, 3), 'lr': 0.02}
    """
    outer = {id(p) for item in (model[0], model[-1]) for p in item.parameters()}
    learning = [param for param in model.parameters() if param.requires_grad]
    hidden = tuple(k for k, p in enumerate(learning) if p.dim() == 2 and id(p) not in outer)
    if not hidden:
        raise ValueError(
            "the model has no matrix between its first and its last item, which Muon could move: "
            "use torch.optim.AdamW"
        )
    return partial(Muon, hidden=hidden, **settings)


def orthogonalized(matrix: Float[Tensor, "rows columns"]) -> Float[Tensor, "rows columns"]:
    """The matrix with all its singular values near 1 (0.7 to 1.2), by Newton-Schulz iteration.

    ``X <- a X + (b A + c A A) X`` with ``A = X X^T``, five times, from X = matrix / |matrix|. A
    matrix of zeros stays zero.
    """
    a, b, c = COEFFICIENTS
    tall = matrix.shape[0] > matrix.shape[1]
    x = matrix.t() if tall else matrix
    x = x / x.norm().clamp_min(1e-30)
    for _ in range(STEPS):
        square = x @ x.t()
        x = a * x + (b * square + c * square @ square) @ x
    return x.t() if tall else x
