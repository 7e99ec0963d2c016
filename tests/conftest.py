"""Shared by all tests: one torch thread, shapes that are checked, and the built site."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from jaxtyping import install_import_hook

# the shapes in these modules' signatures are checked while tests run; users never pay for it
CHECKED = [
    *("party", "evaluation", "data.datasets", "data.partitions", "data.batches"),
    *("split.chain", "split.vertical", "split.clients", "split.cache"),
    *("split.asynchronous", "split.uploads", "split.variants"),
    *("federated.fedavg", "federated.client", "federated.many_at_once"),
]
install_import_hook([f"fltoolkit.{name}" for name in CHECKED], "shape_checks.checker")

torch.set_num_threads(1)  # two gain little and stall on a busy machine: see docs/architecture.md


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make site` builds, in a folder of its own; a warning fails it."""
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-c", "docs", "."]
    root = Path(__file__).parents[1]
    done = subprocess.run([*command, str(out)], cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    return out
