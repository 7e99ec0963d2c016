"""A protocol as a value: its name, what it sends, its settings, and the function that trains.

Here: the values from which you make a protocol of your own.
"""

import importlib
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from torch import nn, zeros

from fltoolkit.channel import KINDS, Channel
from fltoolkit.codecs.base import Codec
from fltoolkit.history import Record
from fltoolkit.party import Party
from fltoolkit_research.task import Task
from fltoolkit_research.text import named

Trained = Iterator[tuple[Record, Sequence[Party] | Sequence[Sequence[Party]]]]
"""Every protocol yields a record together with the parties that are the whole network now.

If each owner has a network of its own, it yields the parties of each: the mean of what they score
is recorded."""


@dataclass(frozen=True)
class Setting:
    """The values that one of a protocol's settings may have."""

    words: str  # what is allowed, for the error: "a whole number above 0"
    allowed: Callable[[Any], bool]


def is_number(value: Any) -> bool:
    """True if ``value`` is a number; True and False do not count as numbers."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_optimizer(call: Any) -> bool:
    """True if ``call`` makes an optimizer; the function tries it with one parameter."""
    try:
        return isinstance(call, partial) and hasattr(call([nn.Parameter(zeros(1))]), "step")
    except TypeError:
        return False


COUNT = Setting("a whole number above 0", lambda v: is_number(v) and isinstance(v, int) and v > 0)
"""A setting that counts something, such as local steps: a whole number above 0."""
FLAG = Setting("True or False", lambda v: isinstance(v, bool))
"""A setting that is switched on or off: True or False."""
AMOUNT = Setting("a number, 0 or more", lambda v: is_number(v) and 0 <= v < math.inf)
"""A setting that measures something, such as a weight or seconds: a finite number, 0 or more."""
CODEC = Setting("a codec such as Pipeline(TopK(0.01))", lambda v: isinstance(v, Codec))
"""A setting that is a codec, or its text."""
OPTIMIZER = Setting("an optimizer such as Adam(lr=0.01)", is_optimizer)
"""A setting that is an optimizer: ``functools.partial(Adam, lr=0.01)``, or a text."""


def one_record_per_step(task: Task) -> int:
    """Records in a round, for a protocol that yields one record per batch.

    A round is one pass over all data, so it has as many records as all clients have batches.

    >>> from fltoolkit_research.experiment import Experiment
    >>> task = Task(Experiment(num_samples=96))
    >>> one_record_per_step(task), one_record_per_round(task)  # 96 samples are 3 batches of 32
    (3, 1)
    """
    return sum(map(len, task.batches))


def one_record_per_round(task: Task) -> int:
    """Records in a round, for a protocol that yields one record per round: always 1."""
    return 1


def tested_once(experiment: Any) -> None:
    """Raise ValueError for tests within a round: only at its end is there one model to test."""
    if experiment.evaluations > 1:
        raise ValueError(
            f"evaluations={experiment.evaluations}: {experiment.protocol} is tested once per "
            "round, since clients have different models within a round"
        )


def batches_of_all(task: Task) -> int:
    """The batches in one pass over all samples."""
    return math.ceil(len(task.data.y_train) / task.batch_size)


def everybody(task: Task) -> int:
    """All clients send at the same time."""
    return task.num_clients


@dataclass(frozen=True, eq=False)
class Protocol:
    """One way to train. `as_protocol` makes one of a function; an experiment is given the result.

    ``train(task, channel)`` makes parties from a `Task`, lets them send through ``channel``, and
    yields pairs: a record, and the parties that together are the whole network now, of which the
    last has the loss. A record needs "step", counted from 1, and the totals of
    ``channel.begin(...)`` or ``channel.totals(...)()``; "loss" is the mean training loss.

    Args:
        name: as in an experiment's file; letters, digits and _.
        train: the function.
        sends: the kinds of its messages, all of them: codecs may be given for these.
        settings: its own settings by name.
        check: raises ValueError for an experiment that it cannot run.
        records_per_round: how many records it yields in one round, for a task.
        together: how many messages travel at the same time, for a task; ``num_waits`` needs it.
        flops: the work of all clients together, of the task, the step, the number of steps in each
            state and the `ModelCost`; None: unknown, and ``client_flops`` is not recorded.
        gated: whether it needs a gate.
    """

    name: str
    train: Callable[[Task, Channel], Trained]
    sends: Sequence[str]
    settings: Mapping[str, Setting] = field(default_factory=dict)
    check: Callable[[Any], None] = lambda experiment: None  # can run every experiment
    records_per_round: Callable[[Task], int] = one_record_per_round
    together: Callable[[Task], int] = one_record_per_round
    flops: Callable[[Task, int, Counter[str], Any], float] | None = None
    gated: bool = False

    def __post_init__(self) -> None:
        if not self.name.isidentifier():
            raise ValueError(
                f"name={self.name!r}: use letters, digits and _ only, as in a Python name"
            )
        object.__setattr__(self, "__doc__", self.train.__doc__)  # what `help` shows
        if strangers := set(self.sends) - set(KINDS):
            raise ValueError(f"sends {sorted(strangers)}: a kind is one of {', '.join(KINDS)}")
        for name, setting in dict(self.settings).items():
            if not isinstance(setting, Setting):
                raise TypeError(
                    f"settings[{name!r}]={setting!r}: give a Setting, such as COUNT, FLAG, AMOUNT "
                    "or CODEC of fltoolkit_research"
                )

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Any, ...]:
        """Worker processes import the protocol from the module of its function."""
        return _imported, (self.train.__module__, self.name)


def _imported(module: str, name: str) -> Any:
    return named(Protocol, name, [importlib.import_module(module)])


def as_protocol(sends: Sequence[str], **how: Any) -> Callable[[Callable[..., Trained]], Protocol]:
    """Make a `Protocol` of the function below, with its name; ``how`` has the other fields.

    This protocol trains the whole network at the server and sends nothing:

    >>> @as_protocol(sends=[])
    ... def alone(task, channel):
    ...     server = task.whole()
    ...     yield {"step": 1, **channel.totals(task.names)()}, [server]
    >>> alone
    alone
    """

    def made(train: Callable[..., Trained]) -> Protocol:
        return Protocol(train.__name__, train, sends, **how)

    return made
