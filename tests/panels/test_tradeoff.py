"""The panel over the points of a sweep."""

import re

import pytest
from made_up import ALL, FAILED

from fltoolkit.panels import TradeoffPanel


def test_the_panel_points_and_tells():
    pytest.importorskip("ipywidgets", reason="the panel is for notebooks")
    panel = TradeoffPanel(ALL)
    assert panel.selected == "cheap"
    assert "Experiment(" in panel._words.value
    panel.select("dear")
    drawing = panel.draw()
    assert drawing.svg().count("<title>") == 1 + 3
    assert drawing.title.startswith("dear: 93.00 % for 2.0 kB, 2 seeds, on the front\n")
    assert re.search(r"update up +4\.0 kB +2\.0 kB +5 B", drawing.title)
    assert drawing.png()[0]["text/plain"] == drawing.html()[0]["text/plain"] == drawing.title
    with pytest.raises(KeyError, match="the settings are"):
        TradeoffPanel(ALL, name="none")
    with pytest.raises(ValueError, match="run a sweep first"):
        TradeoffPanel([FAILED])
