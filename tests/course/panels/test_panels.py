"""The panels over owners and over the points of a sweep; each panel without ipywidgets."""

import re
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from made_up import ALL, FAILED

from fltoolkit_course.labs import Panel, ThresholdLab
from fltoolkit_course.panels import LeakPanel, OwnersPanel, Playground, TradeoffPanel

pytest.importorskip("ipywidgets", reason="the panels are for notebooks")

LABELS = torch.tensor([0, 0, 1, 1])
READ = {
    "0": torch.tensor([[0, 1, 1, 0], [0, 0, 0, 0]]),
    "together": torch.tensor([[0, 0, 0, 1], [0, 0, 1, 1]]),
}
PANELS: dict[str, Callable[[], Any]] = {
    "leakage": lambda: LeakPanel([], *3 * [torch.zeros(1)]),
    "tradeoff": lambda: TradeoffPanel(ALL),
    "owners": lambda: OwnersPanel({"together": torch.zeros(1, 1)}, torch.zeros(1), [1]),
    "bits": Playground,
    "lab": lambda: Panel(ThresholdLab()),
}


@pytest.mark.later
def test_the_slider_goes_back_to_earlier_rounds(shown: list[dict[str, Any]]) -> None:
    panel = OwnersPanel(READ, LABELS, [1000, 2000])
    panel._ipython_display_()
    panel.slider.value = 1
    first, second = shown
    told = "after round 2: alone 50.0 % right (mean of 1), together 100.0 % for 2.0 kB"
    assert first["text/plain"] == told
    assert second["text/plain"].startswith("after round 1: alone 50.0 % right")
    assert second["text/plain"].endswith("together 75.0 % for 1.0 kB")
    assert first["image/png"] != second["image/png"]
    with pytest.raises(ValueError, match=r"shape \(2, 4\); give \(1, 4\)"):
        OwnersPanel(READ, LABELS, [1000])


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


@pytest.mark.parametrize("make", PANELS.values(), ids=PANELS)
def test_without_ipywidgets_the_error_holds_the_way_out(
    make: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    with pytest.raises(ImportError, match=r'pip install "fltoolkit\[lab\]"'):
        make()
