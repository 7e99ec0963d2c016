"""Flower on links: the tables of hand-made runs, and one short deployment over a real link."""

import importlib.util
import json
import os
import shutil
import sys

import pytest

from experiments.links import flower_report
from experiments.links.flower import run
from experiments.links.settings import MBIT, Setting


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
