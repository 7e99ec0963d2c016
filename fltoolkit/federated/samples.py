"""The clients' samples, as `fedavg` takes them, with checks that run before the first round."""

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from fltoolkit.arrays import as_tensor, is_items, rows_of
from fltoolkit.federated.client import Local
from fltoolkit.party import (
    LABEL_ADVICE,
    check_fits_loss,
    check_targets,
    counted_targets,
    is_of_torch,
)

Clients = Mapping[str, Any]
"""Client id to its ``(x, y)``, or to its torch `Dataset` with items ``(x, y)``."""


def as_clients(clients: Any, server: str) -> Clients:
    """The clients with tensors as samples; an error names the client whose data do not fit.

    Numpy arrays and pandas tables are converted to tensors (see `fltoolkit.arrays`). Tensors are
    not converted or copied. A torch `Dataset` becomes both x and y: it is read when a client
    trains, so a random crop differs each time.
    """
    if not isinstance(clients, Mapping):
        raise TypeError(
            f"clients is a {type(clients).__name__}: give a dict of names to (x, y) or to a torch "
            'Dataset, for example {f"client_{k}": part for k, part in enumerate(parts)}'
        )
    if not clients:
        raise ValueError("clients is empty: give at least one client")
    if server in clients:
        raise ValueError(f"a client and the server are both called {server!r}: rename one")
    converted: dict[str, tuple[Tensor, Tensor]] = {}
    first: tuple[str, str] | None = None  # a client, and what its samples are like
    for client, data in clients.items():
        if not isinstance(client, str):
            raise TypeError(
                f"client {client!r} is named by a {type(client).__name__}: names are strings, for "
                f'example "client_{client}"'
            )
        if is_items(data):
            data = data, data
        elif not isinstance(data, tuple | list) or len(data) != 2:
            raise TypeError(
                f"client {client!r} has a {type(data).__name__}: give its samples and labels as "
                "(x, y), tensors or arrays, or a torch Dataset (of a loader: loader.dataset); the "
                "protocol makes the batches itself, by Local(batch_size=...)"
            )
        else:
            pairs = zip("xy", data, strict=True)
            data = [as_tensor(f"client {client!r}: {name}", part) for name, part in pairs]
        x, y = data
        if len(x) != len(y) or not len(y):
            raise ValueError(
                f"client {client!r} has {len(x)} samples and {len(y)} labels: need one each, and "
                "at least 1"
            )
        like = _like(x, y)
        first = first or (client, like)
        if like != first[1]:
            raise ValueError(
                f"client {client!r} has {like}, and {first[0]!r} {first[1]}: all "
                "learn one model, so their samples must be of one shape and dtype"
            )
        converted[client] = x, y
    return converted


def check_fit(model: nn.Module, clients: Clients, local: Local) -> None:
    """Try the model and the loss on two samples, so that mistakes are found before round 0.

    The model is left as it is, and so are torch's random generators.
    """
    client, data = next(iter(clients.items()))
    who, (x, y) = f"client {client!r}", _first(2, *data)
    trial = copy.deepcopy(model).eval()
    device = next(trial.parameters()).device

    def computed(what: str, function: Any, advice: str, *tensors: Tensor) -> Any:
        try:
            return function(*[tensor.to(device) for tensor in tensors])
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            misfit = f"{who}: the {what} does not take its {_like(x, y)}: {error}. {advice}"
            raise ValueError(misfit) from error

    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        output = computed("model", trial, _advice(model, x), x)
        try:
            check_targets(output, y)
        except ValueError as error:
            raise ValueError(f"{who}: {error}") from None
        loss = computed("loss", local.loss_fn, LABEL_ADVICE, output, y)
    check_fits_loss(who, local.loss_fn, output, loss)
    check_labels(clients, output.shape, local)
    if not loss.requires_grad:
        raise ValueError(
            f"{who}: the model cannot learn, because its output does not depend on any weight that "
            "learns: is it detached (detach, no_grad, item)?"
        )


def check_labels(clients: Clients, outputs: torch.Size, local: Local) -> None:
    """Raise ValueError for a class number that the outputs [batch, classes, ...] do not have."""
    if not is_of_torch(local.loss_fn):
        return
    for client, (_, y) in clients.items():
        if is_items(y):  # it is not read twice
            continue
        if y.is_floating_point() or y.dtype == torch.bool or y.dim() + 1 != len(outputs):
            continue
        numbers = y[counted_targets(local.loss_fn, y)]
        if len(wrong := numbers[(numbers < 0) | (numbers >= outputs[1])]):
            raise ValueError(
                f"client {client!r} has the label {wrong[0].item()}, and the model's {outputs[1]} "
                f"outputs are for the classes 0 to {outputs[1] - 1}"
            )


def _advice(model: nn.Module, x: Tensor) -> str:
    """What to do if the model does not take the samples."""
    kinds = (nn.Flatten, nn.Unflatten)
    parts = (p for p in model.modules() if isinstance(p, kinds) or [*p.parameters(recurse=False)])
    if x.dim() > 2 and isinstance(next(parts, None), nn.Linear):
        return "This network takes rows: give x.flatten(1), or begin it with nn.Flatten()"
    if (want := next(model.parameters()).dtype) != x.dtype:
        return f"The model computes in {want}: give x.to({want})"
    return "Does the model fit the data set?"


def _first(count: int, x: Any, y: Any) -> tuple[Tensor, Tensor]:
    """The first samples and labels; torch's generator does not change if a `Dataset` draws."""
    with torch.random.fork_rng(devices=[]):
        return rows_of(x, y, torch.arange(min(count, len(y))))


def _like(x: Any, y: Any) -> str:
    """Shape and dtype of one sample and its label."""
    x, y = _first(1, x, y)
    return f"samples {list(x.shape[1:])} {x.dtype}, labels {list(y.shape[1:])} {y.dtype}"
