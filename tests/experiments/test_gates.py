"""The two gates of the experiment on asynchronous states."""

import pytest

from experiments.async_states.gates import BangBang, LogSpaced
from fltoolkit.split import Progress, State, gate_trace


def test_each_silence_is_twice_as_long():
    states = gate_trace([1.0, 9.0, 1.0, 5.0, 1.0, 2.0, 7.0, 1.0], LogSpaced())
    assert "".join(state.value for state in states) == "AABABCCA"


@pytest.mark.parametrize("pace", [0.5, 1.0])
@pytest.mark.parametrize("budget", [4_000, 20_000, 60_000])
def test_a_budget_is_met_by_moving_the_threshold(budget, pace):
    """Within half a period in A, whatever the loss does; here 100 bytes, B 50, C 2."""
    gate, spent = BangBang(budget, 1000, pace=pace), 0
    for step in range(1, 1001):
        spent += {State.A: 100, State.B: 50, State.C: 2}[gate.state]
        gate.check(Progress(step, 3.0 / step + 0.1 * (step % 3), spent))
    assert abs(spent - budget) <= max(60, 0.02 * budget)


@pytest.mark.parametrize("gate", [LogSpaced(), BangBang(1000, 10, threshold=0.2, every=1)])
def test_a_gate_goes_on_where_it_was_saved(gate):
    again = eval(repr(gate))
    losses = [2.0, 1.5, 1.45, 1.44, 1.2, 0.9, 0.89, 0.88]

    def run(gate, first, last):
        return [gate.check(Progress(s + 1, losses[s], 150 * s)).value for s in range(first, last)]

    run(gate, 0, 4)
    again.load_state_dict(gate.state_dict())
    assert run(again, 4, 8) == run(gate, 4, 8)


@pytest.mark.parametrize("settings", [{"factor": 1.0}, {"threshold": 0.0}])
def test_settings_that_cannot_move_a_threshold(settings):
    with pytest.raises(ValueError, match="need factor > 1, threshold > 0"):
        BangBang(10, 10, **settings)
