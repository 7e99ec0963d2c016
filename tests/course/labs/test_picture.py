"""What a lab's picture shows, as data."""

import pytest
from course.labs.few_digits import small

from fltoolkit.split import LossGate, Progress
from fltoolkit_course.labs.picture import compose


def test_states_and_ledger_are_those_of_the_run() -> None:
    lab = small(20, threshold=0.3)
    run = lab.run()
    picture = compose(lab)
    drawn = "".join(state * (end - start + 1) for start, end, state in picture.segments)
    assert drawn == "".join(run.history.column("state"))
    for kind, (_, nbytes, words) in zip(lab.board.kinds, picture.ledger, strict=True):
        assert nbytes == run.training.channel.nbytes(kind=kind)
        count = sum(t.kind == kind for t in run.training.channel.transfers)
        assert f" in {count:,} message" in words


@pytest.mark.later
def test_the_band_is_the_gates() -> None:
    lab = small(20, threshold=0.3)
    lab.run(60)
    lab.set("threshold", 0.1)
    run = lab.run()
    gate, expected = LossGate(0.3), {}
    for record in run.history:
        gate.threshold = float(record["threshold"])
        if gate.checks:
            expected[record["step"]] = (max(gate.band[0], 0.0), gate.band[1])
        if "checked_loss" in record:
            gate.check(Progress(0, float(record["checked_loss"]), 0))
    drawn = {
        step: (low, high)
        for start, end, low, high in compose(lab).axes[1].bands
        for step in range(int(start), int(end) + 1)
    }
    assert drawn.keys() == expected.keys()
    for step, band in expected.items():
        assert drawn[step] == pytest.approx(band)


def test_a_run_that_was_stopped_reaches_no_further_than_it_went() -> None:
    lab = small(12)
    lab.run(10)
    lab.stop()
    last = lab.current.history[-1]
    reached = [axes.limits()[0][1] for axes in compose(lab).axes]
    assert reached == [last["nbytes"], last["step"]]
