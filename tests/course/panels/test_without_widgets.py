"""Without ipywidgets each panel names the pip line, and the function that needs no widgets."""

import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from made_up import ALL

from fltoolkit_course.labs import Panel, ThresholdLab
from fltoolkit_course.panels import (
    CodecPanel,
    LeakPanel,
    OwnersPanel,
    Playground,
    TradeoffPanel,
)

PANELS: list[tuple[Callable[[], Any], str]] = [
    (lambda: CodecPanel(torch.zeros(1)), "fltoolkit_course.plots.describe_codec(tensor, codec)"),
    (
        lambda: LeakPanel([], *3 * [torch.zeros(1)]),
        "fltoolkit_course.panels.describe_leak(parties, codec, ...)",
    ),
    (lambda: TradeoffPanel(ALL), "fltoolkit_research.plots.pareto(results)"),
    (lambda: OwnersPanel({}, torch.zeros(1), []), "(read == labels).float().mean()"),
    (Playground, "fltoolkit_course.panels.train_in_bits(8)"),
    (lambda: Panel(ThresholdLab()), "lab.run(), lab.set(...), lab.script()"),
]


@pytest.mark.parametrize(("make", "otherwise"), PANELS, ids=[words for _, words in PANELS])
def test_the_error_holds_the_way_out(
    make: Callable[[], Any], otherwise: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    with pytest.raises(ImportError, match=r'pip install "fltoolkit\[lab\]"') as error:
        make()
    assert otherwise in str(error.value)
