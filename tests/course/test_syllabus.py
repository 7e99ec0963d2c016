"""The whole course at a glance: what is done, from the file beside the notebooks."""

import ast
import json
import math
import re
from pathlib import Path

import pytest
from course.answers import Printed

from fltoolkit_course.done import Done, Guess, remember
from fltoolkit_course.guesses import Between
from fltoolkit_course.notebook import Notebook
from fltoolkit_course.syllabus import NOTEBOOKS, progress

FOLDER = Path(__file__).parents[2] / "notebooks"


def code_of(notebook: Notebook) -> str:
    """The code of a notebook, without lines for IPython."""
    (path,) = FOLDER.glob(f"{notebook.file}*.ipynb")
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    lines = "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "code").splitlines()
    return "\n".join(
        " " * (len(s) - len(s.lstrip())) + "pass" if s.strip()[:1] in "%!" and s.strip() else s
        for s in lines
    )


def called(code: str, name: str) -> list[ast.Call]:
    calls = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call)]
    return [node for node in calls if getattr(node.func, "id", None) == name]


def written(question: ast.expr) -> str:
    """A question as the notebook writes it, and {} for what varies."""
    parts = question.values if isinstance(question, ast.JoinedStr) else [question]
    return "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in parts)


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.number)
def test_what_was_measured_could_have_been_guessed(
    notebook: Notebook, capsys: Printed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # nothing is kept
    (path,) = FOLDER.glob(f"{notebook.file}*.ipynb")
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    saved = "".join("".join(out.get("text", "")) for c in cells for out in c.get("outputs", []))
    found = re.findall(r"(.*)\n  your guess: .*\n  measured:   (.*)\n", saved)
    assert len(found) == len(notebook.guesses)
    for question, measured in found:
        value = (
            measured.split()[0].replace(",", "")
            if measured[-1:] in "%B" or re.match("[-\\d]", measured)
            else measured
        )
        for guess in (value, "", "nan", -math.inf):
            notebook.predict.ask(question, guess)
            refused = "Write " in capsys.readouterr().out
            assert refused == (guess != value), (question, guess)


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.number)
def test_a_notebook_asks_what_its_module_says(notebook: Notebook) -> None:
    code = code_of(notebook)
    questions = [written(node.args[0]) for node in called(code, "predict")]
    assert sorted(questions) == sorted(notebook.guesses)
    names = [node.args[0] for node in called(code, "check")]
    asked = [node.value for node in names if isinstance(node, ast.Constant)]
    assert sorted(asked) == sorted(notebook.answers)
    assert len(called(code, "card")) == 1


def test_what_a_notebook_asks_as_a_share_is_asked_in_per_cent() -> None:
    """30 is a third of something everywhere; up to 1 go only numbers that never are per cents."""
    of_one = {
        question
        for notebook in NOTEBOOKS
        for question, possible in notebook.guesses.items()
        if isinstance(possible, Between) and possible.high == 1
    }
    coefficients = {"Distance correlation with noise?", "AUC of the lengths?", "Agreement?"}
    assert of_one == coefficients | {"Mean of what arrives?"}


def first_values(code: str) -> dict[str, list[ast.expr]]:
    """Name -> all that is assigned to it, tuples taken apart."""
    found: dict[str, list[ast.expr]] = {}
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            (target,), value = node.targets, node.value
            both = isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple)
            pairs = zip(target.elts, value.elts, strict=True) if both else [(target, value)]
            for each, its in pairs:
                if isinstance(each, ast.Name):
                    found.setdefault(each.id, []).append(its)
    return found


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.number)
def test_every_guess_and_every_answer_starts_as_none(notebook: Notebook) -> None:
    code = code_of(notebook)
    values = first_values(code)
    asked = [call.args[1] for call in called(code, "predict")]
    asked += [call.args[1] for call in called(code, "check") if "my_" in ast.unparse(call.args[1])]
    for guess in asked:
        assert isinstance(guess, ast.Name), ast.unparse(guess)
        given = [ast.unparse(value) for value in values[guess.id]]
        assert set(given) == {"None"}, f"{guess.id} = {given}"


def everything(notebook: Notebook) -> Done:
    guesses = {str(n): Guess("1", "2", "", 2.0) for n in range(len(notebook.guesses))}
    return Done(guesses, dict.fromkeys(notebook.answers, True))


def test_progress_counts_notebooks_that_are_whole(folder: Path) -> None:
    assert f"0 of {len(NOTEBOOKS)} notebooks done, 0 guesses made." in repr(progress())
    first, second, *_ = NOTEBOOKS
    remember(folder, first.number, everything(first))
    remember(folder, second.number, Done(everything(second).guesses, {}))
    said = repr(progress())
    assert f"1 of {len(NOTEBOOKS)} notebooks done" in said
    assert "within a factor of 2 of" in said
    assert "finished the course" not in said
    for notebook in NOTEBOOKS:
        remember(folder, notebook.number, everything(notebook))
    assert "You have finished the course." in repr(progress())


def test_outside_the_course_folder_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "no notebook lies here" in repr(progress())


def test_the_saved_table_of_notebook_12_counts_what_the_notebooks_ask() -> None:
    """Its output is older than the notebooks: it said that notebook 11 has six guesses."""
    (twelve,) = FOLDER.glob("12_*.ipynb")
    outputs = [
        "".join(output["data"]["text/plain"])
        for cell in json.loads(twelve.read_text(encoding="utf-8"))["cells"]
        if "".join(cell["source"]) == "progress()"
        for output in cell["outputs"]
    ]
    rows = [" ".join(line.split()) for line in outputs[0].splitlines()]
    for notebook in NOTEBOOKS:
        counts = f"0 of {len(notebook.guesses)} 0 of {len(notebook.answers)}"
        assert f"{notebook.number} · {notebook.title} {counts}" in rows


def test_guesses_of_an_older_edition_are_not_counted_twice(tmp_path: Path) -> None:
    """Notebook 02 has asked three questions that are now those of 02b."""
    remember(tmp_path, "02", Done({str(n): Guess("1", "2") for n in range(8)}))
    row = next(row for row in progress(tmp_path).rows if row[0].startswith("02 "))
    assert row[1] == "5 of 5"
