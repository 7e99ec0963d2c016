"""Many clients in one vectorized computation: faster, with the same updates as one by one.

Not here: the plain version, which follows the paper (client.py).
"""

import warnings
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import accumulate, chain
from typing import Any
from weakref import WeakSet

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value, vmap

from fltoolkit.federated._dense import local_update_dense, stack_of
from fltoolkit.federated.client import (
    Data,
    Local,
    LocalUpdate,
    batch_indices,
    check_settings,
    descend,
    filled,
    finished,
    local_update,
    local_update_lean,
    loss_of,
    outcome_of,
    sent_names,
)
from fltoolkit.party import in_mode
from fltoolkit.shapes import Int64
from fltoolkit.trees import Tree, dense_nbytes


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
    """`local_update` of many clients, equal up to rounding, ``chunk`` clients at once.

    The weights of all clients are stacked, and `torch.func.vmap` computes the steps. No batch is
    padded: clients whose next batch has the same size take a step together. So any loss works, and
    BatchNorm sees real samples only. Memory: weights, gradients and samples of ``chunk`` clients.

    Modules that do not work with vmap, such as Dropout, are trained one client after the other;
    a warning gives the reason. With an optimizer other than plain SGD, or with ``clip_norm``,
    `local_update` trains the clients one after the other.

    ``chunk=1`` trains one client after the other by `local_update_lean`, or a stack of linear
    layers and ReLU by the steps written out in _dense.py, to the same bits. By default
    `clients_at_once` decides. ``states`` are the kept states of the clients' optimizers, one for
    each client. Returns one update for each client, in their order. If `local_update` would raise
    FloatingPointError for a client, the list holds that error in place of its update; the updates
    of the other clients are good.

    >>> model, start = nn.Linear(1, 1, bias=False), {"weight": torch.zeros(1, 1)}
    >>> local = Local(batch_size=2, lr=0.25, epochs=1, loss_fn=nn.functional.mse_loss)
    >>> data = [(torch.ones(4, 1), torch.ones(4, 1)), (torch.ones(4, 1), torch.zeros(4, 1))]
    >>> ann, bea = local_updates(model, [start, start], data, local, seeds=[0, 1])
    >>> ann.delta["weight"].item(), bea.delta["weight"].item()
    (0.75, 0.0)
    """
    states = [None] * len(data) if states is None else states
    numbers = (len(starts), len(data), len(seeds), len(states))
    if len({*numbers}) > 1:
        raise ValueError(
            "{} starts, {} data, {} seeds and {} states: need one each".format(*numbers)
        )
    starts = [filled(module, start) for start in starts]
    check_settings(module, starts, data, local)
    if not local.plain:
        each = zip(starts, data, seeds, states, strict=True)
        return [
            outcome_of(local_update, module, start, x, y, local, seed=seed, state=state)
            for start, (x, y), seed, state in each
        ]
    if chunk is None:
        chunk = clients_at_once(module, [len(y) for _, y in data], local)
    if chunk < 1:
        raise ValueError(f"chunk={chunk}: must be at least 1 client")
    clients = list(zip(starts, data, seeds, strict=True))
    # equal sizes side by side: few groups, and most of them are a slice of the stack
    order = sorted(range(len(clients)), key=lambda k: len(data[k][1]), reverse=True)
    outcomes: dict[int, LocalUpdate | FloatingPointError] = {}
    for i in range(0, len(order), chunk):
        together = order[i : i + chunk]
        found = _at_once_or_in_turn(module, [clients[k] for k in together], local)
        outcomes.update(zip(together, found, strict=True))
    return [outcomes[k] for k in range(len(clients))]


def clients_at_once(module: nn.Module, num_samples: Sequence[int], local: Local) -> int:
    """How many clients with so many samples `local_updates` trains at once by default: 64 or 1.

    On a CPU vmap is faster if function calls cost more time than arithmetic: for models up to 500
    kB, if on average ten or more clients step together (``python -m benchmarks.round_speed
    --choice``). On other devices the number is a guess.
    """
    on_cpu = next(module.parameters()).device.type == "cpu"
    if len(num_samples) < 10 or (on_cpu and dense_nbytes(module.state_dict()) > 500_000):
        return 1
    plans = [deque(batch_indices(n, local, seed=0)) for n in num_samples]
    num_steps, num_calls = sum(map(len, plans)), sum(1 for _ in _together(plans))
    return 64 if not on_cpu or num_steps >= 10 * num_calls else 1


_Client = tuple[Tree, Data, int]  # start, (x, y), seed
_Outcomes = list[LocalUpdate | FloatingPointError]
_warned: WeakSet[nn.Module] = WeakSet()  # modules about which users were warned


def _at_once_or_in_turn(module: nn.Module, clients: list[_Client], local: Local) -> _Outcomes:
    if len(clients) > 1:
        try:
            return _at_once(module, clients, local)
        except RuntimeError as error:  # the loop can train it, or says what is wrong
            if module not in _warned:
                _warned.add(module)
                why = str(error).strip().partition("\n")[0]
                warnings.warn(f"clients learn in turn, vmap cannot train them: {why}", stacklevel=3)
    outcomes = []
    for start, (x, y), seed in clients:
        stack = None if local.prox else stack_of(module, x)
        train = local_update_lean if stack is None else partial(local_update_dense, stack)
        outcomes.append(outcome_of(train, module, start, x, y, local, seed=seed))
    return outcomes


