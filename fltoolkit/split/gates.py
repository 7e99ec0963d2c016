"""Gates: when may a client fall silent? They decide between the states A, B and C.

Here: decisions only, from losses and byte counts; nothing is trained or sent.
Notebook 03 builds a gate by hand.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np

from fltoolkit.history import naming_its_words


class State(str, Enum):
    """What is sent over the cut in a period: the states of Chen et al. 2021, arXiv 2107.09786.

    >>> State.B.value, State("C") is State.C
    ('B', True)
    """

    A = "A"  # activations up, gradients down: both parties learn
    B = "B"  # activations up only: the label party learns and renews its cache
    C = "C"  # neither of them: the label party learns from its cache


class Progress(NamedTuple):
    """What a gate knows at a check.

    >>> gate = LossGate(threshold=0.1)
    >>> gate.check(Progress(step=938, loss=0.4, nbytes=1_000_000)).value
    'A'
    """

    step: int  # training steps so far
    loss: float  # the label party's mean loss since the last check
    nbytes: int  # bytes that all parties sent so far, headers included


@runtime_checkable
class Gate(Protocol):
    """A gate decides, at the end of each period, about the state of the next. The first is in A.

    ``every`` is the length of a period in steps; None means an epoch (a round, with several
    clients). ``state`` is that of the current period.

    >>> isinstance(AlwaysA(), Gate), isinstance(State.A, Gate)
    (True, False)
    """

    every: int | None
    state: State

    def check(self, progress: Progress) -> State | None:
        """Decide about the next period: set ``state``, and return it or None."""

    def state_dict(self) -> dict[str, Any]:
        """What must be kept to go on later."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved `state_dict`."""


def check_gate(gate: object) -> None:
    """Raise if this is not a gate, or if its period is not possible."""
    if isinstance(gate, type) or not isinstance(gate, Gate):
        raise TypeError(f"gate={gate!r} is none: give one such as LossGate(0.1) or Periodic(4)")
    if not (gate.every is None or _is_count(gate.every)):
        raise ValueError(f"every={gate.every}: whole steps, 1 or more, or None: an epoch")


def ask(gate: Gate, progress: Progress) -> None:
    """Ask the gate for the state of the next period; raise if it returns one and holds another."""
    returned = gate.check(progress)
    if returned is not None and returned != gate.state:
        raise TypeError(
            f"{gate!r}: check returned {returned!r}, but its state is {gate.state!r}. Training "
            "goes by the state: check must set self.state to what it returns"
        )


def _is_count(value: object) -> bool:
    """Whether it is a whole number from 1 on."""
    return isinstance(value, int | np.integer) and bool(value >= 1)


