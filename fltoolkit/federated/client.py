"""What a client does alone: it starts from the model it was sent, and trains on its own samples.

Read `local_update`: it is the algorithm of the paper, for any network. Not here: a faster way for
many clients with a stack of linear layers, which is equal up to rounding (many_at_once.py).
"""

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from itertools import chain, count, islice
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from fltoolkit.arrays import rows_of
from fltoolkit.history import naming_its_words
from fltoolkit.party import (
    SGD,
    LossFn,
    check_no_closure,
    check_one_number,
    check_some_count,
    check_targets,
)
from fltoolkit.shapes import Int64
from fltoolkit.trees import Tree, difference

MakeOptimizer = Callable[[list[Tensor]], torch.optim.Optimizer]
"""``optimizer(params)`` makes an optimizer, e.g. ``partial(torch.optim.AdamW, lr=1e-3)``."""

Schedule = Callable[[int], float]
"""``schedule(step)``: the factor of the learning rate at a step; the first step has number 0."""

Data = tuple[Any, Any]
"""One client's samples and their labels, ``(x, y)``; a torch `Dataset` stands as both."""


@naming_its_words
@dataclass(frozen=True)
class Local:
    """Settings: what each client does with the model it was sent.

    Source: McMahan et al. 2017, arXiv 1602.05629: ``batch_size`` is B, ``epochs`` is E, ``lr`` is
    eta. With ``prox``, FedProx: Li et al. 2020, arXiv 1812.06127.

    Plain SGD with ``lr`` is the fastest. For another optimizer give a function that makes it::

        Local(batch_size=10, optimizer=partial(torch.optim.AdamW, lr=1e-3), epochs=1)

    Args:
        batch_size: samples in a step (the last batch of an epoch may be smaller); None for all
            samples at once (with ``steps=1`` this is FedSGD).
        lr: the learning rate of plain SGD. Give ``lr`` or ``optimizer``.
        optimizer: a function that makes a client's optimizer from a list of parameters.
        epochs: how often a client trains on each of its samples. Give ``epochs`` or ``steps``.
        steps: how many steps it takes (tau); it begins another epoch if one is not enough.
        schedule: the factor of each step's learning rate, as a function of how many steps this
            client's optimizer has taken before. With ``keep_state`` this number grows from round
            to round; otherwise each round begins at 0. It needs ``optimizer``, for plain SGD
            ``partial(torch.optim.SGD, lr=...)``.
        clip_norm: longer gradients are shortened to this length before each step; None: never.
        prox: mu of FedProx: each step reduces ``loss + mu/2 |w - start|^2``.
        loss_fn: ``loss_fn(output, y)``, the mean over a batch. The default is for models that end
            with `LogSoftmax`; a model that returns logits needs ``nn.functional.cross_entropy``.
        keep_state: whether a client keeps its optimizer's state, such as momentum, from one of its
            rounds to its next. The `Fleet` holds the states, which are saved with the run.

    Raises:
        ValueError, TypeError: a value is not allowed; raised at once, not in the first round.

    >>> Local(batch_size=10, lr=-1, epochs=1)
    Traceback (most recent call last):
    ...
    ValueError: lr=-1: the learning rate is above 0 and finite, e.g. 0.1
    """

    batch_size: int | None
    _: KW_ONLY
    lr: float | None = None
    optimizer: MakeOptimizer | None = None
    epochs: int | None = None
    steps: int | None = None
    schedule: Schedule | None = None
    clip_norm: float | None = None
    prox: float = 0.0
    loss_fn: LossFn = nn.functional.nll_loss
    keep_state: bool = False

    def __post_init__(self) -> None:
        for name in ("batch_size", "epochs", "steps"):
            check_count(name, getattr(self, name))
        if (self.epochs is None) == (self.steps is None):
            raise ValueError(
                f"epochs={self.epochs} and steps={self.steps}: give exactly one of them, how often "
                "a client sees its samples or how many steps it takes"
            )
        if (self.lr is None) == (self.optimizer is None):
            raise ValueError(
                f"lr={self.lr} and optimizer={self.optimizer}: give exactly one of them, lr for "
                "plain SGD or optimizer=lambda params: torch.optim.AdamW(params, lr=1e-3)"
            )
        if self.lr is not None and not 0 < self.lr < math.inf:
            raise ValueError(f"lr={self.lr}: the learning rate is above 0 and finite, e.g. 0.1")
        if self.clip_norm is not None and not 0 < self.clip_norm < math.inf:
            raise ValueError(f"clip_norm={self.clip_norm}: a length above 0 and finite, or None")
        if not 0 <= self.prox < math.inf:
            raise ValueError(f"prox={self.prox}: finite and at least 0, which is plain FedAvg")
        check_function("loss_fn", self.loss_fn)
        if self.schedule is not None:
            check_schedule(self.schedule)
        if isinstance(self.optimizer, torch.optim.Optimizer):
            raise TypeError(
                f"optimizer is a finished {type(self.optimizer).__name__}, and each client needs "
                "its own: give what makes one, for example lambda params: "
                "torch.optim.AdamW(params, lr=1e-3)"
            )
        if self.optimizer is None and (self.schedule is not None or self.keep_state):
            raise ValueError(
                f"schedule={self.schedule}, keep_state={self.keep_state}: plain SGD keeps no state "
                "and no count of its steps. Give optimizer=partial(torch.optim.SGD, lr=...) in "
                "place of lr"
            )


