"""Without ipywidgets each panel names the pip line."""

import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from made_up import ALL

from fltoolkit_course.labs import Panel, ThresholdLab
from fltoolkit_course.panels import LeakPanel, OwnersPanel, Playground, TradeoffPanel

PANELS: dict[str, Callable[[], Any]] = {
    "leakage": lambda: LeakPanel([], *3 * [torch.zeros(1)]),
    "tradeoff": lambda: TradeoffPanel(ALL),
    "owners": lambda: OwnersPanel({"together": torch.zeros(1, 1)}, torch.zeros(1), [1]),
    "bits": Playground,
    "lab": lambda: Panel(ThresholdLab()),
}


@pytest.mark.parametrize("make", PANELS.values(), ids=PANELS)
def test_the_error_holds_the_way_out(
    make: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    with pytest.raises(ImportError, match=r'pip install "fltoolkit\[lab\]"'):
        make()
