"""Uploads: differences, and rows that hardly moved."""

import pytest
import torch
from core.split.digits_runs import DATA, _Planned, batches, parties, run, same, weights

from fltoolkit.channel import Channel
from fltoolkit.codecs import Pipeline, Quantize
from fltoolkit.split import ActivationCache, AlwaysA, Bookmark, State, Upload
from fltoolkit.split.asynchronous import CachedClient, async_step
from fltoolkit.split.uploads import CutMemory


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
