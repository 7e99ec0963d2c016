"""What a picture of a lab shows, as data: curves, states, bands, ledger and legend of its runs.

Not here: where it stands on the paper (layout.py).
"""

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from fltoolkit.history import History
from fltoolkit.units import amount
from fltoolkit_course.labs.board import Board, Look, Plot, Run
from fltoolkit_course.labs.lab import Lab
from fltoolkit_course.plots.drawing import Line, line_look
from fltoolkit_course.plots.live import at_the_end, thinned
from fltoolkit_research.plots.placing import Points


class Axes(NamedTuple):
    """One pair of axes with everything that is drawn in it."""

    plot: Plot
    lines: Sequence[Line]  # one for each run, the current one bold
    behind: Points
    bands: Sequence[tuple[float, float, float, float]]
    marks: Sequence[tuple[float, str]]  # vertical lines: (x, words)
    reach: float  # the end of the x axis: where the current run is expected to end
    step: str = "step"  # what a step is called

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


class Picture(NamedTuple):
    """All that is drawn, as data."""

    title: str
    status: str
    progress: float  # 0 to 1
    axes: tuple[Axes, Axes]
    segments: Sequence[tuple[int, int, str]]  # of the current run: from, to, state
    looks: Mapping[str, Look]
    ledger: Sequence[tuple[str, int, str]]  # row's name, bytes, in words
    legend: Sequence[Line]  # each run, with its settings and results in words

    def summary(self) -> str:
        """The picture in words, with its numbers."""
        rows = [f"{name} {words}" for name, _, words in self.ledger]
        runs = [line.name for line in self.legend]
        return ". ".join([f"{self.title}: {self.status}", *rows, *runs])


# ------------------------------------------------------------------- from a lab to a picture

_MOST_RUNS = 6  # in one picture; more lines cannot be told apart
_MOST_MARKS = 8


def compose(lab: Lab) -> Picture:
    """The picture of a lab at this moment."""
    run, board = lab.current, lab.board
    runs = [run for run in lab.runs if len(run.history)][-_MOST_RUNS:]
    total = run.training.total if run else None
    first, second = (_axes(lab, plot, run, runs) for plot in board.plots)
    return Picture(
        title=lab.title,
        status=status_in_words(lab),
        progress=min(_step(run) / total, 1.0) if run and total else 0.0,
        axes=(first, second),
        segments=_segments(run, board.plots[1].x) if run and board.states else [],
        looks=board.states,
        ledger=_ledger(board, run),
        legend=[_line(r, r is run, [], _outcome(lab, r)) for r in runs],
    )


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


def _line(run: Run, current: bool, points: Points, words: str) -> Line:
    """A run has the same colour and dash everywhere; the current one's line is wider."""
    return Line(words, points, *line_look(run.number - 1), 3 if current else 1.6, current)


def _reach(run: Run, x: float, key: str) -> float:
    """The ``x`` that the run will end with, so that the axis need not change while it trains."""
    total = run.training.total
    if run.runner.over or not total or not x > 0:
        return x
    return max(float(total), x) if key == "step" else at_the_end(x, _step(run), total)


def _step(run: Run) -> int:
    """How far the run has come, on the same scale as its ``total``."""
    return int(run.history[-1]["step"]) if len(run.history) else 0


def _at(history: History, step: int, key: str) -> float:
    """The value of ``key`` in the record of that step."""
    steps = range(len(history))
    index = bisect_left(steps, step, key=lambda k: int(history[k]["step"]))
    return float(history[index][key])


def _points(run: Run, x: str, y: str) -> Points:
    records = [record for record in run.history if x in record and y in record]
    return thinned([(record[x], record[y]) for record in records])


def _axes(lab: Lab, plot: Plot, current: Run | None, runs: Sequence[Run]) -> Axes:
    step = lab.board.step
    lines = [
        _line(run, run is current, _points(run, plot.x, plot.y), f"run {run.number}")
        for run in runs
    ]
    if current is None or current not in runs:
        return Axes(plot, lines, [], [], [], 0, step)
    marks = [
        (_at(current.history, move.step, plot.x), lab.say(move.key, move.value))
        for move in current.moves[-_MOST_MARKS:]
    ]
    behind = _points(current, plot.x, plot.behind) if plot.behind else []
    bands = _bands(current, plot) if plot.y == lab.board.checked else []
    reach = _reach(current, float(current.history[-1][plot.x]), plot.x)
    return Axes(plot, lines, behind, bands, marks, reach, step)


def _segments(run: Run, x: str) -> list[tuple[int, int, str]]:
    """The stretches of records in one state: from, to, state."""
    found = []
    for state, records in groupby(run.history, lambda record: str(record.get("state", ""))):
        places = [int(record[x]) for record in records]
        found.append((places[0], places[-1], state))
    return found


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


def _ledger(board: Board, run: Run | None) -> list[tuple[str, int, str]]:
    transfers = list(run.training.channel.transfers) if run else []
    rows = []
    for kind, name in board.kinds.items():
        sizes = [transfer.nbytes for transfer in transfers if transfer.kind == kind]
        words = f"{amount('nbytes', sum(sizes))} in {len(sizes):,} message{'s' * (len(sizes) != 1)}"
        rows.append((name, sum(sizes), words))
    return rows


def _outcome(lab: Lab, run: Run) -> str:
    """A run in one line: its settings and its results."""
    last: dict[str, float] = {}
    for record in run.history:
        last |= record
    results = [amount(key, last[key]) for key in ("accuracy", "nbytes") if key in last]
    return f"run {run.number}: {lab.describe(run)}: {' for '.join(results)}"