class LocalUpdate(NamedTuple):
    """What one client has learned.

    ``delta`` is end minus start for parameters that learn and for buffers, also for whole numbers
    such as BatchNorm's ``num_batches_tracked``, and for masks; see `fltoolkit.trees.difference`.
    ``loss`` is the mean of the losses of the batches; each is computed before its step and without
    the proximal term. ``state`` is the optimizer's state, with ``Local(keep_state=True)`` only.
    """

    delta: Tree
    loss: float
    num_samples: int
    num_steps: int
    state: dict[str, Any] | None = None


def local_update(
    module: nn.Module,
    start: Tree,
    x: Any,
    y: Any,
    local: Local,
    *,
    seed: int,
    state: dict[str, Any] | None = None,
) -> LocalUpdate:
    """ClientUpdate: start from the server's weights, and take steps on the client's samples.

    McMahan et al. 2017, arXiv 1602.05629, algorithm 1 (w = ``start``), with the batches dealt anew
    in each epoch; FedProx is Li et al. 2020, arXiv 1812.06127, eq. 2.

    The result is a function of the arguments alone. The batches of epoch e are those of
    ``Batches(x, y, batch_size, seed=seed).epoch(e)``. Dropout's masks come from ``seed``, too, as
    does what a torch `Dataset` (given as x and as y) draws by torch; torch's own generator does not
    change. ``module`` is only used to compute, on its device: its weights, mode and gradients do
    not change. Frozen parameters stay frozen.

    Args:
        x: samples [num_samples, ...].
        y: their labels [num_samples, ...].
        start: weights and buffers, with the names of ``module.state_dict()``. Frozen parameters may
            be left out: they are then the module's own.
        state: ``state`` of the client's last update; None for a new optimizer.

    Raises:
        FloatingPointError: the loss or the update is NaN or infinite; nothing is returned.
        ValueError: the arguments do not fit each other, or torch would broadcast targets [n]
            against outputs [n, 1].

    >>> start = {"weight": torch.zeros(1, 1)}
    >>> local = Local(batch_size=2, lr=0.25, epochs=1, loss_fn=nn.functional.mse_loss)
    >>> model, ones = nn.Linear(1, 1, bias=False), torch.ones(4, 1)
    >>> update = local_update(model, start, ones, ones, local, seed=0)
    >>> update.delta, update.loss, update.num_samples, update.num_steps
    ({'weight': tensor([[0.7500]])}, 0.625, 4, 2)
    """
    start = filled(module, start)
    check_settings(module, [start], [(x, y)], local)
    model = copy.deepcopy(module)
    model.load_state_dict(start)
    model.train()
    params: list[Tensor] = [param for param in model.parameters() if param.requires_grad]
    first = [param.detach().clone() for param in params] if local.prox else []
    optimizer = make_optimizer(local, params, state)
    device, losses = params[0].device, []
    with seeded_layers(seed, device):
        for rows in batch_indices(len(y), local, seed):
            inputs, targets = rows_of(x, y, rows)
            loss = loss_of(local.loss_fn, model(inputs.to(device)), targets.to(device))
            if not math.isfinite(value := loss.item()):
                check_some_count("a client", local.loss_fn, targets)
                raise _diverged(f"the local loss is {value}")
            losses.append(value)
            optimizer.zero_grad()
            loss.backward()
            if first or local.clip_norm:
                for param in params:  # of sparse embeddings
                    if param.grad is not None and param.grad.is_sparse:
                        param.grad = param.grad.to_dense()
            for param, w0 in zip(params, first, strict=False):
                if param.grad is not None:  # the gradient of prox/2 |w - w0|^2
                    param.grad.add_(param.detach() - w0, alpha=local.prox)
            take_step(optimizer, params, local)
    update = finished(start, sent_entries(model), losses, len(y))
    return update._replace(state=optimizer.state_dict() if local.keep_state else None)


