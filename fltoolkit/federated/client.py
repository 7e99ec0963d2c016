"""What a client does alone: some steps of SGD on its own samples, from the model it was sent.

Three ways to the same numbers: `local_update` reads like the paper, `local_update_lean` is the same
arithmetic without overhead, `local_updates` trains many clients at once.
"""

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, count, islice
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Int64, Shaped
from torch import Tensor, nn

from fltoolkit.trees import Tree

__all__ = ["LocalUpdate", "local_update", "local_update_lean"]

LossFn = Callable[[Tensor, Tensor], Tensor]
"""``loss_fn(output, y) -> scalar``, the mean over a batch, e.g. ``nn.functional.nll_loss``."""

Data = tuple[Shaped[Tensor, "_ ..."], Shaped[Tensor, "_ ..."]]
"""One client's samples and their labels, ``(x, y)``."""


class LocalUpdate(NamedTuple):
    """What one client has learned.

    ``delta`` is end minus start for every entry of the module's `state_dict`: parameters and
    buffers, whole numbers such as BatchNorm's ``num_batches_tracked`` too. ``loss`` is the mean of
    the batches' losses, each before its step and without the proximal term.
    """

    delta: Tree
    loss: float
    num_samples: int
    num_steps: int


def local_update(
    module: nn.Module,
    start: Tree,
    x: Shaped[Tensor, "num_samples ..."],
    y: Shaped[Tensor, "num_samples ..."],
    *,
    loss_fn: LossFn,
    lr: float,
    batch_size: int | None,
    local_epochs: int | None = None,
    local_steps: int | None = None,
    prox: float = 0.0,
    seed: int,
) -> LocalUpdate:
    """ClientUpdate: start from the server's weights, take SGD steps on one's own samples.

    McMahan et al. 2017, arXiv 1602.05629, algorithm 1 (w = ``start``, B = ``batch_size``, E =
    ``local_epochs``, eta = ``lr``), with the batches dealt anew in each epoch. ``prox`` is mu of
    FedProx (Li et al. 2020, arXiv 1812.06127, eq. 2): each step descends
    ``loss + mu/2 |w - start|^2``.

    The result is a function of the arguments alone. The batches of epoch e are those of
    ``Batches(x, y, batch_size, seed=seed).epoch(e)``; Dropout's masks come from ``seed`` as well,
    and torch's generator is left as it was. So is ``module``, in weights, mode and gradients: it is
    only the workbench, and says on which device to compute. Frozen parameters stay frozen.

    Args:
        start: weights and buffers, with the names of ``module.state_dict()``.
        batch_size: samples a step, the last batch of an epoch being smaller; None for all at once
            (with ``local_steps=1`` that is FedSGD). BatchNorm refuses a batch of one sample.
        local_epochs: how often to see each sample. Give this, or
        local_steps: how many steps to take (tau), into a next epoch if need be.

    Raises:
        FloatingPointError: the loss or the update is NaN or infinite; nothing is returned.

    >>> start = {"weight": torch.zeros(1, 1)}
    >>> local_update(nn.Linear(1, 1, bias=False), start, torch.ones(4, 1), torch.ones(4, 1),
    ...     loss_fn=nn.functional.mse_loss, lr=0.25, batch_size=2, local_steps=1, seed=0)
    LocalUpdate(delta={'weight': tensor([[0.5000]])}, loss=1.0, num_samples=4, num_steps=1)
    """
    check_settings(module, [start], [(x, y)], lr, prox)
    batches = batch_indices(len(y), batch_size, local_epochs, local_steps, seed)
    model = copy.deepcopy(module)
    model.load_state_dict(start)
    model.train()
    params = [param for param in model.parameters() if param.requires_grad]
    first = [param.detach().clone() for param in params]
    optimizer = torch.optim.SGD(params, lr=lr)
    device = params[0].device
    losses = []
    with _random_layers(seed, device):
        for rows in batches:
            loss = loss_fn(model(x[rows].to(device)), y[rows].to(device))
            if not math.isfinite(loss.item()):
                raise _diverged(f"the local loss is {loss.item()}")
            losses.append(loss.item())
            if prox:
                pairs = zip(params, first, strict=True)
                loss = loss + prox / 2 * sum((w - w0).square().sum() for w, w0 in pairs)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return finished(start, model.state_dict(), losses, len(y))


def local_update_lean(
    module: nn.Module,
    start: Tree,
    x: Shaped[Tensor, "num_samples ..."],
    y: Shaped[Tensor, "num_samples ..."],
    *,
    loss_fn: LossFn,
    lr: float,
    batch_size: int | None,
    local_epochs: int | None = None,
    local_steps: int | None = None,
    prox: float = 0.0,
    seed: int,
) -> LocalUpdate:
    """`local_update` in less time: bit-equal without ``prox``, up to rounding with it.

    It borrows ``module`` instead of copying it (and hands it back as it was, also after an error)
    and frees gradients before the next step. Not for two threads with one module. ``python -m
    benchmarks.round_speed`` times it, also in ``channels_last`` and under `torch.autocast`, which
    change the numbers.
    """
    check_settings(module, [start], [(x, y)], lr, prox)
    batches = batch_indices(len(y), batch_size, local_epochs, local_steps, seed)
    params: list[Tensor] = [param for param in module.parameters() if param.requires_grad]
    device = params[0].device
    x, y = x.to(device), y.to(device)

    def step(rows: Tensor) -> Tensor:  # a function, so that its gradients are freed when it ends
        loss = loss_fn(module(x.index_select(0, rows)), y.index_select(0, rows))
        grads = torch.autograd.grad(loss, params, allow_unused=True, materialize_grads=True)
        descend(params, grads, first, lr, prox)
        return loss.detach()

    with training(module), _borrowed(module, start), _random_layers(seed, device):
        first = [param.detach().clone() for param in params] if prox else []
        losses = [step(rows.to(device)) for rows in batches]
        return finished(start, module.state_dict(), torch.stack(losses).tolist(), len(y))


