"""Data sets as tensors, ways to deal them out to clients, and batches in a reproducible order.

    datasets    digits offline, MNIST and its relatives, CIFAR-10, EMNIST by writer
    partitions  who has which samples: evenly, by shards, by a Dirichlet distribution, by columns
    batches     the same batches for the same seed, with the ids of their samples

`_files` finds, downloads and checks files.
"""

from fltoolkit.data.batches import Batches
from fltoolkit.data.datasets import Dataset, load, load_emnist_federated
from fltoolkit.data.partitions import (
    partition_dirichlet,
    partition_iid,
    partition_shards,
    split_features,
)

__all__ = [
    "Batches",
    "Dataset",
    "load",
    "load_emnist_federated",
    "partition_dirichlet",
    "partition_iid",
    "partition_shards",
    "split_features",
]
