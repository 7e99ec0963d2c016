"""Momentum that is forgotten is SGD begun anew; an average that keeps nothing is SGD."""

import torch
from torch.optim import SGD

from experiments.replications.outer_momentum import Averaged, Restarted


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
