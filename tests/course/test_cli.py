"""``fltoolkit course``: copies of the notebooks, and nothing of a student's is ever overwritten."""

import subprocess
import sys

import pytest

from fltoolkit import cli
from fltoolkit.course import cli as course
from fltoolkit.course.cli import copy_notebooks, shipped


def test_all_of_the_course_is_copied(tmp_path):
    copied, kept = copy_notebooks(tmp_path / "new" / "course")
    assert kept == []
    names = sorted(path.name for path in shipped().glob("*.ipynb"))
    assert sorted(path.name for path in (tmp_path / "new" / "course").glob("*.ipynb")) == names
    assert {*names, "colab/README.md"} <= set(copied)
    assert not [name for name in copied if "assignments" in name], "masters hold the solutions"


def test_links_to_the_docs_lead_out_of_the_folder(tmp_path):
    copy_notebooks(tmp_path)
    text = "".join(path.read_text(encoding="utf-8") for path in tmp_path.glob("*.ipynb"))
    assert "](../docs/" not in text
    assert f"]({course.PAGES}async_states.md)" in text


def test_what_was_changed_is_kept_and_told(tmp_path, capsys):
    copy_notebooks(tmp_path)
    mine, deleted = tmp_path / "01_vanilla_splitnn.ipynb", tmp_path / "02_many_alices.ipynb"
    mine.write_text("my work")
    deleted.unlink()
    assert cli.main(["course", str(tmp_path), "--no-open"]) == 0
    assert mine.read_text() == "my work"
    assert deleted.exists()
    said = capsys.readouterr().out
    assert "1 files copied" in said
    assert "01_vanilla_splitnn.ipynb: yours differs and is kept" in said
    assert "00_start_here" not in said.split("To open")[0]


def test_it_opens_jupyterlab_in_the_folder(tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(subprocess, "call", lambda *a, **k: calls.append((a, k)) or 3)
    assert cli.main(["course", str(tmp_path), "--no-browser"]) == 3
    ((command,), options) = calls[0]
    start = [sys.executable, "-m", "jupyter", "lab", "00_start_here.ipynb", "--no-browser"]
    assert command[:6] == start
    assert options == {"cwd": tmp_path}


def test_without_jupyterlab_it_says_the_pip_line(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(course, "find_spec", lambda name: None)
    assert cli.main(["course", str(tmp_path)]) == 2
    assert 'pip install "fltoolkit[lab]"' in capsys.readouterr().err


def test_a_file_in_the_way(tmp_path, capsys):
    (tmp_path / "file").touch()
    assert cli.main(["course", str(tmp_path / "file"), "--no-open"]) == 2
    assert "fltoolkit course: " in capsys.readouterr().err


def test_an_installation_without_notebooks_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(course, "__file__", str(tmp_path / "a" / "b" / "cli.py"))
    with pytest.raises(FileNotFoundError, match="not whole"):
        shipped()
