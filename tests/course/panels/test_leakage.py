"""The panel of notebook 08: its numbers are those of a plain function, its picture follows."""

import importlib
import threading
from typing import Any

import pytest
import torch
from torch import nn

from fltoolkit import Party, load, splitnn_mlp
from fltoolkit.codecs import Pipeline, Quantize, TopK
from fltoolkit_course.panels import LeakPanel, describe_leak
from fltoolkit_course.panels.leakage import LeakReport
from fltoolkit_research.leakage import Noise

pytest.importorskip("ipywidgets", reason='the panel needs it: pip install "fltoolkit[lab]"')

leakage = importlib.import_module("fltoolkit_course.panels.leakage")
DATA = load("digits").flat()
MODEL = splitnn_mlp(64, seed=0)
PARTIES = [Party("alice", MODEL[:2]), Party("bob", MODEL[2:], None, nn.NLLLoss())]
ALL = slice(0, 1350, 9)  # by all writers, in whose order the images stand
GIVEN = (PARTIES, DATA.x_train[ALL], DATA.x_test[:360:6], DATA.y_test[:360:6])


def describe(codec: Pipeline | None, **settings: Any) -> Any:
    parties, auxiliary, victims, labels = GIVEN
    return describe_leak(parties, codec, auxiliary, victims, labels, **settings)


def wait(panel: LeakPanel) -> None:
    """Until all attacks that were asked for have been made."""
    panel._attacks.submit(int).result(600)


@pytest.mark.later
def test_a_report_says_what_leaks() -> None:
    open_link, coarse = describe(None), describe(Pipeline(Noise(5.0), Quantize(2)))
    assert open_link.explained_variance > 0.8 > 0.3 > coarse.explained_variance
    assert open_link.dependence > 0.8
    assert open_link.nbytes == (60 * 128 * 4 + 12) / 60
    assert coarse.nbytes < open_link.nbytes / 15
    assert open_link.guess.shape == (60, 64)
    assert f"explains {open_link.explained_variance:.0%} of the variance" in open_link.sentence
    assert describe(None).explained_variance == open_link.explained_variance


@pytest.mark.later
def test_positions_alone() -> None:
    codec = Pipeline(TopK(0.05))
    whole, positions = describe(codec), describe(codec, positions_only=True)
    assert whole.nbytes == positions.nbytes
    assert 0 < positions.explained_variance < whole.explained_variance
    assert describe(None, positions_only=True).explained_variance == pytest.approx(0, abs=0.02)


@pytest.mark.slow
def test_the_panel_follows_its_controls(shown: list[dict[str, Any]]) -> None:
    panel = LeakPanel(*GIVEN)
    panel._ipython_display_()
    assert set(shown[-1]) == {"image/png", "text/plain"}
    assert panel.report.explained_variance == describe(None).explained_variance
    panel.controls["bits"].value = 2
    panel.controls["sigma"].value = 1
    panel.controls["fraction"].value = 0.1
    wait(panel)
    codec = Pipeline(Noise(1), TopK(0.1), Quantize(2))
    assert panel.codec == codec
    assert panel.report.explained_variance == describe(codec).explained_variance
    assert shown[-1]["text/plain"] == panel.report.sentence
    assert "TopK(fraction=0.1" in panel._sentence.value
    panel.controls["positions_only"].value = True
    wait(panel)
    assert "positions alone" in panel._sentence.value
    before = panel.report
    panel.controls["positions_only"].value = False
    panel.controls["positions_only"].value = True
    wait(panel)
    assert panel.report is before, "the same setting is not attacked twice"


def test_sliders_answer_at_once_and_the_last_wish_counts(
    monkeypatch: pytest.MonkeyPatch, shown: list[dict[str, Any]]
) -> None:
    attacked, go_on = [], threading.Event()

    def attack(parties: Any, codec: Pipeline, *_: Any, positions_only: bool) -> LeakReport:
        if attacked:
            go_on.wait(5)
        attacked.append(repr(codec))
        return LeakReport(repr(codec), 0.5, 1, 0.5, 0.5, torch.zeros(60, 64))

    monkeypatch.setattr(leakage, "describe_leak", attack)
    panel = LeakPanel(*GIVEN)
    panel._ipython_display_()
    for bits in (2, 3, 4, 1):
        panel.controls["bits"].value = bits
        assert panel._sentence.value.startswith("Attacking ... The picture is still that of")
        assert f"Quantize(bits={bits}" in panel._sentence.value
    assert len(shown) == 1
    go_on.set()
    wait(panel)
    assert attacked == [repr(Pipeline()), repr(Pipeline(Quantize(2))), repr(Pipeline(Quantize(1)))]
    assert panel.report.codec == repr(Pipeline(Quantize(1)))
    assert panel.report.sentence in panel._sentence.value
    assert len(shown) == 2
    panel.controls["bits"].value = 2  # it is known: nothing is attacked again
    wait(panel)
    assert len(attacked) == 3
    assert panel.report.codec == repr(Pipeline(Quantize(2)))
