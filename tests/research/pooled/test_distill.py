"""Distilled samples: the kernel learns more from them than from as many prototypes."""

import pytest
import torch

from fltoolkit import load
from fltoolkit_research.pooled import distilled, prototypes
from fltoolkit_research.pooled.distill import RIDGE, kernel


def right(x, y, data):
    """The share of test images that kernel ridge regression on (x, y) gets right."""
    inner = kernel(x, x)
    inner = inner + RIDGE * inner.diagonal().mean() * torch.eye(len(x))
    weights = torch.linalg.solve(inner, torch.eye(10)[y] - 0.1)
    guess = (kernel(data.x_test, x) @ weights).argmax(dim=1)
    return (guess == data.y_test).float().mean().item()


@pytest.mark.slow
def test_the_kernel_learns_more_from_them_than_from_prototypes():
    data = load("digits").flat()
    plain = prototypes(data.x_train, data.y_train, 10, seed=0)
    made_up = distilled(data.x_train, data.y_train, 10, seed=0)
    assert torch.equal(plain[1], made_up[1])
    assert made_up[0].shape == plain[0].shape
    assert right(*made_up, data) > right(*plain, data) + 0.03
    again, _ = distilled(data.x_train, data.y_train, 10, seed=0)
    assert torch.equal(again, made_up[0])


def test_the_kernel_is_symmetric_and_positive():
    x = torch.randn(20, 16, generator=torch.Generator().manual_seed(0))
    found = kernel(x, x)
    torch.testing.assert_close(found, found.T)
    assert torch.linalg.eigvalsh(found.double()).min() > 0