class CountingGate:
    """The common part of gates: a first period in A, a count of checks, and saving.

    A gate of your own says in ``_wakes`` when the next period is in A.
    """

    every: int | None = None
    state = State.A
    checks = 0  # how many periods have ended
    kept: ClassVar[tuple[str, ...]] = ("checks",)  # what is saved beside the state

    def __post_init__(self) -> None:
        check_gate(self)

    def check(self, progress: Progress) -> State:
        """Count the check and let the subclass decide."""
        if not math.isfinite(progress.loss):
            raise ValueError(f"the mean loss is {progress.loss}: has training diverged?")
        self.checks += 1
        self.state = self._decide(progress)
        return self.state

    def _decide(self, progress: Progress) -> State:
        """A if the gate wakes; else one step towards silence: A to B, B to C, C stays C."""
        if self._wakes(progress):
            return State.A
        return State.B if self.state is State.A else State.C

    def _wakes(self, progress: Progress) -> bool:
        """Whether the next period, number ``checks`` from 0 on, is in state A."""
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        """All that changes as training goes on."""
        return {"state": self.state.value, **{name: getattr(self, name) for name in self.kept}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved `state_dict`."""
        self.state = State(state["state"])
        for name in self.kept:
            setattr(self, name, state[name])


@dataclass(frozen=True)
class Decay:
    """The schedule that multiplies a threshold by ``factor`` at each check; 1 leaves it as it is.

    >>> Decay(0.5)(3)
    0.125
    """

    factor: float

    def __post_init__(self) -> None:
        if not 0 < self.factor < math.inf:
            raise ValueError(f"factor={self.factor}: above 0 and finite; below 1 to decay")

    def __call__(self, check: int) -> float:
        """The factor after so many checks."""
        return self.factor**check


@naming_its_words
@dataclass
class LossGate(CountingGate):
    """Let the client send when the loss has changed: the rule of loss-based asynchronous training.

    ``reference`` is the mean loss at the last check that led to A, and ``loss`` is the mean since
    the last check. The rule is:

    - ``|reference - loss| >= threshold``: A, and ``loss`` becomes the reference
    - otherwise one step towards silence: A to B, B to C, C stays C

    With a threshold of 0 the gate stays in A. The rule is that of Chen et al. 2021 (arXiv
    2107.09786) as SecretFlow's ``split_state_async`` implements it.

    >>> gate = LossGate(0.3)
    >>> [gate.check(Progress(0, loss, 0)).value for loss in (2.0, 1.5, 1.4, 1.3, 1.2, 1.1)]
    ['A', 'A', 'B', 'C', 'A', 'B']
    """

    threshold: float  # of the loss; larger = fewer bytes. May be changed during training
    every: int | None = None
    schedule: Callable[[int], float] = Decay(1.0)  # number of checks -> factor of the threshold
    reference: float = field(default=0.0, init=False, repr=False)
    kept = ("checks", "reference", "threshold")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.threshold < math.inf:
            raise ValueError(f"threshold={self.threshold}: a difference of losses, 0 or more")

    @property
    def band(self) -> tuple[float, float]:
        """Two limits: a mean loss outside them leads to A, one inside leads towards silence."""
        half = self.threshold * self.schedule(self.checks)
        return self.reference - half, self.reference + half

    def _wakes(self, progress: Progress) -> bool:
        limit = self.threshold * self.schedule(self.checks - 1)
        if changed := abs(self.reference - progress.loss) >= limit:
            self.reference = progress.loss
        return changed

    def __repr__(self) -> str:
        extra = "" if self.every is None else f", every={self.every}"
        extra += "" if self.schedule == Decay(1.0) else f", schedule={self.schedule!r}"
        return f"{type(self).__name__}({self.threshold}{extra})"


@dataclass
class AlwaysA(CountingGate):
    """Vanilla split learning: every period in A.

    >>> [state.value for state in gate_trace([1.0] * 4, AlwaysA())]
    ['A', 'A', 'A', 'A']
    """

    every: int | None = None

    def _wakes(self, progress: Progress) -> bool:
        return True


@dataclass
class Periodic(CountingGate):
    """A, B, then C until ``period`` periods are over; then A, B and C again, and so on.

    >>> [state.value for state in gate_trace([1.0] * 6, Periodic(4))]
    ['A', 'B', 'C', 'C', 'A', 'B']
    """

    period: int  # larger = fewer bytes
    every: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not _is_count(self.period):
            raise ValueError(f"period={self.period}: a count of periods, 1 (always A) or more")

    def _wakes(self, progress: Progress) -> bool:
        return self.checks % self.period == 0


@dataclass
class FreezeAfter(CountingGate):
    """A for the first ``num_periods``, then B once, then C: the bottom is frozen for good.

    >>> [state.value for state in gate_trace([1.0] * 5, FreezeAfter(2))]
    ['A', 'A', 'B', 'C', 'C']
    """

    num_periods: int  # smaller = fewer bytes
    every: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not _is_count(self.num_periods):
            raise ValueError(f"num_periods={self.num_periods}: 1 or more in state A")

    def _wakes(self, progress: Progress) -> bool:
        return self.checks < self.num_periods


@dataclass
class BudgetGate(CountingGate):
    """Spend ``nbytes`` over ``num_steps`` and ignore the loss: A as often as the budget allows.

    The plan for spending is nbytes * t^pace, where t is the share of the steps done. The next
    period is in A if the spent bytes are then nearer to the plan than they would be with C. The
    bytes at the end differ from the budget by at most half the cost of a period in A (``every``).

    >>> gate = BudgetGate(nbytes=350, num_steps=10, every=1)
    >>> spent, states = 0, ""
    >>> for step in range(1, 11):
    ...     states += gate.state.value
    ...     spent += 100 if gate.state is State.A else 2
    ...     _ = gate.check(Progress(step, 1.0, spent))
    >>> states, spent
    ('ACCCACCACC', 314)
    """

    nbytes: int
    num_steps: int
    every: int | None = 1
    pace: float = 1.0  # below 1: more is spent early
    dearest: int = field(default=0, init=False, repr=False)  # bytes of the most expensive period
    spent: int = field(default=0, init=False, repr=False)  # bytes at the last check
    kept = ("checks", "dearest", "spent")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.nbytes < math.inf or not _is_count(self.num_steps):
            raise ValueError(
                f"nbytes={self.nbytes}, num_steps={self.num_steps}: need a budget in bytes "
                "and the steps that the whole run will take"
            )
        if not 0 < self.pace < math.inf:
            raise ValueError(f"pace={self.pace}: above 0; 1 spends evenly, less spends early")

    def allowed(self, progress: Progress) -> float:
        """How many bytes may be spent by the end of the next period."""
        period = progress.step / self.checks
        done = min((progress.step + period) / self.num_steps, 1.0)
        return self.nbytes * done**self.pace

    def note(self, progress: Progress) -> None:
        """Remember what the period that has ended did cost."""
        self.dearest = max(self.dearest, progress.nbytes - self.spent)
        self.spent = progress.nbytes

    def _decide(self, progress: Progress) -> State:
        self.note(progress)
        return State.A if progress.nbytes + self.dearest / 2 <= self.allowed(progress) else State.C


def gate_trace(losses: Iterable[float], gate: Gate) -> list[State]:
    """The states that a gate chooses for periods with these mean losses; the first one is A.

    For recorded losses the result is only an estimate: with another gate the run would have had
    other losses. For budget gates it means nothing, since 0 bytes are spent here.

    >>> [state.value for state in gate_trace([2.0, 1.9, 1.8], LossGate(0.5))]
    ['A', 'A', 'B']
    """
    states = []
    for period, loss in enumerate(losses, 1):
        states.append(gate.state)
        ask(gate, Progress(period, loss, 0))
    return states
