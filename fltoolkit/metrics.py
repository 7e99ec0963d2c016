"""Metrics: what a test measures besides the loss, and in which direction it is better.

Here: a `Metric` as a value, and those that most tasks need. Not here: the test itself
(evaluation.py).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

__all__ = [
    "ACCURACY",
    "AUROC",
    "BALANCED_ACCURACY",
    "BINARY_ACCURACY",
    "BITS_PER_CHARACTER",
    "F1",
    "MEAN_ABSOLUTE_ERROR",
    "MEAN_SQUARED_ERROR",
    "PERPLEXITY",
    "TEST_LOSS",
    "Metric",
]

Measure = Callable[[Tensor, Tensor], tuple[float, int]]
"""``measure(outputs, targets)`` returns a sum over this batch, and the number of predictions in it.

The sums and the numbers of all batches are added up before they are divided. So the result does not
depend on how the test samples were cut into batches.
"""


def unchanged(mean: float) -> float:
    """The mean as it is."""
    return mean


@dataclass(frozen=True)
class Metric:
    """A number that says how good a network is, with its name and its direction.

    Most metrics are a mean over predictions, or a function of such a mean. A number that cannot be
    computed batch by batch, such as an area under a curve, is given by ``of_all``: a function of
    the outputs and targets of the whole set, for example an object of torchmetrics::

        Metric("auroc", None, of_all=torchmetrics.AUROC("multiclass", num_classes=10))

    >>> ACCURACY.words(0.9712), ACCURACY.axis, ACCURACY.better(0.8, 0.7)
    ('97.12 %', 'accuracy [%]', True)
    >>> PERPLEXITY.words(3.2), PERPLEXITY.better(0.8, 0.7)
    ('3.2', False)
    """

    name: str  # in records, tables and settings: "accuracy", "bits_per_character"
    measure: Measure | None  # None: the metric is the test loss itself, or ``of_all`` gives it
    higher_is_better: bool = True
    unit: str = ""  # "%": values from 0 to 1 are shown times 100
    of_mean: Callable[[float], float] = unchanged  # e.g. ``math.exp`` makes a loss a perplexity
    of_all: Callable[[Tensor, Tensor], Any] | None = None  # outputs and targets of the whole set

    def __post_init__(self) -> None:
        if not self.name.isidentifier():
            raise ValueError(f"name={self.name!r}: letters, digits and _, as in a Python name")
        if self.measure is not None and self.of_all is not None:
            raise ValueError(f"{self.name}: give measure or of_all, not both")

    @property
    def scale(self) -> float:
        """The factor by which a value is multiplied when it is shown: 100 for percent."""
        return 100.0 if self.unit == "%" else 1.0

    @property
    def axis(self) -> str:
        """The name with its unit, for the axis of a figure or the head of a column."""
        return self.name.replace("_", " ") + (f" [{self.unit}]" if self.unit else "")

    def number(self, value: float) -> str:
        """A value as it is shown, without its unit."""
        return f"{100 * value:.2f}" if self.unit == "%" else f"{value:.4g}"

    def possible(self, value: float) -> float:
        """The nearest value that this metric can have: in percent, from 0 to 1.

        For the ends of an interval by Student's t, which knows nothing of this range.

        >>> ACCURACY.possible(1.0146), PERPLEXITY.possible(1.0146)
        (1.0, 1.0146)
        """
        return min(max(value, 0.0), 1.0) if self.unit == "%" else value

    def words(self, value: float) -> str:
        """A value as it is shown, with its unit."""
        return f"{self.number(value)} {self.unit}".rstrip()

    def better(self, one: float, other: float) -> bool:
        """Whether ``one`` is really better than ``other``."""
        return one > other if self.higher_is_better else one < other

    def reaches(self, value: float, target: float) -> bool:
        """Whether ``value`` is as good as ``target``, or better."""
        return not self.better(target, value)

    def best(self, values: "list[float]") -> float:
        """The best of several values."""
        return max(values) if self.higher_is_better else min(values)

    def __repr__(self) -> str:
        return self.name


# ------------------------------------------------------------------------------- of the whole set


def auroc(output: Tensor, y: Tensor) -> float:
    """The mean area under the ROC curve of each class against all others (scikit-learn)."""
    from sklearn.metrics import roc_auc_score

    scores = output.softmax(dim=1)  # of logits or log-probabilities
    of_two = scores[:, 1] if scores.shape[1] == 2 else scores
    return float(roc_auc_score(y, of_two, multi_class="ovr", labels=range(scores.shape[1])))


def f1(output: Tensor, y: Tensor) -> float:
    """The mean F1 score of the classes (scikit-learn)."""
    from sklearn.metrics import f1_score

    return float(f1_score(y, output.argmax(dim=1), average="macro"))


def balanced_accuracy(output: Tensor, y: Tensor) -> float:
    """The mean over the classes of the share that was found (scikit-learn)."""
    from sklearn.metrics import balanced_accuracy_score

    return float(balanced_accuracy_score(y, output.argmax(dim=1)))


AUROC = Metric("auroc", None, of_all=auroc)
"""The area under the ROC curve, the mean over all classes; the whole test set is needed at once."""
F1 = Metric("f1", None, unit="%", of_all=f1)
"""The F1 score, the mean over all classes, which all weigh the same."""
BALANCED_ACCURACY = Metric("balanced_accuracy", None, unit="%", of_all=balanced_accuracy)
"""The share of right predictions in each class, and of these shares the mean."""

# ------------------------------------------------------------------------------------ of classes


def num_right(output: Tensor, y: Tensor) -> tuple[float, int]:
    """The number of predictions whose largest output is the right class, and the number of all.

    Outputs are [batch, classes, ...] and targets the class numbers, [batch, ...]. So each word of a
    text and each pixel of an image is one prediction. Targets below 0 (such as the -100 that
    torch's losses ignore) are not counted.
    """
    shapes = f"outputs {list(output.shape)}, targets {list(y.shape)} {y.dtype}: accuracy counts "
    shapes += "class numbers [batch, ...] against outputs [batch, classes, ...]. "
    if y.is_floating_point():
        raise ValueError(
            shapes + "For targets 0.0 and 1.0 take metric=BINARY_ACCURACY, for measured numbers "
            "metric=MEAN_SQUARED_ERROR, or a Metric of your own"
        )
    if output.shape == (*y.shape, 1) or output.shape == y.shape:
        raise ValueError(shapes + "For one logit per prediction take metric=BINARY_ACCURACY")
    if output.dim() != y.dim() + 1 or (output.shape[0], *output.shape[2:]) != y.shape:
        hint = "Take the last axis away: y.squeeze(-1)" if y.shape[1:] == (1,) else ""
        raise ValueError(shapes + (hint or "Bring them into these shapes, or give another metric"))
    counted = y >= 0
    return float((output.argmax(dim=1) == y)[counted].sum()), int(counted.sum())


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


ACCURACY = Metric("accuracy", num_right, unit="%")
"""The share of right predictions: one class for each sample, or for each word or pixel."""

BINARY_ACCURACY = Metric("binary_accuracy", num_right_of_two, unit="%")
"""The share of logits on the right side of 0, for one label or several labels in each sample."""

# ------------------------------------------------------------------------------------ of numbers


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

# -------------------------------------------------------------------------------------- of texts


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
