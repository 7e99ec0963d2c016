"""A Pareto plot with a slider: choose a setting, see its ledger and the code that runs it again.

This is the panel of notebook 07. Not here: the same plot for pages (plots.fronts), and its numbers
(research.analysis). The panel needs ipywidgets, 7.7 or newer.
"""

import html
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from fltoolkit.plots.style import DARK_GREY, INK
from fltoolkit.units import amount
from fltoolkit_course.plots.below_controls import BelowControls, find_ipywidgets
from fltoolkit_course.plots.drawing import Area, Axis, Frame, Graphic, Mark, Stroke, symbol
from fltoolkit_research.analysis import front, groups, metric_of, points, sizes_of
from fltoolkit_research.plots.fronts import (
    FILLED,
    MARK_WORDS,
    best_within,
    limits,
    look,
    with_places,
)
from fltoolkit_research.plots.placing import LETTER, Words, beside
from fltoolkit_research.store import Result

_ON_THE_WAY = (2, 2)
_Line = tuple[str, float, tuple[int, ...]]
_LINES: tuple[_Line, ...] = (
    ("the front: the best at the end", 2, ()),
    ("the best on the way there", 1, _ON_THE_WAY),
)
_WORDS = "line-height:1.3; white-space:pre-wrap; word-break:normal; overflow-wrap:anywhere"


def describe_point(results: Iterable[Result], name: str) -> str:
    """One setting as text: its result, its ledger, and the code that runs it again.

    Raises KeyError, which lists the settings, if ``name`` is none of them.

    >>> from fltoolkit.history import History
    >>> from fltoolkit_research.experiment import Experiment
    >>> record = {"accuracy": 0.9, "nbytes": 900, "nbytes_activations_up": 900}
    >>> run = Result(Experiment(name="plain"), History([record]), "", 1.0)
    >>> print(describe_point([run], "plain"), end="")
    plain: 90.00 % for 900 B, 1 seed, on the front
    <BLANKLINE>
    ledger of the first seed       nominal        real  if independent
    activations up                       -       900 B               -
    <BLANKLINE>
    from fltoolkit_research import Experiment, run
    <BLANKLINE>
    experiment = Experiment(
        protocol='split',
        name='plain',
    )
    print(run(experiment)[-1])
    """
    results = list(results)
    found = {point.name: point for point in points(results)}
    if name not in found:
        raise KeyError(f"no setting {name!r}; the settings are {sorted(found)}")
    point, last = found[name], groups(results)[name][0].history[-1]
    value = point.experiment.measured.words(point.value)
    lines = [
        f"{name}: {value} for {amount('nbytes', point.nbytes)}, "
        f"{point.num_seeds} seed{'s' * (point.num_seeds > 1)}"
        + (", on the front" if name in {p.name for p in front(found.values())} else ""),
        "",
        f"{'ledger of the first seed':<26}{'nominal':>12}{'real':>12}{'if independent':>16}",
    ]
    for size in sizes_of(last):
        three = [amount("nbytes", n) for n in (size.nominal, size.real, size.entropy)]
        row = "{:>12}{:>12}{:>16}".format(*three)
        lines.append(f"{size.kind + ' ' + size.direction:<26}{row}")
    return "\n".join([*lines, "", point.experiment.to_code()])


