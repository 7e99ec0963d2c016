import math

import pytest

from fltoolkit.split import (
    AlwaysA,
    BudgetGate,
    Decay,
    FreezeAfter,
    Gate,
    LossGate,
    Periodic,
    Progress,
    State,
    gate_trace,
)
from fltoolkit.split.gates import ask, check_gate

GATES = [
    AlwaysA(),
    Periodic(3),
    FreezeAfter(2, every=5),
    LossGate(0.1),
    LossGate(0.1, every=7, schedule=Decay(0.9)),
    BudgetGate(1000, 10),
    BudgetGate(1000, 10, every=2, pace=0.5),
]


def letters(losses, gate):
    return "".join(state.value for state in gate_trace(losses, gate))


@pytest.mark.parametrize(
    ("losses", "threshold", "states"),
    [
        # the reference is 0 at first, then the loss at the last A
        ([2.0, 1.9, 1.8, 1.7, 1.6, 1.5], 0.25, "AABCAB"),
        ([2.0, 2.0, 2.0, 2.0, 2.0], 0.1, "AABCC"),
        ([2.0, 2.25, 2.0, 2.25], 0.25, "AAAA"),  # up or down is the same; equality wakes
        ([0.1, 0.1, 0.1, 0.1], 0.5, "ABCC"),  # near the first reference from the start
        ([5.0, 4.0, 3.0, 3.0, 3.0, 3.0], 0.0, "AAAAAA"),  # 0 never leaves A
    ],
)
def test_loss_gate_by_hand(losses, threshold, states):
    assert letters(losses, LossGate(threshold)) == states


def test_a_decaying_threshold_wakes_more_often():
    losses = [2.0 - 0.1 * period for period in range(12)]
    constant, decaying = (LossGate(0.5, schedule=s) for s in (Decay(1.0), Decay(0.8)))
    assert letters(losses, constant) == "AABCCCABCCCA"
    assert letters(losses, decaying).count("A") > 3


@pytest.mark.parametrize("pace", [0.5, 1.0])
@pytest.mark.parametrize("budget", [4_000, 20_000, 60_000])
def test_budgets_are_met(budget, pace):
    """Within half a period in A, whatever the loss does; here 100 bytes, B 50, C 2."""
    gate = BudgetGate(budget, 1000, pace=pace)
    spent = 0
    for step in range(1, 1001):
        spent += {State.A: 100, State.B: 50, State.C: 2}[gate.state]
        gate.check(Progress(step, 3.0 / step + 0.1 * (step % 3), spent))
    assert abs(spent - budget) <= max(60, 0.02 * budget)


def test_a_budget_can_be_spent_early():
    def half_way(pace):
        gate, spent = BudgetGate(10_000, 1000, pace=pace), 0
        for step in range(1, 501):
            spent += 100 if gate.state is State.A else 2
            gate.check(Progress(step, 1.0, spent))
        return spent

    assert half_way(0.5) > 1.3 * half_way(1.0)


@pytest.mark.parametrize("gate", GATES, ids=repr)
def test_every_gate(gate):
    """Starts in A, is told by its repr, goes on where it was saved."""
    assert isinstance(gate, Gate)
    assert gate.state is State.A
    again = eval(repr(gate))
    assert repr(again) == repr(gate)
    losses = [2.0, 1.5, 1.45, 1.44, 1.2, 0.9, 0.89, 0.88]

    def run(gate, first, last):
        return [gate.check(Progress(s + 1, losses[s], 150 * s)).value for s in range(first, last)]

    run(gate, 0, 4)
    again.load_state_dict(gate.state_dict())
    assert run(again, 4, 8) == run(gate, 4, 8)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: LossGate(-0.1), "threshold=-0.1"),
        (lambda: LossGate(0.1, every=0), "every=0"),
        (lambda: LossGate(0.1, every=2.5), r"every=2\.5"),
        (lambda: Decay(math.nan), "factor=nan"),
        (lambda: Periodic(0), "period=0"),
        (lambda: FreezeAfter(0), "num_periods=0"),
        (lambda: BudgetGate(0, 10), "nbytes=0"),
        (lambda: BudgetGate(10, math.nan), "num_steps=nan"),
        (lambda: BudgetGate(10, 10, pace=0), "pace=0"),
        (lambda: AlwaysA().check(Progress(1, math.nan, 0)), "diverged"),
    ],
)
def test_complaints(make, match):
    with pytest.raises(ValueError, match=match):
        make()


@pytest.mark.parametrize("wrong", ["LossGate(0.1)", LossGate, None])
def test_what_is_no_gate_is_refused(wrong):
    with pytest.raises(TypeError, match="is none: give one such as"):
        check_gate(wrong)


def test_a_gate_that_says_one_state_and_holds_another_is_an_error():
    """Its trainings would go on in state A for ever, and nothing would tell."""

    class Forgetful(AlwaysA):
        def check(self, progress):
            return State.C

    with pytest.raises(TypeError, match=r"check returned .*C.*but its state is .*A"):
        ask(Forgetful(), Progress(1, 1.0, 0))
    with pytest.raises(TypeError, match=r"check must set self\.state"):
        gate_trace([1.0, 0.5], Forgetful())
