"""Metrics: what a test measures besides the loss, and in which direction it is better.

Here: a `Metric` as a value, accuracy, and Student's t, for 95 % intervals of a mean over few seeds.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from torch import Tensor

__all__ = ["ACCURACY", "Metric"]

Measure = Callable[[Tensor, Tensor], tuple[float, int]]
"""``measure(outputs, targets)`` returns a sum over this batch, and the number of predictions in it.

The sums and the numbers of all batches are added up before they are divided. So the result does not
depend on how the test samples were cut into batches.
"""


@dataclass(frozen=True)
class Metric:
    """A number that says how good a network is, with its name and its direction.

    Most metrics are a mean over predictions, or a function of such a mean. A number that cannot be
    computed batch by batch, such as an area under a curve, is given by ``of_all``: a function of
    the outputs and targets of the whole set, for example an object of torchmetrics::

        Metric("auroc", None, of_all=torchmetrics.AUROC("multiclass", num_classes=10))

    >>> ACCURACY.words(0.9712), ACCURACY.axis, ACCURACY.better(0.8, 0.7)
    ('97.12 %', 'accuracy [%]', True)
    >>> errors = Metric("errors", lambda output, y: (0.0, len(y)), higher_is_better=False)
    >>> errors.words(3.2), errors.better(0.8, 0.7)
    ('3.2', False)
    """

    name: str  # in records, tables and settings: "accuracy", "perplexity"
    measure: Measure | None  # None: the metric is the test loss itself, or ``of_all`` gives it
    higher_is_better: bool = True
    unit: str = ""  # "%": values from 0 to 1 are shown times 100
    of_mean: Callable[[float], float] = float  # e.g. ``math.exp`` makes a loss a perplexity
    of_all: Callable[[Tensor, Tensor], Any] | None = None  # outputs and targets of the whole set

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

        >>> ACCURACY.possible(1.0146)
        1.0
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

    def __repr__(self) -> str:
        return self.name


def num_right(output: Tensor, y: Tensor) -> tuple[float, int]:
    """The number of predictions whose largest output is the right class, and the number of all.

    Outputs are [batch, classes, ...] and targets the class numbers, [batch, ...]. So each word of a
    text and each pixel of an image is one prediction. Targets below 0 (such as the -100 that
    torch's losses ignore) are not counted.
    """
    one_each = output.dim() == y.dim() + 1 and (output.shape[0], *output.shape[2:]) == y.shape
    if y.is_floating_point() or not one_each or output.shape[1] == 1:
        raise ValueError(
            f"outputs {list(output.shape)}, targets {list(y.shape)} {y.dtype}: accuracy counts "
            "class numbers [batch, ...] against outputs [batch, classes, ...]. Bring both into "
            "these shapes (y.squeeze(-1) takes a last axis of 1 away). Binary targets with one "
            "logit each and measured numbers need another one: metric=Metric(...)"
        )
    counted = y >= 0
    return float((output.argmax(dim=1) == y)[counted].sum()), int(counted.sum())


ACCURACY = Metric("accuracy", num_right, unit="%")
"""The share of right predictions: one class for each sample, or for each word or pixel."""


LEVEL = 0.95
"""The level of all intervals: of many experiments, this share has the true mean in its interval."""


@lru_cache
def t_quantile(num: int, level: float = LEVEL) -> float:
    """Student's t for ``num`` values: the half-width of an interval, in standard errors.

    With a whole number of degrees of freedom the probability is a short sum (Abramowitz & Stegun
    1964, 26.7.3 and 26.7.4) in an angle, of which t is the tangent; the angle is found by halving.
    """
    freedom, low, high = num - 1, 0.0, math.pi / 2
    for _ in range(60):
        angle = (low + high) / 2
        low, high = (low, angle) if _probability(angle, freedom) > level else (angle, high)
    return math.sqrt(freedom) * math.tan((low + high) / 2)


def _probability(angle: float, freedom: int) -> float:
    """That ``|t|`` is below ``sqrt(freedom) * tan(angle)``."""
    odd = freedom % 2
    term = math.cos(angle) if odd else 1.0
    total = 0.0
    for k in range(odd, freedom - 1, 2):
        total += term
        term *= math.cos(angle) ** 2 * (k + 1) / (k + 2)
    total *= math.sin(angle)
    return 2 / math.pi * (angle + total) if odd else total
