"""Who has which samples: ways to deal out samples to clients, and columns to parties.

Not here: the picture of a partition (plots.partition).
"""

import math

import numpy as np
import torch
from jaxtyping import Int, Int64, Shaped
from torch import Tensor


def partition_iid(
    labels: Shaped[Tensor, " num_samples *target"], num_clients: int, *, seed: int
) -> list[Int64[Tensor, " _"]]:
    """Shuffle the samples and deal them out evenly; sizes differ by at most one.

    Only the number of ``labels`` is used, so targets may have any type and shape.

    >>> [len(rows) for rows in partition_iid(torch.arange(10), 3, seed=0)]
    [4, 3, 3]
    """
    _check_count("num_clients", num_clients, len(labels), "samples")
    return _tensors(np.array_split(generator(seed).permutation(len(labels)), num_clients))


def partition_contiguous(num_samples: int, num_clients: int) -> list[Int64[Tensor, " _"]]:
    """Deal out neighbouring samples together: the first part to the first client, and so on.

    This is for data with an order, such as the windows of a text. Sizes differ by at most one.

    >>> [part.tolist() for part in partition_contiguous(5, 2)]
    [[0, 1, 2], [3, 4]]
    """
    _check_count("num_clients", num_clients, num_samples, "samples")
    return _tensors(np.array_split(np.arange(num_samples), num_clients))


def partition_dirichlet(
    labels: Int[Tensor, " num_samples"], num_clients: int, *, alpha: float, seed: int
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
    y = _labels_to_divide(labels, num_clients)
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
    return _tensors([rng.permutation(client) for client in clients])


def partition_shards(
    labels: Int[Tensor, " num_samples"], num_clients: int, *, shards_per_client: int = 2, seed: int
) -> list[Int64[Tensor, " _"]]:
    """Sort by label, cut into equal shards, and give each client some shards at random.

    This is the "pathological non-IID" split of McMahan et al. 2017 (arXiv 1602.05629, section 3):
    with ``shards_per_client=2``, most clients have two classes. A shard may contain the end of one
    class and the beginning of the next.

    >>> labels = torch.arange(10).repeat(100)
    >>> [labels[part].unique().tolist() for part in partition_shards(labels, 5, seed=0)]
    [[3, 9], [4, 8], [0, 1], [5, 6], [2, 7]]
    """
    y = _labels_to_divide(labels, num_clients)
    num_shards = num_clients * shards_per_client
    if not 0 < num_shards <= len(y):
        raise ValueError(
            f"shards_per_client={shards_per_client} for {num_clients} clients: must be at least 1 "
            f"and make at most {len(y)} shards, one per sample"
        )
    rng = generator(seed)
    shuffled = rng.permutation(len(y))  # so that the samples of a class are in random order
    shards = np.array_split(shuffled[np.argsort(y[shuffled], kind="stable")], num_shards)
    dealt = rng.permutation(num_shards).reshape(num_clients, shards_per_client)
    return _tensors([np.concatenate([shards[shard] for shard in hand]) for hand in dealt])


def partition_owners(
    owners: Int[Tensor, " num_samples"], num_clients: int, *, seed: int
) -> list[Int64[Tensor, " _"]]:
    """Natural clients: all samples of one owner (a writer, a role, a clinic) stay together.

    With fewer clients than owners, each client gets several owners, drawn at random.

    >>> [part.tolist() for part in partition_owners(torch.tensor([7, 7, 3, 5, 3]), 3, seed=0)]
    [[0, 1], [2, 4], [3]]
    """
    names, which = np.unique(owners.numpy(force=True), return_inverse=True)
    _check_count("num_clients", num_clients, len(names), "owners")
    hands = np.array_split(generator(seed).permutation(len(names)), num_clients)
    return _tensors([np.flatnonzero(np.isin(which, hand)) for hand in hands])


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
    _check_count("num_parties", num_parties, num_features, "features")
    return _tensors(np.array_split(np.arange(num_features), num_parties))


def _labels_to_divide(labels: Tensor, num_clients: int) -> np.ndarray:
    if labels.ndim != 1:
        raise ValueError(f"labels of shape {list(labels.shape)}: expected one class per sample")
    _check_count("num_clients", num_clients, len(labels), "samples")
    return labels.numpy(force=True)


def _check_count(name: str, count: int, most: int, what: str) -> None:
    if not 1 <= count <= most:
        raise ValueError(f"{name}={count}: must be 1 to {most}, the {what}")


def generator(*seed: int) -> np.random.Generator:
    """A generator of random numbers for these seeds; none may be negative."""
    if min(seed) < 0:
        raise ValueError(f"seed and epoch number must be at least 0, not {min(seed)}")
    return np.random.default_rng(seed if len(seed) > 1 else seed[0])


def _tensors(parts: list[np.ndarray]) -> list[Tensor]:
    return [torch.from_numpy(part.astype(np.int64)) for part in parts]
