"""The codec panel: its report is that of a plain function, its picture follows the controls."""

from typing import Any
from xml.etree import ElementTree

import pytest
from course.panels.shown import wait_for_png
from course.panels.tensors import normal

from fltoolkit.codecs import Pipeline, Quantize
from fltoolkit_course.panels import CodecPanel
from fltoolkit_course.plots import describe_codec
from fltoolkit_research.codecs import ContextEntropy

pytest.importorskip("ipywidgets")


@pytest.mark.later
def test_the_codec_panel_follows_its_controls(shown: list[dict[str, Any]]) -> None:
    tensors = {"activation": normal(20, 30).relu(), "update": 0.01 * normal(20, 30)}
    panel = CodecPanel(tensors)
    panel._picture.rests_after = 3600
    panel._ipython_display_()
    assert set(shown[-1]) == {"image/png", "text/plain"}
    assert panel.report == describe_codec(tensors["activation"], Pipeline(Quantize(4)))
    panel.controls["tensor"].value = "update"
    panel.controls["bits"].value = 6
    panel.controls["entropy"].value = True
    codec = Pipeline(Quantize(6), ContextEntropy())
    assert panel.codec == codec
    assert panel.report == describe_codec(tensors["update"], codec)
    assert set(shown[-1]) == {"text/html", "text/plain"}
    assert shown[-1]["text/plain"] == f"Quantize, nearest: {panel.report.sentence}"
    assert panel.report.sentence == panel._sentence.value
    assert f"sent <b>{panel.report.real_bits:.2f}</b>" in panel._readout.value
    assert "Quantize(bits=6" in panel._readout.value
    panel._picture.rests_after = 0.01
    panel.controls["bits"].value = 5
    wait_for_png(shown)
    assert shown[-1]["text/plain"] == f"Quantize, nearest: {panel.report.sentence}"


@pytest.mark.later
def test_a_slider_that_is_off_would_change_nothing() -> None:
    panel = CodecPanel(normal(500))
    panel.controls["bits"].value, panel.controls["fraction"].value = 2, 0.05
    for name in panel.controls["codec"].options:
        panel.controls["codec"].value = name
        for key, other in (("bits", 7), ("fraction", 0.5)):
            before, kept = panel.codec, panel.controls[key].value
            panel.controls[key].value = other
            assert (panel.codec == before) == panel.controls[key].disabled, (name, key)
            panel.controls[key].value = kept


@pytest.mark.later
def test_every_choice_reaches_both_ends(shown: list[dict[str, Any]]) -> None:
    panel = CodecPanel(normal(20, 30))
    panel._picture.rests_after = 60
    panel._ipython_display_()
    for name in panel.controls["codec"].options:
        panel.controls["codec"].value = name
        for key in ("bits", "fraction"):
            slider = panel.controls[key]
            for index in (0, len(slider.options) - 1):
                slider.index = index
                assert "nan" not in shown[-1]["text/html"]
                ElementTree.fromstring(shown[-1]["text/html"])
    panel._picture.timer.cancel()
