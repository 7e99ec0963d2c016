"""The panel over the points of a sweep."""

import re

import pytest
from made_up import ALL, FAILED

from fltoolkit.history import History
from fltoolkit_course.panels import TradeoffPanel
from fltoolkit_course.plots.drawing import Stroke
from fltoolkit_research import Experiment, Protocol, Result, allow
from fltoolkit_research.plots.fronts import MARK_WORDS
from fltoolkit_research.plots.placing import Words

pytest.importorskip("ipywidgets", reason="the panel is for notebooks")


@pytest.mark.later
def test_the_panel_points_and_tells():
    panel = TradeoffPanel(ALL)
    assert panel.selected == "cheap"
    assert "Experiment(" in panel._words.value
    panel.slider.value = "dear"
    drawing = panel.draw()
    assert drawing.svg().count("<title>") == 1 + 3
    assert drawing.title.startswith("dear: 93.00 % for 2.0 kB, 2 seeds\n")
    assert re.search(r"update up +4\.0 kB +2\.0 kB +5 B", drawing.title)
    lines = [m.words for m in drawing.marks if isinstance(m, Words)]
    assert "the front: the best at the end" in lines, "the filled points lie on a line of their own"
    assert drawing.png()[0]["text/plain"] == drawing.html()[0]["text/plain"] == drawing.title
    with pytest.raises(KeyError, match="the settings are"):
        TradeoffPanel(ALL, name="none")
    with pytest.raises(ValueError, match="run a sweep first"):
        TradeoffPanel([FAILED])


def test_null_rows_and_a_protocol_of_ones_own_have_their_places(names):
    """What sends nothing made a "math domain error", and unknown shapes a KeyError."""
    allow(Protocol("mine", lambda task, channel: iter(()), sends=[]))
    sent = {"alone": 0, "pooled": 500, "fedavg": 2000, "mine": 4000}
    histories = [
        History([{"nbytes": n, "accuracy": a}])
        for n, a in zip(sent.values(), (0.6, 0.9, 0.8, 0.7), strict=True)
    ]
    made = [Experiment(name=name, protocol=name) for name in sent]
    results = [Result(*each, "", 1) for each in zip(made, histories, strict=True)]
    marks = TradeoffPanel(results).draw().marks
    words = {mark.words: mark for mark in marks if isinstance(mark, Words)}
    assert {MARK_WORDS[shape] for shape in "XsP"} <= set(words)
    left = {
        m.tip.split(":")[0]: min(x for x, _ in m.points) for m in marks if getattr(m, "tip", "")
    }
    assert left["alone"] < words["0"].x < left["pooled"] < left["fedavg"]


def test_the_line_of_the_front_goes_through_the_filled_points():
    """The only line was the best on the way, so the points of the front lay beside it."""
    marks = TradeoffPanel(ALL).draw().marks
    strokes = [mark for mark in marks if isinstance(mark, Stroke)]
    (line,) = [s for s in strokes if s.width == 2 and len(s.points) > 2]
    filled = [s for s in strokes if s.fill not in {"none", "#ffffff", "#999999"}]
    corners = {(round(x), round(y)) for x, y in line.points}
    assert filled
    for symbol in filled:
        xs, ys = zip(*symbol.points, strict=True)
        middle = round((min(xs) + max(xs)) / 2), round((min(ys) + max(ys)) / 2)
        assert any(abs(middle[0] - x) <= 1 and abs(middle[1] - y) <= 1 for x, y in corners)
