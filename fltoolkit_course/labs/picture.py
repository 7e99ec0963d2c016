"""The picture of a lab: plots, bars of bytes, strip of states and legend of its runs."""

import math
from collections.abc import Iterator, Sequence
from itertools import chain, groupby
from typing import NamedTuple

from fltoolkit.plots.style import COLORS, DASHES
from fltoolkit.units import amount
from fltoolkit_course.labs.lab import Lab, Plot, Run
from fltoolkit_course.plots.drawing import (
    ON_COLOR,
    Area,
    Axis,
    Box,
    Frame,
    Graphic,
    Line,
    Mark,
    Page,
    Stroke,
)
from fltoolkit_course.plots.live import thinned
from fltoolkit_research.plots.placing import Points, Words

_WIDTH, _HALF, _PLOT = 920, 470, 236  # of the paper, where its right half begins, of a plot
_BAND = "#7f7f7f"
_MOST_RUNS = 6  # in one picture; more lines cannot be told apart
_MOST_MARKS = 8


def draw(lab: Lab) -> Graphic:
    """The picture of a lab at this moment, which is as high as its content needs.

    The bars of bytes and the strip of states come first, right below the sliders. The plots come
    next; the strip has the same x axis as the plot below it.
    """
    run, status = lab.current, f"{lab.title}: {status_in_words(lab)}"
    rows, legend = ledger(lab), [_line(each, lab, _outcome(lab, each)) for each in _shown(lab)]
    total = run.training.total if run and len(run.history) else 0
    progress = min(run.history[-1]["step"] / total, 1.0) if run and total else 0.0
    page = Page(_WIDTH, status, progress)
    strip = 46 if run and len(run.history) and lab.board.states else 0
    above = max(14 + 22 * len(rows), strip) + 6
    axes = [axes_of(lab, plot) for plot in lab.board.plots]
    frames = [_frame(lab, one, k * _HALF, page.low + above) for k, one in enumerate(axes)]
    page.add(_bars(rows, page.low, 120 if strip else _WIDTH - 8 - 130 - 220), 0)
    page.add(_strip(lab, run, frames[1], page.low - 2) if run and strip else [], above)
    page.add(chain(*map(_curves, axes, frames)), _PLOT + 12)
    for line in legend:
        look = line.color, line.width, line.dash
        page.marks.append(Stroke([(8, page.low), (48, page.low)], *look))
        page.write(line.name, 128, left=56, step=18, bold=line.bold)
    words = [f"{name} {sent}" for name, _, sent in rows] + [line.name for line in legend]
    return page.graphic(". ".join([status, *words]))


def status_in_words(lab: Lab) -> str:
    """What the current run is doing, e.g. "run 2 running, step 311 of 1,380, state B"."""
    run = lab.current
    if run is None:
        return "not started"
    words = f"run {run.number} {run.status}"
    if not len(run.history):
        return words
    last = run.history[-1]
    total = f" of {run.training.total:,}" if run.training.total else ""
    words += f", {lab.board.step} {last['step']:,}{total}"
    if look := lab.board.states.get(str(last.get("state"))):
        words += f", state {last['state']} ({look.words})"
    return words


# ---------------------------------------------------------------------------------- bytes


def ledger(lab: Lab) -> list[tuple[str, int, str]]:
    """The current run's kinds of message: name, bytes, and bytes and messages in words."""
    transfers = list(lab.current.training.channel.transfers) if lab.current else []
    rows = []
    for kind, name in lab.board.kinds.items():
        sizes = [transfer.nbytes for transfer in transfers if transfer.kind == kind]
        words = f"{amount('nbytes', sum(sizes))} in {len(sizes):,} message{'s' * (len(sizes) != 1)}"
        rows.append((name, sum(sizes), words))
    return rows


def _bars(rows: Sequence[tuple[str, int, str]], top: float, longest: float) -> Iterator[Mark]:
    """A bar for each kind of message, the largest ``longest`` pixels long."""
    most = max((nbytes for _, nbytes, _ in rows), default=0) or 1
    yield Words(8, top + 4, "bytes sent by the current run, headers included", bold=True)
    for row, (name, nbytes, words) in enumerate(rows):
        y = top + 12 + 22 * row
        yield Words(8, y + 12, name)
        yield Box(130, y, longest, 16, "#f0f0f0")
        yield Box(130, y, longest * nbytes / most, 16, "#555555")
        yield Words(138 + longest, y + 12, words)


# --------------------------------------------------------------------------------- states


def segments(run: Run) -> list[tuple[int, int, str]]:
    """The stretches of records in one state: from, to, state."""
    found = []
    for state, records in groupby(run.history, lambda record: str(record.get("state", ""))):
        places = [int(record["step"]) for record in records]
        found.append((places[0], places[-1], state))
    return found


