"""A lab: a training whose settings can be changed while it runs, and written down as a script.

Everything that a button or a slider does is a method here, so a script can do it too.
"""

import ast
import dataclasses
import inspect
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol

from fltoolkit.channel import Channel
from fltoolkit.data.datasets import Samples, load
from fltoolkit.history import History, Record
from fltoolkit_course.labs.runner import Runner, Status


class Control(NamedTuple):
    """One setting of a lab: its name, and the values to choose from."""

    words: str  # what it is, with its unit: "threshold [loss]"
    options: Sequence[Any]  # in order; a value between them may be given when the lab is made
    acts: Literal["now", "at start"]  # on the running training, or on the next one
    say: Callable[[Any], str] = str  # an option in words


class Plot(NamedTuple):
    """One pair of axes: one key of the records over another, with a line for each run."""

    y: str
    x: str
    behind: str = ""  # one more key, drawn thin behind the current run's line
    words: str = ""  # what y is called, if not by its key
    log: bool = False  # a logarithmic y axis: for values that fall by powers of ten


class Look(NamedTuple):
    """How a state looks. Its letter, its height and its colour each distinguish it."""

    words: str
    color: str
    height: float  # of the strip, 0 to 1


@dataclass(frozen=True)
class Board:
    """Which values of a lab's records are drawn, and how they are called."""

    plots: tuple[Plot, Plot]  # below the second lies the strip of states, on the same x
    kinds: Mapping[str, str]  # the ledger's rows: kind of message -> words
    states: Mapping[str, Look] = field(default_factory=dict)  # values of a record's "state"
    checked: str = ""  # key of the value that a gate checks, or ""; the gate's band is drawn, too
    step: str = "step"  # what a step is called


class Move(NamedTuple):
    """A setting that was changed between two records of a running training."""

    step: int  # of the record before it
    key: str
    value: Any


class Training(Protocol):
    """A training that a lab starts: a dataclass whose fields are the lab's settings and sizes.

    It stands in a file of its own, which the lab's script prints, and shares no object with another
    run. Another training of the same fields sends the same bytes, if it is changed at the same
    steps.
    """

    channel: Channel
    total: int  # the ``step`` of the last record

    def records(self) -> Iterator[Record]:
        """The training itself; it is called once."""

    def change(self, key: str, value: Any) -> object:
        """Change a setting, between two records."""


@dataclass(repr=False)
class Run:
    """One training in a lab, from its Start to its end."""

    number: int
    settings: dict[str, Any]  # at its start
    sizes: dict[str, Any]  # what else it depends on, such as the number of rounds
    training: Training
    runner: Runner
    moves: list[Move] = field(default_factory=list)

    @property
    def history(self) -> History:
        """The records so far."""
        return self.runner.history

    @property
    def status(self) -> Status:
        """Whether it runs, or how it ended."""
        return self.runner.status

    def now(self) -> dict[str, Any]:
        """Its settings after the moves so far."""
        return {**self.settings, **{move.key: move.value for move in self.moves}}

    def __repr__(self) -> str:
        return (
            f"<Run {self.number} {self.status}: {len(self.history)} records, "
            f"{len(self.moves)} moves>"
        )


