"""A Pareto plot to point at: choose a setting, see what it sent and the code that runs it again.

Here: the panel of notebook 07. Not here: the plot for pages (tradeoff.py), the numbers
(analysis.py). Needs ipywidgets, 7.7 or newer.
"""

import html
import math
from collections.abc import Iterable
from typing import Any

from fltoolkit import plots
from fltoolkit.analysis import Point, front, groups, points, sizes_of
from fltoolkit.store import Result
from fltoolkit.svg import COLORS, amount, byte_unit, drawing, text
from fltoolkit.tradeoff import pareto
from fltoolkit.widgets import _ipywidgets, _Picture

__all__ = ["TradeoffPanel", "describe_point"]

_COLORS = {"fedavg": COLORS[1], "split_async": COLORS[2], "splitfed": COLORS[3]}


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
        ipywidgets = _ipywidgets("")
        self.results = list(results)
        self._points = points(self.results)
        if not self._points:
            raise ValueError("no finished experiment to show: run a sweep first")
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
        self._picture = _Picture(self._svg, self._png, seconds_at_rest)
        self.slider.observe(self._moved, "value")

    def select(self, name: str) -> None:
        """Point at a setting."""
        self.slider.value = name

    def _moved(self, change: Any) -> None:
        self.selected = change["new"]
        self._words.value = self._html()
        self._picture.moved()

    def _ipython_display_(self) -> None:
        ipywidgets = _ipywidgets("")
        self._picture.show(ipywidgets.VBox([self.slider, self._words]))

    def _html(self) -> str:
        return f"<pre>{html.escape(describe_point(self.results, self.selected))}</pre>"

    def _png(self) -> tuple[dict[str, str], dict[str, Any]]:
        ax = pareto(self.results)
        chosen = self._chosen()
        _, size = byte_unit(max(point.nbytes for point in self._points))
        at = (chosen.nbytes / size, 100 * chosen.accuracy)
        ax.plot(*at, "o", markersize=16, fillstyle="none", color="#222222")
        ax.set_title(f"{chosen.name}", fontsize=10)
        return plots.picture(ax.figure.canvas.figure, describe_point(self.results, chosen.name))

    def _chosen(self) -> Point:
        return next(point for point in self._points if point.name == self.selected)

    def _svg(self) -> tuple[str, str]:
        width, height, left, low = 720, 340, 60, 300
        unit, size = byte_unit(max(point.nbytes for point in self._points))
        logs = [math.log10(point.nbytes) for point in self._points]
        first, last = min(logs) - 0.1, max(logs) + 0.1
        bottom = min(point.accuracy for point in self._points) - 0.01
        top = max(point.accuracy for point in self._points) + 0.01

        def place(point: Point) -> tuple[float, float]:
            x = left + (math.log10(point.nbytes) - first) / (last - first) * (width - left - 20)
            return x, low - (point.accuracy - bottom) / (top - bottom) * (low - 30)

        best = {point.name for point in front(self._points)}
        parts = [
            text(left, 18, "accuracy [%]"),
            text(width / 2, height - 8, f"all bytes sent [{unit}], logarithmic"),
            f'<path d="M{left} {low}H{width - 20}M{left} {low}V26" stroke="#888" fill="none"/>',
        ]
        for share in (bottom + 0.01, top - 0.01):
            y = low - (share - bottom) / (top - bottom) * (low - 30)
            parts.append(text(left - 8, y + 4, f"{100 * share:.1f}", 'text-anchor="end"'))
        for edge in (self._points[0], self._points[-1]):
            words = f"{edge.nbytes / size:.3g}"
            parts.append(text(place(edge)[0], low + 18, words, 'text-anchor="middle"'))
        for point in self._points:
            x, y = place(point)
            color = _COLORS.get(point.experiment.protocol, COLORS[0])
            fill = color if point.name in best else "#fff"
            words = f"{point.name}: {100 * point.accuracy:.2f} %, {amount('nbytes', point.nbytes)}"
            parts.append(
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="6" stroke="{color}" stroke-width="2" '
                f'fill="{fill}"><title>{html.escape(words)}</title></circle>'
            )
        x, y = place(self._chosen())
        parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="11" stroke="#222" stroke-width="2" fill="none"/>'
        )
        words = describe_point(self.results, self.selected)
        return drawing(width, height, words.splitlines()[0], *parts), words
