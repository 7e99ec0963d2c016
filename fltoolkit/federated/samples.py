"""The clients' samples, as `fedavg` takes them, with checks that run before the first round.

Not here: who has which samples (the room data).
"""

import copy
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.data import DataLoader, Dataset, IterableDataset

from fltoolkit.arrays import as_tensor
from fltoolkit.federated.client import Local
from fltoolkit.party import LABEL_ADVICE, check_fits_loss, check_targets
from fltoolkit.shapes import Shaped

Clients = Mapping[str, tuple[Shaped[Tensor, "_ ..."], Shaped[Tensor, "_ ..."]]]
"""Client id to its ``(x, y)``, as `fltoolkit_research.data.load_emnist_federated` returns."""

_DEAL = "the protocol makes the batches itself, by Local(batch_size=...)"


def as_clients(clients: Any, server: str) -> Clients:
    """The clients with tensors as samples; an error names the client whose data do not fit.

    Numpy arrays, pandas tables and map-style torch data sets are converted to tensors (see
    `fltoolkit.arrays`). Tensors are not converted or copied.
    """
    if not isinstance(clients, Mapping):
        raise TypeError(
            f"clients is a {type(clients).__name__}: give a dict of names to (x, y), for example "
            '{f"client_{k}": (x[p], y[p]) for k, p in enumerate(parts)}'
        )
    if not clients:
        raise ValueError("clients is empty: give at least one client")
    if server in clients:
        raise ValueError(f"a client and the server are both called {server!r}: rename one")
    converted, first = {}, None
    for client, data in clients.items():
        if not isinstance(client, str):
            raise TypeError(
                f"client {client!r} is named by a {type(client).__name__}: names are strings, for "
                f'example "client_{client}"'
            )
        x, y = _tensors(client, data)
        if len(x) != len(y) or not len(y):
            raise ValueError(
                f"client {client!r} has {len(x)} samples and {len(y)} labels: need one each, and "
                "at least 1"
            )
        first = first or (client, _like(x, y))
        if _like(x, y) != first[1]:
            raise ValueError(
                f"client {client!r} has {_like(x, y)}, and {first[0]!r} {first[1]}: all "
                "learn one model, so their samples must be of one shape and dtype"
            )
        if not (isinstance(data, tuple) and x is data[0] and y is data[1]):
            converted[client] = x, y
    return {**clients, **converted} if converted else clients


def check_fit(model: nn.Module, clients: Clients, local: Local) -> None:
    """Try the model and the loss on two samples, so that mistakes are found before round 0.

    The model is left as it is, and so are torch's random generators.
    """
    client, (x, y) = next(iter(clients.items()))
    trial = copy.deepcopy(model).eval()
    device = next(trial.parameters()).device
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        with _named(client, model, x, y):
            output = trial(x[:2].to(device))
        try:
            check_targets(output, y[:2])
        except ValueError as error:
            raise ValueError(f"client {client!r}: {error}") from None
        with _named(client, model, x, y, output):
            loss = local.loss_fn(output, y[:2].to(device))
        check_fits_loss(f"client {client!r}", local.loss_fn, output, loss)
        if not loss.requires_grad:
            raise ValueError(
                f"client {client!r}: the model cannot learn, because its output does not depend on "
                "any weight that learns: is it detached (detach, no_grad, item)?"
            )
        if any(isinstance(part, _BatchNorm) for part in trial.modules()):
            for client, num_samples in _with_a_single(clients, local):
                try:
                    trial.train()(clients[client][0][:1].to(device))
                except ValueError as error:
                    raise ValueError(
                        f"client {client!r} has {num_samples} samples, so batch_size="
                        f"{local.batch_size} leaves a batch of 1, which BatchNorm refuses: choose "
                        "another batch_size, or leave out a sample of this client"
                    ) from error
                break


def _tensors(client: str, data: Any) -> tuple[Tensor, Tensor]:
    if isinstance(data, DataLoader):
        raise TypeError(
            f"client {client!r} has a DataLoader: give its samples (x, y) or its data set, "
            f"loader.dataset; {_DEAL}"
        )
    if isinstance(data, Dataset) and not isinstance(data, IterableDataset):
        pairs = [data[k] for k in range(len(data))]  # type: ignore[arg-type]
        if not pairs:
            raise ValueError(f"client {client!r} has an empty data set: give at least 1 sample")
        xs, ys = zip(*pairs, strict=True)
        return tuple(  # type: ignore[return-value]
            torch.stack([as_tensor(f"client {client!r}: {name} of a sample", v) for v in part])
            for name, part in (("x", xs), ("y", ys))
        )
    if not isinstance(data, tuple | list) or len(data) != 2:
        raise TypeError(
            f"client {client!r} has a {type(data).__name__}: give its samples and labels as "
            f"(x, y), tensors or arrays, or as a torch Dataset; {_DEAL}"
        )
    x, y = data
    return as_tensor(f"client {client!r}: x", x), as_tensor(f"client {client!r}: y", y)


def _with_a_single(clients: Clients, local: Local) -> Iterator[tuple[str, int]]:
    """Clients with a batch of only one sample, and how many samples they have."""
    for client, (_, y) in clients.items():
        size = local.batch_size or len(y)
        last = math.ceil(len(y) / size)
        if (len(y) % size == 1 or size == 1) and (local.steps is None or local.steps >= last):
            yield client, len(y)


@contextmanager
def _named(
    client: str, model: nn.Module, x: Tensor, y: Tensor, output: Tensor | None = None
) -> Iterator[None]:
    """Add the client's name and a remedy to errors of the model, or of the loss."""
    try:
        yield
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        raise ValueError(
            f"client {client!r}: {'the model' if output is None else 'the loss'} does not take its "
            f"{_like(x, y)}: {error}. {_advice(model, x, y, output)}"
        ) from error


def _advice(model: nn.Module, x: Tensor, y: Tensor, output: Tensor | None) -> str:
    in_model = output is None
    if in_model and x.dim() > 2 and isinstance(_first_layer(model), nn.Linear):
        return "This network takes rows: give x.flatten(1), or begin it with nn.Flatten()"
    if in_model and (want := next(model.parameters()).dtype) != x.dtype:
        return f"The model computes in {want}: give x.to({want})"
    return "Does the model fit the data set?" if output is None else LABEL_ADVICE


def _first_layer(model: nn.Module) -> nn.Module | None:
    """The first module that has parameters of its own; a Flatten before it counts as the first."""
    kinds = (nn.Flatten, nn.Unflatten)
    parts = (p for p in model.modules() if isinstance(p, kinds) or [*p.parameters(recurse=False)])
    return next(parts, None)


def _like(x: Tensor, y: Tensor) -> str:
    """Shape and dtype of one sample and its label."""
    return f"samples {list(x.shape[1:])} {x.dtype}, labels {list(y.shape[1:])} {y.dtype}"
