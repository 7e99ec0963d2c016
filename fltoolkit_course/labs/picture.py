"""What a picture of a lab shows, as data: curves, states, bands, ledger and legend of its runs.

Here: reading the new records of runs at little cost, and putting together what is shown.
"""

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fltoolkit.channel import Channel
from fltoolkit.history import History, Record
from fltoolkit.units import amount
from fltoolkit_course.labs.board import Board, Look, Plot, Run
from fltoolkit_course.labs.lab import Lab
from fltoolkit_course.plots.drawing import Line, line_look
from fltoolkit_course.plots.live import Curve, at_the_end
from fltoolkit_research.plots.placing import Points


class Trace:
    """The values of one run that the picture needs.

    Reading a new record takes the same time in a long run as in a short one.
    """

    def __init__(self, board: Board, history: History, channel: Channel):
        self.history = history
        self._board, self._channel = board, channel
        keys = [(plot.x, y) for plot in board.plots for y in (plot.y, plot.behind) if y]
        self.curves = {key: Curve() for key in keys}
        self.segments: list[tuple[int, int, str]] = []
        self.bands: list[tuple[float, float, float, float]] = []  # from, to, low, high
        self.tally = {kind: [0, 0] for kind in board.kinds}  # messages, bytes
        self.last: Record = {}
        self._records = self._transfers = 0
        self._asked: float | None = None  # the loss at the last check
        self._reference: float | None = None

    def catch_up(self) -> None:
        """Read the new records and messages. Call it from one thread at a time."""
        while self._records < len(self.history):
            self._add(self.history[self._records])
            self._records += 1
        transfers = self._channel.transfers
        while self._transfers < len(transfers):
            transfer = transfers[self._transfers]
            row = self.tally.setdefault(transfer.kind, [0, 0])
            row[0] += 1
            row[1] += transfer.nbytes
            self._transfers += 1

    def _add(self, record: Record) -> None:
        for (x, y), curve in self.curves.items():
            if y in record and x in record:
                curve.add(record[x], record[y])
        if self._board.states:
            self._add_state(record)
        self.last.update(record)

    def _add_state(self, record: Record) -> None:
        x, state = int(record[self._board.plots[1].x]), str(record.get("state", ""))
        if self.segments and self.segments[-1][2] == state:
            self.segments[-1] = (self.segments[-1][0], x, state)
        else:
            self.segments.append((x, x, state))
        if not self._board.checked:
            return
        if self._asked is not None and state == "A":  # what was checked became the reference
            self._reference = self._asked
        self._asked = None
        if (checked := record.get(self._board.checked)) is not None:
            self._asked = float(checked)
        if self._reference is not None and "threshold" in record:
            if not (half := float(record["threshold"])):
                return  # the band would have no height
            low, high = max(self._reference - half, 0), self._reference + half
            if self.bands and self.bands[-1][2:] == (low, high):
                self.bands[-1] = (self.bands[-1][0], x, low, high)
            else:
                self.bands.append((x, x, low, high))


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


def compose(lab: Lab, traces: Mapping[int, Trace]) -> Picture:
    """The picture of a lab at this moment.

    Args:
        lab: the lab.
        traces: a `Trace` for each run, by the run's number; call `catch_up` of each before.
    """
    known = [run for run in lab.runs if run.number in traces]  # another may just have begun
    runs = [run for run in known if len(run.history)][-_MOST_RUNS:]
    run = known[-1] if known else None
    trace = traces[run.number] if run else None
    total = run.training.total if run else None
    first, second = (_axes(lab, plot, run, runs, traces) for plot in lab.board.plots)
    return Picture(
        title=lab.title,
        status=status_in_words(lab),
        progress=min(_step(run) / total, 1.0) if run and total else 0.0,
        axes=(first, second),
        segments=trace.segments if trace else [],
        looks=lab.board.states,
        ledger=_ledger(lab.board, trace),
        legend=[_line(r, r is run, [], _outcome(lab, r, traces[r.number])) for r in runs],
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


def _axes(
    lab: Lab, plot: Plot, current: Run | None, runs: Sequence[Run], traces: Mapping[int, Trace]
) -> Axes:
    lines = []
    for run in runs:
        points = traces[run.number].curves[plot.x, plot.y].points()
        lines.append(_line(run, run is current, points, f"run {run.number}"))
    if current is None or current not in runs:
        return Axes(plot, lines, [], [], [], 0, lab.board.step)
    trace = traces[current.number]
    return Axes(
        plot,
        lines,
        trace.curves[plot.x, plot.behind].points() if plot.behind else [],
        trace.bands if plot.y == lab.board.checked else [],
        [
            (_at(current.history, move.step, plot.x), lab.say(move.key, move.value))
            for move in current.moves[-_MOST_MARKS:]
        ],
        _reach(current, float(trace.last[plot.x]), plot.x),
        lab.board.step,
    )


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


def _ledger(board: Board, trace: Trace | None) -> list[tuple[str, int, str]]:
    rows = []
    for kind, name in board.kinds.items():
        messages, nbytes = trace.tally[kind] if trace else (0, 0)
        if kind in board.rare and not messages:
            continue
        words = f"{amount('nbytes', nbytes)} in {messages:,} message{'s' * (messages != 1)}"
        rows.append((name, nbytes, words))
    return rows


def _outcome(lab: Lab, run: Run, trace: Trace) -> str:
    """A run in one line: its settings and its results."""
    keys = [key for key in ("accuracy", "nbytes") if key in trace.last]
    results = " for ".join(amount(key, float(trace.last[key])) for key in keys)
    return f"run {run.number}: {lab.describe(run)}: {results}"
