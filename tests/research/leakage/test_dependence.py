"""Distance correlation against its theory, its two quick forms against the definition."""

import copy

import pytest
import torch
from inversion import X, Y, normal, two_parties
from torch import nn

from fltoolkit import SGD, Channel, Party, split_step
from fltoolkit_research.leakage import (
    NoPeek,
    corrected_distance_correlation,
    dependence,
    distance_correlation,
)
from fltoolkit_research.leakage.dependence import batch_distance_correlation

MEASURES = [distance_correlation, corrected_distance_correlation, batch_distance_correlation]


def test_values_of_another_implementation():
    # printed by dcor 0.7: distance_correlation(x, y), u_distance_correlation_sqr(x, y)
    i = torch.arange(12, dtype=torch.float64)
    x, y = torch.stack([i, (5 * i) % 12], dim=1), (i - 5.5) ** 2
    assert distance_correlation(x, y) == pytest.approx(0.476356199171126, abs=1e-12)
    assert corrected_distance_correlation(x, y) == pytest.approx(-0.137184086806202, abs=1e-12)


@pytest.mark.parametrize("block", [1, 7, 30, 1000])
def test_blocks_do_what_the_definition_says(block, monkeypatch):
    monkeypatch.setattr(dependence, "BLOCK", block)
    x, y = normal(30, 4), normal(30, 2, seed=1)
    y[:, 0] += x[:, 1] ** 2
    plain = batch_distance_correlation(x, y).item()
    assert distance_correlation(x, y) == pytest.approx(plain, abs=1e-12)
    # the corrected one from its definition: U-centred matrices
    n, matrices = len(x), []
    for z in (x, y):
        d = torch.cdist(z, z)
        u = d - d.sum(0) / (n - 2) - d.sum(1, keepdim=True) / (n - 2)
        u += d.sum() / ((n - 1) * (n - 2))
        matrices.append(u.fill_diagonal_(0))
    a, b = matrices
    expected = ((a * b).sum() / ((a * a).sum() * (b * b).sum()).sqrt()).item()
    assert corrected_distance_correlation(x, y) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("measure", MEASURES)
def test_a_constant_depends_on_nothing(measure):
    x = normal(20, 4)
    assert float(measure(x, torch.full((20, 3), 0.1, dtype=torch.float64))) == 0
    h = torch.zeros(20, 3, requires_grad=True)
    batch_distance_correlation(x.float(), h).backward()
    assert h.grad is not None
    assert not h.grad.any()


def test_equal_rows_have_a_gradient():
    h = normal(10, 3).float()
    h[3:6] = h[0]  # distances of 0, where a root has no slope
    h.requires_grad_()
    batch_distance_correlation(normal(10, 4, seed=1).float(), h).backward()
    assert bool(h.grad.isfinite().all())
    assert bool(h.grad.any())


def test_thousands_of_rows_take_memory_for_a_block(monkeypatch):
    shapes, original = [], dependence._distances

    def distances(*args):
        out = original(*args)
        shapes.append(tuple(out.shape))
        return out

    monkeypatch.setattr(dependence, "_distances", distances)
    monkeypatch.setattr(dependence, "BLOCK", 100)
    distance_correlation(normal(2050, 2), normal(2050, 2, seed=1))
    assert len(shapes) == 2 * 21
    assert max(shapes) == (100, 2050)


def test_the_gradient_of_nopeek_is_that_of_the_written_loss():
    parties = two_parties(NoPeek, weight=0.7)
    whole = nn.Sequential(*copy.deepcopy(parties[0].module), *copy.deepcopy(parties[1].module))
    x, y = X[:32], Y[:32]
    split_step(parties, x, y, Channel())
    h = whole[:4](x)
    loss = nn.NLLLoss()(whole[4:](h), y) + 0.7 * batch_distance_correlation(x, h)
    loss.backward()
    moved = 0.0
    for mine, theirs in zip(parties[0].module.parameters(), whole[:4].parameters(), strict=True):
        assert torch.allclose(mine.grad, theirs.grad, atol=1e-7, rtol=1e-4)
        moved = max(moved, float(theirs.grad.abs().max()))
    assert moved > 1e-3
    plain = two_parties()[0].module
    split_step(
        [Party("alice", plain, SGD(plain.parameters(), lr=0.1)), parties[1]], x, y, Channel()
    )
    pairs = zip(parties[0].module.parameters(), plain.parameters(), strict=True)
    assert not any(torch.equal(a, b) for a, b in pairs)


@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_a_batch_of_any_scale_has_its_distance_correlation(scale):
    """The product of two small variances would be no float32 any more."""
    x = torch.randn(20, 3, generator=torch.Generator().manual_seed(0))
    small = (scale * x).requires_grad_()
    found = batch_distance_correlation(small, scale * x)
    assert found.item() == pytest.approx(1, abs=1e-4)
    found.backward()
    assert bool(small.grad.isfinite().all())
