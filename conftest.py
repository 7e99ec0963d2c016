"""What is left out where an engine or a system lacks something, told on top of each test run."""

import os
import sys
from importlib.util import find_spec
from typing import Any

import pytest

HAS_SYFT = bool(find_spec("syft") and find_spec("syft_rds"))

# these two need Google accounts; tests/engines/test_syft.py runs their cells on a Drive in memory
collect_ignore_glob = ["notebooks/colab/*.ipynb"]
if not HAS_SYFT:
    collect_ignore_glob += ["fltoolkit/engines/syft*.py", "notebooks/09_private_owners.ipynb"]
if sys.platform != "linux":  # the grader's fence is Linux's
    collect_ignore_glob += ["fltoolkit/assignments/*", "tests/assignments/*"]
    collect_ignore_glob += ["fltoolkit/fence.py", "tests/test_fence.py"]
if sys.platform == "win32":  # no SIGSTOP and no SIGKILL
    collect_ignore_glob += ["tests/engines/test_torch_distributed.py"]
    collect_ignore_glob += ["tests/engines/distributed_scenarios.py"]


# How `--dist loadscope` deals the tests out: a file's tests stay together, and so do those that
# need the built site. The tests in APART take long and share nothing: each goes where a worker is
# free. What takes longest begins first, so that no core is idle at the end.
APART = (
    "test_an_ordinary_user_grades",
    "test_right_answers_get_all",
    "ends_with_a_grader_that_was_killed",
    "test_each_notebook_moves",
    "test_each_control_does",
)
SITE = ("tests/explore/", "test_the_built_pages_hold_every_name")
BEGIN_WITH = (
    *("assignments/test_grading.py", "built site", "test_audit.py", "11_language", "02_many"),
    *("07_the_trade", "03_async", "12_split", "04_fedavg", ".ipynb", "tests/browser/"),
    *("tests/engines/", "tests/test_fuzz.py", "tests/research/", "tests/codecs/"),
)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """The scheduler of `make slow`, `nbval`, `browser` and `long`."""
    if config.getvalue("dist") != "loadscope":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class Units(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            if any(name in nodeid for name in APART):
                return nodeid
            return "built site" if any(part in nodeid for part in SITE) else nodeid.split("::")[0]

        def _assign_work_unit(self, node: Any) -> None:
            def place(unit: str) -> int:
                places = (k for k, part in enumerate(BEGIN_WITH) if part in unit)
                return next(places, len(BEGIN_WITH))

            self.workqueue.move_to_end(min(self.workqueue, key=place), last=False)
            super()._assign_work_unit(node)

    return Units(config, log)


def pytest_itemcollected(item: pytest.Item) -> None:
    """A cell of a notebook belongs to `make long`."""
    if item.path.suffix == ".ipynb":
        item.add_marker(pytest.mark.slow)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Notebooks that nbval runs show what was measured without a guess, as their saved copies."""
    if item.path.suffix == ".ipynb":
        os.environ["FLTOOLKIT_EDITION"] = "saved"
    else:
        os.environ.pop("FLTOOLKIT_EDITION", None)


def pytest_report_header() -> str:
    """One line on top of each run."""
    pip = 'pip install "syft>=0.10,<0.11" "syft-rds>=0.6.1,<0.7"'
    return "syft: installed" if HAS_SYFT else f"syft: missing, its engine is left out ({pip})"
