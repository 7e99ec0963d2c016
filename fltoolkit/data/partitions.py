"""Who has which samples: ways to deal out samples to clients, and columns to parties."""

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fltoolkit.arrays import Array, as_tensor
from fltoolkit.shapes import Int64, Shaped


def partition_iid(
    labels: Shaped[Tensor, " num_samples *target"] | Array, num_clients: int, *, seed: int
) -> list[Int64[Tensor, " _"]]:
    """Shuffle the samples and deal them out evenly; sizes differ by at most one.

    Only the number of ``labels`` is used, so targets may have any type and shape.

    >>> [len(rows) for rows in partition_iid(torch.arange(10), 3, seed=0)]
    [4, 3, 3]
    """
    if isinstance(labels, int):
        raise TypeError(f"labels={labels}: labels must be a tensor, such as data.y_train")
    check_count("num_clients", num_clients, len(labels), "samples")
    return as_rows(np.array_split(generator(seed).permutation(len(labels)), num_clients))


def partition_dirichlet(
    labels: Shaped[Tensor, " num_samples"] | Array, num_clients: int, *, alpha: float, seed: int
) -> list[Int64[Tensor, " _"]]:
    """Give each client its own mix of classes, drawn from a Dirichlet distribution.

    For each class, proportions p ~ Dir(alpha, ..., alpha) over the *clients* are drawn, and the
    samples of this class are divided accordingly. So the clients also differ in size (Yurochkin et
    al. 2019, arXiv 1905.12022). Hsu et al. 2019 (arXiv 1909.06335) do it in another way: they draw
    proportions over the *classes* for each client, and all clients have the same size. With a small
    alpha (0.1) each client has few classes; with a large alpha (100) the data are nearly iid. As
    long as a client has no sample, it gets one from the client that has most.

    >>> labels = torch.arange(10).repeat(100)
    >>> for alpha in (0.1, 100):
    ...     rows = partition_dirichlet(labels, 5, alpha=alpha, seed=0)
    ...     print(alpha, [len(labels[part].bincount(minlength=10).nonzero()) for part in rows])
    0.1 [4, 7, 4, 4, 7]
    100 [10, 10, 10, 10, 10]
    """
    y = labels_to_divide(labels, num_clients)
    if not 0 < alpha < math.inf:
        raise ValueError(f"alpha={alpha}: must be positive and finite; 0.1 is skewed, 100 even")
    rng = generator(seed)
    clients: list[list[int]] = [[] for _ in range(num_clients)]
    for label in np.unique(y):
        rows = rng.permutation(np.flatnonzero(y == label))
        proportions = rng.dirichlet([alpha] * num_clients)
        cuts = np.rint(proportions.cumsum()[:-1] * len(rows)).astype(np.int64)
        for client, part in zip(clients, np.split(rows, cuts), strict=True):
            client.extend(part)
    for client in clients:
        if not client:
            client.append(max(clients, key=len).pop())
    return as_rows([rng.permutation(client) for client in clients])


def split_features(
    num_features_or_shape: int | tuple[int, ...], num_parties: int
) -> list[Int64[Tensor, " _"]]:
    """Divide the columns of *flat* samples among parties: they have the same samples (vertical).

    Each party gets neighbouring columns (of images: some rows of pixels, from top to bottom). Sizes
    differ by at most one.

    >>> split_features((1, 2, 3), 2)
    [tensor([0, 1, 2]), tensor([3, 4, 5])]
    """
    shape = num_features_or_shape
    num_features = shape if isinstance(shape, int) else math.prod(shape)
    check_count("num_parties", num_parties, num_features, "features")
    return as_rows(np.array_split(np.arange(num_features), num_parties))


def labels_to_divide(labels: Any, num_clients: int) -> np.ndarray:
    """The labels as an array. Raises ValueError if they cannot be divided among so many clients."""
    labels = as_tensor("labels", labels)
    if labels.ndim != 1:
        raise ValueError(f"labels of shape {list(labels.shape)}: expected one class per sample")
    check_count("num_clients", num_clients, len(labels), "samples")
    if missing := int(labels.isnan().sum()):
        raise ValueError(
            f"{missing} of {len(labels)} labels are NaN, so their samples belong to no class: "
            "leave them out, or give them a class of their own"
        )
    return labels.numpy(force=True)


def check_count(name: str, count: int, most: int, what: str) -> None:
    """Raise ValueError if this is not a number from 1 to ``most``."""
    if not 1 <= count <= most:
        raise ValueError(f"{name}={count}: must be 1 to {most}, the {what}")


def generator(*seed: int) -> np.random.Generator:
    """A generator of random numbers for these seeds; none may be negative."""
    if min(seed) < 0:
        raise ValueError(f"seed and epoch number must be at least 0, not {min(seed)}")
    return np.random.default_rng(seed if len(seed) > 1 else seed[0])


def as_rows(parts: list[np.ndarray]) -> list[Tensor]:
    """The rows of each part as a tensor."""
    return [torch.from_numpy(part.astype(np.int64)) for part in parts]
