"""The values that describe a lab: its settings, what is drawn of it, and what happened in its runs.

Not here: what changes them (lab.py).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol

from fltoolkit.channel import Channel
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
