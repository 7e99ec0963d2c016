"""What is left out where an engine or a system lacks something, told on top of each test run."""

import gc
import os
import sys
from collections.abc import Generator
from importlib.util import find_spec

import pytest
import warm_kernels

# one torch thread: two gain little and stall on a busy machine. It is said
# before anything imports torch, which the process that only deals the tests out never does
os.environ["OMP_NUM_THREADS"] = "1"
OWN_KERNELS = os.environ.get("JUPYTER_PATH", "")
HAS_SYFT = bool(find_spec("syft") and find_spec("syft_rds"))

# these two need Google accounts; tests/engines/test_syft.py runs their cells on a Drive in memory
collect_ignore_glob = ["notebooks/colab/*.ipynb"]
if not HAS_SYFT:
    collect_ignore_glob += ["fltoolkit_engines/syft*.py", "notebooks/09_private_owners.ipynb"]
if sys.platform != "linux":  # the grader's fence is Linux's
    collect_ignore_glob += ["fltoolkit_grading/*", "tests/grading/*"]
    collect_ignore_glob += ["fltoolkit_grading/fence.py", "tests/grading/test_fence.py"]
if sys.platform == "win32":  # no SIGSTOP and no SIGKILL
    collect_ignore_glob += ["tests/engines/test_torch_distributed.py"]
    collect_ignore_glob += ["tests/engines/distributed_scenarios.py"]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is collected stays to the end: it is not searched for garbage, now or later.

    Collecting the quick tests takes each process 5.4 s of work, and 6.9 s if garbage is sought.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_itemcollected(item: pytest.Item) -> None:
    """A cell of a notebook belongs to `make long`."""
    if item.path.suffix == ".ipynb":
        item.add_marker(pytest.mark.slow)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Notebooks that nbval runs show what was measured without a guess, as their saved copies."""
    if item.path.suffix == ".ipynb":
        warm_kernels.listen_at_files()
        os.environ |= {"FLTOOLKIT_EDITION": "saved", "JUPYTER_PATH": warm_kernels.folder()}
    else:
        os.environ.pop("FLTOOLKIT_EDITION", None)
        os.environ["JUPYTER_PATH"] = OWN_KERNELS


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """A test that needs data files is skipped, and counted, where nobody has or delivers them."""
    try:
        return (yield)
    except FileNotFoundError as error:
        if type(error).__name__ != "DataNotFoundError":
            raise
        pytest.skip(f"no data: {str(error).splitlines()[0]}")


def pytest_unconfigure() -> None:
    """No process is left over."""
    warm_kernels.end()


def pytest_report_header() -> str:
    """One line on top of each run."""
    pip = 'pip install "syft>=0.10,<0.11" "syft-rds>=0.6.1,<0.7"'
    return "syft: installed" if HAS_SYFT else f"syft: missing, its engine is left out ({pip})"