@torch.no_grad()
def descend(
    params: list[Tensor], grads: tuple[Tensor, ...], first: list[Tensor], lr: float, prox: float
) -> None:
    """``w <- w - lr (gradient + prox (w - w0))``, in place."""
    if prox:
        grads = torch._foreach_add(grads, torch._foreach_sub(params, first), alpha=prox)
    torch._foreach_add_(params, grads, alpha=-lr)


@contextmanager
def _borrowed(module: nn.Module, start: Tree) -> Iterator[None]:
    """Inside, the module trains on a copy of ``start``; afterwards its tensors are its own."""
    own: Tree = dict(module.named_parameters(remove_duplicate=False))
    own.update(module.named_buffers(remove_duplicate=False))
    kept = [(tensor, tensor.data) for tensor in own.values()]
    buffers = [(part._buffers, dict(part._buffers)) for part in module.modules()]
    try:
        for name, tensor in own.items():  # a buffer that is not saved starts from the module's own
            tensor.data = torch.empty_like(tensor.data).copy_(start.get(name, tensor.data))
        yield
    finally:
        for tensor, data in kept:
            tensor.data = data
        for current, before in buffers:  # a forward may have put a new tensor in place of one
            current.update(before)


@contextmanager
def training(module: nn.Module) -> Iterator[None]:
    """Inside, the module is in training mode; afterwards each part is in its own again."""
    modes = [(part, part.training) for part in module.modules()]
    module.train()
    try:
        yield
    finally:
        for part, training in modes:
            part.training = training


# ---- Many clients at once -----------------------------------------------------------------------


def outcome_of(train: Callable, *args: Any, **how: Any) -> LocalUpdate | FloatingPointError:
    try:
        return train(*args, **how)
    except FloatingPointError as error:
        return error  # one client's failure is its own


# ---- What the three share -----------------------------------------------------------------------


def batch_indices(
    num_samples: int,
    batch_size: int | None,
    local_epochs: int | None = None,
    local_steps: int | None = None,
    seed: int = 0,
) -> Iterator[Int64[Tensor, " batch"]]:
    """Which samples each local step sees; a new order in each epoch, as `data.Batches` deals."""
    if (local_epochs is None) == (local_steps is None):
        raise ValueError(
            f"local_epochs={local_epochs} and local_steps={local_steps}: give exactly one of them"
        )
    given = {"batch_size": batch_size, "local_epochs": local_epochs, "local_steps": local_steps}
    for name, value in {**given, "seed": seed}.items():
        if value is not None and value < (minimum := int(name != "seed")):
            raise ValueError(f"{name}={value}: must be at least {minimum}")
    size = batch_size or num_samples

    def epoch(number: int) -> tuple[Tensor, ...]:
        order = np.random.default_rng((seed, number)).permutation(num_samples)
        return torch.from_numpy(order).split(size)

    steps = local_steps or (local_epochs or 0) * math.ceil(num_samples / size)
    return islice(chain.from_iterable(map(epoch, count())), steps)


@contextmanager
def _random_layers(seed: int, device: torch.device) -> Iterator[None]:
    """Inside, Dropout draws from ``seed``; afterwards torch's generators are as they were."""
    gpus = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=gpus):
        torch.default_generator.manual_seed(seed)  # torch.manual_seed would seed every GPU
        for gpu in gpus:
            with torch.cuda.device(gpu):
                torch.cuda.manual_seed(seed)
        yield


@torch.no_grad()
def finished(start: Tree, end: Tree, losses: list[float], num_samples: int) -> LocalUpdate:
    """End minus start, or FloatingPointError where they hold no numbers."""
    loss = sum(losses) / len(losses)
    if not math.isfinite(loss):
        raise _diverged(f"the local loss is {loss}")
    delta = {name: end[name] - start[name].to(end[name]) for name in end}
    sums = [d.sum(dtype=torch.float32) for d in delta.values() if d.is_floating_point()]
    if not torch.stack(sums).isfinite().all():  # the last step may go wrong after a good loss
        raise _diverged(f"the loss is {losses[-1]}, but the step after it led to NaN or infinity")
    return LocalUpdate(delta, loss, num_samples, len(losses))


def _diverged(what: str) -> FloatingPointError:
    advice = "lower lr, or check this client's samples. Nothing was learned from it."
    return FloatingPointError(f"{what}. Local training has diverged or the data hold NaN: {advice}")


def check_settings(
    module: nn.Module, starts: Sequence[Tree], data: Sequence[Data], lr: float, prox: float
) -> None:
    if not 0 < lr < math.inf:
        raise ValueError(f"lr={lr}: the learning rate must be above 0 and finite")
    if not 0 <= prox < math.inf:
        raise ValueError(f"prox={prox}: must be finite and at least 0, which is plain FedAvg")
    if not any(param.requires_grad for param in module.parameters()):
        raise ValueError("the module has no parameter that learns (requires_grad=True)")
    for x, y in data:
        if len(x) != len(y) or not len(y):
            raise ValueError(f"{len(x)} samples and {len(y)} labels: need one each, and at least 1")
    own = {name: tensor.shape for name, tensor in module.state_dict().items()}
    for start in starts:
        if differ := own.items() ^ {name: tensor.shape for name, tensor in start.items()}.items():
            listed = ", ".join(sorted({f"{name} {list(shape)}" for name, shape in differ}))
            raise ValueError(f"start does not fit the module; in one of them only: {listed}")
