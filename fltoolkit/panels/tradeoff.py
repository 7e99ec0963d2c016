"""A Pareto plot to point at: choose a setting, see what it sent and the code that runs it again.

Here: the panel of notebook 07. Not here: the plot for pages (tradeoff.py), the numbers
(analysis.py). Needs ipywidgets, 7.7 or newer.
"""

import html
import math
from collections.abc import Iterable
from typing import Any

from fltoolkit import plots
from fltoolkit.panels._sliders import Picture, find_ipywidgets
from fltoolkit.plots.pareto import GREY, KINDS, best_within, look, named_by_default, pareto
from fltoolkit.plots.svg import drawing, text
from fltoolkit.research.analysis import Point, front, groups, points, sizes_of
from fltoolkit.research.store import Result
from fltoolkit.units import amount, byte_unit

__all__ = ["TradeoffPanel", "describe_point"]

_PATHS = {  # the marks of tradeoff.py around (0, 0)
    "o": "M-5 0A5 5 0 1 0 5 0A5 5 0 1 0 -5 0Z",
    "s": "M-5-5H5V5H-5Z",
    "D": "M0-6.5L6.5 0L0 6.5L-6.5 0Z",
    "^": "M0-6L6 5H-6Z",
}
_WORDS = "line-height:1.3; white-space:pre-wrap; word-break:normal; overflow-wrap:anywhere"


def describe_point(results: Iterable[Result], name: str) -> str:
    """One setting as text: where it ended, its ledger, and the code that runs it again.

    Raises KeyError, naming those there are, for a setting that is not among ``results``.
    """
    results = list(results)
    found = {point.name: point for point in points(results)}
    if name not in found:
        raise KeyError(f"no setting {name!r}; there are {sorted(found)}")
    point, last = found[name], groups(results)[name][0].history[-1]
    lines = [
        f"{name}: {100 * point.accuracy:.2f} % for {amount('nbytes', point.nbytes)}, "
        f"{point.num_seeds} seed{'s' * (point.num_seeds > 1)}"
        + (", on the front" if name in {p.name for p in front(found.values())} else ""),
        "",
        f"{'ledger of the first seed':<26}{'nominal':>12}{'real':>12}{'entropy':>12}",
    ]
    for size in sizes_of(last):
        three = (amount("nbytes", n) for n in (size.nominal, size.real, size.entropy))
        row = "".join(f"{words:>12}" for words in three)
        lines.append(f"{size.kind + ' ' + size.direction:<26}{row}")
    return "\n".join([*lines, "", point.experiment.to_code()])


