"""What a lab's picture shows, and that it is the same as SVG and as PNG."""

import xml.etree.ElementTree as ElementTree

import pytest
from course.labs.few_digits import small
from matplotlib.backends.backend_agg import FigureCanvasAgg

from fltoolkit.split import LossGate, Progress, State
from fltoolkit_course.labs import ThresholdLab
from fltoolkit_course.labs.picture import axes_of, draw, ledger, segments, status_in_words


@pytest.mark.later
def test_states_and_ledger_are_those_of_the_run() -> None:
    lab = small(20, threshold=0.3)
    run = lab.run()
    drawn = "".join(state * (end - start + 1) for start, end, state in segments(run))
    assert drawn == "".join(run.history.column("state"))
    for kind, (_, nbytes, words) in zip(lab.board.kinds, ledger(lab), strict=True):
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
        for start, end, low, high in axes_of(lab, lab.board.plots[1]).bands
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
    reached = [axes_of(lab, plot).limits()[0][1] for plot in lab.board.plots]
    assert reached == [last["nbytes"], last["step"]]


@pytest.fixture(scope="module")
def two_runs() -> ThresholdLab:
    lab = small(20, threshold=0.3)
    lab.run(60)
    lab.set("threshold", 0.05)
    lab.run()
    lab.set("bits_up", 4)
    lab.run(100)
    return lab


@pytest.mark.slow
def test_the_svg_shows_states_by_letter_and_height_marks_and_ledger(two_runs: ThresholdLab) -> None:
    lab, picture = two_runs, draw(two_runs)
    root = ElementTree.fromstring(picture.svg())
    space = "{http://www.w3.org/2000/svg}"
    words = [text.text for text in root.iter(f"{space}text")]
    title = root.find(f"{space}title")
    assert title is not None
    assert title.text == picture.title
    assert {f"{state} {look.words}" for state, look in lab.board.states.items()} <= set(words)
    assert "nan" not in picture.svg()
    assert "threshold 0.05" not in words, "marks are those of the current run"
    assert any("run 1: threshold 0.3" in (word or "") for word in words)
    assert "threshold 0.05 from step 60" in " ".join(word or "" for word in words)
    sent = {name: nbytes for name, nbytes, _ in ledger(lab)}
    assert sum(sent.values()) == lab.current.training.channel.nbytes()
    assert sent["up: activations"] == lab.current.history[-1]["nbytes_up"]

    looks = lab.board.states.values()
    assert len({look.height for look in looks}) == len({look.color for look in looks}) == 3
    assert set(lab.board.states) == {state.value for state in State}


@pytest.mark.later
@pytest.mark.parametrize("count", [0, 1, 7, 8, 9])
def test_pictures_of_runs_that_have_hardly_begun(count: int) -> None:
    lab = small()
    assert draw(lab).title.startswith("Threshold lab: not started")
    lab._going()
    if count:
        lab.run(count)
    picture = draw(lab)
    ElementTree.fromstring(picture.svg())
    FigureCanvasAgg(picture.figure()).draw()
    assert (f"step {count} of 96" in status_in_words(lab)) == bool(count)