class Lab:
    """An experiment with settings: start it, change them while it runs, compare the runs.

    Call the methods, or display it as the last line of a cell: the buttons and sliders of its
    `Panel` do the same.

    A change of a setting that acts "now" is called a move. It is made between two records and kept
    with its step, so the same moves at the same steps send the same bytes again, whether a person
    or a script makes them:

        lab.run(100)                # a hundred records, in this cell
        lab.set("threshold", 0.05)
        lab.run()                   # to the end
        print(lab.script())         # the same in plain code

    ``lab.start()`` trains in a thread instead, while other cells run. Earlier runs stay in
    ``lab.runs``, for comparison.

    A lab of one's own names its ``training``: a dataclass in a file of its own (see `Training`),
    whose first field is ``data``. Its other fields are the ``settings``, which have controls, and
    sizes, which are attributes of the lab. ``board`` is what is drawn.

    Args:
        data: what is trained on, made flat; a name for `fltoolkit.data.load`, or Samples.
        values: the first values of settings and sizes; the others are those of the training.
    """

    title = ""
    settings: Mapping[str, Control] = {}
    board: Board
    training: type[Any]  # a dataclass, see `Training`

    def __init__(self, data: Samples | str, **values: Any):
        known = {field.name: field.default for field in dataclasses.fields(self.training)[1:]}
        if strangers := values.keys() - known.keys():
            raise TypeError(f"{sorted(strangers)}: this lab has the settings {[*known]}")
        known |= values
        self.settings = {key: _with(s, known[key]) for key, s in self.settings.items()}
        self.values = {key: known.pop(key) for key in self.settings}
        self.data = (load(data) if isinstance(data, str) else data).flat()
        self._source = "\ndata = data  # what was given to the lab: put it here"
        if isinstance(data, str):
            self._source = f'from fltoolkit import load\n\ndata = load("{data}").flat()'
        self._sizes = [*known]
        vars(self).update(known)
        self.runs: list[Run] = []
        self.steps_per_second = math.inf
        self._listeners: list[Callable[[], object]] = []

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
        will_move = False
        if setting.acts == "now" and run is not None:
            will_move = run.runner.between(lambda: self._move(run, key, value))
        if not will_move:  # else the runner notifies, when the move was made
            self._notify()

    def _move(self, run: Run, key: str, value: Any) -> None:
        if run.now()[key] == value:
            return
        run.training.change(key, value)
        if not len(run.history):  # before the first record it is no move, but how the run began
            run.settings[key] = value
            return
        step = int(run.history[-1]["step"])
        earlier = [move for move in run.moves if (move.step, move.key) != (step, key)]
        run.moves = [*earlier, Move(step, key, value)]

    def pace(self, steps_per_second: float) -> None:
        """Slow the training down so that people can watch; `math.inf`: as fast as possible."""
        if not steps_per_second > 0:
            raise ValueError(f"steps_per_second={steps_per_second}: above 0; pause() stops it")
        self.steps_per_second = steps_per_second
        if run := self.current:
            run.runner.pace(1 / steps_per_second)
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

    def stop(self) -> None:
        """End the run for good; its records stay. The next `start` begins a new one."""
        if run := self.current:
            run.runner.stop()

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
        settings, sizes = dict(self.values), {name: getattr(self, name) for name in self._sizes}
        training = self.begin(sizes | settings)

        pause = 1 / self.steps_per_second
        runner = Runner(
            training.records(), on_change=lambda _: self._notify(), seconds_per_record=pause
        )
        kept = [run for run in self.runs if len(run.history)]
        number = kept[-1].number + 1 if kept else 1
        self.runs = [*kept, Run(number, settings, sizes, training, runner)]
        return self.runs[-1]

    def begin(self, values: Mapping[str, Any]) -> Training:
        """Make a training with these settings and sizes."""
        training: Training = self.training(self.data, **self._arguments(values))
        return training

    def _arguments(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Those of the training, in its order."""
        return {field.name: values[field.name] for field in dataclasses.fields(self.training)[1:]}

    def _notify(self) -> None:
        for listener in self._listeners:
            listener()

    # ------------------------------------------------------------------ in words and code

    def say(self, key: str, value: Any) -> str:
        """A setting in words, e.g. "threshold 0.05"."""
        setting = self.settings[key]
        return f"{setting.words.split(' [')[0]} {setting.say(value)}"

    def describe(self, run: Run) -> str:
        """A run's settings as it began, and its moves."""
        parts = [self.say(key, run.settings[key]) for key in self.settings]
        if len(run.moves) > 2:
            parts.append(f"{len(run.moves)} moves")
        else:
            parts += [
                f"{self.say(m.key, m.value)} from {self.board.step} {m.step}" for m in run.moves
            ]
        return ", ".join(parts)

    def script(self) -> str:
        """Code that repeats the current run with its moves, up to where it ended.

        It gives the same records, because the seed, the moves and their steps are the same. The
        file of the training comes first, then the settings of this run.
        """
        run = self.current
        if run is None or not len(run.history):
            raise ValueError("no record was made yet: press Start, or call run()")
        arguments = self._arguments(run.sizes | run.settings).items()
        whole = inspect.getsource(sys.modules[self.training.__module__])
        text = ast.parse(whole).body[0]  # at the beginning of the file; it is left out
        source = "\n".join(whole.splitlines()[text.end_lineno :])
        return "\n".join(
            [
                f'"""Run {run.number} of {type(self).__name__}: {self.describe(run)}."""\n',
                source.strip() + "\n",
                "\nimport torch\n\nfrom fltoolkit import History",
                f"{self._source}\ntorch.set_num_threads(1)",
                f"training = {self.training.__name__}(",
                *(f"    {line}," for line in ["data", *(f"{k}={v!r}" for k, v in arguments)]),
                ")",
                *self._loop(run),
                "",
            ]
        )

    def _loop(self, run: Run) -> list[str]:
        """The lines of the loop over the records of ``run`` with its moves, and what it prints."""
        last, events = int(run.history[-1]["step"]), dict[int, list[str]]()
        for move in run.moves:
            if move.step < last:  # later ones had no effect
                line = f'training.change("{move.key}", {move.value!r})'
                events.setdefault(move.step, []).append(line)
        if run.status != "finished":
            why = run.runner.message.splitlines()[0] if run.runner.error else run.status
            events.setdefault(last, []).append(f"break  # {why}")
        lines = ["history = History()", "for record in history.follow(training.records()):"]
        for step, inside in sorted(events.items()):
            lines.append(f'    if record["step"] == {step}:')
            lines += [f"        {line}" for line in inside]
        if not events:
            lines.append("    pass")
        count = f"{{len(history)}} {self.board.step}s, {{training.channel.nbytes():,}} bytes"
        lines.append(f'print(f"{count}")')
        if len(run.history.having("accuracy")):
            lines.append("""print(f"accuracy {history.having('accuracy')[-1]['accuracy']:.4f}")""")
        return lines


def _with(setting: Control, value: Any) -> Control:
    """The setting with ``value`` among its options, in order."""
    if value in setting.options:
        return setting
    options = [*setting.options, value]
    ordered = all(isinstance(option, int | float) for option in options)
    return setting._replace(options=sorted(options) if ordered else options)