class TradeoffPanel:
    """The Pareto plot with a slider over its points; display it as the last line of a cell.

    Point at a mark to read its name (where SVG is shown), or move the slider. ``select`` does what
    the slider does.

    Args:
        results: of a sweep on one task.
        name: the setting to begin with; by default the one with the fewest bytes.
    """

    def __init__(
        self, results: Iterable[Result], name: str | None = None, seconds_at_rest: float = 0.5
    ):
        ipywidgets = find_ipywidgets("")
        self.results = list(results)
        self._points = points(self.results)
        if not self._points:
            raise ValueError("no finished experiment to show: run a sweep first")
        self._best = best_within(self.results, self._points)
        names = [point.name for point in self._points]
        self.selected = names[0] if name is None else name
        describe_point(self.results, self.selected)  # complains if there is none
        self.slider = ipywidgets.SelectionSlider(
            options=names,
            value=self.selected,
            description="setting",
            layout={"width": "720px"},
        )
        self._words = ipywidgets.HTML(self._html())
        self._picture = Picture(self._svg, self._png, seconds_at_rest)
        self.slider.observe(self._moved, "value")

    def select(self, name: str) -> None:
        """Point at a setting."""
        self.slider.value = name

    def _moved(self, change: Any) -> None:
        self.selected = change["new"]
        self._words.value = self._html()
        self._picture.moved()

    def _ipython_display_(self) -> None:
        from IPython.display import display

        self._picture.show(self.slider)
        display(self._words)  # below the picture, which stays where it is when they grow

    def _html(self) -> str:
        words = html.escape(describe_point(self.results, self.selected))
        return f'<pre style="{_WORDS}">{words}</pre>'

    def _png(self) -> tuple[dict[str, str], dict[str, Any]]:
        chosen = self._chosen()
        ax = pareto(self.results, names=named_by_default(self._points) | {chosen.name})
        _, size = byte_unit(max(point.nbytes for point in self._points))
        at = (chosen.nbytes / size, 100 * chosen.accuracy)
        ax.plot(*at, "o", markersize=13, fillstyle="none", color="#222222")
        ax.set_title(f"{chosen.name}", fontsize=10)
        return plots.picture(ax.figure.canvas.figure, describe_point(self.results, chosen.name))

    def _chosen(self) -> Point:
        return next(point for point in self._points if point.name == self.selected)

    def _svg(self) -> tuple[str, str]:
        """As large as the PNG and with the same marks, so that nothing jumps when it comes."""
        left, right, high, low = 50, 854, 30, 490
        found = self._points
        unit, size = byte_unit(max(point.nbytes for point in found))
        first, last = math.log(found[0].nbytes / 1.5), math.log(found[-1].nbytes * 1.5)
        bottom = min(point.accuracy for point in found) - 0.015
        top = max([p.high for p in found] + [row[3] for row in self._best])
        top += 0.008 + 0.08 * (top - bottom - 0.015)  # as in the PNG, which has names there

        def place(nbytes: float, accuracy: float) -> tuple[float, float]:
            x = left + (math.log(nbytes) - first) / (last - first) * (right - left)
            return x, low - (accuracy - bottom) / (top - bottom) * (low - high)

        parts = [
            text(left, high - 12, "accuracy [%]"),
            text((left + right) / 2, low + 36, f"all bytes sent [{unit}], logarithmic", _MIDDLE),
            f'<path d="M{left} {low}H{right}M{left} {low}V{high}" stroke="#222" fill="none"/>',
        ]
        step = next(s for s in (1, 2, 5, 10, 20, 50, 100) if 100 * (top - bottom) / s <= 8)
        for tick in range(math.ceil(100 * bottom / step) * step, math.ceil(100 * top), step):
            y = place(1, tick / 100)[1]
            parts.append(f'<path d="M{left} {y:.1f}H{right}" stroke="#ddd"/>')
            parts.append(text(left - 8, y + 4, f"{tick}", 'text-anchor="end"'))
        powers = (first - math.log(size)) / math.log(10), (last - math.log(size)) / math.log(10)
        for power in range(math.ceil(powers[0]), math.floor(powers[1]) + 1):
            x = place(size * 10.0**power, 0)[0]
            parts.append(f'<path d="M{x:.1f} {low}V{high}" stroke="#ddd"/>')
            parts.append(text(x, low + 18, f"{10.0**power:g}", _MIDDLE))
        steps = [place(max(nbytes, found[0].nbytes / 1.5), mean) for nbytes, mean, *_ in self._best]
        if steps:
            path = f"M{steps[0][0]:.1f} {min(steps[0][1], low):.1f}"
            path += "".join(f"H{x:.1f}V{min(y, low):.1f}" for x, y in steps[1:])
            parts.append(f'<path d="{path}" stroke="#777" fill="none"/>')

        best = {point.name for point in front(found)}
        names = named_by_default(found) | {self.selected}
        looks: dict[str, tuple[str, str]] = {}  # of each shape: its color and what fills it
        for point in sorted(found, key=lambda point: point.name in names):
            shape, color = look(point)
            words = f"{point.name}: {100 * point.accuracy:.2f} %, {amount('nbytes', point.nbytes)}"
            x, y = place(point.nbytes, point.accuracy)
            looks.setdefault(shape, (color, "#fff"))
            color = color if point.name in names else GREY
            fill = color if point.name in best else "#fff"
            parts.append(_mark(x, y, shape, color, fill, f"<title>{html.escape(words)}</title>"))
        legend = low - 12 - 18 * len(looks)
        parts.append(text(right - 190, legend, "filled: on the front of the ends"))
        in_order = ((shape, *looks[shape]) for shape in KINDS if shape in looks)
        for row, (shape, color, fill) in enumerate(in_order, 1):
            y = legend + 18 * row
            parts.append(_mark(right - 170, y, shape, color, fill))
            parts.append(text(right - 155, y + 4, KINDS[shape]))
        x, y = place(self._chosen().nbytes, self._chosen().accuracy)
        parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="9" stroke="#222" stroke-width="1.5" '
            'fill="none"/>'
        )
        words = describe_point(self.results, self.selected)
        return drawing(864, 538, words.splitlines()[0], *parts), words


_MIDDLE = 'text-anchor="middle"'


def _mark(x: float, y: float, shape: str, color: str, fill: str, inside: str = "") -> str:
    return (
        f'<path d="{_PATHS[shape]}" transform="translate({x:.1f} {y:.1f})" stroke="{color}" '
        f'stroke-width="1.5" fill="{fill}">{inside}</path>'
    )
