import ast
import json
import math
import re
from pathlib import Path

import pytest
from course.answers import Printed

from fltoolkit_course.done import Done, Guess, remember
from fltoolkit_course.notebook import Notebook
from fltoolkit_course.syllabus import MINUTES, NOTEBOOKS, PATH, path, progress

FOLDER = Path(__file__).parents[2] / "notebooks"


def cells_of(notebook: Notebook, until: str = "") -> list[str]:
    """The code cells without lines for IPython; until a heading, if one is given."""
    (path,) = FOLDER.glob(f"{notebook.file}*.ipynb")
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    ends = (n for n, c in enumerate(cells) if until and f"## {until}\n" in "".join(c["source"]))
    cells = cells[: next(ends, None)]
    return [
        re.sub(r"^( *)[%!].*", r"\1pass", "".join(c["source"]), flags=re.MULTILINE)
        for c in cells
        if c["cell_type"] == "code"
    ]


def code_of(notebook: Notebook, until: str = "") -> str:
    """The code of a notebook, as `cells_of` gives it."""
    return "\n".join(cells_of(notebook, until))


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
        value = measured
        if measured[-1:] in "%B" or re.match("[-\\d]", measured):
            value = measured.split()[0].replace(",", "")
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


def names(tree: ast.AST, how: type[ast.expr_context]) -> set[str]:
    found = (node for node in ast.walk(tree) if isinstance(node, ast.Name))
    return {node.id for node in found if isinstance(node.ctx, how)}


def set_in(code: str) -> set[str]:
    """The names that a cell sets, without those inside its functions."""
    parts = ast.parse(code).body
    kept = (part for part in parts if not isinstance(part, ast.FunctionDef | ast.ClassDef))
    return {name for part in kept for name in names(part, ast.Store)}


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.number)
def test_what_is_measured_is_not_set_again_further_down(notebook: Notebook) -> None:
    """A cell that is run once more, with a guess, must not measure what another one has made."""
    cells = cells_of(notebook)
    for place, code in enumerate(cells):
        calls = called(code, "predict") + called(code, "check")
        given = [part for call in calls for part in (*call.args[2:], *call.keywords)]
        taken = {name for part in given for name in names(part, ast.Load)} - set_in(code)
        again = {name for below in cells[place + 1 :] for name in set_in(below)}
        assert not taken & again, (notebook.number, code)


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


def test_guesses_of_an_older_edition_are_not_counted_twice(tmp_path: Path) -> None:
    """Notebook 02 has asked three questions that are now those of 02b."""
    remember(tmp_path, "02", Done({str(n): Guess("1", "2") for n in range(8)}))
    row = next(row for row in progress(tmp_path).rows if row[0].startswith("02 "))
    assert row[1] == "5 of 5"


def prose(notebook: Notebook) -> str:
    """The words of a notebook, in one line for each paragraph."""
    (file,) = FOLDER.glob(f"{notebook.file}*.ipynb")
    cells = json.loads(file.read_text(encoding="utf-8"))["cells"]
    return "\n\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")


ON_PATH = [notebook for notebook in NOTEBOOKS if notebook.number in PATH]


def test_the_path_takes_ninety_minutes_and_is_printed(tmp_path: Path) -> None:
    assert [notebook.number for notebook in ON_PATH] == list(PATH)
    assert sum(part.minutes for part in PATH.values()) == 90
    printed = repr(path(tmp_path)[0])
    for part in PATH.values():
        assert (f"up to the heading {part.until!r}" if part.until else "all of it") in printed


def test_a_part_of_the_path_is_done_when_its_questions_are(tmp_path: Path) -> None:
    for done, notebook in enumerate(ON_PATH):
        table, after = path(tmp_path)
        assert f"The path: {done} of 5 done." in repr(table)
        assert after is notebook
        code = code_of(notebook, PATH[notebook.number].until)
        asked = [written(node.args[0]) for node in called(code, "predict")]
        assert [*notebook.guesses][: PATH[notebook.number].guesses] == asked
        guesses = dict.fromkeys(asked, Guess("", "2"))  # measured without a guess
        remember(tmp_path, notebook.number, Done(guesses))
    table, after = path(tmp_path)
    assert after is None
    assert "The path: 5 of 5 done." in repr(table)
    rows = {row[0].split(" ")[0]: row[-1] for row in progress(tmp_path).rows}
    assert [number for number in rows if rows[number] == "its part of the path"] == list(PATH)
    remember(tmp_path, "02", everything(NOTEBOOKS[3]))
    assert path(tmp_path) == (None, None), "whoever reads all is not led back"


@pytest.mark.parametrize(
    ("notebook", "minutes"), list(zip(NOTEBOOKS, MINUTES.values(), strict=True)), ids=list(MINUTES)
)
def test_the_head_says_the_minutes(notebook: Notebook, minutes: int) -> None:
    head = " ".join(prose(notebook).partition("\n## ")[0].split())
    assert f"About {minutes} minutes" in head
    part = PATH.get(notebook.number)
    if part is not None and part.until:
        assert f"about {part.minutes}, up to the heading *{part.until}*" in head


PAGES = ("README.md", "docs/for_students.md", "docs/index.md", "docs/explore/index.html", "")


@pytest.mark.parametrize("page", PAGES)
def test_pages_show_the_path_and_then_the_map(page: str) -> None:
    text = (FOLDER.parent / page).read_text(encoding="utf-8") if page else prose(NOTEBOOKS[0])
    text = re.sub(r'<a href="(.*?)">(.*?)</a>', r"[\2](\1)", text)
    text = re.sub(r"<li>(.*)</li>", r"1. \1", re.sub("</?i>", "*", text))
    row = r"^\d\. \[(\S+) .*?\]\(\S*?(\w+)\.ipynb\): .*?(?:, up to \*(.*)\*)?"
    found = re.findall(row + r" \(about (\d+) minutes\)$", text, re.MULTILINE)
    wanted = []
    for notebook in ON_PATH:
        ((file,), part) = FOLDER.glob(f"{notebook.file}*.ipynb"), PATH[notebook.number]
        wanted.append((notebook.number, file.stem, part.until, str(part.minutes)))
    assert found == wanted
    table = re.findall(r"^\| .*\? \| (\d+) \|$", text, re.MULTILINE)
    if table:  # the map
        assert [int(minutes) for minutes in table] == [*MINUTES.values()]
        assert text.index("minutes)\n") < text.index("\n| ")
