"""Shards: each index once, few classes for each client, errors that say what is allowed."""

from functools import partial

import numpy as np
import pytest
import torch
from core.data.files_of_tests import SEEDS
from hypothesis import given
from hypothesis import strategies as st

from fltoolkit.data import partition_dirichlet
from fltoolkit_research.data import partition_owners, partition_shards


@pytest.mark.later
@given(
    labels=st.lists(st.integers(0, 9), min_size=24, max_size=100),
    num_clients=st.integers(1, 8),
    shards_per_client=st.integers(1, 3),
    seed=SEEDS,
)
def test_shards_meet_few_classes(labels, num_clients, shards_per_client, seed):
    """Each class border cuts at most one shard, so few (client, class) pairs exist in all."""
    y = torch.tensor(labels)
    parts = partition_shards(y, num_clients, shards_per_client=shards_per_client, seed=seed)
    assert sorted(torch.cat(parts).tolist()) == list(range(len(labels)))
    num_pairs = sum(len(y[part].unique()) for part in parts)
    assert num_pairs <= num_clients * shards_per_client + len(set(labels)) - 1


def test_shards_mix_the_samples_of_a_class():
    parts = partition_shards(torch.zeros(100, dtype=torch.int64), 2, shards_per_client=1, seed=0)
    assert all(part.max() - part.min() > 49 for part in parts)


@pytest.mark.parametrize(
    ("num_clients", "shards", "message"),
    [(6, 2, "shards_per_client=2 for 6 .* at most 10"), (2, 0, "shards_per_client=0")],
)
def test_shards_need_samples(num_clients, shards, message):
    with pytest.raises(ValueError, match=message):
        partition_shards(torch.arange(10), num_clients, shards_per_client=shards, seed=0)


@pytest.mark.parametrize("deal", [partial(partition_dirichlet, alpha=1.0), partition_shards])
def test_labels_that_are_missing_are_no_class(deal):
    labels = torch.arange(60.0) % 3
    assert sum(map(len, deal(labels.numpy(), 3, seed=0))) == 60  # an array is as good as a tensor
    labels[:20] = torch.nan
    with pytest.raises(ValueError, match="20 of 60 labels are NaN"):
        deal(labels, 3, seed=0)


def test_owners_that_are_missing_are_nobody():
    dealt = partition_owners(np.array(["b", "a", "b"]), 2, seed=0)
    assert sorted(rows.tolist() for rows in dealt) == [[0, 2], [1]]
    with pytest.raises(ValueError, match="sample 1 has the owner nan"):
        partition_owners(torch.tensor([1.0, torch.nan]), 1, seed=0)
