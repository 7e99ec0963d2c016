"""Metrics for tasks that do not count right classes: numbers and texts.

A `fltoolkit.metrics.Metric` is a value, so one of your own is made in the same way. Not here: what
needs the whole test set at once, such as an area under a curve: see ``of_all``.
"""

import math

import torch
from torch import Tensor
from torch.nn import functional

from fltoolkit.metrics import Metric

__all__ = ["MEAN_SQUARED_ERROR", "PERPLEXITY", "TEST_LOSS"]


def squared(output: Tensor, y: Tensor) -> tuple[float, int]:
    """The sum of the squared errors, and their number."""
    if output.shape != y.shape:  # [n, 1] minus [n] would be n x n errors
        raise ValueError(
            f"outputs {list(output.shape)}, targets {list(y.shape)}: errors need equal shapes"
        )
    return float((output - y).double().square().sum()), y.numel()


MEAN_SQUARED_ERROR = Metric("mean_squared_error", squared, higher_is_better=False)
"""The mean squared error, for targets that are measured numbers; less is better."""


def nats(output: Tensor, y: Tensor) -> tuple[float, int]:
    """The sum of ``-log p`` of the true classes, and their number; targets below 0 are not counted.

    Outputs [batch, classes, ...] may be logits or log-probabilities.
    """
    if output.dim() != y.dim() + 1 or y.is_floating_point():
        raise ValueError(
            f"outputs {list(output.shape)}, targets {list(y.shape)} {y.dtype}: need outputs "
            "[batch, classes, ...] and class numbers [batch, ...]"
        )
    counted = y >= 0
    sums = functional.cross_entropy(
        output, torch.where(counted, y, -100), ignore_index=-100, reduction="sum"
    )
    return float(sums), int(counted.sum())


PERPLEXITY = Metric("perplexity", nats, higher_is_better=False, of_mean=math.exp)
"""``exp`` of the mean negative log-likelihood of a token; less is better."""

TEST_LOSS = Metric("test_loss", None, higher_is_better=False)
"""The training loss, computed on test data: for tasks that need no other metric."""
