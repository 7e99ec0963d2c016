"""The metrics of other tasks than classes: right by hand, the same in any batches."""

import math

import pytest
import torch
from torch import nn

from fltoolkit import Party, evaluate
from fltoolkit_research.metrics import (
    BINARY_ACCURACY,
    BITS_PER_CHARACTER,
    MEAN_ABSOLUTE_ERROR,
    MEAN_SQUARED_ERROR,
    PERPLEXITY,
)


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def whole(loss_fn):
    """A network that gives back what it gets: outputs are the inputs."""
    return [Party("all", nn.Identity(), loss_fn=loss_fn)]


LOGITS, ONES = drawn(600, 1), (drawn(600, 1, seed=1) > 0).float()
TEXT, LETTERS = drawn(12, 7, 9), torch.arange(108).reshape(12, 9) % 7


def test_accuracy_of_one_logit_is_binary():
    found = evaluate(whole(nn.BCEWithLogitsLoss()), LOGITS, ONES, metric=BINARY_ACCURACY)
    assert found["binary_accuracy"] == float(((LOGITS > 0) == (ONES > 0)).double().mean())
    flat = evaluate(whole(nn.BCEWithLogitsLoss()), LOGITS[:, 0], ONES[:, 0], metric=BINARY_ACCURACY)
    assert flat["binary_accuracy"] == found["binary_accuracy"]
    several = ((ones := ONES.reshape(200, 3)), LOGITS.reshape(200, 3))
    found = evaluate(whole(nn.BCEWithLogitsLoss()), several[1], ones, metric=BINARY_ACCURACY)
    assert found["binary_accuracy"] == flat["binary_accuracy"]
    with pytest.raises(ValueError, match="0 or 1"):
        BINARY_ACCURACY.measure(LOGITS, ONES + 1)


@pytest.mark.parametrize("metric", [PERPLEXITY, BITS_PER_CHARACTER], ids=lambda m: m.name)
def test_batches_add_up_also_where_some_targets_do_not_count(metric):
    y = LETTERS.clone()
    y[:3, 2:] = -100
    y[11] = -100  # a batch of its own, of which nothing counts
    one, many = (
        evaluate(whole(nn.CrossEntropyLoss()), TEXT, y, metric=metric, batch_size=b)
        for b in (12, 1)
    )
    assert many == pytest.approx(one)
    assert one["test_loss"] == pytest.approx(float(nn.CrossEntropyLoss()(TEXT, y)))


def test_perplexity_and_bits_by_hand():
    found = [
        evaluate(whole(nn.CrossEntropyLoss()), TEXT * 0, LETTERS, metric=m)[m.name]
        for m in (PERPLEXITY, BITS_PER_CHARACTER)
    ]
    assert found == [pytest.approx(7), pytest.approx(math.log2(7))]


def test_errors_of_numbers():
    x, y = torch.tensor([[1.0], [2.0]]), torch.tensor([[3.0], [2.5]])
    for metric, value in ((MEAN_SQUARED_ERROR, 2.125), (MEAN_ABSOLUTE_ERROR, 1.25)):
        assert evaluate(whole(nn.MSELoss()), x, y, metric=metric)[metric.name] == value
    with pytest.raises(ValueError, match="equal shapes"):
        MEAN_SQUARED_ERROR.measure(x, y[:, 0])
