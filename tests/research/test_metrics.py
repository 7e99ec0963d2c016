"""The metrics of other tasks than classes: right by hand, the same in any batches."""

import pytest
import torch
from torch import nn

from fltoolkit import Party, evaluate
from fltoolkit_research.metrics import MEAN_SQUARED_ERROR, PERPLEXITY


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def whole(loss_fn):
    """A network that gives back what it gets: outputs are the inputs."""
    return [Party("all", nn.Identity(), loss_fn=loss_fn)]


TEXT, LETTERS = drawn(12, 7, 9), torch.arange(108).reshape(12, 9) % 7


def test_batches_add_up_also_where_some_targets_do_not_count():
    y = LETTERS.clone()
    y[:3, 2:] = -100
    y[11] = -100  # a batch of its own, of which nothing counts
    one, many = (
        evaluate(whole(nn.CrossEntropyLoss()), TEXT, y, metric=PERPLEXITY, batch_size=b)
        for b in (12, 1)
    )
    assert many == pytest.approx(one)
    assert one["test_loss"] == pytest.approx(float(nn.CrossEntropyLoss()(TEXT, y)))


def test_perplexity_by_hand():
    found = evaluate(whole(nn.CrossEntropyLoss()), TEXT * 0, LETTERS, metric=PERPLEXITY)
    assert found["perplexity"] == pytest.approx(7)


def test_errors_of_numbers():
    x, y = torch.tensor([[1.0], [2.0]]), torch.tensor([[3.0], [2.5]])
    found = evaluate(whole(nn.MSELoss()), x, y, metric=MEAN_SQUARED_ERROR)
    assert found["mean_squared_error"] == 2.125
    with pytest.raises(ValueError, match="equal shapes"):
        MEAN_SQUARED_ERROR.measure(x, y[:, 0])
