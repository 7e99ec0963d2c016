"""Named points, such as methods by bytes and accuracy, in a figure without runs."""

import math
from collections.abc import Mapping

from matplotlib.axes import Axes

from fltoolkit.plots.figures import bare
from fltoolkit.plots.style import COLORS, describe, new_axes, tidy
from fltoolkit_research.plots.placing import LETTER, Bounds, free_place


def named_points(
    points: Mapping[str, tuple[float, float]], xlabel: str, ylabel: str, ax: Axes | None = None
) -> Axes:
    """A dot for each (x, y), its name beside it, where names cover neither dots nor each other.

    Args:
        points: by name.
        xlabel: with its unit.
        ylabel: with its unit.
        ax: where to draw; a figure of its own by default.

    >>> ax = named_points({"FedAvg": (2.0, 0.96), "top-k": (0.5, 0.94)}, "MB sent", "accuracy")
    >>> sorted(text.get_text() for text in ax.texts)
    ['FedAvg', 'top-k']
    """
    if not points:
        raise ValueError("no points to draw: give {name: (x, y)}")
    ax = ax or new_axes(width=7.5, height=4.5)
    ax.plot(*zip(*points.values(), strict=True), "o", color=COLORS[0])
    ax.set(xlabel=xlabel, ylabel=ylabel)
    ax.margins(0.15, 0.12)
    tidy(ax)
    ax.figure.canvas.figure.draw_without_rendering()  # only now the layout knows where the axes are
    dot, size = ax.figure.dpi / 72, 9  # pixels of a point; points
    names: dict[tuple[float, float], str] = {}  # by place; dots that cover each other share one
    for name, point in points.items():
        x, y = (float(each) for each in ax.transData.transform(point) / dot)
        near = [place for place in names if math.dist(place, (x, -y)) < 4]
        names[near[0] if near else (x, -y)] = f"{names[near[0]]}, {name}" if near else name
    taken: list[Bounds] = [(x - 7, y - 7, x + 7, y + 7) for x, y in names]
    # no words begin left of the axes, where the numbers of the vertical one stand
    within = (ax.get_window_extent().x0 / dot, -math.inf, math.inf, math.inf)
    for (x, y), words in names.items():
        box, _ = free_place(words, size, (x, y), names, taken, within)
        taken.append(box)
        left, end = box[0], box[0] + LETTER / 12 * size * len(words)  # about
        point_x, point_y = ax.transData.inverted().transform((x * dot, -y * dot))
        ax.annotate(
            words,
            (point_x, point_y),
            ((end if end < x else left) - x, y - box[3] + 0.3 * size),
            textcoords="offset points",
            fontsize=size,
            ha="right" if end < x else "left",  # words end, or begin, beside their dot
        )
    ends_in_words = (f"{name}: {x:.4g}, {y:.3g}" for name, (x, y) in points.items())
    return describe(ax, f"{bare(xlabel)} and {bare(ylabel)} of " + "; ".join(ends_in_words))