# --------------------------------------------------------------------- parts that others use, too


def loss_of(loss_fn: LossFn, output: Tensor, y: Tensor) -> Tensor:
    """The loss of a batch. Raises ValueError if torch would broadcast y, or if it is no number."""
    check_targets(output, y)
    loss = loss_fn(output, y)
    check_one_number(loss_fn, loss)
    return loss


def batch_indices(
    num_samples: int, local: Local, seed: int = 0
) -> Iterator[Int64[Tensor, " batch"]]:
    """Which samples each local step uses; a new order in each epoch, as in `data.Batches`."""
    if seed < 0:
        raise ValueError(f"seed={seed}: must be at least 0")
    size = local.batch_size or num_samples

    def epoch(number: int) -> tuple[Tensor, ...]:
        order = np.random.default_rng((seed, number)).permutation(num_samples)
        return torch.from_numpy(order).split(size)

    steps = local.steps or (local.epochs or 0) * math.ceil(num_samples / size)
    return islice(chain.from_iterable(map(epoch, count())), steps)


@contextmanager
def seeded_layers(seed: int, device: torch.device) -> Iterator[None]:
    """Inside this context Dropout draws from ``seed``; torch's generators are restored."""
    gpus = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=gpus):
        torch.default_generator.manual_seed(seed)  # torch.manual_seed would seed every GPU
        for gpu in gpus:
            with torch.cuda.device(gpu):
                torch.cuda.manual_seed(seed)
        yield


@torch.no_grad()
def finished(start: Tree, end: Tree, losses: list[float], num_samples: int) -> LocalUpdate:
    """End minus start, or FloatingPointError if one of them is NaN or infinite."""
    loss = sum(losses) / len(losses)
    if not math.isfinite(loss):
        raise _diverged(f"the local loss is {loss}")
    delta = {name: difference(end[name], start[name]) for name in end}
    sums = [d.sum(dtype=torch.float32) for d in delta.values() if d.is_floating_point()]
    if not torch.stack(sums).isfinite().all():  # the last step may fail after a good loss
        raise _diverged(f"the loss is {losses[-1]}, but the step after it led to NaN or infinity")
    return LocalUpdate(delta, loss, num_samples, len(losses))


def _diverged(what: str) -> FloatingPointError:
    advice = "lower lr, or check this client's samples. Nothing was learned from it."
    return FloatingPointError(f"{what}. Local training has diverged or the data hold NaN: {advice}")


def sent_names(module: nn.Module) -> list[str]:
    """The names of those entries of ``module.state_dict()`` that server and clients send.

    Parameters that learn, and buffers. A weight that has several names (tied weights) is sent once,
    under the last of them, which is the one that counts when a state is loaded. A frozen parameter
    (``requires_grad=False``) is not sent: everybody has it from the beginning.

    >>> tied = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2).requires_grad_(False))
    >>> tied[1].bias = tied[0].bias
    >>> sent_names(tied)
    ['0.weight', '1.bias']
    """
    tensors = module.state_dict(keep_vars=True)
    last = {id(tensor): name for name, tensor in tensors.items()}
    frozen = {id(param) for param in module.parameters() if not param.requires_grad}
    return [n for n, t in tensors.items() if last[id(t)] == n and id(t) not in frozen]


def filled(module: nn.Module, tree: Tree) -> Tree:
    """The tree, and the entries of ``module.state_dict()`` that are not sent; see `sent_names`.

    Frozen parameters are the module's own. A tied weight has the same value under all its names.
    """
    own = module.state_dict(keep_vars=True)
    if own.keys() <= tree.keys():
        return tree
    received = {id(own[name]): tensor for name, tensor in tree.items() if name in own}
    others = {*sent_names(module), *tree}
    unsent = [name for name in own if name not in others]  # in the order of the state_dict
    return {**tree, **{name: received.get(id(own[name]), own[name].detach()) for name in unsent}}