def _strip(lab: Lab, run: Run, frame: Frame, top: float) -> Iterator[Mark]:
    """The state at each step, and below it what the colours mean."""
    base = top + 22
    yield Words(frame.left - 6, base - 4, "state", "end")
    for start, end, state in segments(run):
        look, x = lab.board.states[state], frame.x(start - 1)
        width, height = frame.x(end) - x, 22 * look.height
        yield Box(x, base - height, max(width, 0.8), height, look.color)
        if width > 9:
            yield Words(x + width / 2, base - 3, state, "middle", 11, ON_COLOR)
    yield Stroke([(frame.left, base), (frame.right, base)])
    x, y = frame.left, base + 16
    for state, look in lab.board.states.items():
        words = f"{state} {look.words}"
        yield Box(x, y - 12 * look.height, 10, 12 * look.height, look.color)
        yield Words(x + 14, y, words, size=11)
        x += 30 + 6.2 * len(words)


# ----------------------------------------------------------------------------------- plots


class Axes(NamedTuple):
    """One pair of axes with everything that is drawn in it."""

    plot: Plot
    lines: Sequence[Line]  # one for each run, the current one bold
    reach: float = 0  # the x axis goes as far as this, or further
    behind: Points = ()
    bands: Sequence[tuple[float, float, float, float]] = ()
    marks: Sequence[tuple[float, str]] = ()  # vertical lines: (x, words)

    def limits(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """Lowest and highest x, lowest and highest y; see `Plot` for where they begin."""
        points = [point for line in self.lines for point in line.points]
        seen = [*(y for _, y in (*points, *self.behind)), *(band[3] for band in self.bands)]
        x_limits = 0.0, max([self.reach, *(x for x, _ in points)]) or 1
        high = max(seen, default=0) or 1
        low = min((y for _, y in points), default=high)
        if self.plot.log:
            return x_limits, (min(0.5 * low, 0.2 * high) or 0.01 * high, high)
        if "accuracy" in self.plot.y:
            return x_limits, (math.floor(10 * low - 1e-9) / 10 if points else 0, 1)
        return x_limits, (0, high)


def axes_of(lab: Lab, plot: Plot) -> Axes:
    """What stands in the pair of axes of this plot."""
    run = lab.current
    lines = [
        _line(each, lab, f"run {each.number}", _points(each, plot.x, plot.y))
        for each in _shown(lab)
    ]
    if run is None or not len(run.history):
        return Axes(plot, lines)
    reach = float(run.history[-1][plot.x])
    if plot.x == "step" and not run.runner.over:
        reach = max(reach, run.training.total)
    moves = run.moves[-_MOST_MARKS:]  # first: another thread may make records and moves meanwhile
    places = {record["step"]: record[plot.x] for record in run.history}
    return Axes(
        plot,
        lines,
        reach,
        behind=_points(run, plot.x, plot.behind) if plot.behind else [],
        bands=_bands(run, plot) if plot.y == lab.board.checked else [],
        marks=[(places[m.step], lab.say(m.key, m.value)) for m in moves],
    )


def _bands(run: Run, plot: Plot) -> list[tuple[float, float, float, float]]:
    """The gate's band around its reference: from, to, low, high."""
    bands: list[tuple[float, float, float, float]] = []
    checked: float | None = None  # in the record before
    reference: float | None = None
    for record in run.history:
        if checked is not None and record["state"] == "A":  # what was checked is the reference
            reference = checked
        checked, half = record.get(plot.y), float(record["threshold"])
        if reference is None or not half:  # a band of threshold 0 has no height
            continue
        x, low, high = record[plot.x], max(reference - half, 0), reference + half
        if bands and bands[-1][2:] == (low, high):
            bands[-1] = (bands[-1][0], x, low, high)
        else:
            bands.append((x, x, low, high))
    return bands


def _frame(lab: Lab, axes: Axes, left: float, top: float) -> Frame:
    """Where the values of these axes stand in the drawing."""
    plot, (x_limits, y_limits) = axes.plot, axes.limits()
    x = Axis(plot.x, *x_limits, words=lab.board.step if plot.x == "step" else "")
    y = Axis(plot.y, *y_limits, plot.log, plot.words)
    area = Area(left, top, _WIDTH - _HALF, _PLOT)
    return Frame(x, y, area, names=[line.name for line in axes.lines])


def _curves(axes: Axes, frame: Frame) -> Iterator[Mark]:
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


# ------------------------------------------------------------------------------------ runs


def _shown(lab: Lab) -> list[Run]:
    return [run for run in lab.runs if len(run.history)][-_MOST_RUNS:]


def _line(run: Run, lab: Lab, words: str, points: Points = ()) -> Line:
    """A run has the same colour and dash everywhere; the current one's line is wider."""
    current, number = run is lab.current, run.number - 1
    color, dash = COLORS[number % len(COLORS)], DASHES[number % len(DASHES)]
    return Line(words, points, color, dash, 3 if current else 1.6, current)


def _points(run: Run, x: str, y: str) -> Points:
    records = [record for record in run.history if x in record and y in record]
    return thinned([(record[x], record[y]) for record in records])


def _outcome(lab: Lab, run: Run) -> str:
    """A run in one line: its settings and its results."""
    last: dict[str, float] = {}
    for record in run.history:
        last |= record
    results = [amount(key, last[key]) for key in ("accuracy", "nbytes") if key in last]
    return f"run {run.number}: {lab.describe(run)}: {' for '.join(results)}"
