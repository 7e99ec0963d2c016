"""Seconds on links: the models on hand-made numbers, and one short run over a real link."""

import json
import os
import shutil
import sys

import pytest

from experiments.links import report as links_report
from experiments.links.emulator import mtu
from experiments.links.methods import METHODS
from experiments.links.settings import MBIT, REPEATS, Setting, settings

TOLD = {
    "method": "SplitNN, float32",
    **{"count": 10, "messages": 20, "nbytes_up": 1_000_000, "nbytes_down": 500_000},
    **{"wall": 2.0, "cpu_client": 0.1, "cpu_server": 0.2},
    **{"below_up": 1_036_000, "below_down": 518_000},
}


def made_up(**changes):
    """A link of 1 MB/s up and 2 MB/s down with 10 ms, and one method on it."""
    return {"up": 1e6, "down": 2e6, "latency": 0.01, "methods": [TOLD | changes]}


def test_the_simple_model_adds_bytes_waits_and_computing():
    result = made_up()
    # 1 s up, 0.25 s down, 20 messages of 10 ms, 0.3 s of computing
    assert links_report.simple(result, TOLD) == pytest.approx(1 + 0.25 + 0.2 + 0.3)


def test_headers_are_52_bytes_of_a_packet():
    result = made_up()
    share = 1500 / 1448
    assert links_report.with_headers(result, TOLD) == pytest.approx(1.25 * share + 0.5)
    assert mtu(1e6) == 1500
    assert mtu(125e6) == 65_000  # of a gigabit link


def test_every_link_is_run_long_enough_and_not_for_ever():
    chosen = settings()
    assert len({s.name for s in chosen}) == len(chosen) >= 8
    for setting in chosen:
        assert set(setting.counts()) == set(METHODS)
        assert all(4 <= count <= 40 for count in setting.counts().values())
        assert setting.seeds == tuple(range(REPEATS))
    assert chosen[-1].name == "5 up, 50 down Mbit/s, 10 ms"
    assert len({s.key(None, n) for s in chosen for n in s.seeds}) == len(chosen) * REPEATS


def test_tables_of_made_up_runs():
    setting = Setting(1e6, 2e6, 0.01)
    methods = [TOLD | {"method": name, "wall": 1.0 + n} for n, name in enumerate(METHODS)]
    rows = [(setting, {0: made_up() | {"methods": methods}})]
    text = links_report.report(rows)
    assert "**100**" in text  # 1.0 s for 10 steps, the least of the row
    assert text.count(setting.name) == 2 + len(METHODS)
    assert links_report.report([]) == "no runs yet"


@pytest.mark.slow
@pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0 or not shutil.which("tc"),
    reason="network namespaces need Linux, root and iproute2",
)
def test_a_short_run_over_a_real_link():
    """10 Mbit/s carry 1.25 MB a second: what is sent takes at least that long."""
    from experiments.links.run import run

    class Short(Setting):
        def counts(self):
            return {"SplitNN, 8 bits": 6, "FedAvg, 3 bits both ways": 4}

    result = run(None, Short(10 * MBIT, 10 * MBIT, 0.005), 0)
    json.dumps(result, allow_nan=False)
    for told in result["methods"]:
        least = links_report.simple(result, told) - links_report.computing(told)
        assert told["wall"] > 0.9 * least
        assert told["below_up"] > told["nbytes_up"] > 0
        assert told["messages"] == 2 * told["count"]
