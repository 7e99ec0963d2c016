"""The training of many clients: a stack of linear layers at once, any other network in turn.

For a small network most of the time goes into calls of functions, and autograd takes about as long
as the arithmetic. So the weights of many clients lie in one tensor here, one product of matrices
serves all of them, and the gradients are written out. Not here: the plain version, which follows
the paper and trains every network (client.py). The two are equal up to rounding: sums over a batch
may be added in another order.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, groupby, zip_longest
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from fltoolkit.federated.client import (
    Data,
    Local,
    LocalUpdate,
    batch_indices,
    check_count,
    check_settings,
    filled,
    finished,
    local_update,
    loss_of,
    sent_names,
)
from fltoolkit.trees import Tree, dense_nbytes

AT_ONCE = 2_000_000  # bytes of weights that are stacked by default: what a cache holds


def local_updates(
    module: nn.Module,
    starts: Sequence[Tree],
    data: Sequence[Data],
    local: Local,
    *,
    seeds: Sequence[int],
    states: Sequence[dict[str, Any] | None] | None = None,
    chunk: int | None = None,
) -> list[LocalUpdate | FloatingPointError]:
    """`local_update` of many clients, equal up to rounding; ``chunk`` clients learn at once.

    Clients learn at once if the network is an `nn.Sequential` of linear layers with ReLU between
    them (perhaps a Flatten before and a LogSoftmax behind), without hooks or frozen parts, and if
    they train by plain SGD without ``prox`` and ``clip_norm``. Otherwise `local_update` trains them
    one after the other. Any loss works, for it is computed for each client on its own.

    By default so many learn at once that their weights have up to 2 MB, which caches hold. With
    ``chunk=1`` no client's bits can depend on the others. ``states`` are the kept states of the
    clients' optimizers, one for each client.

    Returns one update for each client, in their order. If `local_update` would raise
    FloatingPointError for a client, the list holds that error in place of its update; the updates
    of the other clients are good.

    >>> model, start = nn.Sequential(nn.Linear(1, 1)), {"0.weight": torch.zeros(1, 1)}
    >>> start["0.bias"] = torch.zeros(1)
    >>> local = Local(batch_size=2, lr=0.25, epochs=1, loss_fn=nn.functional.mse_loss)
    >>> data = [(torch.ones(4, 1), torch.ones(4, 1)), (torch.ones(4, 1), torch.zeros(4, 1))]
    >>> ann, bea = local_updates(model, [start, start], data, local, seeds=[0, 1])
    >>> ann.delta["0.weight"].item(), bea.delta["0.weight"].item()
    (0.5, 0.0)
    """
    states = [None] * len(data) if states is None else states
    check_count("chunk", chunk)
    starts = [filled(module, start) for start in starts]
    check_settings(module, starts, data, local)
    clients = list(zip(starts, data, seeds, strict=True))
    stack = stack_of(module, data) if local.lr and not local.prox and not local.clip_norm else None
    if stack is None:
        return [
            _outcome_of(local_update, module, start, x, y, local, seed=seed, state=state)
            for (start, (x, y), seed), state in zip(clients, states, strict=True)
        ]
    if chunk is None:
        chunk = max(1, AT_ONCE // dense_nbytes(module.state_dict()))
    # clients with about as many steps side by side; those with most of them first
    order = sorted(range(len(clients)), key=lambda k: len(data[k][1]), reverse=True)
    outcomes: dict[int, LocalUpdate | FloatingPointError] = {}
    for i in range(0, len(order), chunk):
        together = order[i : i + chunk]
        learned = _learn_at_once(module, stack, [clients[k] for k in together], local)
        outcomes.update(zip(together, learned, strict=True))
    return [outcomes[k] for k in range(len(clients))]


def _outcome_of(train: Callable, *args: Any, **how: Any) -> LocalUpdate | FloatingPointError:
    """What ``train`` returns, or the error if training fails: other clients' updates are good."""
    try:
        return train(*args, **how)
    except FloatingPointError as error:
        return error


class Stack(NamedTuple):
    """Linear layers with ReLU between them, and perhaps a LogSoftmax behind."""

    layers: list[str]  # the common part of the names of each layer's weight and bias
    log_softmax: bool


