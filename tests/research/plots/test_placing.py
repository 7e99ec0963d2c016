"""Places for words: apart from each other."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fltoolkit.plots.figures import keep_apart


@given(st.lists(st.floats(-1e3, 1e3), max_size=8), st.floats(0.1, 50))
def test_spread_keeps_order_and_distance(wanted: list[float], gap: float) -> None:
    places = keep_apart(wanted, gap)
    order = sorted(range(len(wanted)), key=wanted.__getitem__)
    steps = [places[b] - places[a] for a, b in pairwise(order)]
    assert all(step >= gap - 1e-6 for step in steps)
    if all(wanted[b] - wanted[a] >= gap for a, b in pairwise(order)):
        assert places == pytest.approx(wanted, abs=1e-6)
