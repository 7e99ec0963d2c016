"""Each folded solution is run where a reader would run it, and it passes the check above it.

A notebook is run as its reader finds it: no guess is made and nothing is shown without one, so
this also holds that no cell needs a guess to go on.
"""

import re
import shutil
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from fltoolkit_course.done import read_done

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`(my_answer = [^`]+)`")
UNANSWERED = re.compile(r"^my_answer = None.*\n", re.MULTILINE)
CHECKED = re.compile(r"\bcheck\(\s*(\"[^\"]+\")")


def solutions(text: str) -> list[str]:
    """The code in each folded solution of a Markdown cell, in order."""
    folded = re.findall(r"<details>.*?</details>", text, re.DOTALL)
    return ["\n".join(BLOCK.findall(part)) or "\n".join(INLINE.findall(part)) for part in folded]


def with_solutions(cells: list[nbformat.NotebookNode]) -> list[nbformat.NotebookNode]:
    """The cells, each folded solution as a code cell, and the check it answers once more."""
    out: list[nbformat.NotebookNode] = []
    open_check = None
    for cell in cells:
        out.append(cell)
        if cell.cell_type == "code" and UNANSWERED.search(cell.source):
            open_check = cell.source
        for code in solutions(cell.source) if cell.cell_type == "markdown" else []:
            if not code:
                continue
            out.append(nbformat.v4.new_code_cell(code))
            if "my_answer" in code:
                assert open_check, f"no `my_answer = None` above the solution {code[:80]!r}"
                name = CHECKED.search(open_check)[1]
                again = f"{UNANSWERED.sub('', open_check)}\nassert right, {name}"
                out.append(nbformat.v4.new_code_cell(again))
    return out


@pytest.mark.solutions
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_solutions_pass(path: Path, tmp_path: Path) -> None:
    shutil.copy(path, tmp_path)
    (tmp_path / "00_start_here.ipynb").touch()  # so that this is a folder of the course
    notebook = nbformat.read(path, as_version=4)
    notebook.cells = with_solutions(notebook.cells)
    asked = {
        name.strip('"')
        for cell in notebook.cells
        if cell.cell_type == "code" and "\nassert right" in cell.source
        for name in CHECKED.findall(cell.source)
    }
    where = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources=where).execute()
    done = read_done(tmp_path).popitem()[1] if asked else None
    assert not asked or asked <= set(done.passed)
    shown = "".join(
        output.get("text", "") for cell in notebook.cells for output in cell.get("outputs", [])
    )
    assert "No guess yet." in shown or "predict(" not in path.read_text(encoding="utf-8")
    assert "no guess was made" not in shown
