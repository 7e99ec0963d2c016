"""Local steps of a stack of linear layers, written out: bit-equal to `local_update_lean`, faster.

For a small network autograd takes about as long as the arithmetic. For linear layers with ReLU
between them the backward pass is three lines; what comes after the last linear layer, such as
LogSoftmax, and the loss are left to autograd.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from fltoolkit.federated.client import (
    Local,
    LocalUpdate,
    batch_indices,
    check_settings,
    filled,
    finished,
    loss_of,
    sent_entries,
)
from fltoolkit.trees import Tree

HOOKS = "_backward_hooks"  # of a tensor


class Stack(NamedTuple):
    """Flatten or nothing, linear layers with ReLU between them, and one module more or none."""

    flatten: bool
    layers: list[tuple[str, nn.Linear]]  # with the names of their parameters' common part
    tail: nn.Module


def stack_of(module: nn.Module, x: Tensor) -> Stack | None:
    """The module as a stack, if it is one, without hooks, and all of it learns from x [n, ...]."""
    parts = list(module.named_children()) if type(module) is nn.Sequential else []
    flatten = (
        bool(parts)
        and type(parts[0][1]) is nn.Flatten
        and (parts[0][1].start_dim, parts[0][1].end_dim) == (1, -1)
    )
    rest = parts[flatten:]
    tail: nn.Module = nn.Identity()
    if rest and type(rest[-1][1]) is nn.LogSoftmax:
        tail = rest.pop()[1]
    layers = [(name, part) for name, part in rest[::2] if type(part) is nn.Linear]
    if 2 * len(layers) - 1 != len(rest) or any(type(part) is not nn.ReLU for _, part in rest[1::2]):
        return None
    if len(parts) + 1 != len(list(module.named_modules(remove_duplicate=False))):  # one is twice
        return None
    weights = list(module.parameters())
    good = (
        len(weights) == 2 * len(layers)  # each has a bias, and none is shared
        and all(w.requires_grad and w.device.type == "cpu" for w in weights)
        and {w.dtype for w in weights} == {x.dtype}
        and x.device.type == "cpu"
        and (x.dim() == 2 or flatten)
        and not _is_autocast()
        and not any(getattr(weight, HOOKS) for weight in weights)
        and not any(hooks for part in module.modules() for hooks in _hooks(part))
    )
    return Stack(flatten, layers, tail) if good else None


def _hooks(part: nn.Module) -> list[object]:
    """What is called before and after a module's passes."""
    return [value for name, value in vars(part).items() if name.endswith("_hooks")]


def _is_autocast() -> bool:
    try:
        return torch.is_autocast_enabled("cpu")
    except TypeError:  # torch before 2.4
        return torch.is_autocast_cpu_enabled()


def local_update_dense(
    stack: Stack, module: nn.Module, start: Tree, x: Tensor, y: Tensor, local: Local, *, seed: int
) -> LocalUpdate:
    """`local_update_lean` of the module that the stack was made of; plain SGD without prox."""
    start = filled(module, start)
    check_settings(module, [start], [(x, y)], local)
    end = {name: start[name].clone() for name in sent_entries(module)}  # in the module's order
    layers = [(end[f"{name}.weight"], end[f"{name}.bias"]) for name, _ in stack.layers]
    gradients = [torch.empty_like(weight) for weight, _ in layers]
    x, losses, lr = x.flatten(1) if stack.flatten else x, [], local.lr or 0.0
    for rows in batch_indices(len(y), local, seed):
        with torch.no_grad():
            inputs = [x.index_select(0, rows)]
            for weight, bias in layers[:-1]:
                inputs.append(torch.addmm(bias, inputs[-1], weight.t()).relu_())
            output = torch.addmm(layers[-1][1], inputs[-1], layers[-1][0].t())
        output.requires_grad_()
        loss = loss_of(local.loss_fn, stack.tail(output), y.index_select(0, rows))
        (g,) = torch.autograd.grad(loss, [output])
        losses.append(loss.detach())
        with torch.no_grad():
            for k in reversed(range(len(layers))):
                (weight, bias), h = layers[k], inputs[k]
                torch.mm(g.t(), h, out=gradients[k])
                bias.add_(g.sum(0), alpha=-lr)
                if k:  # with the weights before this step
                    g = torch.mm(g, weight).masked_fill_(h <= 0, 0)
                weight.add_(gradients[k], alpha=-lr)
    return finished(start, end, torch.stack(losses).tolist(), len(y), local)
