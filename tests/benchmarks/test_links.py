"""Seconds on links: the models on hand-made numbers, and one short run over a real link."""

import json
import os
import shutil
import sys

import pytest

from benchmarks.links import report as links_report
from benchmarks.links.emulator import bucket, mtu
from benchmarks.links.party import outgrown
from benchmarks.links.settings import MBIT, Setting
from fltoolkit.channel import Transfer
from fltoolkit_engines import _peers

METHOD = {
    "method": "SplitNN, float32",
    **{"count": 10, "messages": 20, "following": 0, "outgrown": 0},
    **{"nbytes_up": 1_000_000, "nbytes_down": 500_000},
    **{"wall": 2.0, "cpu_client": 0.1, "cpu_server": 0.2},
}


def made_up(**changes):
    """A link of 1 MB/s up and 2 MB/s down with 10 ms, and one method on it."""
    return {"up": 1e6, "down": 2e6, "latency": 0.01, "methods": [METHOD | changes]}


def test_the_simple_model_adds_bytes_waits_and_computing():
    result = made_up()
    # 1 s up, 0.25 s down, 20 messages of 10 ms, 0.3 s of computing
    assert links_report.simple(result, METHOD) == pytest.approx(1 + 0.25 + 0.2 + 0.3)


def test_headers_are_52_bytes_of_a_packet_and_a_full_bucket_passes_at_once():
    result = made_up()
    share, full = 1500 / 1448, 10 * 3000  # ten messages each way
    sent = (1e6 * share - full) / 1e6 + (0.5e6 * share - full) / 2e6
    assert links_report.detailed(result, METHOD) == pytest.approx(sent + 0.2 + 0.3)
    assert (mtu(1e6), bucket(1e6)) == (1500, 3000)
    assert mtu(125e6) == 15_000  # of a gigabit link
    short = METHOD | {"nbytes_up": 20_000, "nbytes_down": 20_000}  # all of it fits into the buckets
    assert links_report.detailed(result, short) == pytest.approx(0.2 + 0.3)


def test_what_has_outgrown_the_buffer_is_what_the_engine_sends_in_two():
    sizes = [("a", 80), ("b", 9), ("a", 100), ("a", 101), ("b", 11), ("a", 127), ("a", 128)]
    sent = [Transfer(0, s, "c", "update", nbytes, nbytes) for s, nbytes in sizes]
    assert outgrown(sent) == [True, True, False, False, False, True, False]
    for (name, nbytes), beyond in zip(sizes[2:], outgrown(sent)[2:], strict=True):
        before = max(n for s, n in sizes[: sizes.index((name, nbytes))] if s == name)
        assert beyond == (nbytes > _peers._room_for(before))


@pytest.mark.slow
@pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0 or not shutil.which("tc"),
    reason="network namespaces need Linux, root and iproute2",
)
def test_a_short_run_over_a_real_link():
    """10 Mbit/s carry 1.25 MB per second: what is sent takes at least that long."""
    from benchmarks.links.run import run

    class Short(Setting):
        def counts(self):
            return {"SplitNN, 8 bits": 6, "FedAvg, 3 bits both ways": 4}

    result = run(None, Short(10 * MBIT, 10 * MBIT, 0.005), 0)
    json.dumps(result, allow_nan=False)
    for method in result["methods"]:
        least = links_report.simple(result, method) - links_report.computing(method)
        assert method["wall"] > 0.9 * least
        assert method["nbytes_up"] > 0
        assert method["messages"] == 2 * method["count"]
