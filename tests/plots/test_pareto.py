"""Pictures of a sweep say the numbers they show."""

import pytest
from made_up import ALL, CHEAP, DEAR, FAILED

from fltoolkit import plots
from fltoolkit.plots import figures


def test_pictures_say_their_numbers():
    ax = plots.pareto(ALL)
    assert "cheap: 70.00 % for 210 B (front)" in figures.summary(ax)
    assert "worse: 90.00 % for 3.0 kB" in figures.summary(ax)
    assert ax.get_xlabel() == "all bytes sent [kB], logarithmic"
    ax = plots.three_sizes(CHEAP[0].history[-1])
    assert "update up: nominal 400 B, real 200 B, entropy 5 B" in figures.summary(ax)
    plots.three_sizes({"a": CHEAP[0].history[-1], "b": DEAR[0].history[-1]})
    ax = plots.heat_map({(2, 4): [0.5, 0.7], (8, 4): [0.9]})
    assert "2 x 4: 60.0 ±10.0; 8 x 4: 90.0" in figures.summary(ax)
    ax = plots.over_seconds({"cheap": [r.history for r in CHEAP]}, rate=100, latency=0.1)
    assert ax.get_xlabel() == "seconds [s]"
    assert all("10^" not in tick.get_text() for tick in plots.pareto(ALL).get_xticklabels("both"))
    for wrong in (
        lambda: plots.pareto([FAILED]),
        lambda: plots.three_sizes({"step": 1}),
        lambda: plots.heat_map({}),
    ):
        with pytest.raises(ValueError, match=r"run a sweep|training\.run|no cells"):
            wrong()
