"""Places for words: apart from each other, and beside marks."""

from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fltoolkit.plots.figures import keep_apart
from fltoolkit_research.plots.placing import beside


@given(st.lists(st.floats(-1e3, 1e3), max_size=8), st.floats(0.1, 50))
def test_spread_keeps_order_and_distance(wanted: list[float], gap: float) -> None:
    places = keep_apart(wanted, gap)
    order = sorted(range(len(wanted)), key=wanted.__getitem__)
    steps = [places[b] - places[a] for a, b in pairwise(order)]
    assert all(step >= gap - 1e-6 for step in steps)
    if all(wanted[b] - wanted[a] >= gap for a, b in pairwise(order)):
        assert places == pytest.approx(wanted, abs=1e-6)


def test_words_beside_marks_cover_neither_marks_nor_words() -> None:
    places = [(100.0, 100.0), (112.0, 101.0), (100.0, 113.0), (300.0, 100.0)]
    found = beside(places, ["1", "22", "3", "4"])
    boxes = [(w.x, w.y - 0.8 * w.size, w.x + 0.6 * w.size * len(w.words), w.y) for w in found]
    boxes += [(x - 7, y - 7, x + 7, y + 7) for x, y in places[:1]]
    for a, b in combinations(boxes, 2):
        assert a[0] >= b[2] or b[0] >= a[2] or a[1] >= b[3] or b[1] >= a[3], (a, b)
