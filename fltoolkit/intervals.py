"""Student's t, for 95 % intervals of a mean over few seeds.

Not here: intervals as values and in tables (`fltoolkit_research.intervals`).
"""

import math
from functools import lru_cache

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
