"""Two more gates, which this experiment compares with those of `fltoolkit.split.gates`."""

from dataclasses import dataclass, field

from fltoolkit.split.gates import BudgetGate, CountingGate, Progress, State


@dataclass
class LogSpaced(CountingGate):
    """A in the periods 0, 1, 3, 7, 15, ...: each silence is twice as long as the one before.

    >>> from fltoolkit.split import gate_trace
    >>> "".join(state.value for state in gate_trace([1.0] * 10, LogSpaced()))
    'AABABCCABC'
    """

    every: int | None = None

    def _wakes(self, progress: Progress) -> bool:
        return (self.checks + 1) & self.checks == 0  # checks + 1 is a power of two


@dataclass(repr=False)
class BangBang(BudgetGate):
    """A `LossGate` whose threshold is changed so that ``nbytes`` are spent over ``num_steps``.

    If more was spent than the plan of `BudgetGate` allows, the threshold is multiplied by
    ``factor``; otherwise it is divided by it. Near the end the budget itself decides: no state that
    would exceed the budget is chosen, and if the budget is enough for A until the end, A is chosen.
    SplitCom (2026, arXiv 2602.10564) uses such bang-bang control of a threshold for single samples.

    >>> gate = BangBang(nbytes=350, num_steps=10)
    >>> gate.check(Progress(step=1, loss=1.0, nbytes=100)), round(gate.threshold, 3)
    (<State.A: 'A'>, 0.12)
    """

    threshold: float = 0.1  # at the beginning
    factor: float = 1.2
    reference: float = field(default=0.0, init=False, repr=False)
    kept = (*BudgetGate.kept, "threshold", "reference")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.factor > 1 or not self.threshold > 0:
            raise ValueError(
                f"factor={self.factor}, threshold={self.threshold}: need factor > 1, threshold > 0"
            )

    def _decide(self, progress: Progress) -> State:
        self.note(progress)
        over = progress.nbytes > self.allowed(progress)
        self.threshold *= self.factor if over else 1 / self.factor
        left = self.nbytes - progress.nbytes
        return State.C if left < self.dearest / 2 else CountingGate._decide(self, progress)

    def _wakes(self, progress: Progress) -> bool:
        periods_left = (self.num_steps - progress.step) * self.checks / progress.step
        enough = self.nbytes - progress.nbytes >= periods_left * self.dearest
        if changed := enough or abs(self.reference - progress.loss) >= self.threshold:
            self.reference = progress.loss
        return changed

    def __repr__(self) -> str:
        """The settings in the order in which the stored results know them."""
        names = ("nbytes", "num_steps", "threshold", "every", "pace", "factor")
        return f"BangBang({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"
