"""Batches: each sample once an epoch, the same order for the same seed."""

import itertools

import numpy as np
import pytest
import torch
from core.data.files_of_tests import SEEDS
from hypothesis import given
from hypothesis import strategies as st

from fltoolkit.data import Batches, split_features


def numbers(batches):
    return [y.tolist() for _, y in batches]


@pytest.mark.later
@given(
    num_samples=st.integers(1, 60),
    batch_size=st.integers(1, 70),
    seed=SEEDS,
    number=st.integers(0, 10**6),
)
def test_an_epoch_holds_each_sample_once_with_its_label(num_samples, batch_size, seed, number):
    x = torch.arange(num_samples * 2).reshape(-1, 2)
    batches = Batches(x, torch.arange(num_samples), batch_size, seed=seed)
    epoch = list(batches.epoch(number))
    assert len(epoch) == len(batches)
    assert sorted(itertools.chain(*numbers(epoch))) == list(range(num_samples))
    assert all(torch.equal(inputs, x[labels]) for inputs, labels in epoch)
    assert numbers(epoch) == numbers(batches.epoch(number))


def test_the_order_depends_on_seed_and_epoch_and_nothing_else():
    y = torch.arange(100)
    orders = {
        str(numbers(Batches(y, y, 10, seed=seed).epoch(number)))
        for seed in range(5)
        for number in range(5)
    }
    assert len(orders) == 25
    expected = torch.from_numpy(np.random.default_rng([3, 7]).permutation(100))
    torch.manual_seed(1)
    state = torch.get_rng_state()
    assert torch.equal(torch.cat([y for _, y in Batches(y, y, 10, seed=3).epoch(7)]), expected)
    assert torch.equal(state, torch.get_rng_state())


def test_vertical_batches_are_aligned():
    x = torch.arange(30).reshape(10, 3)
    columns = split_features(3, 2)
    batches = Batches(tuple(x[:, c] for c in columns), torch.arange(10), 4, seed=0)
    for inputs, y in batches.epoch(0):
        assert isinstance(inputs, tuple)
        assert torch.equal(torch.cat(inputs, 1), x[y])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x, y: Batches(x[:3], y, 2, seed=0), "x has 3 samples but y 4"),
        (lambda x, y: Batches(x, y, 0, seed=0), "batch_size=0"),
        (lambda x, y: Batches(x[:0], y[:0], 2, seed=0), "of 0 samples"),
        (lambda x, y: Batches(x, y, 2, seed=-1), "at least 0, not -1"),
        (lambda x, y: next(Batches(x, y, 2, seed=0).epoch(-1)), "at least 0, not -1"),
        (lambda x, y: Batches(x, y, 2, seed=0).epochs(-1), "num_epochs=-1: must be at least 0"),
    ],
)
def test_batches_arguments_are_checked(call, message):
    with pytest.raises(ValueError, match=message):
        call(torch.zeros(4, 2), torch.arange(4))


@pytest.mark.later
def test_arrays_and_tables_give_the_batches_of_tensors():
    x, y = torch.arange(14.0).reshape(7, 2), torch.arange(7)
    wanted = list(Batches(x, y, 3, seed=1).epoch(0))
    double = x.double().numpy()
    for values in (double, pytest.importorskip("pandas").DataFrame(double)):
        batches = Batches(values, y.int().numpy(), 3, seed=1)
        torch.testing.assert_close(list(batches.epoch(0)), wanted, rtol=0, atol=0)
    ((left, right), labels), *_ = Batches((double[:, :1], x[:, 1:]), y.numpy(), 3, seed=1).epoch(0)
    torch.testing.assert_close((torch.cat([left, right], 1), labels), wanted[0], rtol=0, atol=0)


def test_what_is_no_array_is_named():
    x, y = torch.ones(4, 2), torch.ones(4)
    for wrong, message in [
        (([[1.0]], y), "x is a list, not a tensor"),
        (((x, "text"), y), "x is a str, not a tensor"),
        ((x, None), "y is a NoneType, not a tensor"),
    ]:
        with pytest.raises(TypeError, match=message):
            Batches(*wrong, 2, seed=0)
