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
    svg, words = panel._svg()
    assert svg.count("<title>") == 1 + 3
    assert words.startswith("dear: 93.00 % for 2.0 kB, 2 seeds, on the front")
    assert re.search(r"update up +4\.0 kB +2\.0 kB +5 B", words)
    data, _ = panel._png()
    assert data["text/plain"] == words
    with pytest.raises(KeyError, match="there are"):
        TradeoffPanel(ALL, name="none")
    with pytest.raises(ValueError, match="run a sweep first"):
        TradeoffPanel([FAILED])
