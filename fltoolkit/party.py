"""A party: one owner of data or labels, with its part of the network and its own optimizer.

A party computes and learns. It does not know any channel, codec, record or other party.
"""

import copy
import functools
import inspect
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from fltoolkit.history import naming_its_words
from fltoolkit.shapes import Float, Shaped
from fltoolkit.trees import Tree

__all__ = ["SGD", "LossFn", "Party", "TrainingWarning"]

LossFn = Callable[[Tensor, Tensor], Tensor]
"""``loss_fn(output, y) -> scalar``, the mean over a batch, e.g. ``nn.functional.nll_loss``."""


@runtime_checkable
class Optimizer(Protocol):
    """What a party needs from its optimizer; every ``torch.optim.Optimizer`` has it."""

    def step(self) -> Any: ...
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: Any) -> None: ...


class TrainingWarning(UserWarning):
    """Training goes on, but something in it is most likely a mistake; the text says what to do."""


class SGD(torch.optim.Optimizer):
    """Plain stochastic gradient descent: ``theta <- theta - lr * gradient``.

    The result is bit-equal to that of ``torch.optim.SGD(params, lr)``, without the bookkeeping that
    torch does in each step (``make bench`` shows how long it takes). For momentum and other options
    use ``torch.optim``. The schedulers of ``torch.optim.lr_scheduler`` work as with these.

    >>> w = torch.tensor([1.0], requires_grad=True)
    >>> (2 * w).backward()
    >>> SGD([w], lr=0.1).step()
    >>> w
    tensor([0.8000], requires_grad=True)
    """

    def __init__(self, params: Iterable[Tensor], lr: float):
        if not 0 < lr < math.inf:
            raise ValueError(f"lr={lr}: the learning rate must be above 0 and finite")
        # torch's own __init__ imports its compiler, which takes seconds
        groups = [{"params": list(params), "lr": lr}]
        self.__setstate__({"defaults": {"lr": lr}, "state": {}, "param_groups": groups})

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._no_grad = torch.no_grad()  # made once: making it takes as long as using it

    def step(self) -> None:  # type: ignore[override]
        """Move every parameter that has a gradient."""
        with self._no_grad:
            for group in self.param_groups:
                lr = group["lr"]
                for param in group["params"]:
                    if (gradient := param.grad) is not None:
                        param.add_(gradient, alpha=-lr)

    step.hooked = True  # type: ignore[attr-defined]  # or torch would put its bookkeeping around it

    def state_dict(self) -> dict[str, Any]:
        """The learning rate of each group of parameters: plain SGD remembers nothing else."""
        rates = [group["lr"] for group in self.param_groups]
        return {"lr": rates[0] if len(rates) == 1 else rates}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Use saved learning rates."""
        rates = state["lr"] if isinstance(state["lr"], list) else [state["lr"]]
        for group, lr in zip(self.param_groups, rates, strict=True):
            group["lr"] = lr


@naming_its_words
class Party:
    """One owner of data or labels, with its part of the network and its own optimizer.

    `forward` computes. `backward` and `loss_and_grad` compute gradients and also take the
    optimizer's step, so a party has learned when they return.

    Args:
        name: the owner, as it is written in the ledger; one who owns two parts of the network, the
            head and the tail of a U-shape, is two parties of one name.
        module: its part of the network. Parameters that are already frozen stay frozen.
        optimizer: made from the module's parameters; None for a part that does not learn.
        loss_fn: ``loss_fn(output, y) -> scalar``, for the party that computes the loss.
        device: where to compute, e.g. ``"cuda"``; by default the device of the module.

    >>> layer = nn.Linear(1, 1, bias=False)
    >>> alice = Party("alice", layer, SGD(layer.parameters(), lr=0.5))
    >>> alice.load_weights({"weight": torch.tensor([[2.0]])})
    >>> alice.forward(torch.tensor([[3.0]]))
    tensor([[6.]])
    >>> _ = alice.backward(torch.tensor([[1.0]]))
    >>> alice.weights()["weight"]
    tensor([[0.5000]])
    """

    def __init__(
        self,
        name: str,
        module: nn.Module,
        optimizer: Optimizer | None = None,
        loss_fn: LossFn | None = None,
        *,
        device: str | torch.device | None = None,
    ):
        if isinstance(optimizer, type) or not isinstance(optimizer, Optimizer | None):
            raise TypeError(
                f"party {name!r}: optimizer={optimizer!r} is no optimizer; make one from the "
                "module's parameters, e.g. torch.optim.SGD(module.parameters(), lr=0.03)"
            )
        check_no_closure(f"party {name!r}", optimizer)
        if isinstance(loss_fn, type):
            raise TypeError(
                f"party {name!r}: loss_fn={loss_fn.__name__} is a class; make a loss of it: "
                f"loss_fn={loss_fn.__name__}()"
            )
        self.name = name
        self.module = module if device is None else module.to(device)
        self.optimizer = optimizer
        self.loss_fn = loss_fn
        self.device = next((p.device for p in module.parameters()), torch.device(device or "cpu"))
        self.pending: tuple[Tensor, Tensor] | None = None
        """Input and output of the last `forward`, until `backward` gets their gradient."""
        self.check()

    def check(self) -> None:
        """Raise ValueError if the optimizer moves other parameters, such as a replaced layer's.

        Protocols call this before they train.
        """
        own = {id(param) for param in self.module.parameters()}
        if strangers := sum(id(param) not in own for param in _parameters(self.optimizer)):
            raise ValueError(
                f"party {self.name!r}: its optimizer moves {strangers} parameters that are not its "
                "module's. Make each party's optimizer from its own part of the network, and anew "
                "after a layer was replaced"
            )
        self._fits_loss = self._learns = False  # True: this was checked, with the first batch

    def forward(self, x: Shaped[Tensor, "batch ..."]) -> Float[Tensor, "batch ..."]:
        """Compute this part's output. The returned tensor has no autograd graph."""
        output = self._output(x)
        self.pending = (x, output)
        return output.detach()

    def backward(self, g: Float[Tensor, "batch ..."]) -> Float[Tensor, "batch ..."] | None:
        """Take one optimizer step with ``g``, the gradient of the loss for this part's last output.

        Without an optimizer nothing is learned. Returns the gradient with respect to the input, or
        None if the input does not require one.
        """
        if self.pending is None:
            raise RuntimeError(f"party {self.name!r}: backward needs a forward before it")
        x, output = self.pending
        self.pending = None
        return self._learn(x, output, g.to(self.device))

    def loss_and_grad(
        self, h: Shaped[Tensor, "batch ..."], y: Shaped[Tensor, "batch ..."]
    ) -> tuple[float, Float[Tensor, "batch ..."] | None]:
        """Compute the loss at this last part, and take one optimizer step with its gradient.

        Returns the loss, and its gradient with respect to ``h`` (None if ``h`` does not require
        one). Raises FloatingPointError if one of them is NaN or infinite, and ValueError if torch
        would silently broadcast output and targets. Then nothing is learned.
        """
        if self.loss_fn is None:
            raise ValueError(f"party {self.name!r} comes last and has no loss_fn: give it one")
        output = self._output(h)
        check_targets(output, y)
        loss = self._computed("loss", self.loss_fn, LABEL_ADVICE, output, y.to(self.device))
        if not self._fits_loss:  # once: it does not depend on the batch
            check_fits_loss(f"party {self.name!r}", self.loss_fn, output, loss)
            self._fits_loss = True
        if not math.isfinite(value := loss.item()):
            check_some_count(f"party {self.name!r}", self.loss_fn, y)
            raise FloatingPointError(
                f"party {self.name!r}: the loss is {value}. Training has diverged or the data hold "
                f"NaN: {_ADVICE}"
            )
        return value, self._learn(h, loss, None)

    def _output(self, x: Tensor) -> Tensor:
        """The module's output for x."""
        wanted = next((p.dtype for p in self.module.parameters()), x.dtype)
        floats = x.is_floating_point() and wanted != x.dtype
        advice = f"Give both one dtype, for example by x.to({wanted})" if floats else _FIT
        output = self._computed("module", self.module, advice, x.to(self.device))
        if not isinstance(output, Tensor):
            raise TypeError(
                f"party {self.name!r}: its module returns a {type(output).__name__}, not one "
                "tensor. Let its forward return the tensor that the next part needs"
            )
        return output

    def _computed(
        self, what: str, function: Callable[..., Any], advice: str, *tensors: Tensor
    ) -> Any:
        """What the module or the loss returns; torch's errors get the party's name and advice."""
        try:
            return function(*tensors)
        except torch.cuda.OutOfMemoryError:
            raise
        except (IndexError, RuntimeError, ValueError) as error:
            kinds = " and ".join(f"{list(each.shape)} of {each.dtype}" for each in tensors)
            raise ValueError(
                f"party {self.name!r}: its {what} cannot compute with {kinds}: {error}. {advice}"
            ) from error

    def _learn(self, x: Tensor, output: Tensor, g: Tensor | None) -> Tensor | None:
        """Backpropagate from output to parameters and x, then let the optimizer step."""
        if self.optimizer is None:
            if x.requires_grad:
                output.backward(g, inputs=[x])
        elif not output.requires_grad:
            self._check_learns()
        else:
            everything = [{"params": self.module.parameters()}]
            for group in getattr(self.optimizer, "param_groups", everything):  # as they are now
                for param in group["params"]:
                    param.grad = None
            output.backward(g)
            self._check_learns()
            if x.grad is not None and not math.isfinite(x.grad.sum()):
                raise FloatingPointError(
                    f"party {self.name!r}: the gradient for what it was sent is NaN or infinite. "
                    f"Training has diverged, or a layer has no gradient there: {_ADVICE}"
                )
            self.optimizer.step()
            torch.clear_autocast_cache()  # else autocast around a run computes with old weights
        return x.grad

    def _check_learns(self) -> None:
        """With the first gradient: does it reach a weight that the optimizer moves?"""
        if self._learns:
            return
        self._learns = True
        learnable = any(True for _ in self.module.parameters())  # a last part may have none
        if learnable and all(param.grad is None for param in _parameters(self.optimizer)):
            warnings.warn(
                f"party {self.name!r} learns nothing, although gradients are computed for it: no "
                "weight that its optimizer holds takes part in its output. Is the output detached "
                "(detach, no_grad, item), is every weight frozen, or was the optimizer made from "
                "an iterator that was used up? A part that is not to learn gets optimizer=None, "
                "and then no gradient is sent to it",
                TrainingWarning,
                stacklevel=4,
            )
        if not self.module.training and any(
            isinstance(part, _BatchNorm | _DropoutNd) for part in self.module.modules()
        ):
            warnings.warn(
                f"party {self.name!r} learns in evaluation mode: its Dropout and BatchNorm layers "
                "work as in a test. Call module.train() before training",
                TrainingWarning,
                stacklevel=4,
            )

    def weights(self) -> Tree:
        """The module's own weights and buffers, by their names without `torch.compile`."""
        return uncompiled(self.module).state_dict()

    def load_weights(self, weights: Tree) -> None:
        """Replace this party's part of the model by ``weights``, whose values are copied.

        The optimizer keeps its state. Raises RuntimeError if names or shapes do not fit.
        """
        plain = {name.replace("_orig_mod.", ""): tensor for name, tensor in weights.items()}
        uncompiled(self.module).load_state_dict(plain)
        torch.clear_autocast_cache()

    def state_dict(self) -> dict[str, Any]:
        """All that this party needs to go on later: its weights and its optimizer's state."""
        optimizer = None if self.optimizer is None else self.optimizer.state_dict()
        return {"name": self.name, "module": self.weights(), "optimizer": optimizer}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved `state_dict` of the same party."""
        if state["name"] != self.name:
            raise ValueError(
                f"this is {self.name!r}, the saved state is {state['name']!r}'s: give the parties "
                "in the order in which they were saved"
            )
        self.load_weights(state["module"])
        if self.optimizer is not None:
            self.optimizer.load_state_dict(state["optimizer"])
            check_optimizer_state(self.optimizer)

    def __repr__(self) -> str:
        learning = sum(p.numel() for p in self.module.parameters() if p.requires_grad)
        return f"<Party {self.name!r}: {learning:,} parameters>"


def uncompiled(module: nn.Module) -> nn.Module:
    """The module, whose tensors it has, without what `torch.compile` put around it and in it."""
    module = getattr(module, "_orig_mod", module)
    parts = {n: None if part is None else uncompiled(part) for n, part in module._modules.items()}
    if parts != module._modules:
        module = copy.copy(module)
        module._modules = parts
    return module


def check_optimizer_state(optimizer: Any) -> None:
    """Raise ValueError if what an optimizer remembers of a weight cannot be of its shape."""
    for param, memory in getattr(optimizer, "state", {}).items():
        for name, value in memory.items():
            if not isinstance(value, Tensor) or value.numel() == 1:
                continue
            sizes = zip(value.shape[::-1], param.shape[::-1], strict=False)
            if value.dim() > param.dim() or any(a not in (1, b) for a, b in sizes):
                raise ValueError(
                    f"the optimizer's {name} has the shape {list(value.shape)}, and its weight "
                    f"{list(param.shape)}"
                )


def check_no_closure(who: str, optimizer: Any) -> None:
    """Raise TypeError for an optimizer that computes the loss in its step, such as LBFGS."""
    step = inspect.signature(optimizer.step).parameters if optimizer is not None else {}
    if "closure" in step and step["closure"].default is inspect.Parameter.empty:
        raise TypeError(
            f"{who}: {type(optimizer).__name__} needs a closure, which computes the loss several "
            "times in a step, and here a step is one message in each direction. Use SGD, Adam or "
            "another optimizer whose step() needs no argument"
        )


def check_one_number(loss_fn: Any, loss: Any) -> None:
    """Raise ValueError if a loss is not one number for the whole batch."""
    if not isinstance(loss, Tensor) or loss.numel() != 1:
        is_tensor = isinstance(loss, Tensor)
        what = f"tensor of shape {list(loss.shape)}" if is_tensor else type(loss).__name__
        raise ValueError(
            f"loss_fn={loss_fn!r} returns a {what}, not one number for the batch. Leave out "
            'reduction="none", or take the mean: lambda output, y: loss_fn(output, y).mean()'
        )


LABEL_ADVICE = (
    "Losses of classes, such as NLLLoss and CrossEntropyLoss, need a class number for each sample, "
    "from 0 to one less than the number of outputs: y.argmax(1) makes them of one-hot rows, "
    "y.squeeze(1) of one column, y.long() of floats. Losses that compare each output with one "
    "label, such as BCEWithLogitsLoss, need labels of the outputs' shape and dtype"
)


def check_targets(output: Tensor, y: Tensor) -> None:
    """Raise ValueError for targets [n] and outputs [n, 1]: torch would compare n x n pairs."""
    other = y.shape != output.shape and y.numel() == output.numel()
    if other and y.squeeze().shape == output.squeeze().shape:
        raise ValueError(
            f"outputs {list(output.shape)} and targets {list(y.shape)} would be broadcast, so that "
            "the loss compares each output with each target. Give both one shape: "
            "y.unsqueeze(1), or a last layer nn.Flatten(0)"
        )


IGNORED = -100  # the class number that torch's losses ignore by default, and the metrics here


def counted_targets(loss_fn: LossFn | None, y: Tensor) -> Tensor:
    """Which targets count: all but the class numbers that the loss ignores, [samples, ...]."""
    if y.is_floating_point() or y.dtype == torch.bool:
        return torch.ones(y.shape, dtype=torch.bool, device=y.device)
    ignored = setting_of(loss_fn, "ignore_index")
    return y != (IGNORED if ignored is None else ignored)


def check_some_count(who: str, loss_fn: LossFn, y: Tensor) -> None:
    """Raise ValueError if the loss ignores all targets of a batch: its mean is then 0/0."""
    if not bool(counted_targets(loss_fn, y).any()):
        raise ValueError(
            f"{who}: the loss ignores all targets of a batch (class {y.flatten()[0].item()}), so "
            "their mean does not exist. Leave such samples out, or take larger batches"
        )


def setting_of(loss_fn: LossFn | None, name: str) -> Any:
    """A setting of one of torch's losses, or of a `functools.partial` of one, or None."""
    if isinstance(loss_fn, functools.partial):
        return loss_fn.keywords.get(name, setting_of(loss_fn.func, name))
    return getattr(loss_fn, name, None)


