from collections.abc import Iterator
from pathlib import Path
from typing import Any

import labserver
import pytest
import warm_kernels


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that JupyterLab shows: copy the notebooks to open into it."""
    return tmp_path_factory.mktemp("notebooks")


@pytest.fixture(scope="session")
def server(folder: Path) -> Iterator[labserver.Server]:
    labserver.chromium()  # skip before starting anything
    with labserver.lab(folder, JUPYTER_PATH=warm_kernels.folder()) as started:
        yield started


@pytest.fixture(scope="module")
def context() -> Iterator[Any]:
    """What a module's tests share: JupyterLab, loaded once."""
    with labserver.browser() as started:
        yield started.new_context()


@pytest.fixture
def page(context: Any) -> Iterator[Any]:
    with labserver.page(context) as tab:
        yield tab
        tab.evaluate(labserver.END_KERNEL)  # each takes half a gigabyte, and a lab goes on training
