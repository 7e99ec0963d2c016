"""The label party's memory, against a dict that does the same plainly; and uploads."""

import numpy as np
import pytest
import torch
from core.split.digits_runs import DATA, _Planned, batches, parties, run, same, weights

from fltoolkit.channel import Channel
from fltoolkit.codecs import Pipeline, Quantize
from fltoolkit.split import ActivationCache, AlwaysA, Bookmark, State, Upload
from fltoolkit.split.asynchronous import CachedClient, async_step
from fltoolkit.split.uploads import CutMemory


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


@pytest.mark.later
def test_delta_is_the_same_training_and_smaller_numbers():
    coarse = {"activations": Pipeline(Quantize(4))}
    plain = run(AlwaysA(), num_epochs=8)
    delta = run(AlwaysA(), num_epochs=8, upload=Upload(delta=True))
    assert [r["loss"] for r in delta[0]] == pytest.approx([r["loss"] for r in plain[0]], rel=1e-3)
    errors = {}
    for upload in (Upload(), Upload(delta=True)):
        cache = ActivationCache(300)
        how = {"upload": upload, "bookmark": Bookmark(cache), "channel": Channel(coarse)}
        _, (alice, _), _ = run(_Planned("AABBBB"), num_epochs=6, **how)
        with torch.no_grad():
            h = alice.module(DATA.x_train[:300])
        errors[upload.delta] = float((cache.read(torch.arange(300))[0] - h).norm() / h.norm())
    assert errors[True] < 0.1 * errors[False]  # what one message lost, the next one brings


@pytest.mark.later
def test_rows_that_hardly_moved_stay_at_home():
    nothing = run(AlwaysA(), num_epochs=8, upload=Upload(moved=1e-9))
    some = run(AlwaysA(), num_epochs=8, upload=Upload(moved=0.05))
    plain = run(AlwaysA(), num_epochs=8)
    assert same(weights(*nothing[1]), weights(*plain[1]))
    assert some[2].nbytes() < 0.8 * plain[2].nbytes()
    per_step = {}
    for t in some[2].transfers:
        per_step.setdefault(t.step, {})[t.kind] = t.nbytes_dense
    for step in per_step.values():  # the gradient of exactly the sent rows comes back
        assert step["activations"] - 7 == step["gradients"]  # 50 rows: 7 bytes of mask


def test_no_row_moved_and_nothing_comes_back():
    alice, bob = parties()
    data, caches = batches(), [ActivationCache(300), ActivationCache(300)]
    client = CachedClient(alice, data, CutMemory(*caches, upload=Upload(moved=0.1)))
    ids, channel = next(data.rows(0)), Channel()
    for _ in range(2):
        async_step(client, bob, ids, channel, State.B)
    before = weights(alice)
    async_step(client, bob, ids, channel, State.A)
    assert [t.kind for t in channel.transfers] == ["activations"] * 3
    assert [t.nbytes_dense for t in channel.transfers[1:]] == [7, 7]
    assert same(weights(alice), before)
