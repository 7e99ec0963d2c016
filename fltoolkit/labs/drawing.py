"""The picture of a lab, drawn: SVG while something moves (milliseconds), PNG when it rests.

One drawing made of strokes, boxes and words, and two ways to put it on paper. Not here: what is
drawn (traces.py) and when (panel.py).
"""

import html
import math
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.text import Text

from fltoolkit.labs.picture import Axes, Picture, Points
from fltoolkit.plots.svg import COLORS, DASHES, drawing, spread
from fltoolkit.units import axis_of

__all__ = ["coarse", "figure", "svg"]

WIDTH, _HALF, _PLOT = 920, 450, 250  # of the paper, of where the right plot begins, height of plots
_INK, _PALE, _BAND = "#222222", "#dddddd", "#7f7f7f"
_LETTER = 6  # the width of one in the words beside a move, with a little room


class Stroke(NamedTuple):
    """A line through points, in pixels from the upper left corner."""

    points: Points
    color: str = _INK
    width: float = 1
    dash: tuple[int, ...] = ()  # on, off, ... in line widths


class Box(NamedTuple):
    """A filled rectangle."""

    x: float
    y: float
    width: float
    height: float
    color: str
    opacity: float = 1


class Words(NamedTuple):
    """A line of text on its base line."""

    x: float
    y: float
    words: str
    anchor: str = "start"  # or "middle", "end"
    size: float = 12
    color: str = _INK
    bold: bool = False
    halo: bool = False  # white around, to be read above lines


Mark = Stroke | Box | Words


def svg(picture: Picture) -> str:
    """The picture as SVG."""
    height, marks = _layout(picture)
    return drawing(WIDTH, height, picture.summary(), *map(_tag, marks))


def figure(picture: Picture) -> Figure:
    """The same as a matplotlib figure, to be saved as PNG by `plots.picture`."""
    height, marks = _layout(picture)
    fig = Figure(figsize=(WIDTH / 96, height / 96))
    for order, mark in enumerate(marks):  # later ones lie above earlier ones, as in SVG
        fig.add_artist(_artist(mark, fig, height)).set_zorder(order)
    return fig


def _tag(mark: Mark) -> str:
    if isinstance(mark, Stroke):
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in mark.points)
        dash = " ".join(f"{length * mark.width:g}" for length in mark.dash)
        return (
            f'<path d="M{path}" fill="none" stroke="{mark.color}" stroke-width="{mark.width}"'
            + (f' stroke-dasharray="{dash}"/>' if dash else "/>")
        )
    if isinstance(mark, Box):
        return (
            f'<rect x="{mark.x:.1f}" y="{mark.y:.1f}" width="{mark.width:.1f}" '
            f'height="{mark.height:.1f}" fill="{mark.color}" fill-opacity="{mark.opacity}"/>'
        )
    look = ' font-weight="bold"' if mark.bold else ""
    look += ' paint-order="stroke" stroke="#fff" stroke-width="3"' if mark.halo else ""
    return (
        f'<text x="{mark.x:.1f}" y="{mark.y:.1f}" text-anchor="{mark.anchor}" '
        f'font-size="{mark.size}" fill="{mark.color}"{look}>{html.escape(mark.words)}</text>'
    )


def _artist(mark: Mark, fig: Figure, height: float) -> Any:
    """A matplotlib artist in inches from the lower left corner; 96 pixels are an inch."""
    inches = fig.dpi_scale_trans
    if isinstance(mark, Stroke):
        xs, ys = [x / 96 for x, _ in mark.points], [(height - y) / 96 for _, y in mark.points]
        style: Any = (0, mark.dash) if mark.dash else "-"
        width = 0.75 * mark.width  # points
        return Line2D(xs, ys, color=mark.color, lw=width, linestyle=style, transform=inches)
    if isinstance(mark, Box):
        corner = mark.x / 96, (height - mark.y - mark.height) / 96
        size = mark.width / 96, mark.height / 96
        look: Any = {"facecolor": mark.color, "alpha": mark.opacity, "linewidth": 0}
        return Rectangle(corner, *size, transform=inches, **look)
    white = {"facecolor": "white", "edgecolor": "none", "pad": 0.5, "alpha": 0.8}
    return Text(
        mark.x / 96,
        (height - mark.y) / 96,
        mark.words.replace("$", r"\$"),
        ha={"start": "left", "middle": "center", "end": "right"}[mark.anchor],
        fontsize=0.69 * mark.size,  # matplotlib's font is wider than a browser's
        color=mark.color,
        weight="bold" if mark.bold else "normal",
        bbox=white if mark.halo else None,
        transform=inches,
    )


