"""Flower on links: the tables of hand-made runs, and one short deployment over a real link."""

import importlib.util
import json
import os
import shutil
import sys

import pytest

from experiments.links import flower_report
from experiments.links.flower import run
from experiments.links.flower_report import METHODS, POLL, TURNS, WARM
from experiments.links.settings import MBIT, Setting

METHOD = {
    **{"method": METHODS[0], "count": 1, "messages": 2, "wall": 12.0},
    **{"cpu_client": 0.1, "cpu_server": 0.2, "cpu_process": 4.0, "accuracy": 0.9},
    **{"nbytes_up": 900_000, "nbytes_down": 800_000},
    **{"below_up": 1_000_000, "below_down": 1_000_000},
    # a round's end at the server; at the node: asked, has the model, has the update, has sent it
    "rounds": [[100.0, 90.0, 91.0, 98.0, 99.0], [112.0, 102.1, 103.0, 108.0, 109.0]],
}
RESULT = {"up": 1e6, "down": 2e6, "latency": 0.01, "flwr": "1.41.0", "methods": [METHOD]}


def test_both_sides_ask_every_three_seconds():
    assert (POLL, TURNS, WARM) == (3.0, 3, 1)
    ((asked, down, app, up, look),) = flower_report.stages(RESULT, METHOD)
    assert asked == pytest.approx(2.01)  # it sent at 99, the round begins at 100, it asks at 102
    assert down == pytest.approx(0.5 + 3 * 0.02)
    assert app == pytest.approx(5.0)
    assert up == pytest.approx(1.0 + 3 * 0.02)
    assert asked + down + app + up + look == pytest.approx(9.0)  # the third question of the server
    assert flower_report.measured(METHOD) == [pytest.approx((2.1, 0.9, 5.0, 1.0, 3.0))]


def test_an_update_under_way_is_asked_for_again_after_one_and_two_seconds():
    slow = METHOD | {
        "below_up": 3_000_000
    }  # the server hears of it before 9 s, it is there at 10.6
    (parts,) = flower_report.stages(RESULT, slow)
    assert sum(parts) == pytest.approx(9 + 1 + 2)


def test_tables_of_made_up_runs():
    setting = Setting(1e6, 2e6, 0.01)
    methods = [METHOD | {"method": name} for name in METHODS]
    text = flower_report.report([(setting, {0: RESULT | {"methods": methods}})])
    # 0.9 + 0.4 s of bytes, two latencies, 0.3 s of computing: 1.62 s by `seconds_on`, and 12 s
    assert text.count("| 900.0 / 800.0 | 1,000.0 / 1,000.0 | 0.30 | 12.0 | 7.4 |") == len(METHODS)
    assert text.count("| 2.10 | 0.90 | 5.00 | 1.00 | 3.00 | 1.33 |") == len(METHODS)
    assert "4.0 s of processor time a round" in text
    assert "without it on both sides the median is 1.75 " in text  # 12 - 5 beside 9 - 5 seconds
    assert text.count("100.0 / 200.0 kB (") == len(METHODS)
    assert flower_report.report([]) == "no runs yet"


@pytest.mark.slow
@pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0 or not shutil.which("tc"),
    reason="network namespaces need Linux, root and iproute2",
)
@pytest.mark.skipif(
    not importlib.util.find_spec("flwr"),
    reason="Flower is not installed: run this test in the environment that `make flower` makes",
)
def test_a_deployment_over_a_real_link():
    """Takes a minute or more, of which Flower waits for most."""
    result = run(None, Setting(10 * MBIT, 10 * MBIT, 0.005), 0, rounds=1)
    json.dumps(result, allow_nan=False)
    for method in result["methods"]:
        for way in ("up", "down"):
            assert method[f"below_{way}"] > method[f"nbytes_{way}"] > 0
        (parts,) = flower_report.measured(method)
        assert sum(parts) == pytest.approx(method["wall"], abs=0.01)
        assert all(part > -0.2 for part in parts)  # in this order, but for the log's own delay
        assert method["accuracy"] > 0.3  # after two rounds; 0.1 without learning
