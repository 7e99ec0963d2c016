"""Metrics for tasks that do not count right classes: two labels, numbers and texts.

A `fltoolkit.metrics.Metric` is a value, so one of your own is made in the same way. Not here: what
needs the whole test set at once, such as an area under a curve: see ``of_all``.
"""

import math

import torch
from torch import Tensor
from torch.nn import functional

from fltoolkit.metrics import Metric

__all__ = [
    "BINARY_ACCURACY",
    "BITS_PER_CHARACTER",
    "MEAN_ABSOLUTE_ERROR",
    "MEAN_SQUARED_ERROR",
    "PERPLEXITY",
    "TEST_LOSS",
]


def num_right_of_two(output: Tensor, y: Tensor) -> tuple[float, int]:
    """The number of logits on the right side of 0, and the number of all; targets are 0 and 1."""
    if output.numel() != y.numel() or output.squeeze(-1).shape != y.squeeze(-1).shape:
        raise ValueError(
            f"outputs {list(output.shape)}, targets {list(y.shape)}: binary accuracy needs one "
            "logit for each target"
        )
    if not bool(((y == 0) | (y == 1)).all()):
        raise ValueError("binary accuracy needs targets that are 0 or 1")
    return float(((output > 0).flatten() == (y > 0.5).flatten()).sum()), y.numel()


BINARY_ACCURACY = Metric("binary_accuracy", num_right_of_two, unit="%")
"""The share of logits on the right side of 0, for one label or several labels in each sample."""


def errors_of(output: Tensor, y: Tensor) -> Tensor:
    """Output minus target, of equal shapes: ``[n, 1]`` minus ``[n]`` would be n x n errors."""
    if output.shape != y.shape:
        raise ValueError(
            f"outputs {list(output.shape)}, targets {list(y.shape)}: errors need equal shapes"
        )
    return (output - y).double()


def squared(output: Tensor, y: Tensor) -> tuple[float, int]:
    """The sum of the squared errors, and their number."""
    return float(errors_of(output, y).square().sum()), y.numel()


def absolute(output: Tensor, y: Tensor) -> tuple[float, int]:
    """The sum of the absolute errors, and their number."""
    return float(errors_of(output, y).abs().sum()), y.numel()


MEAN_SQUARED_ERROR = Metric("mean_squared_error", squared, higher_is_better=False)
"""The mean squared error, for targets that are measured numbers; less is better."""

MEAN_ABSOLUTE_ERROR = Metric("mean_absolute_error", absolute, higher_is_better=False)
"""The mean absolute error, in the unit of the targets; less is better."""


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


def in_bits(mean: float) -> float:
    """Convert nats to bits."""
    return mean / math.log(2)


PERPLEXITY = Metric("perplexity", nats, higher_is_better=False, of_mean=math.exp)
"""``exp`` of the mean negative log-likelihood of a token; less is better."""

BITS_PER_CHARACTER = Metric("bits_per_character", nats, higher_is_better=False, of_mean=in_bits)
"""The mean negative log-likelihood in bits, where a token is a character; less is better."""

TEST_LOSS = Metric("test_loss", None, higher_is_better=False)
"""The training loss, computed on test data: for tasks that need no other metric."""
