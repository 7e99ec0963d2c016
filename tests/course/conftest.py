from pathlib import Path

import pytest

from fltoolkit_course import done


@pytest.fixture(autouse=True)
def no_edition(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FLTOOLKIT_EDITION", raising=False)
    monkeypatch.setattr(done, "_unfinished", {})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, in which a notebook of the course lies."""
    (tmp_path / "00_start_here.ipynb").touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path
