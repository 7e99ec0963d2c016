"""What seeds say about a mean, and about the difference of two settings: 95 % confidence intervals.

Here: the interval of Student's t, and differences that are paired by seed. All tables, figures and
pages take them from here. Not here: results and their tables (analysis).
"""

import math
from collections.abc import Mapping, Sequence
from statistics import mean, stdev
from typing import NamedTuple

from fltoolkit.intervals import t_quantile


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


def interval(values: Sequence[float]) -> Interval:
    """The mean of ``values`` and its interval: ``mean +- t * stdev / sqrt(n)``, Student 1908.

    The values should be independent, one for each seed, and roughly normal. Raises ValueError for
    no values, and for one that is not finite.

    >>> [round(end, 2) for end in interval([1.0, 2.0, 3.0])[:3]]
    [2.0, -0.48, 4.48]
    """
    if not values:
        raise ValueError("no values: a mean needs at least one")
    if strange := [value for value in values if not math.isfinite(value)]:
        raise ValueError(
            f"{strange[0]} is among the values: only finite numbers have an interval. Leave this "
            "run out, and say so"
        )
    middle = mean(values)
    half = math.inf
    if len(values) > 1:
        half = t_quantile(len(values)) * stdev(values) / math.sqrt(len(values))
    return Interval(middle, middle - half, middle + half, len(values))


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