def _at_once(module: nn.Module, clients: list[_Client], local: Local) -> _Outcomes:
    """Train all these clients with stacked weights."""
    starts, data, seeds = zip(*clients, strict=True)
    stacked = _Stacked(module, starts, local)
    device, sizes = stacked.device, [len(labels) for _, labels in data]
    x, y = (torch.cat([part.to(device) for part in column]) for column in zip(*data, strict=True))
    each_has = zip(sizes, seeds, accumulate(sizes, initial=0), strict=False)
    plans = [  # the batches of each client, as rows of the samples of all clients
        deque(rows + before for rows in batch_indices(n, local, seed=s))
        for n, s, before in each_has
    ]
    history = []  # clients and losses of each step; read at the end, so that a GPU need not wait
    with in_mode(True, module):
        for group, batches in _together(plans):
            rows = torch.stack(batches).to(device)
            history.append((group, stacked.step(group, _pick(x, rows), _pick(y, rows))))
    each: list[list[float]] = [[] for _ in clients]
    for group, losses in history:
        for k, loss in zip(group, losses.tolist(), strict=True):
            each[k].append(loss)
    return [
        outcome_of(finished, start, stacked.end_of(k), each[k], sizes[k], local)
        for k, start in enumerate(starts)
    ]


class _Stacked:
    """The weights of many clients in one tensor for each name: ``[k, ...]`` belongs to client k."""

    def __init__(self, module: nn.Module, starts: Sequence[Tree], local: Local):
        self.module, self.local = module, local
        own: Tree = dict(chain(module.named_parameters(), module.named_buffers()))
        named = {id(tensor): name for name, tensor in own.items()}  # a tied tensor has more names
        saved = {name: named[id(t)] for name, t in module.state_dict(keep_vars=True).items()}
        self.spots = {  # where tensors go; a module that is used twice has one set
            spot: named[id(tensor)]
            for path, part in module.named_modules()
            for members in (part.named_parameters, part.named_buffers)
            for spot, tensor in members(path, recurse=False, remove_duplicate=False)
        }
        last = {name: alias for alias, name in saved.items()}  # which name counts, as in loading
        self.state = {
            name: torch.stack([s.get(last.get(name, name), t) for s in starts]).to(t).detach()
            for name, t in own.items()
        }
        self.learning = [name for name, p in module.named_parameters() if p.requires_grad]
        self.buffers = [name for name, _ in module.named_buffers()]
        self.first = [self.state[n].clone() for n in self.learning] if local.prox else []
        self.device = own[self.learning[0]].device
        self.ends = {alias: self.state[saved[alias]] for alias in sent_names(module)}
        self.gradients = vmap(grad_and_value(self._forward, has_aux=True))

    def _forward(self, params: Tree, fixed: Tree, x: Tensor, y: Tensor) -> tuple[Tensor, Tree]:
        """One client's loss, and its buffers as the forward pass left them."""
        tensors = {spot: (params | fixed)[name] for spot, name in self.spots.items()}
        output = functional_call(self.module, tensors, (x,), tie_weights=False)
        return loss_of(self.local.loss_fn, output, y), {
            name: tensors[name] for name in self.buffers
        }

    def step(self, group: list[int], x: Tensor, y: Tensor) -> Tensor:
        """A step of these clients on samples [client, batch, ...]; returns their losses."""
        at = _places(group)
        fixed = {name: tensor[at] for name, tensor in self.state.items()}
        params = {name: fixed.pop(name) for name in self.learning}
        grads, (losses, after) = self.gradients(params, fixed, x, y)
        start = [tensor[at] for tensor in self.first]
        lr, prox = self.local.lr or 0.0, self.local.prox
        descend(list(params.values()), tuple(grads.values()), start, lr, prox)
        # with a slice the parameters have changed already; with a list they are copies
        for name, tensor in (after if isinstance(at, slice) else after | params).items():
            self.state[name][at] = tensor
        return losses

    def end_of(self, k: int) -> Tree:
        """The weights of one client."""
        return {name: tensor[k] for name, tensor in self.ends.items()}


def _together(plans: Sequence[deque[Tensor]]) -> Iterator[tuple[list[int], list[Tensor]]]:
    """Which clients take the next step together, with which batches.

    The group is the client with the most steps left, and all clients whose next batch has the same
    size. Clients with fewer steps left wait, so that groups stay large.
    """
    while any(plans):
        most, sizes = max(map(len, plans)), Counter(len(plan[0]) for plan in plans if plan)
        behind = {len(plan[0]) for plan in plans if len(plan) == most}
        size = max(behind, key=lambda size: (sizes[size], size))
        group = [k for k, plan in enumerate(plans) if plan and len(plan[0]) == size]
        yield group, [plans[k].popleft() for k in group]


def _places(group: list[int]) -> slice | list[int]:
    """The places of the group's weights: a slice if they are side by side, which needs no copy."""
    first, end = group[0], group[-1] + 1
    return slice(first, end) if end - first == len(group) else group


def _pick(tensor: Tensor, rows: Int64[Tensor, "clients batch"]) -> Tensor:
    return tensor.index_select(0, rows.flatten()).unflatten(0, rows.shape)
