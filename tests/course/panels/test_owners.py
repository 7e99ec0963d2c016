"""The panel of owners who have few classes."""

from typing import Any

import pytest
import torch

from fltoolkit_course.panels import OwnersPanel

pytest.importorskip("ipywidgets", reason="the panel is for notebooks")

LABELS = torch.tensor([0, 0, 1, 1])
READ = {
    "0": torch.tensor([[0, 1, 1, 0], [0, 0, 0, 0]]),
    "together": torch.tensor([[0, 0, 0, 1], [0, 0, 1, 1]]),
}


@pytest.mark.later
def test_the_slider_goes_back_to_earlier_rounds(shown: list[dict[str, Any]]) -> None:
    panel = OwnersPanel(READ, LABELS, [1000, 2000])
    panel._ipython_display_()
    panel.slider.value = 1
    first, second = shown
    assert first["text/plain"] == (
        "after round 2: alone 50.0 % right (mean of 1), together 100.0 % for 2.0 kB"
    )
    assert second["text/plain"].startswith("after round 1: alone 50.0 % right")
    assert second["text/plain"].endswith("together 75.0 % for 1.0 kB")
    assert first["image/png"] != second["image/png"]


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match=r"shape \(2, 4\); give \(1, 4\)"):
        OwnersPanel(READ, LABELS, [1000])
