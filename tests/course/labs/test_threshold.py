"""The threshold lab: codecs by bits, and what crosses in state C."""

import torch

from fltoolkit.codecs import Identity
from fltoolkit_course.labs import ThresholdLab
from fltoolkit_course.labs.train_threshold import codec
from fltoolkit_course.quiz import quiz


def test_codecs_by_bits() -> None:
    values = torch.randn(1000, generator=torch.Generator().manual_seed(0))
    sizes = {bits: len(codec(bits).encode({"h": values})) for bits in (32, 16, 8, 6, 4, 2)}
    assert codec(32) == Identity()
    for bits, nbytes in sizes.items():
        assert 0 <= nbytes - 1000 * bits / 8 < 60


def test_in_state_c_the_announcement_of_the_state_crosses_and_nothing_else() -> None:
    """What the lab and the hint of the quiz say is what is measured."""
    lab = ThresholdLab(num_epochs=4, threshold=1.0)
    lab.run()
    first, last = (record["nbytes"] for record in lab.current.history.having("accuracy")[-2:])
    assert {record["state"] for record in lab.current.history[-23:]} == {"C"}
    assert last - first == 14
    assert lab.board.states["C"].words == "announcement only"
    hints = quiz.answers["learning in silence"]().hints
    assert "only the announcement of the state crosses: 14 bytes" in hints["b"]
