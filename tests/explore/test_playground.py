"""The playground by hand, from disk with the network off: buttons, missions, its Python."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from explore.conftest import opening, slide

from fltoolkit_research import Experiment, records

pytestmark = pytest.mark.browser
FOLDER = Path(__file__).parents[2] / "docs" / "explore"
Open = Callable[..., Any]


@pytest.fixture
def open_here(browser: Any) -> Iterator[Open]:
    """``open_here("#cut=5")``: the page as it lies in the folder."""
    with opening(browser, FOLDER) as open_:

        def open_playground(hash: str = "", **settings: Any) -> Any:
            size = {"width": 1280, "height": 800}
            return open_("playground", hash, viewport=size, **settings)

        yield open_playground


def messages(tab: Any) -> int:
    """How many messages were sent, as the page says when it stands still."""
    return int(tab.inner_text("#said").split(" sent in ")[1].split()[0].replace(",", ""))


def choose(tab: Any, **values: Any) -> None:
    """Choose by hand: sliders by their place, lists by their value."""
    for name, value in values.items():
        if isinstance(value, str):
            tab.select_option(f"#{name}", value)
        elif isinstance(value, bool):
            tab.set_checked(f"#{name}", value)
        else:
            slide(tab, name, value)


def test_start_pause_and_one_step(open_here: Open) -> None:
    tab = open_here("#cut=5")
    tab.click("#step")
    tab.wait_for_function("document.getElementById('said').textContent.startsWith('Paused')")
    assert messages(tab) == 2  # activations and gradients
    tab.click("#go")
    assert tab.inner_text("#go") == "❚❚ pause"
    tab.wait_for_function("+document.documentElement.dataset.frames > 20")
    tab.click("#go")
    assert tab.get_attribute("html", "data-running") == "false"
    tab.wait_for_function("document.getElementById('said').textContent.startsWith('Paused')")
    stopped = -1
    while stopped != (now := messages(tab)):  # what was on its way has arrived
        stopped = now
        tab.wait_for_timeout(300)
    assert stopped > 2
    tab.click("#again")
    assert tab.inner_text("#said").startswith("For every 32 images")


def test_the_main_thread_draws_thirty_frames_in_a_second_of_its_processor(open_here: Open) -> None:
    tab = open_here("#how=averaged&owners=4")
    client = tab.context.new_cdp_session(tab)
    client.send("Performance.enable", {"timeDomain": "threadTicks"})

    def spent() -> tuple[float, int]:
        found = client.send("Performance.getMetrics")["metrics"]
        busy = next(m["value"] for m in found if m["name"] == "TaskDuration")
        return busy, int(tab.get_attribute("html", "data-frames") or 0)

    tab.click("#go")
    tab.wait_for_function("+document.documentElement.dataset.frames > 10")
    busy, frames = spent()
    tab.wait_for_function(f"+document.documentElement.dataset.frames > {frames + 150}")
    busy_then, frames_then = spent()
    assert (frames_then - frames) / (busy_then - busy) > 30


def solved(tab: Any) -> str:
    tab.wait_for_selector("#verdict[data-solved=true]")
    return tab.inner_text("#verdict")


def test_mission_1_is_solved_by_ten_values_in_six_bits(open_here: Open) -> None:
    tab = open_here()
    tab.click("#go")
    tab.wait_for_function("document.getElementById('verdict').textContent.includes('Not yet')")
    assert tab.get_attribute("#verdict", "data-solved") == "false"
    assert "fewest numbers, set both bits sliders" in tab.inner_text("#verdict")
    choose(tab, cut="5", bitsUp=4, bitsDown=2)  # the places of 5 and 3 bits
    assert "fewest numbers" in tab.inner_text("#verdict")  # while one does what it says
    tab.click("#go")
    tab.wait_for_function("document.getElementById('verdict').textContent.includes('broke')")
    choose(tab, bitsUp=5, bitsDown=5)
    tab.click("#go")
    assert "notebook 05" in solved(tab)
    tab.wait_for_selector("html[data-running=false]")  # it stops where it has succeeded
    assert "Paused" in tab.inner_text("#said")


def five_passes(tab: Any) -> None:
    tab.click("#go")
    tab.wait_for_function(
        "[...document.querySelectorAll('#meters span')].some(span =>"
        " span.textContent.startsWith('passes') && parseFloat(span.lastChild.textContent) > 5)"
    )
    tab.click("#go")


@pytest.mark.slow
def test_mission_2_compares_silence_and_bits(open_here: Open) -> None:
    tab = open_here()
    choose(tab, mission="0")
    choose(tab, cut="5", bitsUp=4, bitsDown=4)  # fewer bits than what follows
    five_passes(tab)
    choose(tab, mission="2")
    five_passes(tab)  # with silence
    assert tab.get_attribute("#verdict", "data-solved") == "false"
    assert "Half done" in tab.inner_text("#verdict")
    choose(tab, threshold=0, bitsUp=3, bitsDown=3)
    tab.click("#go")
    assert "with fewer bits" in solved(tab)


def test_mission_3_comes_close_to_sending_the_data(open_here: Open) -> None:
    tab = open_here()
    choose(tab, mission="3")
    choose(tab, bitsUp=1, bitsDown=2)
    tab.click("#go")
    assert "no image left Alice" in solved(tab)


def test_mission_4_shows_what_is_left_at_one_bit(open_here: Open) -> None:
    tab = open_here()
    choose(tab, mission="4")
    assert tab.is_checked("#watch")
    for place in (8, 0):
        choose(tab, bitsUp=place)
        tab.click("#go")
        if place:
            tab.wait_for_function("document.getElementById('guess').height > 20")
            tab.wait_for_timeout(3000)  # until he has guessed from trained layers
            tab.click("#go")
    assert "as large with 32 bits" in solved(tab)


@pytest.mark.slow
def test_mission_5_is_rescued(open_here: Open) -> None:
    tab = open_here()
    choose(tab, mission="5")
    choose(tab, bitsDown=3, kept=2, owed=True)  # four bits down, 2 per cent up
    tab.click("#go")
    assert "notebook 06" in solved(tab)


def test_the_python_of_a_setting_runs(open_here: Open) -> None:
    tab = open_here()
    settings = (
        "#how=one",  # first: its protocol is unknown until the code itself imports it
        "#cut=2&bitsUp=4&bitsDown=32&kept=0.1&threshold=0.2",
        "#how=averaged&owners=5&skewed=true&bitsUp=4&kept=0.02&speak=0.5",
        "#how=averaged&owners=2&bitsUp=32&bitsDown=32&owed=false",
        "#cut=5&bitsUp=32&bitsDown=32",
    )
    made = []
    for address in settings:
        was = tab.inner_text("#code")
        tab.evaluate("hash => { location.hash = hash; }", address)
        tab.wait_for_function("was => document.getElementById('code').innerText !== was", arg=was)
        code = tab.inner_text("#code")
        before, loop, _ = code.partition("for record in records(experiment):")
        assert loop
        names: dict[str, Any] = {}
        exec(before, names)  # the page's own text: this is what a reader pastes
        experiment = names["experiment"]
        assert isinstance(experiment, Experiment)
        (first,) = itertools.islice(records(experiment), 1)
        assert first["nbytes"] > 0
        made.append(experiment)
    assert [e.protocol for e in made] == ["pooled", "split_async", "fedavg", "fedavg", "split"]
    assert made[1].gate == "LossGate(0.2)"
    assert made[2].settings == {"cohort_size": 3}
    assert made[2].partition == "shards(2)"
    assert "ErrorFeedback" in made[2].codecs["update"]
    assert made[3].codecs == {}
    assert made[4].codecs == {}


def test_the_picture_is_saved_and_motion_is_reduced(open_here: Open) -> None:
    tab = open_here("#cut=5", reduced_motion="reduce")
    tab.click("#step")
    with tab.expect_download() as waiting:
        tab.click("#save")
    text = Path(waiting.value.path()).read_text(encoding="utf-8")
    assert text.startswith("<svg")
    assert "test images that are right" in text
