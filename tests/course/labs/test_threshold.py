"""The threshold lab: what crosses in state C."""

import pytest

from fltoolkit_course.labs import ThresholdLab
from fltoolkit_course.quiz import quiz


@pytest.mark.later
def test_in_state_c_the_announcement_of_the_state_crosses_and_nothing_else() -> None:
    """What the lab and the hint of the quiz say is what is measured."""
    lab = ThresholdLab(num_epochs=4, threshold=1.0)
    lab.run()
    first, last = (record["nbytes"] for record in lab.current.history.having("accuracy")[-2:])
    assert {record["state"] for record in lab.current.history[-23:]} == {"C"}
    assert last - first == 14
    assert lab.board.states["C"].words == "announcement only"
    hints = dict(quiz.answers["learning in silence"]().hints)
    assert "only the announcement of the state crosses: 14 bytes" in hints["b"]
