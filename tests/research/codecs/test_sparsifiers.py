"""Relatives of top-k, by hand and against the papers' loops."""

import math

import numpy as np
import pytest
import torch
from core.codecs.test_sparse import SPECIAL
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fltoolkit.codecs import Pipeline, PlainTopK
from fltoolkit.codecs.stage import side
from fltoolkit.testing import normal
from fltoolkit_research.codecs import STC, RandomK, RandTopK
from fltoolkit_research.codecs.sparsifiers import largest_in_rows, random_places


@pytest.mark.later
@given(hnp.arrays(np.float32, (3, 8), elements=st.sampled_from(SPECIAL)), st.integers(1, 8))
def test_largest_in_rows_equals_the_plain_version(rows, k):
    top, rest = largest_in_rows(torch.from_numpy(rows), k)
    for row, columns, others in zip(rows, top, rest, strict=True):
        kept = PlainTopK(k / 8).apply({"w": torch.from_numpy(row)})[side("*", "@")].values
        assert np.array_equal(columns, kept.numpy())
        assert others.tolist() == sorted(set(range(8)) - set(columns.tolist()))


# --------------------------------------------------------------------------- random-k


@pytest.mark.later
def test_random_places_are_uniform():
    for n, k in ((10, 3), (10, 5), (10, 8), (5, 5), (1, 1)):
        counts = np.zeros(n)
        pairs = 0
        for seed in range(3000):
            drawn = random_places(seed, n, k)
            assert len(drawn) == k
            assert (np.diff(drawn) > 0).all()
            counts[drawn] += 1
            pairs += {0, n - 1} <= set(drawn.tolist())
        share = k / n
        assert np.abs(counts - 3000 * share).max() <= 4.5 * math.sqrt(3000 * share * (1 - share))
        both = share * (k - 1) / max(n - 1, 1)
        assert abs(pairs - 3000 * both) <= 4.5 * math.sqrt(3000 * both) or n == 1


@pytest.mark.slow
def test_random_k_is_unbiased():
    x = torch.tensor([3.0, -1.0, 0.5, 2.0, 0.0])
    stage = RandomK(0.4)
    received = torch.stack([stage.undo(stage.apply({"w": x}))["w"] for _ in range(2000)])
    assert torch.allclose(received.mean(0), x, atol=0.25)
    error = float((received - x).square().sum(1).mean() / x.square().sum())
    assert error == pytest.approx(5 / 2 - 1, rel=0.05)
    plain = RandomK(0.4, unbiased=False)
    received = torch.stack([plain.undo(plain.apply({"w": x}))["w"] for _ in range(2000)])
    assert torch.allclose(received.mean(0), 0.4 * x, atol=0.1)


# --------------------------------------------------------------------------- randomized top-k
def test_rand_topk_draws_as_the_paper_says():
    """Against the paper's loop: k times, with probability alpha from outside the top k."""
    h = torch.arange(6.0, 0, -1).expand(20_000, 6).contiguous()
    stage = RandTopK(0.5, alpha=0.2)
    mask = stage.masks(stage.apply({"h": h}), {})["h"].double()
    random, counts, patterns = np.random.default_rng(1), np.zeros(6), np.zeros(4)
    for _ in range(20_000):
        top, rest = [0, 1, 2], [3, 4, 5]
        for _ in range(3):
            pool = rest if random.random() < 0.2 else top
            counts[pool.pop(random.integers(len(pool)))] += 1
        patterns[3 - len(rest)] += 1
    assert mask.mean(0).numpy() == pytest.approx(counts / 20_000, abs=0.02)
    assert mask.mean(0)[:3].sum() == pytest.approx(3 * 0.8, abs=0.02)
    num_rest = torch.bincount(mask[:, 3:].sum(1).long(), minlength=4) / 20_000
    assert num_rest.numpy() == pytest.approx(patterns / 20_000, abs=0.02)


@pytest.mark.parametrize(("alpha", "fraction", "outside"), [(0, 0.3, 0), (1, 0.3, 3), (1, 0.8, 2)])
def test_rand_topk_extremes(alpha, fraction, outside):
    h = torch.arange(10.0, 0, -1).expand(7, 10)
    stage = RandTopK(fraction, alpha=alpha)
    mask = stage.masks(stage.apply({"h": h}), {})["h"]
    k = round(fraction * 10)
    assert (mask.sum(1) == k).all()
    assert (mask[:, k:].sum(1) == outside).all()


def test_rand_topk_is_plain_in_evaluation():
    h = torch.randn(64, 128, generator=torch.Generator().manual_seed(0))
    stage = RandTopK(0.1, alpha=0.5, training=False)
    received = stage.undo(stage.apply({"h": h}))["h"]
    best = h.abs().topk(13, dim=1).indices
    assert torch.equal(received, torch.zeros_like(h).scatter(1, best, h.gather(1, best)))


# --------------------------------------------------------------------------------- STC
@pytest.mark.parametrize("x", [[0.0, 0, 0, 0], [0.0, -2, 0, 0], [0.0, -2, 2, 2]])
def test_stc_keeps_zeros_zero(x):
    x = torch.tensor(x)
    parts = STC(0.75).apply({"w": x})
    assert torch.equal(STC(0.75).undo(parts)["w"], x)
    assert STC(0.75).masks(parts, {})["w"].sum() == 3


def test_nothing_grows_infinite():
    tree = {"w": torch.tensor([3e38, -3e38, 1.0])}
    stage = RandomK(0.3)
    assert all(bool(stage.undo(stage.apply(tree))["w"].isfinite().all()) for _ in range(9))


def test_random_places_are_read_from_the_message_whatever_seed_the_reader_has():
    message = Pipeline(RandomK(0.1, seed=1)).encode({"w": normal(100)})
    one, other = (Pipeline(RandomK(0.1, seed=k)).decode(message)["w"] for k in (1, 2))
    assert torch.equal(one, other)
    assert int(one.count_nonzero()) == 10
