"""What seeds say about a mean, and about the difference of two settings: 95 % confidence intervals.

Here: the interval of Student's t, differences that are paired by seed, and Holm's correction for
many of them. All tables, figures and pages take them from here. Not here: results (analysis).
"""

import math
from collections.abc import Mapping, Sequence
from statistics import mean, stdev
from typing import NamedTuple

from fltoolkit.metrics import LEVEL, t_quantile


class Interval(NamedTuple):
    """The mean of some values, and the ends of its 95 % confidence interval by Student's t."""

    mean: float
    low: float  # minus infinity for a single value, which says nothing about the noise
    high: float  # infinity for a single value
    num: int

    @property
    def known(self) -> bool:
        """True if there are two values or more, so that the noise can be estimated."""
        return self.num > 1

    @property
    def beyond_zero(self) -> bool:
        """True if the whole interval is above 0, or the whole interval is below 0."""
        return self.low > 0 or self.high < 0


def interval(values: Sequence[float], level: float = LEVEL) -> Interval:
    """The mean of ``values`` and its interval: ``mean +- t * stdev / sqrt(n)``, Student 1908.

    The values should be independent, one for each seed, and roughly normal. ``level`` is the share
    of experiments whose interval holds the true mean. Raises ValueError for no values, and for one
    that is not finite.

    >>> [round(end, 2) for end in interval([1.0, 2.0, 3.0])[:3]]
    [2.0, -0.48, 4.48]
    """
    if strange := [value for value in values if not math.isfinite(value)]:
        raise ValueError(
            f"{strange[0]} is among the values: only finite numbers have an interval. Leave this "
            "run out, and say so"
        )
    middle = mean(values)
    half = math.inf
    if len(values) > 1:
        half = t_quantile(len(values), level) * stdev(values) / math.sqrt(len(values))
    return Interval(middle, middle - half, middle + half, len(values))


def holm_level(num_open: int) -> float:
    """The level of each interval where so many means are still not known to differ from 0.

    Holm 1979: begin with all means of a table; those whose intervals leave out 0 are known, the
    rest are open and get shorter intervals, until no more become known. In 95 % of tables then no
    mean is said to differ from 0 that does not.

    >>> round(holm_level(1), 9), round(holm_level(10), 9)
    (0.95, 0.995)
    """
    return 1 - (1 - LEVEL) / max(num_open, 1)


def holm(means: Sequence[Sequence[float]]) -> list[bool]:
    """Which of these means, each of a list of differences, are not 0, after Holm's correction.

    A list of fewer than two differences cannot be tested, and does not count.

    >>> holm([[1.0, 1.1, 1.2], [0.1, 1.0, 1.2], [5.0]])
    [True, False, False]
    """
    num_open, known = len(means) + 1, [False] * len(means)
    while (left := sum(len(each) > 1 for each in means) - sum(known)) < num_open:
        num_open, level = left, holm_level(left)
        known = [len(each) > 1 and interval(each, level).beyond_zero for each in means]
    return known


def paired(values: Mapping[int, float], reference: Mapping[int, float]) -> list[float]:
    """The differences to a reference, seed by seed, of the seeds that both have.

    Both runs of a seed have the same first weights, partition and order of samples. What they have
    in common cancels, so the interval of these differences is narrower than those of both means.

    >>> paired({0: 0.5, 1: 0.75, 2: 0.9}, {0: 0.25, 1: 0.25})
    [0.25, 0.5]
    """
    return [values[seed] - reference[seed] for seed in sorted(values.keys() & reference.keys())]


def mean_ci(values: Sequence[float], form: str = ".2f") -> str:
    """Mean and interval as text, for tables; of one value only itself, "" without values.

    >>> mean_ci([1.0, 2.0, 3.0]), mean_ci([2.0]), mean_ci([])
    ('2.00 [-0.48, 4.48]', '2.00', '')
    """
    if not values:
        return ""
    found = interval(values)
    ends = f" [{found.low:{form}}, {found.high:{form}}]" * found.known
    return f"{found.mean:{form}}{ends}"