# ------------------------------------------------------------------------------- the drawing


def _layout(picture: Picture) -> tuple[int, list[Mark]]:
    """The height of the paper, and what is on it."""
    marks: list[Mark] = [
        Words(8, 18, f"{picture.title}: {picture.status}", bold=True),
        Box(8, 26, WIDTH - 16, 5, _PALE),
        Box(8, 26, (WIDTH - 16) * picture.progress, 5, "#555555"),
    ]
    frames = [_Frame(axes, k * (WIDTH - _HALF), 40) for k, axes in enumerate(picture.axes)]
    for frame in frames:
        marks += frame.marks()
    low = 40 + _PLOT + 8
    marks += _ledger(picture.ledger, low)
    marks += _strips(picture, frames[1], low)
    low += 8 + max(24 * len(picture.ledger), 30 * len(picture.strips) + 22) + 14
    for number, current, words in picture.legend:
        marks += [_line(number, current, [(8, low), (48, low)])]
        for line in textwrap.wrap(words, 128):
            marks += [Words(56, low + 4, line, bold=current)]
            low += 18
    for note in picture.notes():
        for line in textwrap.wrap(note, 130):
            marks.append(Words(8, low + 4, line))
            low += 17
    return low, marks


def _line(number: int, current: bool, points: Points) -> Stroke:
    """The line of a run: its colour and dash stay, its width says whether it is the current."""
    color, dash = COLORS[(number - 1) % len(COLORS)], DASHES[(number - 1) % len(DASHES)]
    return Stroke(points, color, 3 if current else 1.6, dash)


class _Frame:
    """Where the values of some axes lie on the paper."""

    def __init__(self, axes: Axes, left: float, top: float):
        self.axes = axes
        (self.x0, self.x1), (self.y0, self.y1) = axes.limits()
        names = max((len(line.words) for line in axes.lines), default=0)
        self.left, self.right = left + 48, left + _HALF - 12 - 7 * names
        self.high, self.low = top + 24, top + _PLOT - 40
        self.middle = (self.left + self.right) / 2

    def x(self, value: float) -> float:
        return self.left + (value - self.x0) / (self.x1 - self.x0) * (self.right - self.left)

    def y(self, value: float) -> float:
        value = min(max(value, self.y0), self.y1)
        if self.axes.plot.log:
            part = math.log(value / self.y0) / math.log(self.y1 / self.y0)
        else:
            part = (value - self.y0) / (self.y1 - self.y0)
        return self.low - part * (self.low - self.high)

    def points(self, points: Points) -> Points:
        return [(self.x(x), self.y(y)) for x, y in points]

    def marks(self) -> Iterator[Mark]:
        axes = self.axes
        yield from self._grid()
        for start, end, low, high in axes.bands:
            x, y, y_low = self.x(start), self.y(high), self.y(low)
            width = max(self.x(end) - x, 1)
            yield Box(x, y, width, y_low - y, _BAND, 0.22)
            for edge in (y, y_low):
                yield Stroke([(x, edge), (x + width, edge)], _BAND, 1, (2, 2))
        if axes.behind:
            yield Stroke(self.points(axes.behind), "#999999", 0.8)
        yield from self._moves()
        drawn = [line for line in axes.lines if line.points]
        ends = spread([self.y(line.points[-1][1]) for line in drawn], 14)
        for line, end in zip(drawn, ends, strict=True):
            stroke = _line(line.number, line.current, self.points(line.points))
            yield stroke
            at = self.right + 5, end + 4
            yield Words(*at, line.words, color=stroke.color, bold=line.current)
        if not drawn:
            yield Words(self.middle, (self.high + self.low) / 2, "nothing yet", "middle")

    def _grid(self) -> Iterator[Mark]:
        plot = self.axes.plot
        (label_x, unit_x), (label_y, unit_y) = axis_of(plot.x, self.x1), axis_of(plot.y, self.y1)
        yield Words(self.left - 40, self.high - 10, plot.words or label_y)
        label_x = self.axes.step if plot.x == "step" else label_x
        yield Words(self.middle, self.low + 33, label_x, "middle")
        for tick in _ticks(self.x0 * unit_x, self.x1 * unit_x):
            at = self.x(tick / unit_x)
            yield Stroke([(at, self.low), (at, self.high)], _PALE)
            yield Words(at, self.low + 16, f"{tick:,g}", "middle")
        ticks = _log_ticks if plot.log else _ticks
        for tick in ticks(self.y0 * unit_y, self.y1 * unit_y):
            at = self.y(tick / unit_y)
            yield Stroke([(self.left, at), (self.right, at)], _PALE)
            yield Words(self.left - 6, at + 4, f"{tick:,g}", "end")

    def _moves(self) -> Iterator[Mark]:
        places = [self.x(value) for value, _ in self.axes.marks]
        for at in places:
            yield Stroke([(at, self.low), (at, self.high)], _INK, 1, (1, 3))
        for row, (at, (_, words)) in enumerate(zip(places, self.axes.marks, strict=True)):
            fits = at + 4 + _LETTER * len(words) <= self.right
            anchor, shift = ("start", 4) if fits else ("end", -4)
            y = self.high + 10 + 13 * row  # a row each, so that none lies on another
            if "accuracy" in self.axes.plot.y:  # the curve is at the top
                y = self.low - 6 - 13 * row
            yield Words(at + shift, y, words, anchor, 11, halo=True)


