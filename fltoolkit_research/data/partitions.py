"""More ways to deal out samples: by shards, in their order, and by owner."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fltoolkit.arrays import Array
from fltoolkit.data.datasets import Samples
from fltoolkit.data.partitions import as_rows, check_count, generator, labels_to_divide
from fltoolkit.shapes import Int64, Shaped


def partition_contiguous(num_samples: int, num_clients: int) -> list[Int64[Tensor, " _"]]:
    """Deal out neighbouring samples together: the first part to the first client, and so on.

    This is for data with an order, such as the windows of a text. Sizes differ by at most one.
    """
    check_count("num_clients", num_clients, num_samples, "samples")
    return as_rows(np.array_split(np.arange(num_samples), num_clients))


def partition_shards(
    labels: Shaped[Tensor, " num_samples"] | Array,
    num_clients: int,
    *,
    shards_per_client: int = 2,
    seed: int,
) -> list[Int64[Tensor, " _"]]:
    """Sort by label, cut into equal shards, and give each client some shards at random.

    This is the "pathological non-IID" split of McMahan et al. 2017 (arXiv 1602.05629, section 3):
    with ``shards_per_client=2``, most clients have two classes. A shard may contain the end of one
    class and the beginning of the next.

    >>> labels = torch.arange(10).repeat(100)
    >>> [labels[part].unique().tolist() for part in partition_shards(labels, 5, seed=0)]
    [[3, 9], [4, 8], [0, 1], [5, 6], [2, 7]]
    """
    y = labels_to_divide(labels, num_clients)
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
    return as_rows([np.concatenate([shards[shard] for shard in hand]) for hand in dealt])


def partition_owners(
    owners: Shaped[Tensor, " num_samples"] | Sequence[Any] | Array, num_clients: int, *, seed: int
) -> list[Int64[Tensor, " _"]]:
    """Natural clients: all samples of one owner (a writer, a role, a clinic) stay together.

    With fewer clients than owners, each client gets several owners, drawn at random.
    """
    names, which = named(owners)
    check_count("num_clients", num_clients, len(names), "owners")
    hands = np.array_split(generator(seed).permutation(len(names)), num_clients)
    return as_rows([np.flatnonzero(np.isin(which, hand)) for hand in hands])


def owner_numbers(data: Samples) -> Int64[Tensor, " train"]:
    """The owner of each training sample as a number. ``data.owners`` may be names or numbers.

    Raises ValueError if a sample has none.
    """
    if data.owners is None:
        raise ValueError(
            f"partition='owners': {data.name} does not say whose each sample is. Give "
            "Samples(..., owners=...), a number or a name for each training sample"
        )
    if len(data.owners) != len(data.y_train):
        raise ValueError(
            f"{len(data.owners)} owners for {len(data.y_train)} training samples: give one each"
        )
    return torch.from_numpy(named(data.owners)[1])


def named(owners: Any) -> tuple[np.ndarray, np.ndarray]:
    """The owners in order, and the number of each sample's owner. Raises ValueError for none."""
    of = owners.tolist() if isinstance(owners, Tensor) else [*owners]
    for row, owner in enumerate(of):
        if owner is None or owner != owner:  # NaN, as a table has it for an empty cell
            raise ValueError(f"sample {row} has the owner {owner}: give each a number or a name")
    names, which = np.unique(np.asarray(of), return_inverse=True)
    return names, which
