"""The picture below controls: a page that was loaded anew gets it, and its moves."""

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("ipywidgets")

import ipywidgets

from fltoolkit_course.plots.below_controls import BelowControls


class Picture:
    """A picture with a number, and what was drawn of it."""

    def __init__(self) -> None:
        self.number = 0

    def html(self) -> tuple[dict[str, str], dict[str, Any]]:
        return {"text/html": f"<svg>{self.number}</svg>", "text/plain": "moving"}, {}

    def png(self) -> tuple[dict[str, str], dict[str, Any]]:
        data = {"image/png": 4 * "ABC"[self.number], "text/plain": "at rest & still"}
        return data, {"image/png": {"width": 640}}


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
def picture() -> Picture:
    return Picture()


@pytest.fixture
def below(monkeypatch: pytest.MonkeyPatch, picture: Picture) -> Iterator[BelowControls]:
    monkeypatch.setattr("IPython.display.display", lambda *_, **__: None)
    monkeypatch.setattr("IPython.display.update_display", lambda *_, **__: None)
    made = BelowControls(lambda: picture, ipywidgets.IntSlider())
    made.show()
    yield made
    made.timer.cancel()


@pytest.mark.later
def test_a_page_loaded_anew_gets_the_latest_picture_and_those_that_follow(
    below: BelowControls, picture: Picture
) -> None:
    below.moved()
    assert below.again.value == "", "a page that was not loaded anew has one picture"
    below.rest()
    first = loaded_anew()[below.again.model_id]["value"]
    source = 'src="data:image/png;base64,AAAA" alt="at rest &amp; still" width="640"'
    assert source in first
    (name,) = below.widget._dom_classes
    assert f":has(.{name}-again)" in first
    assert "+ .jp-OutputArea-child { display: none; }" in first, "it hides the one that stands"
    picture.number = 1
    below.moved()
    assert "<svg>1</svg>" in below.again.value
    picture.number = 2
    below.moved()
    assert "<svg>2</svg>" in loaded_anew()[below.again.model_id]["value"], "loaded once more"
    below.rest()
    assert "base64,CCCC" in below.again.value