def sent_entries(module: nn.Module) -> Tree:
    """The entries of ``module.state_dict()`` that are sent, with their values; see `sent_names`."""
    state = module.state_dict()
    return {name: state[name] for name in sent_names(module)}


def take_step(optimizer: torch.optim.Optimizer, params: Sequence[Tensor], local: Local) -> None:
    """Let the optimizer take a step, with clipped gradients and the schedule's learning rate."""
    torch.clear_autocast_cache()  # else autocast around a run computes with old weights
    if local.clip_norm is not None:
        nn.utils.clip_grad_norm_(params, local.clip_norm)
    if local.schedule is None:
        optimizer.step()
        return
    count = optimizer.param_groups[0]  # its entries are saved with the optimizer's state
    num_steps = count.setdefault("num_steps", 0)
    if not 0 <= (factor := local.schedule(num_steps)) < math.inf:
        raise ValueError(f"schedule({num_steps})={factor}: a factor is finite and at least 0")
    for group in optimizer.param_groups:
        group["lr"] = factor * group.setdefault("initial_lr", group["lr"])
    optimizer.step()
    count["num_steps"] = num_steps + 1


def make_optimizer(
    local: Local, params: list[Tensor], state: dict[str, Any] | None
) -> torch.optim.Optimizer:
    """The optimizer of a client or worker, with the state that it has kept."""
    if local.optimizer is None:
        return SGD(params, lr=local.lr or 0.0)
    optimizer = local.optimizer(params)
    check_no_closure("Local(optimizer=...)", optimizer)
    if hasattr(optimizer, "eval"):
        raise TypeError(
            f"{type(optimizer).__name__} needs train() and eval(), which Local never does: use Adam"
        )
    if state is not None:
        optimizer.load_state_dict(copy.deepcopy(state))  # torch would move the tensors given here
    return optimizer


def check_settings(
    module: nn.Module, starts: Sequence[Tree], data: Sequence[Data], local: Local
) -> None:
    """Raise TypeError or ValueError if these do not fit each other."""
    if not isinstance(local, Local):
        raise TypeError(
            f"local={local!r}: give what a client does as one value, "
            "Local(batch_size=10, lr=0.1, epochs=1)"
        )
    if not isinstance(module, nn.Module):
        raise TypeError(f"the model is a {type(module).__name__}: give a made one, such as Net()")
    if not any(param.requires_grad for param in module.parameters()):
        raise ValueError("the module has no parameter that learns (requires_grad=True)")
    for name, entry in module.state_dict().items():
        if not isinstance(entry, Tensor):
            raise TypeError(
                f"entry {name!r} of the model's state is a {type(entry).__name__}, and only "
                "tensors can be sent: let get_extra_state return a tensor, or leave it out"
            )
    for x, y in data:
        if len(x) != len(y) or not len(y):
            raise ValueError(f"{len(x)} samples and {len(y)} labels: need one each, and at least 1")
    own = {name: tensor.shape for name, tensor in module.state_dict().items()}
    for start in starts:
        if differ := own.items() ^ {name: tensor.shape for name, tensor in start.items()}.items():
            listed = ", ".join(sorted({f"{name} {list(shape)}" for name, shape in differ}))
            raise ValueError(f"start does not fit the module; in one of them only: {listed}")


def check_count(name: str, value: Any) -> None:
    """Raise unless the value is a whole number of 1 or more, or None."""
    if value is not None and (value < 1 or value != int(value)):
        raise ValueError(f"{name}={value}: must be at least 1, a whole number")


def check_schedule(schedule: Any) -> None:
    """Raise TypeError unless the value is a function of the step that gives a number."""
    try:
        if isinstance(factor := schedule(0), int | float):
            return
    except TypeError as error:
        factor = error
    raise TypeError(
        f"schedule={schedule!r} gives {factor!r} for step 0: give a function of the step that "
        "gives the factor of the learning rate, as in LambdaLR and no scheduler of torch, such as "
        "lambda step: 0.5 * (1 + math.cos(math.pi * step / 100))"
    )


def check_function(name: str, value: Any) -> None:
    """Raise if the value cannot be called, or if it is a class and not an object of it."""
    if isinstance(value, type):
        called = f"{value.__module__}.{value.__qualname__}"
        raise TypeError(f"{name}={called} is a class: make an object of it, {value.__name__}(...)")
    if not callable(value):
        raise TypeError(f"{name}={value!r}: must be something to call, a function for example")