class TradeoffPanel:
    """The Pareto plot with a slider over its points; write it as the last line of a cell.

    Point at a mark with the mouse to read its name (while SVG is shown), or move the ``slider``.

    Args:
        results: the results of a sweep on one task.
        name: the setting to begin with; by default the one with the fewest bytes.

    >>> from fltoolkit.history import History
    >>> from fltoolkit_research.experiment import Experiment
    >>> runs = [
    ...     Result(
    ...         Experiment(name=f"{bits} bits", lr=0.1 / bits),
    ...         History([{"accuracy": 0.9, "nbytes": 100 * bits}]),
    ...         "",
    ...         1.0,
    ...     )
    ...     for bits in (8, 4)
    ... ]
    >>> panel = TradeoffPanel(runs)
    >>> first = panel.selected
    >>> panel.slider.value = "8 bits"
    >>> first, panel.selected
    ('4 bits', '8 bits')
    """

    def __init__(self, results: Iterable[Result], name: str | None = None):
        ipywidgets = find_ipywidgets("fltoolkit_research.plots.pareto(results)")
        self.results = list(results)
        self._points = points(self.results)
        if not self._points:
            raise ValueError("no finished experiment to show: run a sweep first")
        self._metric = metric_of(point.experiment for point in self._points)
        self._best = best_within(self.results, self._points)
        names = [point.name for point in self._points]
        self.selected = names[0] if name is None else name
        self._sentence()  # raises KeyError if there is no such setting
        self.slider = ipywidgets.SelectionSlider(
            options=names, value=self.selected, description="setting", layout={"width": "720px"}
        )
        self._words = ipywidgets.HTML(self._html())
        self._picture = BelowControls(
            self.draw, self.slider, moved=self._moved, controls=[self.slider]
        )

    def _moved(self, change: Any) -> None:
        self.selected = change["new"]
        self._words.value = self._html()

    def _ipython_display_(self) -> None:
        from IPython.display import display

        self._picture.show()
        display(self._words)  # below the picture, so that longer text does not move the picture

    def _sentence(self) -> str:
        return describe_point(self.results, self.selected)

    def _html(self) -> str:
        words = html.escape(self._sentence())
        return f'<pre style="{_WORDS}">{words}</pre>'

    def draw(self) -> Graphic:
        """Numbered points with the range of their seeds, their names, and the line of the front."""
        metric, scale = self._metric, self._metric.scale
        found = sorted(self._points, key=lambda p: p.value, reverse=metric.higher_is_better)
        placed = {point.name: point.nbytes for point in with_places(found)}
        left, right = min(placed.values()), max(placed.values())
        seeds = [a for p in found for a in (p.low, p.high)]
        seen = [row for row in self._best if not row[0] or row[0] >= left / 1.5]
        best = [(max(row[0], left), *row[1:]) for row in seen]
        x = Axis("nbytes", left / 1.5, right * 1.5, True, "all bytes sent, logarithmic")
        least, most = limits(metric, found, [*seeds, *(end for row in best for end in row[2:])])
        y = Axis("", scale * min(least, *seeds), scale * max(most, *seeds), words=metric.axis)
        frame = Frame(x, y, Area(0, 10, 700, 520))
        zero = not min(point.nbytes for point in found)
        if zero:
            frame.x_ticks = [(left, "0"), *(tick for tick in frame.x_ticks if tick[0] > 2 * left)]
        marks: list[Mark] = [*frame.grid()]
        marks += [Words(frame.x(2 * left), frame.low + 4, "//", "middle")] * (zero and left < right)
        if best:
            rows = [(nbytes, *(scale * value for value in values)) for nbytes, *values in best]
            marks += _best_so_far(frame, rows)
        ended = [(placed[point.name], scale * point.value) for point in front(found)]
        marks.append(Stroke(frame.points(_stairs([*ended, (x.high, ended[-1][1])])), DARK_GREY, 2))
        ends, looks = {point.name for point in front(found)}, [look(point) for point in found]
        for point, (shape, color) in zip(found, looks, strict=True):
            at = frame.x(placed[point.name]), frame.y(scale * point.value)
            words = f"{point.name}: {metric.words(point.value)}, {amount('nbytes', point.nbytes)}"
            fill = color if point.name in ends else "#ffffff"
            bar = [(at[0], frame.y(scale * end)) for end in (point.low, point.high)]
            marks.append(Stroke(bar, color))
            marks.append(symbol(*at, shape, color, fill, words))
            if point.name == self.selected:
                marks.append(symbol(*at, "o", INK, "none", size=1.7))
        places = frame.points([(placed[point.name], scale * point.value) for point in found])
        marks += beside(places, [str(number) for number, _ in enumerate(found, 1)])
        names = [point.name for point in found]
        legend, below = _legend(names, looks, _LINES if best else _LINES[:1])
        marks += legend
        width = 740 + LETTER * max(len(FILLED), *map(len, names))
        return Graphic(width, max(530, below + 18 * len(_LINES)), self._sentence(), marks)


def _best_so_far(frame: Frame, rows: Sequence[Sequence[float]]) -> list[Mark]:
    """A line of the best within so many bytes, and the band of its interval."""
    line, low, high = (frame.points(_stairs([(row[0], row[k]) for row in rows])) for k in (1, 2, 3))
    band = Stroke([*high, *reversed(low)], "none", 0, fill="#999999", opacity=0.3)
    return [band, Stroke(line, DARK_GREY, 1, _ON_THE_WAY)]


def _legend(
    names: Sequence[str], looks: Sequence[tuple[str, str]], lines: Sequence[_Line]
) -> tuple[list[Mark], int]:
    """Right of the axes: numbered names, then the shapes and the lines; and where the text ends."""
    marks: list[Mark] = []
    for row, name in enumerate(names, 1):
        at = 22 + 16 * row
        marks += [Words(724, at, f"{row:2d}", "end"), Words(732, at, name)]
    below = 22 + 16 * (len(names) + 2)
    marks.append(Words(708, below, FILLED))
    for shape, color in dict.fromkeys(looks):
        below += 18
        marks.append(symbol(717, below - 4, shape, color, "#ffffff"))
        marks.append(Words(732, below, MARK_WORDS[shape]))
    below += 18
    for row, (words, width, dash) in enumerate(lines):
        at = below + 18 * row
        marks.append(Stroke([(708, at - 4), (727, at - 4)], DARK_GREY, width, dash))
        marks.append(Words(732, at, words))
    return marks, below


def _stairs(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The points of a line with steps: each value is kept until the next point."""
    steps = [((x, last), (x, y)) for (_, last), (x, y) in pairwise(points)]
    return [points[0], *(corner for step in steps for corner in step)]
