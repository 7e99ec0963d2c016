"""The label party's memory, against a dict that does the same plainly."""

import numpy as np
import pytest
import torch

from fltoolkit.split import ActivationCache


def fill(cache, ids, value=0.0):
    ids = torch.tensor(ids)
    cache.write(ids, ids[:, None] + value + torch.zeros(len(ids), 3), 10 * ids)


def test_like_a_dict():
    cache, plain = ActivationCache(20), {}
    rng = np.random.default_rng(0)
    for step in range(10):
        ids = rng.choice(20, size=5, replace=False).tolist()
        fill(cache, ids, step / 64)
        plain.update(dict.fromkeys(ids, step / 64))
        assert len(cache) == len(plain)
        have = torch.tensor(list(plain))
        assert cache.has(torch.arange(20)).nonzero().flatten().tolist() == sorted(plain)
        assert torch.equal(cache.state_dict()["ids"], have), "in the order in which they came"
        h, y = cache.read(have)
        assert h[:, 0].tolist() == [i + value for i, value in plain.items()]
        assert y.tolist() == [10 * i for i in plain]
    assert cache.nbytes == len(plain) * 3 * 4


def test_missing_samples_are_replaced_by_stored_ones():
    cache = ActivationCache(10)
    fill(cache, [2, 4])
    ids = torch.tensor([4, 7, 2, 9])
    filled = cache.fill_up(ids)
    assert filled[[0, 2]].tolist() == [4, 2]
    assert set(filled.tolist()) <= {2, 4}
    assert ids.tolist() == [4, 7, 2, 9]
    again = ActivationCache(10)
    fill(again, [2, 4])
    assert again.fill_up(ids).tolist() == filled.tolist()
    with pytest.raises(KeyError, match=r"\[7, 9\]"):
        cache.read(ids)
    with pytest.raises(ValueError, match="nothing has been sent"):
        ActivationCache(10).fill_up(ids)


def test_stale_means_older_than_the_version():
    cache = ActivationCache(4)
    fill(cache, [0, 1])
    cache.version = 3
    fill(cache, [1, 2, 3])
    assert cache.stale(torch.tensor([0, 1, 2, 3])) == 0.25


def test_a_cache_needs_ids():
    with pytest.raises(ValueError, match="num_samples=0"):
        ActivationCache(0)