def is_of_torch(loss_fn: LossFn) -> bool:
    """Whether it is known how this loss makes one number of a batch."""
    while isinstance(loss_fn, functools.partial):
        loss_fn = loss_fn.func
    kind = loss_fn if inspect.isfunction(loss_fn) or inspect.isbuiltin(loss_fn) else type(loss_fn)
    return kind.__module__ in ("torch.nn.functional", "torch.nn.modules.loss", "torch._C._nn")


def check_fits_loss(who: str, loss_fn: Any, output: Tensor, loss: Any) -> None:
    """Raise ValueError if the network's output is not what the loss needs, or the loss no number.

    A negative log-likelihood needs log-probabilities: with other outputs the loss falls below 0
    without end. `CrossEntropyLoss` begins with a softmax and `BCEWithLogitsLoss` with a sigmoid:
    after another one in the network the network learns slowly and badly. ``output`` has its graph,
    and ``loss`` is what ``loss_fn`` returned; ``who`` begins the text of the error.
    """
    try:
        check_one_number(loss_fn, loss)
    except ValueError as error:
        raise ValueError(f"{who}: {error}") from None
    function = loss_fn.func if isinstance(loss_fn, functools.partial) else loss_fn
    is_nll = function is nn.functional.nll_loss or isinstance(function, nn.NLLLoss)
    if is_nll and (top := output.detach().max().item()) > 1e-3:
        raise ValueError(
            f"{who}: its network returns {top:.3g} where loss_fn={loss_fn!r} needs "
            "log-probabilities, which are at most 0. Use nn.CrossEntropyLoss() (or "
            "nn.functional.cross_entropy), or end the network with nn.LogSoftmax(dim=1)"
        )
    last = type(output.grad_fn).__name__.removesuffix("Backward0")  # the network's last operation
    kind = loss_fn if inspect.isfunction(loss_fn) else type(loss_fn)
    if last in _NORMALIZED.get(kind, ()):
        raise ValueError(
            f"{who}: its network ends with a {last.lower()}, and loss_fn={loss_fn!r} applies one "
            "by itself: it needs the values before that (logits). Leave the last layer out; the "
            "predicted classes stay the same"
        )