def stack_of(module: nn.Module, data: Sequence[Data]) -> Stack | None:
    """The module as a stack, if it is one, all of it learns, and the samples fit it; else None."""
    sequence = module if type(module) is nn.Sequential else nn.Sequential()
    parts = [*sequence.named_children()]
    kinds = [(type(part), repr(part)) for _, part in parts]
    flat = kinds[:1] == [(nn.Flatten, repr(nn.Flatten()))]
    log_softmax = kinds[-1:] == [(nn.LogSoftmax, repr(nn.LogSoftmax(dim=1)))]
    row = parts[flat : len(parts) - log_softmax]
    linear, between = row[::2], row[1::2]
    weights = list(module.parameters())
    is_stack = (
        len(linear) == len(between) + 1
        and len(parts) == len(sequence)  # no part stands there twice
        and all(type(part) is nn.Linear for _, part in linear)
        and all(type(part) is nn.ReLU for _, part in between)
        and len(weights) == 2 * len(linear)  # each layer has a bias, and none is shared
        and all(weight.requires_grad and not weight._backward_hooks for weight in weights)
        and not any(_hooks(part) for part in module.modules())
    )
    tensors = all(isinstance(x, Tensor) for x, _ in data)  # and no torch Dataset
    if not is_stack or not tensors or any(x.dim() != 2 and not flat for x, _ in data):
        return None
    one = weights[0].new_zeros(1, 1)  # its product has another dtype under autocast
    dtypes = {(one @ one).dtype, *(weight.dtype for weight in weights), *(x.dtype for x, _ in data)}
    widths = {weights[0].shape[1], *(x.flatten(1).shape[1] for x, _ in data)}
    fits = len(dtypes) == len(widths) == 1
    return Stack([name for name, _ in linear], log_softmax) if fits else None


def _hooks(part: nn.Module) -> bool:
    """Whether something is called before or after a module's passes."""
    return any(value for name, value in vars(part).items() if name.endswith("_hooks"))


def _learn_at_once(
    module: nn.Module, stack: Stack, clients: Sequence[tuple[Tree, Data, int]], local: Local
) -> list[LocalUpdate | FloatingPointError]:
    """The updates of clients, each given by its start, samples and seed."""
    starts, data, seeds = zip(*clients, strict=True)
    device, lr = next(module.parameters()).device, local.lr or 0.0
    ends = {n: torch.stack([start[n] for start in starts]).to(device) for n in sent_names(module)}
    layers = [(ends[f"{n}.weight"], ends[f"{n}.bias"].unsqueeze(1)) for n in stack.layers]
    x = torch.cat([samples.flatten(1) for samples, _ in data]).to(device)
    y = torch.cat([labels for _, labels in data]).to(device)
    sizes = [len(labels) for _, labels in data]
    plans = [  # the batches of each client, as rows of x and y
        [(rows + before).to(device) for rows in batch_indices(size, local, seed)]
        for size, before, seed in zip(sizes, accumulate(sizes, initial=0), seeds, strict=False)
    ]
    losses: list[list[Tensor]] = [[] for _ in clients]
    for now, batches in _side_by_side(plans):
        # of the clients with a batch now: views, so that what changes them below changes ``ends``
        mine = [(weight[now], bias[now]) for weight, bias in layers]
        rows = torch.stack(batches)  # [client, batch]
        with torch.no_grad():
            inputs = [x.index_select(0, rows.flatten()).unflatten(0, rows.shape)]
            for weight, bias in mine[:-1]:
                inputs.append(torch.baddbmm(bias, inputs[-1], weight.mT).relu_())
            output = torch.baddbmm(mine[-1][1], inputs[-1], mine[-1][0].mT)
        output.requires_grad_()
        scores = output.log_softmax(2) if stack.log_softmax else output
        each = [loss_of(local.loss_fn, *both) for both in zip(scores, y[rows], strict=True)]
        for so_far, loss in zip(losses[now], each, strict=True):
            so_far.append(loss.detach())
        (g,) = torch.autograd.grad(each, [output])  # [client, batch, output]
        with torch.no_grad():
            for (weight, bias), h in zip(mine[::-1], inputs[::-1], strict=True):
                gradient = g.mT @ h
                bias.sub_(g.sum(1, keepdim=True), alpha=lr)
                if h is not inputs[0]:  # with the weights before this step
                    g = torch.ops.aten.threshold_backward(g @ weight, h, 0)
                weight.sub_(gradient, alpha=lr)
    return [
        _outcome_of(
            finished,
            start,
            {name: tensor[k] for name, tensor in ends.items()},
            torch.stack(losses[k]).tolist(),
            sizes[k],
        )
        for k, start in enumerate(starts)
    ]


def _side_by_side(plans: Sequence[list[Tensor]]) -> Iterator[tuple[slice, list[Tensor]]]:
    """Clients side by side that take their next step with equally large batches, and these."""
    for step in zip_longest(*plans, fillvalue=torch.empty(0)):
        end = 0
        for size, group in groupby(step, key=len):
            batches = list(group)
            start, end = end, end + len(batches)
            if size:  # or these clients have taken all their steps
                yield slice(start, end), batches
