"""Experiments whose settings can be changed while they train, and written down as a script.

Everything that a button or a slider does is a method here, so a script can do it too. Not here:
what is drawn (picture.py), and sliders and buttons (panel.py).
"""

import math
import sys
import weakref
from collections.abc import Callable
from typing import Any

from fltoolkit_course.labs.board import Control, Move, Run, Strip
from fltoolkit_course.labs.runner import Runner
from fltoolkit_course.labs.scripts import ScriptedLab, begin_of, loop_of

_made_in: dict[str, weakref.WeakKeyDictionary[Any, str]] = {}  # cell -> lab -> execution


class Steering(ScriptedLab):
    """A `Lab` without its panel: start a training, change settings while it runs, compare runs.

    A subclass gives the ``settings``, the code with which a training begins (``imports``,
    ``given``, `write_start`), the code of a move (`write_move`), and what is drawn (``board``). The
    lab executes that code, and `script` prints it.

    A change of a setting that acts "now" is called a move. It is made between two records and kept
    with its step, so the same moves at the same steps send the same bytes again, whether a person
    or a script makes them:

        lab.run(100)                # a hundred records, in this cell
        lab.set("threshold", 0.05)
        lab.run()                   # to the end
        print(lab.script())         # the same in plain code

    ``lab.start()`` trains in a thread instead, while other cells run. Earlier runs stay in
    ``lab.runs``, for comparison, until `reset`. If a notebook cell that makes a lab is run again,
    the lab that it made before is stopped, because its buttons are no longer shown.

    >>> from fltoolkit_course.labs.board import Board, Plot
    >>> class Counting(Steering):
    ...     title = "Counting"
    ...     settings = {"by": Control("count by", (1, 2), "now")}
    ...     board = Board((Plot("sum", "step"), Plot("sum", "step")), kinds={}, result="sum")
    ...     imports = "from fltoolkit import Channel, History"
    ...
    ...     def write_start(self, values, moved):
    ...         return f'''
    ... by, channel = {values["by"]}, Channel()
    ... def counts(total=0):
    ...     for step in range(1, 5):
    ...         total += by
    ...         yield {{"step": step, "sum": total}}
    ... records = counts()'''
    ...
    ...     def write_move(self, key, values):
    ...         return f"by = {values['by']}"

    >>> counting = Counting()
    >>> _ = counting.run(2)
    >>> counting.set("by", 2)
    >>> run = counting.run()
    >>> run.history.column("sum"), counting.describe(run)
    ([1, 2, 4, 6], 'count by 1, count by 2 from step 2')
    """

    def __init__(self, **values: Any):
        if strangers := values.keys() - self.settings.keys():
            raise TypeError(f"{sorted(strangers)}: this lab has the settings {[*self.settings]}")
        self.settings = {
            key: _with(setting, values[key]) if key in values else setting
            for key, setting in self.settings.items()
        }
        self.values = {**{key: s.options[0] for key, s in self.settings.items()}, **values}
        self.runs: list[Run] = []
        self.steps_per_second = math.inf
        self._listeners: list[Callable[[], object]] = []
        _replace_earlier(self)

    def strips(self) -> list[Strip]:
        """More strips to draw below the states of the current run, e.g. those of an estimate."""
        return []

    # ------------------------------------------------------------------ settings

    def set(self, key: str, value: Any) -> None:
        """Choose ``value`` for ``key``.

        It acts on the running training if the setting acts "now", otherwise on the next one.
        """
        setting = self.settings.get(key)
        if setting is None:
            raise KeyError(f"{key!r}: this lab has the settings {[*self.settings]}")
        if value not in setting.options:
            raise ValueError(
                f"{key}={value!r}: choose from {list(setting.options)}, or make the lab with "
                f"{type(self).__name__}({key}={value!r})"
            )
        self.values[key] = value
        run = self.current
        if (
            setting.acts != "now"
            or run is None
            or not run.runner.between(lambda: self._move(run, key, value))
        ):
            self._notify()

    def _move(self, run: Run, key: str, value: Any) -> None:
        if run.now()[key] == value:
            return
        run.training.apply(key, value)
        if not len(run.history):  # before the first record it is no move, but how the run began
            run.settings[key] = value
            return
        step = int(run.history[-1][self.clock])
        earlier = [move for move in run.moves if (move.step, move.key) != (step, key)]
        run.moves = [*earlier, Move(step, key, value)]

    def pace(self, steps_per_second: float) -> None:
        """Slow the training down so that people can watch; `math.inf`: as fast as possible."""
        if not steps_per_second > 0:
            raise ValueError(f"steps_per_second={steps_per_second}: above 0; pause() stops it")
        self.steps_per_second = steps_per_second
        if run := self.current:
            run.runner.seconds_per_record = 1 / steps_per_second
            run.runner.between(lambda: None)  # wakes it up
        self._notify()

    # ------------------------------------------------------------------ runs

    @property
    def current(self) -> Run | None:
        """The latest run, whether it is over or not."""
        return self.runs[-1] if self.runs else None

    def start(self) -> Run:
        """Begin a run in a thread, or go on with the one that is paused."""
        run = self._going()
        run.runner.start()
        return run

    def step(self, count: int = 1) -> Run:
        """Make ``count`` records in a thread, then pause; if no run is going on, begin one."""
        run = self._going()
        run.runner.step(count)
        return run

    def run(self, count: int | None = None) -> Run:
        """Make ``count`` records (None: all) before returning; if no run is going on, begin one."""
        run = self._going()
        run.runner.run(count)
        return run

    def pause(self) -> None:
        """Pause after the record in progress."""
        if run := self.current:
            run.runner.pause()

    def repeated(self, run: Run) -> Run | None:
        """An earlier run with the settings and length of ``run``, if neither of them has a move.

        All randomness comes from the settings, so both runs send the same bytes.
        """
        if run.moves:
            return None
        seen = [key for key, setting in self.settings.items() if setting.acts != "on view"]
        for other in self.runs:
            if other is run:
                return None
            same = other.training.total == run.training.total and not other.moves
            if same and all(other.settings[k] == run.settings[k] for k in seen):
                return other
        return None

    def stop(self) -> None:
        """End the run for good; its records stay. The next `start` begins a new one."""
        if run := self.current:
            run.runner.stop()

    def reset(self) -> None:
        """Stop, and forget all runs; the settings stay as they are."""
        self.stop()
        self.runs = []
        self._notify()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until nothing is being trained; False if ``timeout`` (seconds) came first."""
        return self.current is None or self.current.runner.wait(timeout)

    def listen(self, listener: Callable[[], object]) -> None:
        """Call ``listener()`` after each record of the current run and after each other change.

        It is called in the thread that makes the record or the change. The calls are many, so the
        function should be fast.
        """
        self._listeners.append(listener)

    def _going(self) -> Run:
        """The current run if it can go on, else a new one."""
        run = self.current
        if run is not None and not run.runner.over:
            return run
        settings, constants = dict(self.values), self.constants()
        training = self.begin({**constants, **settings})

        def changed(runner: Runner) -> None:
            if self.runs and self.runs[-1].runner is runner:  # otherwise it was reset meanwhile
                self._notify()

        pause = 1 / self.steps_per_second
        runner = Runner(training.records, on_change=changed, seconds_per_record=pause)
        kept = [run for run in self.runs if len(run.history)]
        number = kept[-1].number + 1 if kept else 1
        self.runs = [*kept, Run(number, settings, training, runner, constants=constants)]
        return self.runs[-1]

    def _notify(self) -> None:
        for listener in self._listeners:
            listener()

    # ------------------------------------------------------------------ in words and code

    def say(self, key: str, value: Any) -> str:
        """A setting in words, e.g. "threshold 0.05"."""
        setting = self.settings[key]
        return f"{setting.words.split(' [')[0]} {setting.say(value)}"

    def describe(self, run: Run) -> str:
        """A run's settings as it began, its moves, and whether one has reset the residuals."""
        parts = [
            self.say(key, run.settings[key])
            for key, setting in self.settings.items()
            if setting.acts != "on view"
        ]
        if len(run.moves) > 2:
            parts.append(f"{len(run.moves)} moves")
        else:
            parts += [
                f"{self.say(m.key, m.value)} from {self.board.step} {m.step}" for m in run.moves
            ]
        now, reset = run.values, False
        for move in run.moves:
            reset |= self.resets_residuals(move.key, now)
            now[move.key] = move.value
        note = " (a move of its codec has reset the residuals)" if reset else ""
        return ", ".join(parts) + note

    def script(self, number: int | None = None) -> str:
        """Code that repeats run ``number`` (None: the latest) with its moves, up to where it ended.

        It gives the same records, because the seed, the moves and their steps are the same.
        """
        run = self.numbered(number)
        if not len(run.history):
            raise ValueError(f"run {run.number} has made no record yet: nothing to write down")
        title = f'"""Run {run.number} of {type(self).__name__}: {self.describe(run)}."""'
        start = self.write_start(run.values, {move.key for move in run.moves})
        begin = begin_of(self.imports, self.given, start)
        return f"{title}\n\n{begin}\n\n{loop_of(run, self.board, self.clock, self.write_move)}\n"

    def numbered(self, number: int | None) -> Run:
        """Run ``number`` of those kept, or the latest (None)."""
        for run in reversed(self.runs):
            if number in (None, run.number):
                return run
        known = [run.number for run in self.runs]
        raise ValueError(
            f"there is no run {number}; this lab has the runs {known}"
            if known
            else "nothing was run yet: press Start, or call run()"
        )


