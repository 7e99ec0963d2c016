"""Optimizers of servers: momentum that is forgotten, averages, and FedYogi number by number."""

import math

import pytest
import torch
from core.federated.small import One
from torch.optim import SGD

from experiments.replications.outer_momentum import Averaged, Restarted
from experiments.replications.yogi import Yogi


def walked(steps, make):
    """Weights after each step down 3 w, with an optimizer that is made before the step it names."""
    w, path, optimizer = torch.nn.Parameter(torch.ones(3)), [], None
    for step in range(steps):
        optimizer = make(step, [w]) or optimizer
        w.grad = 3 * w.detach()
        optimizer.step()
        path.append(w.detach().clone())
    return torch.stack(path)


def test_a_restart_is_a_new_optimizer():
    how = {"lr": 0.1, "momentum": 0.9}
    restarted = walked(7, lambda step, w: None if step else Restarted(w, every=3, **how))
    anew = walked(7, lambda step, w: SGD(w, nesterov=True, **how) if step % 3 == 0 else None)
    assert torch.equal(restarted, anew)
    kept = walked(7, lambda step, w: None if step else SGD(w, nesterov=True, **how))
    assert torch.equal(restarted[:3], kept[:3])
    assert not torch.equal(restarted, kept)


def test_an_average_that_keeps_nothing_is_plain():
    plain = walked(5, lambda step, w: None if step else SGD(w, lr=0.1))
    nothing = walked(5, lambda step, w: None if step else Averaged(w, 0.1, keep=0, blend=0.7))
    torch.testing.assert_close(nothing, plain)
    halves = walked(1, lambda step, w: Averaged(w, 0.1, keep=0.5, blend=1.0))
    torch.testing.assert_close(halves[0], torch.full((3,), 0.85))  # half of the way to 0.7
    between = walked(1, lambda step, w: Averaged(w, 0.1, keep=0.5, blend=0.8))
    torch.testing.assert_close(between[0], torch.full((3,), 0.8 * 0.85 + 0.2 * 0.7))


def test_yogi_by_hand():
    """Three moves with g = -1, then 1/2; by the formulas, number by number."""
    model, m, v, w = One(), 0.0, 0.01, 0.0
    optimizer = Yogi(model.parameters(), lr=0.3, betas=(0.8, 0.9), tau=0.1)
    for g in (-1.0, -1.0, 0.5):
        model.w.grad = torch.tensor(g)
        optimizer.step()
        m = 0.8 * m + 0.2 * g
        v = v - 0.1 * g * g * math.copysign(1, v - g * g)
        w = w - 0.3 * m / (math.sqrt(v) + 0.1)
        assert model.w.item() == pytest.approx(w, rel=1e-6)
    assert v == pytest.approx(0.01 + 0.1 + 0.1 + 0.025)
    with pytest.raises(ValueError, match="tau=0"):
        Yogi(model.parameters(), tau=0)
