"""What a client does alone: some steps of SGD on its own samples, from the model it was sent.

Three ways to the same numbers: `local_update` reads like the paper, `local_update_lean` is the same
arithmetic without overhead, `local_updates` trains many clients at once. Next: fedavg.py.
"""

import copy
import math
import warnings
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate, chain, count, islice
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Int64, Shaped
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value, vmap

from fltoolkit.trees import Tree, dense_nbytes

__all__ = ["LocalUpdate", "clients_at_once", "local_update", "local_update_lean", "local_updates"]

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
    _check(module, [start], [(x, y)], lr, prox)
    batches = _batches(len(y), batch_size, local_epochs, local_steps, seed)
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
    return _finished(start, model.state_dict(), losses, len(y))


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
    _check(module, [start], [(x, y)], lr, prox)
    batches = _batches(len(y), batch_size, local_epochs, local_steps, seed)
    params: list[Tensor] = [param for param in module.parameters() if param.requires_grad]
    device = params[0].device
    x, y = x.to(device), y.to(device)

    def step(rows: Tensor) -> Tensor:  # a function, so that its gradients are freed when it ends
        loss = loss_fn(module(x.index_select(0, rows)), y.index_select(0, rows))
        grads = torch.autograd.grad(loss, params, allow_unused=True, materialize_grads=True)
        _descend(params, grads, first, lr, prox)
        return loss.detach()

    with _training(module), _borrowed(module, start), _random_layers(seed, device):
        first = [param.detach().clone() for param in params] if prox else []
        losses = [step(rows.to(device)) for rows in batches]
        return _finished(start, module.state_dict(), torch.stack(losses).tolist(), len(y))


