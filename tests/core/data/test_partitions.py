"""Partitions: each index once, the stated skew, errors that say what is allowed."""

import inspect
from functools import partial

import numpy as np
import pytest
import torch
from core.data.files_of_tests import SEEDS
from hypothesis import given, settings
from hypothesis import strategies as st

from fltoolkit.data import partition_dirichlet, partition_iid, split_features
from fltoolkit_research.data import partition_owners, partition_shards

PARTITIONS = {
    "iid": partition_iid,
    "dirichlet": lambda y, n, seed: partition_dirichlet(y, n, alpha=0.3, seed=seed),
    "features": lambda y, n, seed: split_features(len(y), n),
}


def flatten(parts):
    return torch.cat(parts).tolist()


@pytest.mark.later
@pytest.mark.parametrize("kind", PARTITIONS)
@settings(max_examples=50)
@given(
    labels=st.lists(st.integers(-3, 6), min_size=12, max_size=80),
    num_clients=st.integers(1, 6),
    seed=SEEDS,
)
def test_partition_laws(kind, labels, num_clients, seed):
    y = torch.tensor(labels)
    parts = PARTITIONS[kind](y, num_clients, seed=seed)
    assert len(parts) == num_clients
    assert all(part.dtype == torch.int64 and part.ndim == 1 and len(part) for part in parts)
    assert sorted(flatten(parts)) == list(range(len(labels)))
    sizes = [len(part) for part in parts]
    assert kind == "dirichlet" or max(sizes) - min(sizes) <= 1
    again = PARTITIONS[kind](y, num_clients, seed=seed)
    assert all(torch.equal(a, b) for a, b in zip(parts, again, strict=True))


@pytest.mark.parametrize("kind", ["iid", "dirichlet"])
def test_another_seed_is_another_partition_and_no_global_rng_is_touched(kind):
    y = torch.arange(500) % 10
    torch_state, numpy_state = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    orders = {tuple(flatten(PARTITIONS[kind](y, 5, seed=seed))) for seed in range(20)}
    assert len(orders) == 20
    assert torch.equal(torch_state, torch.get_rng_state())
    assert np.array_equal(numpy_state, np.random.get_state()[1])  # noqa: NPY002


@pytest.mark.slow
def test_dirichlet_proportions_have_the_stated_moments():
    """Per class, a client's share is Beta(alpha, (n-1) alpha): mean 1/n, the known variance."""
    y, n, alpha = torch.zeros(20_000, dtype=torch.int64), 4, 0.5
    drawn = [partition_dirichlet(y, n, alpha=alpha, seed=seed) for seed in range(100)]
    shares = np.array([[len(part) / len(y) for part in parts] for parts in drawn])
    variance = (1 / n) * (1 - 1 / n) / (n * alpha + 1)  # 0.0625
    assert shares.mean(0) == pytest.approx([0.25] * n, abs=4 * (variance / 100) ** 0.5)
    assert shares.var() == pytest.approx(variance, rel=0.15)


@pytest.mark.later
@given(alpha=st.floats(1e-300, 1e300), num_clients=st.integers(1, 30), seed=SEEDS)
def test_dirichlet_leaves_nobody_empty(alpha, num_clients, seed):
    parts = partition_dirichlet(torch.arange(30) % 3, num_clients, alpha=alpha, seed=seed)
    assert sorted(flatten(parts)) == list(range(30))
    assert min(map(len, parts)) >= 1


def test_a_number_of_samples_is_no_labels():
    with pytest.raises(TypeError, match="labels=100: labels must be a tensor"):
        inspect.unwrap(partition_iid)(100, 5, seed=0)  # without the checks of shapes in tests


def test_split_features_blocks():
    assert [part.tolist() for part in split_features(7, 3)] == [[0, 1, 2], [3, 4], [5, 6]]
    image = torch.arange(64).reshape(1, 1, 8, 8)
    upper, lower = split_features((1, 8, 8), 2)
    assert torch.equal(image.flatten(1)[:, upper].reshape(4, 8), image[0, 0, :4])
    assert torch.equal(image.flatten(1)[:, lower].reshape(4, 8), image[0, 0, 4:])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda y: partition_iid(y, 11, seed=0), "num_clients=11: must be 1 to 10"),
        (lambda y: partition_iid(y, 0, seed=0), "num_clients=0: must be 1 to 10"),
        (lambda y: partition_dirichlet(y, 11, alpha=1.0, seed=0), "num_clients=11"),
        (lambda y: partition_dirichlet(y, 2, alpha=0.0, seed=0), r"alpha=0\.0: must be positive"),
        (lambda y: partition_dirichlet(y, 2, alpha=float("nan"), seed=0), "alpha=nan"),
        (lambda y: partition_dirichlet(y, 2, alpha=float("inf"), seed=0), "alpha=inf"),
        (lambda y: split_features(10, 11), "num_parties=11: must be 1 to 10"),
        (lambda y: split_features((2, 5), 0), "num_parties=0: must be 1 to 10"),
    ],
)
def test_partition_arguments_are_checked(call, message):
    with pytest.raises(ValueError, match=message):
        call(torch.arange(10))


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