def _ledger(ledger: Sequence[tuple[str, int, str]], top: float) -> Iterator[Mark]:
    most = max((nbytes for _, nbytes, _ in ledger), default=0) or 1
    yield Words(8, top + 4, "bytes sent by the current run, headers included", bold=True)
    for row, (name, nbytes, words) in enumerate(ledger):
        y = top + 14 + 24 * row
        yield Words(8, y + 12, name)
        yield Box(130, y, 120, 16, "#f0f0f0")
        yield Box(130, y, 120 * nbytes / most, 16, "#555555")
        yield Words(258, y + 12, words)


def _strips(picture: Picture, frame: _Frame, top: float) -> Iterator[Mark]:
    base = top
    for strip in picture.strips:
        base += 22 if base == top else 30
        yield Words(frame.left - 6, base - 4, strip.words, "end")
        for start, end, state in coarse(strip.segments, frame.x1, 200):
            look, x = picture.looks[state], frame.x(start - 1)
            width, height = frame.x(end) - x, 22 * look.height
            yield Box(x, base - height, max(width, 0.8), height, look.color)
            if width > 9:
                yield Words(x + width / 2, base - 3, state, "middle", 11)
        yield Stroke([(frame.left, base), (frame.right, base)])
    x, y = frame.left, base + 24
    for state, look in picture.looks.items() if picture.strips else ():
        words = f"{state} {look.words}"
        yield Box(x, y - 12 * look.height, 10, 12 * look.height, look.color)
        yield Words(x + 14, y, words, size=11)
        x += 30 + 6.2 * len(words)


def coarse(
    segments: Iterable[tuple[int, int, str]], until: float, columns: int
) -> list[tuple[int, int, str]]:
    """At most ``columns`` segments, each with the state that fills most of it.

    >>> coarse([(1, 2, "A"), (3, 8, "C"), (9, 12, "A")], until=12, columns=2)
    [(1, 6, 'C'), (7, 12, 'A')]
    """
    segments = list(segments)
    if len(segments) <= columns:
        return segments
    width = math.ceil(until / columns)
    filled: dict[int, dict[str, int]] = {}
    for start, end, state in segments:
        for column in range((start - 1) // width, (end - 1) // width + 1):
            part = min(end, (column + 1) * width) - max(start, column * width + 1) + 1
            states = filled.setdefault(column, {})
            states[state] = states.get(state, 0) + part
    merged: list[tuple[int, int, str]] = []
    for column, states in filled.items():
        state = max(states, key=states.__getitem__)
        start, end = column * width + 1, min((column + 1) * width, segments[-1][1])
        if merged and merged[-1][2] == state:
            start = merged.pop()[0]
        merged.append((start, end, state))
    return merged


def _ticks(low: float, high: float) -> list[float]:
    """About five round numbers between ``low`` and ``high``."""
    power = 10 ** math.floor(math.log10((high - low) / 5))
    step = next(power * m for m in (1, 2, 5, 10) if (high - low) / (power * m) <= 5)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [k * step for k in range(first, last + 1)]


def _log_ticks(low: float, high: float) -> list[float]:
    """1, 2 and 5 times powers of ten between ``low`` and ``high``; over four decades only 1."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = (m * 10.0**k for k in powers for m in ((1, 2, 5) if len(powers) < 6 else (1,)))
    return [tick for tick in ticks if low <= tick <= high]
