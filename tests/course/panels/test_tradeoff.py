"""The panel over the points of a sweep."""

import re
from typing import Any

import pytest
from made_up import ALL, FAILED

from fltoolkit_course.panels import TradeoffPanel

pytest.importorskip("ipywidgets", reason="the panel is for notebooks")


@pytest.mark.later
def test_the_panel_points_and_tells(shown: list[dict[str, Any]]) -> None:
    panel = TradeoffPanel(ALL)
    assert panel.selected == "cheap"
    assert "Experiment.from_json" in panel._words.value
    panel._ipython_display_()
    panel.slider.value = "dear"
    assert panel._words.value.startswith("<pre")
    first, second = shown
    assert first["text/plain"].startswith("cheap: ")
    assert first["image/png"] != second["image/png"]
    words = second["text/plain"]
    assert words == panel.sentence
    assert words.startswith("dear: 93.00 % for 2.0 kB, 2 seeds\n")
    assert re.search(r"update up +2\.0 kB\n", words)
    with pytest.raises(KeyError, match="the settings are"):
        TradeoffPanel(ALL, name="none")
    with pytest.raises(ValueError, match="run a sweep first"):
        TradeoffPanel([FAILED])
