"""The Pareto plot: what is named stands beside its point, what is not is grey."""

from itertools import combinations

import pytest
from matplotlib.colors import to_hex
from matplotlib.text import Annotation

from experiments.pareto import report as pareto_report
from fltoolkit import plots
from fltoolkit.plots.pareto import GREY, look
from fltoolkit.research import front, points


@pytest.fixture(scope="module")
def results():
    return pareto_report.parts_of(pareto_report.read_kept())["mnist", "IID"]


def labels(ax):
    return [each for each in ax.texts if isinstance(each, Annotation)]


def test_of_a_large_sweep_the_front_is_named_and_the_rest_is_grey(results):
    found = points(results)
    best = {point.name for point in front(found)}
    ax = plots.pareto(results)
    assert {label.get_text() for label in labels(ax)} == best
    colors = [to_hex(bars[0].get_color()).lower() for bars in ax.containers]
    assert colors.count(GREY) == len(found) - len(best)


def test_of_a_small_one_all_are(results):
    few = {point.name for point in points(results)[:5]}
    ax = plots.pareto([r for r in results if r.experiment.name in few])
    assert {label.get_text() for label in labels(ax)} == few


def test_names_have_their_points_colour_and_do_not_cover_each_other(results):
    names = {"FedAvg, float32", "SplitNN, float32", "FedPAQ + Entropy", "3 bits + EF both ways"}
    ax = plots.pareto(results, names=names)
    by_name = {point.name: point for point in points(results)}
    for label in labels(ax):
        assert label.get_color() == look(by_name[label.get_text()])[1]
    ax.figure.draw_without_rendering()
    boxes = [label.get_window_extent() for label in labels(ax)]
    assert len(boxes) == len(names)
    assert not any(a.overlaps(b) for a, b in combinations(boxes, 2))


def test_the_legend_has_one_order(results):
    ax = plots.pareto(results)
    backwards = plots.pareto(results[::-1])
    words = [text.get_text() for text in ax.get_legend().get_texts()]
    assert words == ["split", "split, silent at times", "SplitFed", "federated"]
    assert words == [text.get_text() for text in backwards.get_legend().get_texts()]
