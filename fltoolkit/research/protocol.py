"""A protocol as a value: its name, what it sends, its settings, and the function that trains.

Here: what a protocol of your own is made of. Not here: the package's own (methods), which are
written in the same way and serve as examples.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import nn, zeros

from fltoolkit.channel import KINDS, Channel
from fltoolkit.codecs.base import Codec
from fltoolkit.history import Record
from fltoolkit.party import Party
from fltoolkit.research.task import Task
from fltoolkit.research.text import Call, build

__all__ = ["AMOUNT", "CODEC", "COUNT", "FLAG", "OPTIMIZER", "Protocol", "Setting"]


@dataclass(frozen=True)
class Setting:
    """What values one of a protocol's settings may have.

    >>> COUNT.kept(3)
    3
    >>> CODEC.kept("Pipeline( Quantize(bits = 8) )")
    "Pipeline(Quantize(bits=8, stochastic=False, seed=0, per='tensor'))"
    """

    words: str  # what is allowed, for the error: "a whole number above 0"
    allowed: Callable[[Any], bool]
    as_text: bool = False  # kept as a text that `build` reads, such as a codec

    def kept(self, value: Any) -> Any:
        """How the experiment keeps it: as it is, or as text. Raises ValueError if not allowed."""
        made = build(value if isinstance(value, str) else repr(value)) if self.as_text else value
        if not self.allowed(made):
            raise ValueError(f"give {self.words}, or leave it out")
        return repr(made) if self.as_text else value

    def used(self, kept: Any) -> Any:
        """The value for the protocol: a number, or what the text describes, fresh."""
        return build(kept) if self.as_text else kept


def is_number(value: Any) -> bool:
    """A number, and neither True nor False."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_optimizer(call: Any) -> bool:
    """An optimizer that can be made: it is made once, for a parameter of its own."""
    if not isinstance(call, Call):
        return False
    call([nn.Parameter(zeros(1))])
    return True


COUNT = Setting("a whole number above 0", lambda v: is_number(v) and isinstance(v, int) and v > 0)
FLAG = Setting("True or False", lambda v: isinstance(v, bool))
AMOUNT = Setting("a number, 0 or more", lambda v: is_number(v) and 0 <= v < math.inf)
CODEC = Setting("a codec such as Pipeline(TopK(0.01))", lambda v: isinstance(v, Codec), True)
OPTIMIZER = Setting("an optimizer such as Adam(lr=0.01)", is_optimizer, True)


def a_record_a_step(task: Task) -> int:
    """A protocol that yields a record a batch: so many make a round, which is over all data."""
    return sum(map(len, task.batches))


def a_record_a_round(task: Task) -> int:
    """A protocol that yields a record a round."""
    return 1


def one_after_the_other(task: Task) -> int:
    """Messages follow each other."""
    return 1


def anything(experiment: Any) -> None:
    """A protocol that runs with all settings there are."""


@dataclass(frozen=True, eq=False)
class Protocol:
    """One way to train, known to experiments, sweeps and the command line by its name.

    ``train(task, channel)`` makes parties of a `Task`, lets them talk through ``channel``, and
    yields pairs: a record, and the parties in a row that make up the whole network now, for the
    test. The last of them has the loss. A record needs "step", counted from 1, and the totals of
    ``channel.totals(...)``; "loss" is the mean training loss.

    After ``fltoolkit.research.allow(protocol)``, ``Experiment(protocol=protocol.name)`` runs it.
    """

    name: str
    train: Callable[[Task, Channel], Iterator[tuple[Record, Sequence[Party]]]]
    sends: Sequence[str]  # the kinds of its messages: codecs may be given for these
    settings: Mapping[str, Setting] = field(default_factory=dict)  # and what they may be
    check: Callable[[Any], None] = anything  # raises ValueError for an experiment it cannot run
    records_a_round: Callable[[Task], int] = a_record_a_step
    together: Callable[[Task], int] = one_after_the_other  # messages on their way at the same time
    # of all clients together after so many steps, by state; None: not told
    flops: Callable[[Task, int, Counter[str], Any], float] | None = None
    gated: bool = False  # whether it needs a gate

    def __post_init__(self) -> None:
        if not self.name.isidentifier():
            raise ValueError(f"name={self.name!r}: letters, digits and _, as in a Python name")
        if strangers := set(self.sends) - set(KINDS):
            raise ValueError(f"sends {sorted(strangers)}: a kind is one of {', '.join(KINDS)}")

    def __repr__(self) -> str:
        return self.name