_NORMALIZED: dict[Any, tuple[str, ...]] = {
    nn.CrossEntropyLoss: ("Softmax", "Sigmoid"),
    nn.functional.cross_entropy: ("Softmax", "Sigmoid"),
    nn.BCEWithLogitsLoss: ("Sigmoid", "LogSigmoid", "Softmax"),
    nn.functional.binary_cross_entropy_with_logits: ("Sigmoid", "LogSigmoid", "Softmax"),
}
"""What these losses do by themselves, and what a network must then not end with."""

_ADVICE = (
    "lower the learning rate or check the data. No weight was changed by this batch; all records "
    "so far are good."
)

_FIT = (
    "Fit its first layer to them, or them to the layer: of images, .flat() of a data set makes "
    "rows for nn.Linear"
)


def _parameters(optimizer: Optimizer | None) -> list[Tensor]:
    """The parameters that an optimizer changes, as far as it tells."""
    return [param for group in getattr(optimizer, "param_groups", []) for param in group["params"]]


@contextmanager
def in_mode(training: bool, *modules: nn.Module) -> Iterator[None]:
    """Inside, all modules are in training mode, or in that of a test; then modes are restored."""
    modes = [(part, part.training) for module in modules for part in module.modules()]
    try:
        for module in modules:
            module.train(training)
        yield
    finally:
        for part, mode in modes:
            part.training = mode
