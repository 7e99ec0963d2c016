"""Data sets as tensors, ways to deal them out to clients, and batches in a reproducible order.

    datasets    digits offline, MNIST and its relatives, CIFAR-10, EMNIST by writer
    partitions  who has which samples: evenly, by shards, by a Dirichlet distribution, by columns
    text        characters as numbers, in windows, by speaker
    batches     the same batches for the same seed, with the ids of their samples

`_files` finds, downloads and checks files.
"""

from fltoolkit.data.batches import Batches
from fltoolkit.data.datasets import Dataset, load, load_emnist_federated
from fltoolkit.data.partitions import (
    partition_contiguous,
    partition_dirichlet,
    partition_iid,
    partition_shards,
    split_features,
)
from fltoolkit.data.text import Text, load_text, speeches

__all__ = [
    "Batches",
    "Dataset",
    "Text",
    "load",
    "load_emnist_federated",
    "load_text",
    "partition_contiguous",
    "partition_dirichlet",
    "partition_iid",
    "partition_shards",
    "speeches",
    "split_features",
]
