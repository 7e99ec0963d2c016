"""Distilled samples: the kernel learns more from them than from as many prototypes."""

import pytest
import torch

from experiments.replications.distill import RIDGE, distilled, kernel, prototypes
from fltoolkit import load


def right(x, y, data):
    """The share of test images that kernel ridge regression on (x, y) gets right."""
    inner = kernel(x, x)
    inner = inner + RIDGE * inner.diagonal().mean() * torch.eye(len(x))
    weights = torch.linalg.solve(inner, torch.eye(10)[y] - 0.1)
    guess = (kernel(data.x_test, x) @ weights).argmax(dim=1)
    return (guess == data.y_test).float().mean().item()


@pytest.mark.slow
def test_the_kernel_learns_more_from_them_than_from_prototypes():
    data = load("digits_known_writers").flat()
    plain = prototypes(data.x_train, data.y_train, 10, seed=0)
    made_up = distilled(data.x_train, data.y_train, 10, seed=0)
    assert torch.equal(plain[1], made_up[1])
    assert made_up[0].shape == plain[0].shape
    assert right(*made_up, data) > right(*plain, data) + 0.03
    again, _ = distilled(data.x_train, data.y_train, 10, seed=0)
    assert torch.equal(again, made_up[0])


@pytest.mark.later
def test_prototypes_stand_for_their_class():
    data = load("digits_known_writers").flat()
    x, y = data.x_train, data.y_train
    centres, classes = prototypes(x, y, 50, seed=0)
    assert 45 <= len(classes) <= 55
    assert set(classes.tolist()) == set(range(10))
    for centre, label in zip(centres, classes, strict=True):  # nearest among the class's own means
        own = x[y == label].mean(dim=0)
        assert (centre - own).norm() < (centre - x[y != label].mean(dim=0)).norm() + 8
    assert torch.equal(centres, prototypes(x, y, 50, seed=0)[0])
    assert len(prototypes(x[:20], y[:20], 20, seed=0)[0]) == 20