@torch.no_grad()
def _descend(
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
def _training(module: nn.Module) -> Iterator[None]:
    """Inside, the module is in training mode; afterwards each part is in its own again."""
    modes = [(part, part.training) for part in module.modules()]
    module.train()
    try:
        yield
    finally:
        for part, training in modes:
            part.training = training


# ---- Many clients at once -----------------------------------------------------------------------


def local_updates(
    module: nn.Module,
    starts: Sequence[Tree],
    data: Sequence[Data],
    *,
    loss_fn: LossFn,
    lr: float,
    batch_size: int | None,
    local_epochs: int | None = None,
    local_steps: int | None = None,
    prox: float = 0.0,
    seeds: Sequence[int],
    chunk: int | None = None,
) -> list[LocalUpdate | FloatingPointError]:
    """`local_update` of many clients, equal up to rounding, ``chunk`` clients at once.

    Weights are stacked, client by client, and `torch.func.vmap` takes the steps. No batch is
    padded: those clients step together whose next batch has the same size. So any loss works,
    BatchNorm sees real samples only, and a client that has finished costs nothing. Memory: weights,
    gradients and samples of ``chunk`` clients.

    Where vmap cannot (Dropout, whose masks would not be the loop's; a forward that looks at values)
    a warning says why, and `local_update_lean` trains the clients one after the other.

    ``chunk=1`` is a loop over `local_update_lean`; by default `clients_at_once` decides. Returns
    one update a client, in their order. Where `local_update` would have raised FloatingPointError,
    that error stands in the client's place: the others' updates are good.
    """
    if len({*(numbers := (len(starts), len(data), len(seeds)))}) > 1:
        raise ValueError("{} starts, {} data and {} seeds: need one each".format(*numbers))
    _check(module, starts, data, lr, prox)
    dealt: dict[str, Any] = {"local_epochs": local_epochs, "local_steps": local_steps}
    dealt["batch_size"] = batch_size
    chunk = clients_at_once(module, [len(y) for _, y in data], **dealt) if chunk is None else chunk
    if chunk < 1:
        raise ValueError(f"chunk={chunk}: must be at least 1 client")
    how = {"loss_fn": loss_fn, "lr": lr, "prox": prox, **dealt}
    clients = list(zip(starts, data, seeds, strict=True))
    # like sizes side by side: few groups, and most of them a slice of the stack
    order = sorted(range(len(clients)), key=lambda k: len(data[k][1]), reverse=True)
    outcomes: dict[int, LocalUpdate | FloatingPointError] = {}
    for i in range(0, len(order), chunk):
        together = order[i : i + chunk]
        found = _at_once_or_in_turn(module, [clients[k] for k in together], how)
        outcomes.update(zip(together, found, strict=True))
    return [outcomes[k] for k in range(len(clients))]


def clients_at_once(module: nn.Module, num_samples: Sequence[int], **dealt: int | None) -> int:
    """How many clients with so many samples `local_updates` trains at once by default: 64 or 1.

    On a CPU vmap pays where calls cost more than arithmetic: models up to 500 kB, of which ten or
    more step together on average (``python -m benchmarks.round_speed --choice``). On other devices
    it is a guess. ``dealt``: batch_size, and local_epochs or local_steps.

    >>> like, unlike = [100] * 10, range(91, 101)
    >>> how = {"batch_size": 20, "local_epochs": 1}
    >>> [clients_at_once(nn.Linear(64, 10), sizes, **how) for sizes in (like, unlike)]
    [64, 1]
    """
    on_cpu = next(module.parameters()).device.type == "cpu"
    if len(num_samples) < 10 or (on_cpu and dense_nbytes(module.state_dict()) > 500_000):
        return 1
    plans = [deque(_batches(n, **dealt, seed=0)) for n in num_samples]
    num_steps, num_calls = sum(map(len, plans)), sum(1 for _ in _together(plans))
    return 64 if not on_cpu or num_steps >= 10 * num_calls else 1


_Client = tuple[Tree, Data, int]  # start, (x, y), seed
_Outcomes = list[LocalUpdate | FloatingPointError]


def _at_once_or_in_turn(module: nn.Module, clients: list[_Client], how: dict) -> _Outcomes:
    if len(clients) > 1:
        try:
            return _at_once(module, clients, **how)
        except RuntimeError as error:  # the loop now does it right, or fails with its own words
            why = str(error).strip().partition("\n")[0]
            warnings.warn(f"clients learn in turn, vmap cannot train them: {why}", stacklevel=3)
    each = ((start, x, y, seed) for start, (x, y), seed in clients)
    return [_outcome(local_update_lean, module, *c[:3], seed=c[3], **how) for c in each]


def _at_once(
    module: nn.Module, clients: list[_Client], loss_fn: LossFn, lr: float, prox: float, **dealt: Any
) -> _Outcomes:
    """All these clients with stacked weights: ``[k, ...]`` is client k's."""
    starts, data, seeds = zip(*clients, strict=True)
    own: Tree = dict(chain(module.named_parameters(), module.named_buffers()))
    named = {id(tensor): name for name, tensor in own.items()}  # a tied tensor has more names
    saved = {name: named[id(t)] for name, t in module.state_dict(keep_vars=True).items()}
    spots = {  # where tensors go; a block that stands in two places has one set of spots
        spot: named[id(tensor)]
        for path, part in module.named_modules()
        for members in (part.named_parameters, part.named_buffers)
        for spot, tensor in members(path, recurse=False, remove_duplicate=False)
    }
    last = {name: alias for alias, name in saved.items()}  # which name counts, as in loading
    state = {
        name: torch.stack([start.get(last.get(name, name), t) for start in starts]).to(t).detach()
        for name, t in own.items()
    }
    learning = [name for name, param in module.named_parameters() if param.requires_grad]
    buffers = [name for name, _ in module.named_buffers()]
    first = {name: state[name].clone() for name in learning} if prox else {}
    device = own[learning[0]].device
    x, y = (torch.cat([part.to(device) for part in column]) for column in zip(*data, strict=True))
    sizes = [len(labels) for _, labels in data]
    each_has = zip(sizes, seeds, accumulate(sizes, initial=0), strict=False)
    plans = [  # each client's batches, as rows of all clients' samples
        deque(rows + before for rows in _batches(n, seed=s, **dealt)) for n, s, before in each_has
    ]

    def loss_of(params: Tree, fixed: Tree, x: Tensor, y: Tensor) -> tuple[Tensor, Tree]:
        tensors = {spot: (params | fixed)[name] for spot, name in spots.items()}
        loss = loss_fn(functional_call(module, tensors, (x,), tie_weights=False), y)
        return loss, {name: tensors[name] for name in buffers}  # as the forward left them

    gradients = vmap(grad_and_value(loss_of, has_aux=True))

    def step(group: list[int], batches: list[Tensor]) -> Tensor:
        rows = torch.stack(batches).to(device)
        at = _places(group)
        fixed = {name: tensor[at] for name, tensor in state.items()}
        params = {name: fixed.pop(name) for name in learning}
        grads, (losses, after) = gradients(params, fixed, _pick(x, rows), _pick(y, rows))
        start = [tensor[at] for tensor in first.values()]
        _descend(list(params.values()), tuple(grads.values()), start, lr, prox)
        # behind a slice the parameters have moved already; behind a list they are copies
        for name, tensor in (after if isinstance(at, slice) else after | params).items():
            state[name][at] = tensor
        return losses

    history = []  # who stepped, with which losses; read at the end: a GPU need not wait
    with _training(module):
        for group, batches in _together(plans):
            history.append((group, step(group, batches)))

    end = {alias: state[name] for alias, name in saved.items()}
    each: list[list[float]] = [[] for _ in clients]
    for k, loss in chain(*(zip(g, losses.tolist(), strict=True) for g, losses in history)):
        each[k].append(loss)
    return [
        _outcome(_finished, start, {name: t[k] for name, t in end.items()}, each[k], sizes[k])
        for k, start in enumerate(starts)
    ]


def _together(plans: Sequence[deque[Tensor]]) -> Iterator[tuple[list[int], list[Tensor]]]:
    """Who steps next, with which batches: who has most steps left, and all with batches as large.

    Those who are ahead wait, so that groups stay large.
    """
    while any(plans):
        most, sizes = max(map(len, plans)), Counter(len(plan[0]) for plan in plans if plan)
        behind = {len(plan[0]) for plan in plans if len(plan) == most}
        size = max(behind, key=lambda size: (sizes[size], size))
        group = [k for k, plan in enumerate(plans) if plan and len(plan[0]) == size]
        yield group, [plans[k].popleft() for k in group]


def _places(group: list[int]) -> slice | list[int]:
    """Where the group's weights are: a slice if they lie side by side, which costs no copy."""
    first, end = group[0], group[-1] + 1
    return slice(first, end) if end - first == len(group) else group


def _pick(tensor: Tensor, rows: Int64[Tensor, "clients batch"]) -> Tensor:
    return tensor.index_select(0, rows.flatten()).unflatten(0, rows.shape)


def _outcome(train: Callable, *args: Any, **how: Any) -> LocalUpdate | FloatingPointError:
    try:
        return train(*args, **how)
    except FloatingPointError as error:
        return error  # one client's failure is its own


# ---- What the three share -----------------------------------------------------------------------


def _batches(
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
def _finished(start: Tree, end: Tree, losses: list[float], num_samples: int) -> LocalUpdate:
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


def _check(
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
