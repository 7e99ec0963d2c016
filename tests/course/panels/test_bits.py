"""The playground: a real training for each position of its slider, and a curve that moves."""

import importlib
import threading
import time
from collections.abc import Iterator
from functools import cache
from typing import Any
from xml.etree import ElementTree

import pytest
import torch

from fltoolkit.plots.style import PAPER
from fltoolkit_course.labs.runner import Runner
from fltoolkit_course.panels import Playground, train_in_bits
from fltoolkit_course.plots.drawing import Stroke

pytest.importorskip("ipywidgets")


@cache
def trained(bits: int) -> list[Any]:
    """The records of one training; the same bits give the same."""
    return list(train_in_bits(bits))


@pytest.fixture
def once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The panel's trainings are those of `trained`: each is computed once for all tests."""

    def records(bits: int) -> Iterator[Any]:
        yield from trained(bits)

    module = importlib.import_module("fltoolkit_course.panels.bits")
    monkeypatch.setattr(module, "train_in_bits", records)


def wait(panel: Playground) -> None:
    assert panel.runs[panel.bits].wait(600)


@pytest.mark.slow
@pytest.mark.usefixtures("once")
def test_it_moves_by_itself_and_rests_as_a_picture(shown: list[dict[str, Any]]) -> None:
    panel = Playground(bits=4)
    panel._ipython_display_()  # trains before it returns, so that a saved notebook is whole
    moving = [data for data in shown if "text/html" in data]
    assert len(moving) >= 30
    assert len({data["text/html"] for data in moving}) >= 30, "the curve moves"
    assert set(shown[-1]) == {"image/png", "text/plain"}
    assert shown[-1]["text/plain"] == panel.sentence
    assert panel.sentence == ("4 bits for each number: 9.2 MB sent, 97.3 % of new digits read")
    for data in moving[:: len(moving) // 5]:
        ElementTree.fromstring(data["text/html"])


@pytest.mark.later
@pytest.mark.usefixtures("once")
def test_the_slider_trains_and_remembers(shown: list[dict[str, Any]]) -> None:
    panel = Playground()
    panel.slider.value = 4
    wait(panel)
    assert panel.runs[4].over
    assert panel.runs[32].status == "ready"
    said = panel.sentence
    panel.slider.value = 1
    panel.slider.value = 2
    wait(panel)
    assert panel.runs[2].over
    assert panel.runs[1].wait(600), "it was left, and may be in its last record"
    assert panel.runs[1].status in ("paused", "finished")
    panel.slider.value = 4  # nothing is computed again
    assert panel.sentence == said
    panel._picture.timer.cancel()


@pytest.mark.later
@pytest.mark.usefixtures("once")
def test_the_saving_is_told_only_after_both_trainings(shown: list[dict[str, Any]]) -> None:
    panel = Playground(bits=2)
    panel._ipython_display_()
    assert "times fewer" not in panel.draw().svg(), "there is nothing to compare with yet"
    panel.slider.value = 32
    wait(panel)
    assert "times fewer" not in panel.draw().svg()
    panel.slider.value = 2
    assert "16 times fewer bytes, " in panel.draw().svg()
    panel._picture.timer.cancel()


def test_a_training_that_was_left_is_hollow_and_says_that_it_is_not_finished(monkeypatch) -> None:
    """Two of three tests have come: as a whole one, a run that was cut off would look worse."""
    go_on = threading.Event()

    def records(bits: int) -> Iterator[Any]:
        for step in (1, 2, 3):
            if step == 3:
                go_on.wait(60)
            yield {"step": step, "nbytes": 10**6 * step, "accuracy": 0.3 * step}

    monkeypatch.setattr(
        importlib.import_module("fltoolkit_course.panels.bits"), "train_in_bits", records
    )
    panel = Playground(8)
    run = panel.runs[8]
    run.start()
    while len(run.history) < 2:
        time.sleep(0.01)
    (mark,) = [m for m in panel.draw().marks if isinstance(m, Stroke) and m.fill == PAPER]
    assert "the training is not finished" in panel.sentence
    assert "not finished yet" in str(panel.draw().marks)
    go_on.set()
    wait(panel)
    assert mark not in panel.draw().marks
    assert "finished" not in panel.sentence + str(panel.draw().marks)


def test_training_beside_the_page_takes_one_thread() -> None:
    """The number of threads belongs to the thread that trains, not to the one that shows."""
    before, seen = torch.get_num_threads(), []
    torch.set_num_threads(2)
    try:
        run = Runner(seen.append(torch.get_num_threads()) or {"step": k} for k in range(2))
        run.start()
        assert run.wait(60)
    finally:
        torch.set_num_threads(before)
    assert seen == [1, 1]