def _with(setting: Control, value: Any) -> Control:
    """The setting with ``value`` among its options, in order."""
    if value in setting.options:
        return setting
    options = [*setting.options, value]
    ordered = all(isinstance(option, int | float) for option in options)
    rising = ordered and setting.options[0] <= setting.options[-1]
    return setting._replace(options=sorted(options, reverse=not rising) if ordered else options)


def _replace_earlier(lab: Any) -> None:
    """Stop the labs that this notebook cell made when it ran before, and note that it made ``lab``.

    Their buttons are no longer shown. Outside a notebook nothing happens.
    """
    if request := _request():
        cell, execution = request
        labs = _made_in.setdefault(cell, weakref.WeakKeyDictionary())
        for earlier in [other for other, made in labs.items() if made != execution]:
            earlier.stop()
            del labs[earlier]
        labs[lab] = execution


def _request() -> tuple[str, str] | None:
    """The notebook cell that is running, and the number of this execution; None outside a cell.

    JupyterLab, Notebook and VS Code give each cell an id. Elsewhere the cell's code stands for it.
    """
    ipython = sys.modules.get("IPython")  # in a kernel it is imported already
    kernel = getattr(ipython.get_ipython() if ipython else None, "kernel", None)
    message = kernel.get_parent() if kernel else {}
    code = message.get("content", {}).get("code")  # a button that was pressed has none
    if code is None:
        return None
    return message.get("metadata", {}).get("cellId") or code, message["header"]["msg_id"]
