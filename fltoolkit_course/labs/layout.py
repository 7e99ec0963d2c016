"""Where each part of a lab's picture stands: plots, bars of bytes, strip of states, legend.

Not here: what is shown (picture.py), how marks become SVG or PNG (plots.drawing), and when that
happens (panel.py).
"""

from collections.abc import Iterator, Sequence
from itertools import chain

from fltoolkit_course.labs.picture import Axes, Picture
from fltoolkit_course.plots.drawing import (
    ON_COLOR,
    Area,
    Axis,
    Box,
    Frame,
    Graphic,
    Mark,
    Page,
    Stroke,
)
from fltoolkit_research.plots.placing import Words

_WIDTH, _HALF, _PLOT = 920, 470, 236  # of the paper, where its right half begins, of a plot
_BAND = "#7f7f7f"


def lay_out(picture: Picture) -> Graphic:
    """The picture as a drawing, which is as high as its content needs.

    The bars of bytes and the strip of states come first, right below the sliders. The plots come
    next; the strip has the same x axis as the plot below it.
    """
    page = Page(_WIDTH, f"{picture.title}: {picture.status}", picture.progress)
    strip = 46 if picture.segments else 0
    above = max(14 + 22 * len(picture.ledger), strip) + 6
    frames = [frame_of(axes, k * _HALF, page.low + above) for k, axes in enumerate(picture.axes)]
    longest = 120 if strip else _WIDTH - 8 - 130 - 220
    page.add(_ledger(picture.ledger, page.low, longest), 0)
    page.add(_strip(picture, frames[1], page.low - 2), above)
    page.add(chain(*map(_plot, picture.axes, frames)), _PLOT + 12)
    for line in picture.legend:
        page.marks.append(
            Stroke([(8, page.low), (48, page.low)], line.color, line.width, line.dash)
        )
        page.write(line.name, 128, left=56, step=18, bold=line.bold)
    return page.graphic(picture.summary())


def frame_of(axes: Axes, left: float, top: float = 40) -> Frame:
    """Where the values of these axes stand in the drawing."""
    plot, (x_limits, y_limits) = axes.plot, axes.limits()
    x = Axis(plot.x, *x_limits, words=axes.step if plot.x == "step" else "")
    y = Axis(plot.y, *y_limits, plot.log, plot.words)
    area = Area(left, top, _WIDTH - _HALF, _PLOT)
    return Frame(x, y, area, names=[line.name for line in axes.lines])


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
    if not any(line.points for line in axes.lines):
        yield frame.empty("nothing yet")
    yield from frame.lines(axes.lines)


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


def _strip(picture: Picture, frame: Frame, top: float) -> Iterator[Mark]:
    """The state at each step, and below it what the colours mean."""
    if not picture.segments:
        return
    base = top + 22
    yield Words(frame.left - 6, base - 4, "state", "end")
    for start, end, state in picture.segments:
        look, x = picture.looks[state], frame.x(start - 1)
        width, height = frame.x(end) - x, 22 * look.height
        yield Box(x, base - height, max(width, 0.8), height, look.color)
        if width > 9:
            yield Words(x + width / 2, base - 3, state, "middle", 11, ON_COLOR)
    yield Stroke([(frame.left, base), (frame.right, base)])
    x, y = frame.left, base + 16
    for state, look in picture.looks.items():
        words = f"{state} {look.words}"
        yield Box(x, y - 12 * look.height, 10, 12 * look.height, look.color)
        yield Words(x + 14, y, words, size=11)
        x += 30 + 6.2 * len(words)
