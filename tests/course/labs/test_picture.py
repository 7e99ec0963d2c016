"""What a lab's picture shows, as data."""

import pytest
from course.labs.few_digits import picture_of, small, states

from fltoolkit.split import LossGate, Progress
from fltoolkit_course.labs.picture import Trace, compose


@pytest.mark.later
def test_a_trace_catches_up_to_the_same_picture() -> None:
    lab = small(20, threshold=0.3)
    run = lab._going()
    often = Trace(lab.board, run.history, run.training.channel)
    for _ in range(30):
        lab.run(5)
        often.catch_up()
    once = Trace(lab.board, run.history, run.training.channel)
    once.catch_up()
    assert compose(lab, {1: often}) == compose(lab, {1: once})
    assert states(once.segments) == "".join(run.history.column("state"))
    for kind, (messages, nbytes) in once.tally.items():
        assert nbytes == run.training.channel.nbytes(kind=kind)
        assert messages == sum(t.kind == kind for t in run.training.channel.transfers)


@pytest.mark.later
def test_the_band_is_the_gates() -> None:
    lab = small(20, threshold=0.3)
    lab.run(60)
    lab.set("threshold", 0.1)
    run = lab.run()
    trace = Trace(lab.board, run.history, run.training.channel)
    trace.catch_up()
    gate, expected = LossGate(0.3), {}
    for record in run.history:
        gate.threshold = float(record["threshold"])
        if gate.checks:
            expected[record["step"]] = (max(gate.band[0], 0.0), gate.band[1])
        if "checked_loss" in record:
            gate.check(Progress(0, float(record["checked_loss"]), 0))
    drawn = {
        step: (low, high)
        for start, end, low, high in trace.bands
        for step in range(int(start), int(end) + 1)
    }
    assert drawn.keys() == expected.keys()
    for step, band in expected.items():
        assert drawn[step] == pytest.approx(band)


@pytest.mark.later
def test_a_mark_stands_where_the_move_was_made() -> None:
    lab = small(20, threshold=0.3)
    lab.run(60)
    lab.set("threshold", 0.05)
    lab.run(30)
    over_bytes, over_steps = picture_of(lab).axes
    nbytes = lab.current.history[59]["nbytes"]
    assert over_bytes.marks == [(nbytes, "threshold 0.05")]
    assert over_steps.marks == [(60, "threshold 0.05")]


@pytest.mark.later
def test_the_axes_are_those_of_the_end_from_the_first_record_on() -> None:
    lab = small(12, threshold=0.0)
    lab.run(1)
    early = [axes.limits()[0] for axes in picture_of(lab).axes]
    lab.run(20)
    assert [axes.limits()[0] for axes in picture_of(lab).axes] == early
    total = lab.current.training.total
    assert early[1] == (0, total), "steps"
    lab.run()
    nbytes = lab.current.history[-1]["nbytes"]
    assert [axes.limits()[0] for axes in picture_of(lab).axes] == [(0, nbytes), (0, total)]
    assert nbytes <= early[0][1] < 1.1 * nbytes, "bytes are rounded up to two digits before"


def test_a_run_that_was_stopped_reaches_no_further_than_it_went() -> None:
    lab = small(12)
    lab.run(10)
    lab.stop()
    last = lab.current.history[-1]
    reached = [axes.limits()[0][1] for axes in picture_of(lab).axes]
    assert reached == [last["nbytes"], last["step"]]
