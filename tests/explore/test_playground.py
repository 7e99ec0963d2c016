import itertools
import re
from typing import Any

import pytest
from explore.conftest import Open, slide

from fltoolkit_research import records

pytestmark = pytest.mark.browser


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


def test_start_pause_and_one_step(open_page: Open) -> None:
    tab = open_page("playground", "#how=split&cut=5")
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


def solved(tab: Any) -> str:
    tab.wait_for_selector("#verdict[data-solved=true]")
    return tab.inner_text("#verdict")


def test_mission_1_is_solved_by_pressing_start(open_page: Open) -> None:
    tab = open_page("playground", "#rate=1000")
    assert "two of the ten digits" in tab.inner_text("#task")
    tab.click("#go")
    assert "notebook 01b" in solved(tab)
    assert "each alone" in " ".join(tab.locator("#plot text").all_text_contents())


@pytest.mark.nightly  # it trains for twenty seconds of processor time
def test_mission_2_is_solved_by_ten_values_in_six_bits(open_page: Open) -> None:
    tab = open_page("playground")
    choose(tab, mission="2")
    tab.click("#go")
    tab.wait_for_function("document.getElementById('verdict').textContent.includes('Not yet')")
    assert tab.get_attribute("#verdict", "data-solved") == "false"
    assert "fewest numbers, set both bits sliders" in tab.inner_text("#verdict")
    choose(tab, cut="5", bitsUp=4, bitsDown=2)  # the places of 5 and 3 bits
    assert "fewest numbers" in tab.inner_text("#verdict")  # while one does what it says
    tab.click("#go")
    tab.wait_for_function("document.getElementById('verdict').textContent.includes('broke')")
    choose(tab, bitsUp=6, bitsDown=6)
    tab.click("#go")
    assert "notebook 05" in solved(tab)
    tab.wait_for_selector("html[data-running=false]")  # it stops where it has succeeded
    assert "Paused" in tab.inner_text("#said")


@pytest.mark.parametrize("bits", [1, 32])
def test_a_training_that_diverges_stops_and_says_so(open_page: Open, bits: int) -> None:
    tab = open_page("playground", f"#how=split&cut=5&bitsUp={bits}&bitsDown=1&lr=0.5")
    tab.click("#go")
    told = "The training broke: its numbers became too large"
    tab.wait_for_function(f"document.getElementById('said').textContent.startsWith('{told}')")
    assert tab.inner_text("#go") == "▶ start"
    assert not re.search("NaN|Infinity", tab.inner_html("main"))


def test_the_python_of_a_setting_runs(open_page: Open) -> None:
    tab = open_page("playground")
    settings = (
        "#how=one",  # first: its protocol is unknown until the code itself imports it
        "#how=split&cut=2&bitsUp=4&bitsDown=32&kept=0.1&threshold=0.2",
        "#how=averaged&owners=5&skewed=true&bitsUp=4&kept=0.02&speak=0.5",
        "#how=split&cut=5&bitsUp=32&bitsDown=32",
    )
    made = []
    for address in settings:
        was = tab.inner_text("#code")
        tab.evaluate("hash => { location.hash = hash; }", address)
        tab.wait_for_function("was => document.getElementById('code').innerText !== was", arg=was)
        before, loop, _ = tab.inner_text("#code").partition("for record in records(experiment):")
        assert loop
        names: dict[str, Any] = {}
        exec(before, names)  # the page's own text: this is what a reader pastes
        (first,) = itertools.islice(records(names["experiment"]), 1)
        assert first["nbytes"] > 0
        made.append(names["experiment"])
    assert [e.protocol.name for e in made] == ["pooled", "split_async", "fedavg", "split"]
    assert repr(made[1].gate) == "LossGate(0.2)"
    assert made[2].settings == {"cohort_size": 3}
    assert made[2].partition == "shards(2)"
    assert "ErrorFeedback" in repr(made[2].codecs["update"])
    assert made[3].codecs == {}


@pytest.mark.parametrize(
    ("width", "height", "mission", "below"),
    [(1280, 800, 0, 25), (1280, 800, 1, 25), (360, 740, 0, 25), (360, 740, 1, 70)],
)
def test_controls_messages_and_the_curve_share_the_first_screen(
    open_page: Open, width: int, height: int, mission: int, below: int
) -> None:
    tab = open_page("playground", width=width, height=height)
    tab.select_option("#mission", index=mission)
    whole = ("#go", "#bitsUp", "#bitsDown", "#scene", "#said")
    for place, foot in (*((each, 0) for each in whole), ("#plot", below)):
        box = tab.locator(place).bounding_box()
        for y in (box["y"] + 2, box["y"] + box["height"] - 2 - foot):  # neither below nor behind
            inside = "([id, x, y]) => !!document.elementFromPoint(x, y)?.closest(id)"
            x = box["x"] + box["width"] / 2
            assert tab.evaluate(inside, [place, x, y]), f"{place} at {y}"
