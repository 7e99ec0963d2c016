"""A lab's picture on paper: the same as SVG and as PNG."""

import xml.etree.ElementTree as ElementTree

import pytest
from course.labs.few_digits import small
from matplotlib.backends.backend_agg import FigureCanvasAgg

from fltoolkit.split import State
from fltoolkit_course.labs import ThresholdLab
from fltoolkit_course.labs.layout import lay_out
from fltoolkit_course.labs.picture import compose


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
    lab, picture = two_runs, compose(two_runs)
    root = ElementTree.fromstring(lay_out(picture).svg())
    space = "{http://www.w3.org/2000/svg}"
    words = [text.text for text in root.iter(f"{space}text")]
    title = root.find(f"{space}title")
    assert title is not None
    assert title.text == picture.summary()
    assert {f"{state} {look.words}" for state, look in lab.board.states.items()} <= set(words)
    assert "nan" not in lay_out(picture).svg()
    assert "threshold 0.05" not in words, "marks are those of the current run"
    assert any("run 1: threshold 0.3" in (word or "") for word in words)
    assert "threshold 0.05 from step 60" in " ".join(word or "" for word in words)
    ledger = {name: nbytes for name, nbytes, _ in picture.ledger}
    assert sum(ledger.values()) == lab.current.training.channel.nbytes()
    assert ledger["up: activations"] == lab.current.history[-1]["nbytes_up"]

    looks = lab.board.states.values()
    assert len({look.height for look in looks}) == len({look.color for look in looks}) == 3
    assert set(lab.board.states) == {state.value for state in State}


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9])
def test_pictures_of_runs_that_have_hardly_begun(count: int) -> None:
    lab = small()
    assert compose(lab).summary().startswith("Threshold lab: not started")
    lab._going()
    if count:
        lab.run(count)
    picture = compose(lab)
    ElementTree.fromstring(lay_out(picture).svg())
    FigureCanvasAgg(lay_out(picture).figure()).draw()
    assert (f"step {count} of 96" in picture.status) == bool(count)
