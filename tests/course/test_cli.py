"""``fltoolkit course``: copies of the notebooks, and nothing of a student's is ever overwritten."""

import io
import json
import subprocess
import sys

import pytest
from course.test_syllabus import everything

from fltoolkit import cli
from fltoolkit_course import cli as course
from fltoolkit_course.cli import copy_notebooks, shipped
from fltoolkit_course.done import Done, Guess, remember
from fltoolkit_course.syllabus import NOTEBOOKS


def test_all_of_the_course_is_copied(tmp_path):
    copied = copy_notebooks(tmp_path / "new" / "course")
    names = sorted(path.name for path in shipped().glob("*.ipynb"))
    assert sorted(path.name for path in (tmp_path / "new" / "course").glob("*.ipynb")) == names
    assert {*names, "colab/README.md"} <= set(copied)
    assert not [name for name in copied if "assignments" in name], "masters hold the solutions"
    with pytest.raises(NotADirectoryError, match="is a file; name a folder"):
        copy_notebooks(tmp_path / "new" / "course" / names[0])


def test_copies_have_no_outputs_and_links_that_lead_out_of_the_folder(tmp_path):
    copy_notebooks(tmp_path)
    text = "".join(path.read_text(encoding="utf-8") for path in tmp_path.glob("*.ipynb"))
    assert "](../docs/" not in text
    assert f"]({course.PAGES}async_states.md)" in text
    for path in tmp_path.glob("*.ipynb"):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        ours = json.loads((shipped() / path.name).read_text(encoding="utf-8"))["cells"]
        assert [cell["id"] for cell in cells] == [cell["id"] for cell in ours]
        code = [cell for cell in cells if cell["cell_type"] == "code"]
        assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
        assert any(cell.get("outputs") for cell in ours), "nothing was to be removed"


@pytest.mark.later
def test_another_day(tmp_path, capsys):
    """One notebook was begun, some finished."""

    def again():
        assert cli.main(["course", str(tmp_path), "--no-open"]) == 0
        return capsys.readouterr().out

    assert f'To open: cd "{tmp_path}", then jupyter lab 00_start_here.ipynb' in again()
    first = again()
    assert "guesses" not in first, "nothing was done yet"
    assert "The first ninety minutes" in first
    remember(tmp_path, "03", Done({"How many?": Guess("1", "2")}))
    assert "jupyter lab 03_async_states.ipynb" in again(), "it was begun"
    for notebook in NOTEBOOKS[:2]:
        remember(tmp_path, notebook.number, everything(notebook))
    printed = again()
    assert f"2 of {len(NOTEBOOKS)} notebooks done" in printed
    assert "The first ninety minutes" not in printed
    for notebook in NOTEBOOKS[4:]:
        remember(tmp_path, notebook.number, everything(notebook))
    assert "jupyter lab 01b_ten_owners.ipynb" in again(), "the first of those that were left out"


@pytest.mark.later
def test_the_edition_is_made_without_the_package(tmp_path):
    tool = [sys.executable, "-S", str(shipped().parent / "tools" / "make_edition.py")]
    subprocess.run([*tool, str(tmp_path / "notebooks")], check=True)
    copy_notebooks(tmp_path / "copy")
    for path in (tmp_path / "copy").rglob("*.ipynb"):
        name = path.relative_to(tmp_path / "copy")
        assert (tmp_path / "notebooks" / name).read_bytes() == path.read_bytes()
    assert subprocess.run([*tool, str(tmp_path / "notebooks")], check=False).returncode == 0


def test_what_is_there_is_kept(tmp_path, capsys):
    copy_notebooks(tmp_path)
    mine, deleted = tmp_path / "01_vanilla_splitnn.ipynb", tmp_path / "02_many_alices.ipynb"
    mine.write_text("my work")
    deleted.unlink()
    assert cli.main(["course", str(tmp_path), "--no-open"]) == 0
    assert mine.read_text() == "my work"
    assert deleted.exists()
    said = capsys.readouterr().out
    assert "1 files copied" in said
    assert "The others stay as they are" in said


def test_it_opens_jupyterlab_in_the_folder(tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(subprocess, "call", lambda *a, **k: calls.append((a, k)) or 3)
    assert cli.main(["course", str(tmp_path), "--no-browser"]) == 3
    ((command,), options) = calls[0]
    start = [sys.executable, "-m", "jupyter", "lab", "00_start_here.ipynb", "--no-browser"]
    assert command[:6] == start
    assert options.pop("env")["OMP_NUM_THREADS"] == "1"
    assert options == {"cwd": tmp_path}


def test_in_a_pipe_its_lines_come_before_those_of_jupyterlab(tmp_path, monkeypatch):
    pipe, seen = io.BytesIO(), []
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(pipe, encoding="utf-8"))  # it buffers
    monkeypatch.setattr(subprocess, "call", lambda *a, **k: seen.append(pipe.getvalue()) or 0)
    assert cli.main(["course", str(tmp_path)]) == 0
    assert seen[0].decode().rstrip().endswith("is opened")


def test_without_jupyterlab_it_says_the_pip_line(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(course, "find_spec", lambda name: None)
    assert cli.main(["course", str(tmp_path)]) == 2
    assert 'pip install "fltoolkit[lab]"' in capsys.readouterr().err
