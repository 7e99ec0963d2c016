"""The Pareto plot, points with names, and places for words, apart from each other."""

from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_up import ALL, CHEAP, FAILED
from matplotlib.colors import to_hex
from matplotlib.text import Annotation

from experiments.pareto import report as pareto_report
from fltoolkit.history import History
from fltoolkit.plots.figures import keep_apart
from fltoolkit.plots.style import summary
from fltoolkit_research import Experiment, Result, front, points, protocols
from fltoolkit_research import plots as research_plots
from fltoolkit_research.plots import named_points
from fltoolkit_research.plots.fronts import GREY, MARK_WORDS, OTHER, SHAPES


@pytest.fixture(scope="module")
def results():
    return pareto_report.parts_of(pareto_report.read_kept())["mnist", "IID"]


@pytest.mark.slow
def test_of_a_large_sweep_the_front_is_named_and_the_rest_is_grey(results):
    found = points(results)
    best = {point.name for point in front(found)}
    ax = research_plots.pareto(results)
    assert {each.get_text() for each in ax.texts if isinstance(each, Annotation)} == best
    colors = [to_hex(bars[0].get_color()).lower() for bars in ax.containers]
    assert colors.count(GREY) == len(found) - len(best)


@pytest.mark.later
def test_bars_end_where_a_value_can_be():
    """The interval of "dear" by Student's t is 0.93 +- 0.38, and no accuracy is above 100 %."""
    ax = research_plots.pareto(ALL)
    (bar,) = (
        line.get_segments()[0][:, 1]
        for marks in ax.containers
        for line in marks.lines[2]
        if marks.lines[0].get_ydata()[0] == pytest.approx(93)
    )
    assert bar.tolist() == pytest.approx([54.88, 100], abs=0.01)


@pytest.mark.later
def test_pictures_say_their_numbers():
    ax = research_plots.pareto(ALL)
    assert "cheap: 70.00 % for 210 B (front)" in summary(ax)
    assert "worse: 90.00 % for 3.0 kB" in summary(ax)
    assert ax.get_xlabel() == "all bytes sent [kB], logarithmic"
    ax = research_plots.over_seconds({"cheap": [r.history for r in CHEAP]}, rate=100, latency=0.1)
    assert ax.get_xlabel() == "seconds [s]"
    assert all(
        "10^" not in tick.get_text() for tick in research_plots.pareto(ALL).get_xticklabels("both")
    )
    with pytest.raises(ValueError, match="run a sweep"):
        research_plots.pareto([FAILED])


def sent(amounts):
    """A run of 90 % for each protocol, which sends so many bytes."""
    return [
        Result(
            Experiment(name=name, protocol=name), History([{"nbytes": n, "accuracy": 0.9}]), "", 1
        )
        for name, n in amounts.items()
    ]


def test_what_sends_nothing_stands_above_a_zero_and_no_other_number_is_near():
    ax = research_plots.pareto(sent({"alone": 0, "pooled": 500, "fedavg": 2000}))
    places = [marks.lines[0].get_xdata()[0] for marks in ax.containers]
    assert ax.get_xlim()[0] < min(places), "the mark is inside"
    ax.figure.draw_without_rendering()
    ticks = [tick for which in ("major", "minor") for tick in ax.get_xticklabels(which=which)]
    shown = {tick.get_text(): tick.get_position()[0] for tick in ticks if tick.get_text()}
    assert shown["0"] == min(places)
    assert all(2 * min(places) < at for words, at in shown.items() if words != "0")
    assert "alone: 90.00 % for 0 B" in summary(ax)


def test_all_protocols_of_the_package_have_a_mark():
    own = set(protocols.__all__) - set(SHAPES)
    assert not own, f"{own} are drawn as protocols of one's own"
    assert {shape for shape, _ in [*SHAPES.values(), OTHER]} <= set(MARK_WORDS)


@given(st.lists(st.floats(-1e3, 1e3), max_size=8), st.floats(0.1, 50))
def test_spread_keeps_order_and_distance(wanted: list[float], gap: float) -> None:
    places = keep_apart(wanted, gap)
    order = sorted(range(len(wanted)), key=wanted.__getitem__)
    steps = [places[b] - places[a] for a, b in pairwise(order)]
    assert all(step >= gap - 1e-6 for step in steps)
    if all(wanted[b] - wanted[a] >= gap for a, b in pairwise(order)):
        assert places == pytest.approx(wanted, abs=1e-6)


def test_names_of_points_cover_neither_dots_nor_each_other() -> None:
    """As crowded as the bill of notebook 08."""
    crowd = {"float32": (96.7, 0.96), "8 bits": (96.7, 0.96), "4 bits": (96.4, 0.93)}
    crowd |= {"NoPeek 1": (96.1, 0.95), "noise 2": (93.1, 0.49), "noise 4": (93.6, 0.48)}
    crowd |= {"NoPeek 3, noise 0.5": (93.9, 0.5), "top-k 2 %": (95.6, 0.62)}
    ax = named_points(crowd, "accuracy [%]", "explained variance")
    ax.figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in ax.texts]
    assert not any(a.overlaps(b) for a, b in combinations(boxes, 2))
    dots = ax.transData.transform(list(crowd.values()))
    assert "float32, 8 bits" in {text.get_text() for text in ax.texts}, "they are one dot"
    assert not any(box.contains(*dot) for box in boxes for dot in dots)
    assert "NoPeek 1: 96.1, 0.95" in ax.get_label()
    with pytest.raises(ValueError, match="no points to draw"):
        named_points({}, "x", "y")
