"""The picture below controls: a page that was loaded anew gets it, and its moves."""

from typing import Any

import pytest

pytest.importorskip("ipywidgets")

import ipywidgets

from fltoolkit_course.plots.below_controls import BelowControls

WIDE = {"image/png": {"width": 640}}


def svg(number: int) -> dict[str, str]:
    return {"text/html": f"<svg>{number}</svg>", "text/plain": f"picture {number}"}


def loaded_anew() -> dict[str, Any]:
    """What the kernel answers to a page that asks for the state of all widgets."""
    sent: list[dict[str, Any]] = []

    class Comm:
        def send(self, data: dict[str, Any], **_: Any) -> None:
            sent.append(data)

    before, ipywidgets.Widget._control_comm = ipywidgets.Widget._control_comm, Comm()
    try:
        message = {"content": {"data": {"method": "request_states"}}}
        ipywidgets.Widget._handle_control_comm_msg(message)
    finally:
        ipywidgets.Widget._control_comm = before
    return {name: entry["state"] for name, entry in sent[-1]["states"].items()}


@pytest.fixture
def below(monkeypatch: pytest.MonkeyPatch) -> BelowControls:
    monkeypatch.setattr("IPython.display.display", lambda *_, **__: None)
    monkeypatch.setattr("IPython.display.update_display", lambda *_, **__: None)
    made = BelowControls(ipywidgets.IntSlider())
    made.show({"image/png": "AAAA", "text/plain": "first & last"}, WIDE)
    return made


def test_a_page_that_was_not_loaded_anew_has_one_picture(below: BelowControls) -> None:
    below.update(svg(1), {})
    assert below.again.value == ""


@pytest.mark.later
def test_a_page_loaded_anew_gets_the_latest_picture_and_those_that_follow(
    below: BelowControls,
) -> None:
    first = loaded_anew()[below.again.model_id]["value"]
    assert 'src="data:image/png;base64,AAAA" alt="first &amp; last" width="640"' in first
    below.update(svg(1), {})
    assert "<svg>1</svg>" in below.again.value
    below.update(svg(2), {})
    assert "<svg>2</svg>" in loaded_anew()[below.again.model_id]["value"], "loaded once more"
    below.update({"image/png": "BBBB", "text/plain": "at rest"}, WIDE)
    assert "base64,BBBB" in below.again.value


def test_it_hides_the_picture_that_stands_still(below: BelowControls) -> None:
    (name,) = below.widget._dom_classes
    shown = loaded_anew()[below.again.model_id]["value"]
    assert f":has(.{name}-again)" in shown
    assert "+ .jp-OutputArea-child { display: none; }" in shown
