"""Where each part of a lab's picture stands: plots, bars of bytes, strips of states, legend.

Not here: what is shown (picture.py), how marks become SVG or PNG (plots.drawing), and when that
happens (panel.py).
"""

import math
import textwrap
from collections.abc import Iterable, Iterator, Sequence

from fltoolkit.labs.picture import Axes, Picture
from fltoolkit.plots.drawing import (
    Axis,
    Box,
    Drawing,
    Frame,
    Mark,
    Points,
    Stroke,
    Words,
    line_look,
    progress,
)

__all__ = ["lay_out"]

_WIDTH, _HALF, _PLOT = 920, 450, 236  # of the paper, of a plot, and a plot's height
_BAND = "#7f7f7f"


def lay_out(picture: Picture) -> Drawing:
    """The picture as a drawing, which is as high as its content needs.

    The bars of bytes and the strip of states come first, right below the sliders. The plots come
    next; the strip has the same x axis as the plot below it.

    >>> from fltoolkit.labs.picture import compose
    >>> from fltoolkit.labs.threshold import ThresholdLab
    >>> drawing = lay_out(compose(ThresholdLab(num_epochs=1), {}))
    >>> drawing.width, drawing.height
    (920, 380)
    """
    marks: list[Mark] = [Words(8, 18, f"{picture.title}: {picture.status}", bold=True)]
    marks += progress(picture.progress, 26, _WIDTH)
    strips = 30 * len(picture.strips) + 16 if picture.strips else 0
    top = 46 + max(14 + 22 * len(picture.ledger), strips) + 6
    frames = [frame_of(axes, k * (_WIDTH - _HALF), top) for k, axes in enumerate(picture.axes)]
    marks += _ledger(picture.ledger, 46, 120 if picture.strips else _WIDTH - 8 - 130 - 220)
    marks += _strips(picture, frames[1], 44)
    for axes, frame in zip(picture.axes, frames, strict=True):
        marks += _plot(axes, frame)
    low = top + _PLOT + 12
    for number, current, words in picture.legend:
        marks += [_line(number, current, [(8, low), (48, low)])]
        for line in textwrap.wrap(words, 128):
            marks += [Words(56, low + 4, line, bold=current)]
            low += 18
    for note in picture.notes():
        for line in textwrap.wrap(note, 130):
            marks.append(Words(8, low + 4, line))
            low += 17
    return Drawing(_WIDTH, low, picture.summary(), marks)


def frame_of(axes: Axes, left: float, top: float = 40) -> Frame:
    """Where the values of these axes stand in the drawing."""
    plot, (x_limits, y_limits) = axes.plot, axes.limits()
    x = Axis(plot.x, *x_limits, words=axes.step if plot.x == "step" else "")
    y = Axis(plot.y, *y_limits, plot.log, plot.words)
    return Frame(x, y, left, top, _HALF, _PLOT, names=[line.words for line in axes.lines])


def _plot(axes: Axes, frame: Frame) -> Iterator[Mark]:
    """The grid, what lies behind the curves, the moves, and the curves with their names."""
    yield from frame.grid()
    for start, end, low, high in axes.bands:
        x, y, y_low = frame.x(start), frame.y(high), frame.y(low)
        width = max(frame.x(end) - x, 1)
        yield Box(x, y, width, y_low - y, _BAND, 0.22)
        for edge in (y, y_low):
            yield Stroke([(x, edge), (x + width, edge)], _BAND, 1, (2, 2))
    if axes.behind:
        yield Stroke(frame.points(axes.behind), "#999999", 0.8)
    yield from frame.flags(axes.marks, below="accuracy" in axes.plot.y)  # its curve is at the top
    ends = []
    for line in axes.lines:
        if line.points:
            stroke = _line(line.number, line.current, frame.points(line.points))
            yield stroke
            ends.append((line.points[-1][1], line.words, stroke.color, line.current))
    yield from frame.names(ends)
    if not ends:
        yield frame.empty("nothing yet")


def _line(number: int, current: bool, points: Points) -> Stroke:
    """The line of a run, always in the same colour and dash; that of the current run is wider."""
    color, dash = line_look(number - 1)
    return Stroke(points, color, 3 if current else 1.6, dash)


def _ledger(ledger: Sequence[tuple[str, int, str]], top: float, longest: float) -> Iterator[Mark]:
    """A bar for each kind of message, the largest ``longest`` pixels long."""
    most = max((nbytes for _, nbytes, _ in ledger), default=0) or 1
    yield Words(8, top + 4, "bytes sent by the current run, headers included", bold=True)
    for row, (name, nbytes, words) in enumerate(ledger):
        y = top + 12 + 22 * row
        yield Words(8, y + 12, name)
        yield Box(130, y, longest, 16, "#f0f0f0")
        yield Box(130, y, longest * nbytes / most, 16, "#555555")
        yield Words(138 + longest, y + 12, words)


def _strips(picture: Picture, frame: Frame, top: float) -> Iterator[Mark]:
    base = top - 8
    for strip in picture.strips:
        base += 30
        yield Words(frame.left - 6, base - 4, strip.words, "end")
        for start, end, state in merge_short(strip.segments, frame.x_axis.high, 200):
            look, x = picture.looks[state], frame.x(start - 1)
            width, height = frame.x(end) - x, 22 * look.height
            yield Box(x, base - height, max(width, 0.8), height, look.color)
            if width > 9:
                yield Words(x + width / 2, base - 3, state, "middle", 11)
        yield Stroke([(frame.left, base), (frame.right, base)])
    x, y = frame.left, base + 16
    for state, look in picture.looks.items() if picture.strips else ():
        words = f"{state} {look.words}"
        yield Box(x, y - 12 * look.height, 10, 12 * look.height, look.color)
        yield Words(x + 14, y, words, size=11)
        x += 30 + 6.2 * len(words)


def merge_short(
    segments: Iterable[tuple[int, int, str]], until: float, columns: int
) -> list[tuple[int, int, str]]:
    """At most ``columns`` segments, each with the state that fills most of it.

    >>> merge_short([(1, 2, "A"), (3, 8, "C"), (9, 12, "A")], until=12, columns=2)
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
