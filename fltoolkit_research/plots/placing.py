"""Places for words beside marks, so that names cover neither marks nor each other.

Here: a line of text, and the best free place near a point.
"""

import math
from collections.abc import Collection, Sequence
from typing import NamedTuple

from fltoolkit.plots.style import INK

Points = Sequence[tuple[float, float]]
Bounds = tuple[float, float, float, float]  # left, top or low, right, low or high
LETTER = 7  # the width of a letter of size 12 in pixels, with a little room


class Words(NamedTuple):
    """A line of text; ``y`` is the base line on which the letters stand."""

    x: float
    y: float
    words: str
    anchor: str = "start"  # or "middle", "end"
    size: float = 12
    color: str = INK
    bold: bool = False
    halo: bool = False  # a white border, so that the text can be read above lines


def free_place(
    words: str,
    size: float,
    point: tuple[float, float],
    marks: Collection[tuple[float, float]],
    taken: Sequence[Bounds],
    within: Bounds,
) -> tuple[Bounds, bool]:
    """The box near a point where words hide least, and whether it needs a line to the point.

    It needs a line if it is far away, or closer to another one of the ``marks``. Boxes in ``taken``
    should not be covered, and the words should stay ``within`` the axes.
    """
    (x, y), (x0, y0, x1, y1) = point, within
    width, height = 0.58 * size * max(len(words), 1), 1.3 * size
    places = []
    for away in (0, 9, 16, 24, 32, 42, 54, 68, 84):
        for dx in (9, -9 - width, -width / 2, -width / 4, -3 * width / 4):
            for dy in (away, -away) if away >= 9 or dx in (9, -9 - width) else ():
                box = (x + dx, y + dy - height / 2, x + dx + width, y + dy + height / 2)
                outside = not (x0 < box[0] and box[2] < x1 and y0 < box[1] and box[3] < y1)
                hidden = sum(_overlap(box, other) for other in taken) / (width * height)
                own = _distance(box, point)
                closer = any(_distance(box, mark) < own for mark in marks)
                cost = 20 * hidden + away / 20 + 50 * outside + closer / 4
                places.append((cost, box, away > 16 or closer))
    return min(places)[1:]


def _distance(box: Bounds, spot: tuple[float, float]) -> float:
    """The distance from ``spot`` to the nearest point of a box."""
    x, y = spot
    return math.dist(spot, (min(max(x, box[0]), box[2]), min(max(y, box[1]), box[3])))


def _overlap(a: Bounds, b: Bounds) -> float:
    """The area that two boxes share."""
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    return max(width, 0) * max(height, 0)
