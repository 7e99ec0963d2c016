"""Shared by all tests: shapes that are checked, and the built site."""

import os
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest
import shape_checks  # before the hook is used: it replaces what that puts around functions
from jaxtyping import install_import_hook

# the shapes in these modules' signatures are checked while tests run; users never pay for it
collect_ignore = ["own_codec.py"]  # a file of a user, which tests import
CHECKED = [
    *("party", "evaluation", "data.datasets", "data.partitions", "data.batches"),
    *("split.chain", "split.vertical", "split.clients", "split.cache"),
    *("split.asynchronous", "split.uploads", "split.variants"),
    *("federated.rounds", "federated.client", "federated.many_at_once"),
]
install_import_hook([f"fltoolkit.{name}" for name in CHECKED], f"{shape_checks.__name__}.checker")

if find_spec("hypothesis"):  # Flower's environment does without
    from hypothesis import HealthCheck, settings

    # on a busy machine everything takes long, and that is no failure
    how = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
    settings.register_profile("search", **how)  # new examples in each run
    settings.register_profile("same", derandomize=True, **how)
    settings.load_profile("same")


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make site` builds, once for all processes of pytest; a warning fails it."""
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    out, said = shared / "site", shared / "site-said.txt"
    try:
        out.mkdir()
    except FileExistsError:  # another process builds it, or has built it
        end = time.monotonic() + 1800
        while not said.exists() and time.monotonic() < end:
            time.sleep(0.2)
    else:
        command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-c", "docs", "."]
        root = Path(__file__).parents[1]
        done = subprocess.run([*command, str(out)], cwd=root, capture_output=True, text=True)
        (shared / "saying").write_text(done.stderr[-4000:] if done.returncode else "")
        (shared / "saying").rename(said)
    assert said.read_text() == ""
    return out
