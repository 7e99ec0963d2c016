"""The panel without a browser: buttons and sliders act on the lab, pictures follow in time."""

from collections.abc import Iterator
from typing import Any

import pytest
from course.labs.few_digits import SECONDS, wait_until

from fltoolkit.data import load
from fltoolkit_course.labs import FedAvgLab, Panel, ThresholdLab

pytest.importorskip("ipywidgets")


class Screen:
    """What was displayed: controls, and each picture in order."""

    def __init__(self) -> None:
        self.widgets: list[Any] = []
        self.pictures: list[dict[str, Any]] = []
        self.ids: set[str] = set()

    def display(self, data: Any, display_id: str = "", **_: Any) -> None:
        if isinstance(data, dict):
            self.update_display(data, display_id=display_id)
        else:
            self.widgets.append(data)

    def update_display(self, data: dict[str, Any], *, display_id: str, **_: Any) -> None:
        self.pictures.append(data)
        self.ids.add(display_id)

    def kinds(self) -> str:
        """P for a PNG, S for an SVG."""
        return "".join("P" if "image/png" in data else "S" for data in self.pictures)


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Screen:
    made = Screen()
    monkeypatch.setattr("IPython.display.display", made.display)
    monkeypatch.setattr("IPython.display.update_display", made.update_display)
    return made


@pytest.fixture
def lab(screen: Screen) -> Iterator[ThresholdLab]:
    made = ThresholdLab(num_epochs=1000, cut=2, threshold=0.3)
    made._ipython_display_()
    yield made
    made.stop()
    made.wait(SECONDS)
    timer = made.panel._picture.timer
    timer.cancel()
    if timer.is_alive():  # it draws just now, and the next test has another screen
        timer.join(SECONDS)


@pytest.mark.later
def test_buttons_do_what_they_say(lab: ThresholdLab) -> None:
    buttons = lab.panel.buttons

    def enabled() -> set[str]:
        return {name for name, button in buttons.items() if not button.disabled}

    assert enabled() == {"start", "step"}
    buttons["start"].click()
    wait_until(lambda: enabled() == {"pause", "stop", "script"})
    buttons["pause"].click()
    assert lab.wait(SECONDS)
    assert lab.current.status == "paused"
    assert enabled() == {"start", "step", "stop", "script"}
    assert buttons["start"].description == "Resume"

    made = len(lab.current.history)
    buttons["step"].click()
    assert lab.wait(SECONDS)
    assert len(lab.current.history) == made + 1
    buttons["start"].click()
    wait_until(lambda: len(lab.current.history) > made + 1)
    buttons["stop"].click()
    assert lab.wait(SECONDS)
    assert lab.current.status == "stopped"
    assert enabled() == {"start", "step", "script"}
    assert buttons["start"].description == "Start"


def note(lab: ThresholdLab) -> str:
    return lab.panel.note.value


def test_a_choice_whose_value_is_none_stays_in_the_list() -> None:
    """ipywidgets takes None for no choice: the list "wait for" was empty after choosing "all"."""
    lab = FedAvgLab(num_clients=4, cohort_size=2, show=("wait_for",))
    wait_for = Panel(lab).controls["wait_for"]
    for place in (1, 0):  # what a browser sends
        wait_for.index = place
    assert (wait_for.index, wait_for.label, lab.values["wait_for"]) == (0, "all", None)
    lab.set("wait_for", 1)
    lab.set("wait_for", None)
    assert (wait_for.index, wait_for.label) == (0, "all")


@pytest.mark.slow
def test_svg_while_it_moves_and_png_at_rest(
    lab: ThresholdLab, screen: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.panel._picture.rests_after = 0.05
    lab.start()
    wait_until(lambda: screen.kinds().count("S") > 3)
    lab.pause()
    assert lab.wait(SECONDS)
    assert "SSS" in screen.kinds()  # on a busy machine it rests before the first record, too
    wait_until(lambda: screen.kinds().endswith("SP"))
    before = len(screen.pictures)
    lab.set("seed", 5)
    wait_until(lambda: screen.kinds()[before:].lstrip("P").startswith("S"))
    wait_until(lambda: screen.kinds().endswith("P"))
    lab.stop()
    assert lab.wait(SECONDS)
    assert screen.kinds().endswith("P")
    assert "run 1 stopped" in screen.pictures[-1]["text/plain"]
    assert len(screen.ids) == 1


@pytest.mark.slow
def test_an_error_in_training_is_shown(screen: Screen) -> None:
    data = load("digits").flat()
    data.x_train[7] = float("nan")
    lab = ThresholdLab(data, num_epochs=2)
    lab._ipython_display_()
    lab.panel.buttons["start"].click()
    assert lab.wait(SECONDS)
    assert "FloatingPointError: party &#x27;bob&#x27;" in note(lab)
    assert "run 1 failed" in screen.pictures[-1]["text/plain"]
    lab.panel.buttons["start"].click()  # a new try is possible
    assert lab.wait(SECONDS)


@pytest.mark.later
def test_the_script_opens_and_closes(lab: ThresholdLab) -> None:
    lab.panel._press(lab.script)
    assert "ValueError: no record was made yet" in note(lab)
    lab.step()
    assert lab.wait(SECONDS)
    lab.panel.buttons["script"].click()
    assert "class ThresholdTraining" in lab.panel.code.value
    assert "&lt;" not in lab.script()
    lab.panel.buttons["script"].click()
    assert lab.panel.code.value == ""
