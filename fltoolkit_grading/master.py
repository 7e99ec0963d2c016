"""Assignments: a master notebook with solutions, the release made from it, collecting answers.

Cells have nbgrader's metadata (schema 3), so masters and releases can be used with both tools. The
metadata give the kind of a cell:

    answer     solution, not graded     the student's code, found by the id of the cell
    question   solution and graded      an open question, graded by hand
    hidden     graded, not a solution   a check with a secret seed; gives points; not in the release
    check      locked                   an open check or setup; in the release; gives no points

Only `check` runs code, on the student's own machine, and only `check` needs nbformat.
The course's masters are in notebooks/assignments.
"""

import ast
import copy
import hashlib
import json
import re
import subprocess
import unicodedata
from collections import Counter
from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fltoolkit_grading.check_cell import NOT_RUN, STEP
from fltoolkit_grading.reading import names_defined, read_submission, without_magic

NotebookJSON = dict[str, Any]
MAX_ANSWER = 200_000  # characters
OWN = "own cell"  # answers of this name, with a number, are no cells of the master
BEFORE = "before-"  # the ids of added cells begin so
# the module check_cell, without a name for it in the student's namespace
CHECK_CELL = "__import__('fltoolkit_grading.check_cell').check_cell"
STUB = "# Your code here"
SET_UP = " (changes above the first answer are not graded: an import belongs into the answer)"
MAX_NUMBERS = 1_000_000
_SEED = re.compile(r"^SEED = \d+", re.MULTILINE)
_REGION = re.compile(
    r"^([ \t]*)### BEGIN SOLUTION.*?### END SOLUTION[^\n]*", re.DOTALL | re.MULTILINE
)
_HIDDEN = re.compile(
    r"^[ \t]*### BEGIN HIDDEN TESTS.*?### END HIDDEN TESTS[^\n]*\n?", re.DOTALL | re.MULTILINE
)


class AssignmentError(ValueError):
    """Raised for a master or a submission that cannot be used; the message says what to do.

    >>> load_master("no_such_master.ipynb")
    Traceback (most recent call last):
    ...
    fltoolkit_grading.master.AssignmentError: master no_such_master.ipynb: cannot be read ...
    """


@dataclass(frozen=True)
class Exercise:
    """A part of an assignment that gives points: a hidden check, or a question graded by hand."""

    id: str
    points: float
    manual: bool  # True for a question that a person grades
    title: str
    hint: str  # shown in the feedback of students who missed points
    steps: tuple[tuple[float, str], ...] = ()  # points and name of each step of a hidden check


@dataclass(frozen=True)
class Master:
    """An instructor's notebook with solutions and hidden checks; `load_master` reads it.

    >>> about = {"nbgrader": {"grade": True, "points": 2}}
    >>> cell = {"id": "check", "cell_type": "code", "source": "print(SEED)", "metadata": about}
    >>> master = Master("demo", {"cells": [cell]}, digest="")
    >>> master.ids("hidden"), master.tasks[0].points
    (['check'], 2)
    """

    name: str
    notebook: NotebookJSON
    digest: str  # a hash of the file; if the master changes, all submissions are graded again
    path: str | Path = ""

    @property
    def cells(self) -> list[dict[str, Any]]:
        """All cells in order."""
        return list(self.notebook["cells"])

    def ids(self, *kinds: str) -> list[str]:
        """The ids of the cells of these kinds, in order."""
        return [cell["id"] for cell in self.cells if kind_of(cell) in kinds]

    @property
    def points(self) -> float:
        """The points of all tasks together."""
        return sum(task.points for task in self.tasks)

    @property
    def tasks(self) -> list[Exercise]:
        """The tasks that give points, in order."""
        found = []
        for cell in self.cells:
            if (kind := kind_of(cell)) in ("hidden", "question"):
                ours = cell["metadata"].get("fltoolkit", {})
                points = cell["metadata"]["nbgrader"]["points"]
                about = (cell["id"], points, kind == "question", _title(cell), ours.get("hint", ""))
                found.append(Exercise(*about, steps=_steps_of(cell)))
        return found


@dataclass
class Submission:
    """What a student handed in: answers by cell id, and notes about the file."""

    answers: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    problem: str = ""  # the reason if nothing could be read
    numbers: int | None = None  # the seed of the open checks in a release for one student


def kind_of(cell: dict[str, Any]) -> str:
    """``answer``, ``question``, ``hidden``, ``check``, or ``""`` for any other cell."""
    about = cell.get("metadata", {}).get("nbgrader")
    if not isinstance(about, dict):
        return ""
    if about.get("solution"):
        return "question" if about.get("grade") else "answer"
    return "hidden" if about.get("grade") else "check"


def _title(cell: dict[str, Any]) -> str:
    return str(cell["metadata"].get("fltoolkit", {}).get("title", cell["id"]))


def _steps_of(cell: dict[str, Any]) -> tuple[tuple[float, str], ...]:
    return tuple((float(points), what.strip()) for points, what in STEP.findall(text_of(cell)))


def text_of(cell: dict[str, Any]) -> str:
    r"""A cell's source as one string; the format also allows a list of lines.

    Line ends become those of Linux, a broken character becomes a question mark, and a value that
    is no text becomes an empty text.

    >>> text_of({"source": ["a\r\n", "b"]}), text_of({"source": None})
    ('a\nb', '')
    """
    source = cell.get("source")
    if isinstance(source, list):
        source = "".join(part for part in source if isinstance(part, str))
    text = source if isinstance(source, str) else ""
    return text.replace("\r\n", "\n").encode("utf-8", "replace").decode()


# ----------------------------------------------------------------------------- the instructor's


def load_master(path: str | Path) -> Master:
    """Read a master notebook; raises AssignmentError if it could not be graded (see `lint`).

    A number means one of the course's masters: ``load_master("1")`` looks for
    ``notebooks/assignments/1_*.ipynb`` below the current folder.
    """
    path = Path(path)
    if re.fullmatch(r"\d+", str(path)) and not path.exists():
        found = sorted(Path("notebooks/assignments").glob(f"{path}_*.ipynb"))
        if len(found) != 1:
            raise AssignmentError(
                f"assignment {path}: {len(found)} files fit notebooks/assignments/{path}_*.ipynb; "
                "run this in the folder of the cloned repository, or give the master's path"
            )
        path = found[0]
    try:
        content = path.read_bytes()
        notebook = json.loads(content)
    except (OSError, ValueError) as error:
        raise AssignmentError(f"master {path}: cannot be read as a notebook ({error})") from error
    master = Master(path.stem, notebook, hashlib.sha256(content).hexdigest(), path)
    if problems := lint(notebook):
        raise AssignmentError(f"master {path}: " + "; ".join(problems))
    return master


def lint(notebook: NotebookJSON) -> list[str]:
    """The mistakes in a master that can be found without running it.

    >>> lint({"nbformat": 4, "cells": []})[0]
    'no answer cell: see docs/contributing.md'
    """
    cells = notebook.get("cells")
    if not isinstance(cells, list) or notebook.get("nbformat") != 4:
        return ["not a notebook of format 4 with cells"]
    found = []
    ids = [cell.get("id") for cell in cells]
    if None in ids or len(set(ids)) != len(ids):
        found.append("every cell needs an id of its own (nbformat_minor 5)")
    kinds = Counter(map(kind_of, cells))
    for kind in ("answer", "hidden"):
        if not kinds[kind]:
            found.append(f"no {kind} cell: see docs/contributing.md")
    try:
        for cell in cells:
            found += _wrong_in(cell)
        return found or _shared_names([cell for cell in cells if cell["cell_type"] == "code"])
    except SyntaxError as error:
        return [f"a cell is not Python: {error}"]


def _wrong_in(cell: dict[str, Any]) -> Iterator[str]:
    """The mistakes in one cell of a master."""
    kind, source, name = kind_of(cell), text_of(cell), cell.get("id")
    if kind in ("answer", "question") and not _REGION.search(source):
        yield f"{kind} {name!r}: no ### BEGIN SOLUTION ... ### END SOLUTION"
    elif kind not in ("answer", "question") and "### BEGIN SOLUTION" in source:
        yield f"cell {name!r} holds a solution but is no answer: it would be released"
    if kind == "hidden" and not _HIDDEN.search(source):
        yield f"hidden {name!r}: no ### BEGIN HIDDEN TESTS ... ### END HIDDEN TESTS"
    if kind == "hidden":
        nodes = ast.walk(ast.parse(without_magic(source)))
        if not {"print", "SEED"} <= {node.id for node in nodes if isinstance(node, ast.Name)}:
            yield f"hidden {name!r}: it must print something that depends on SEED"
    if kind in ("hidden", "question"):
        points = cell["metadata"]["nbgrader"].get("points")
        if not isinstance(points, int | float) or not points > 0:
            yield f"{kind} {name!r}: points={points!r}, a number above 0"
        elif (steps := _steps_of(cell)) and sum(each for each, _ in steps) != points:
            yield f"hidden {name!r}: points={points:g}, and its steps have other points in all"
    if kind and cell["metadata"]["nbgrader"].get("grade_id") != name:
        yield f"{kind} {name!r}: its grade_id must be its id"


def _shared_names(cells: list[dict[str, Any]]) -> list[str]:
    """Names that a cell of the master would share with a student's functions.

    In the student's own notebook a cell below an answer would overwrite a helper function of that
    answer; there is no second namespace as in check_cell.py.
    """
    kinds = [kind_of(cell) for cell in cells]
    answers = [text_of(cell) for cell in cells if kind_of(cell) == "answer"]
    answered = set().union(*(names_defined(source, imports=False) for source in answers))
    found = []
    for place, cell in enumerate(cells):
        if kinds[place] == "answer":
            continue
        name, names = cell["id"], names_defined(text_of(cell))
        if both := sorted(names & answered):
            found.append(f"cell {name!r} defines {', '.join(both)}, which an answer is to define")
        own = re.sub(r"\W|^(?=\d)", "_", name)
        if kinds[place] != "hidden" and "answer" in kinds[:place] and (left := names - {own}):
            found.append(
                f"cell {name!r} defines {', '.join(sorted(left))}, and a student's function above "
                f"it may have that name: put the cell's code into a function {own}() and call it"
            )
    return found


def own_numbers(student: str) -> int:
    """The seed of a student's own numbers, drawn from a name or an ID; it is no secret.

    Capitals, accents, blanks and marks make no difference, since names of files lose them.
    """
    letters = unicodedata.normalize("NFKD", student).casefold()
    letters = "".join(c for c in letters if c.isalnum())
    if not letters:
        raise AssignmentError(f"student {student!r}: a name or an ID needs a letter or a digit")
    digest = hashlib.sha256(letters.encode()).digest()
    return 2 + int.from_bytes(digest[:8], "big") % (MAX_NUMBERS - 2)


def _with_numbers(source: str, numbers: int | None) -> str:
    """A setup cell with another seed for the open checks; None leaves it as it is."""
    return source if numbers is None else _SEED.sub(f"SEED = {numbers}", source)


def release(master: Master, *, numbers: int | None = None) -> NotebookJSON:
    """The student's notebook: without solutions, hidden checks and outputs, and with locked cells.

    Ids and nbgrader's metadata are kept. A tag on each cell tells its kind to people and tools.

    Args:
        master: with solutions and hidden checks.
        numbers: a seed for the open checks, from `own_numbers`, if each student is to get numbers
            of his or her own. It stands in the file, so grading shows the same numbers.

    >>> solution = "### BEGIN SOLUTION\\nx = 2\\n### END SOLUTION"
    >>> about = {"nbgrader": {"solution": True}}
    >>> cell = {"id": "x", "cell_type": "code", "source": solution, "metadata": about}
    >>> print(release(Master("demo", {"cells": [cell]}, ""))["cells"][0]["source"])
    # Your code here
    raise NotImplementedError("x")
    """
    notebook = copy.deepcopy(master.notebook)
    for cell in notebook["cells"]:
        kind, source = kind_of(cell), text_of(cell)
        metadata = {"nbgrader": cell["metadata"]["nbgrader"]} if kind else {}
        if kind == "answer":
            stub = rf"\1{STUB}\n\1raise NotImplementedError({json.dumps(_title(cell))})"
            source = _REGION.sub(stub, source)
        elif kind == "question":
            source = _REGION.sub("*Your answer here.*", source)
        elif kind == "hidden":
            points = cell["metadata"]["nbgrader"]["points"]
            told = f"# {_title(cell)}: {points:g} points. A hidden check runs here when this is"
            source = f"{told} graded.\n{_HIDDEN.sub('', source)}".rstrip()
        if kind:
            metadata |= {"tags": [kind], "deletable": False}
        if kind in ("hidden", "check"):
            metadata["editable"] = False
        if kind == "check":
            source = _with_numbers(source, numbers)
        if cell["cell_type"] == "code":
            cell.update(outputs=[], execution_count=None)
        cell.update(source=source, metadata=metadata)
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    wanted = master.ids("answer", "question", "hidden", "check")
    locked = {c["id"]: _digest(c) for c in notebook["cells"] if kind_of(c) in ("check", "hidden")}
    about: dict[str, Any] = {"assignment": master.name, "cells": wanted, "checks": locked}
    about |= {} if numbers is None else {"numbers": numbers}
    language = {"name": "python"}
    notebook["metadata"] = {"kernelspec": kernel, "language_info": language, "fltoolkit": about}
    return notebook


def _digest(cell: dict[str, Any]) -> str:
    """A short hash of a released check, by which a file shows that it was not edited."""
    return hashlib.sha256(text_of(cell).strip().encode()).hexdigest()[:8]


def assemble(
    master: Master,
    answers: dict[str, str] | None,
    seed: int,
    expected: dict[str, str] | None = None,
    *,
    in_place: bool = False,
    numbers: int | None = None,
) -> NotebookJSON:
    """The notebook to run: the master's, with a student's answers in the answer cells.

    The hidden checks come after all other cells and see the student's names as they were at the
    check's own place in the notebook (check_cell.py explains why and how).

    Args:
        master: all cells except the answers come from here.
        answers: source by cell id; the cell of a missing answer is empty. None means the master's
            own answers. What cells of the student's own define is run before the first answer.
        seed: the secret seed; each check gets a number made from it as ``SEED``.
        expected: the expected output of the hidden checks, by cell id, which nbval compares.
        in_place: leave the hidden checks at their places. This is for an answer that ends the
            kernel: checks before it can still give points, but no output may be shown.
        numbers: the seed of the open checks, as in `release`. Hidden checks have their own.
    """
    theirs = [text_of(cell) for cell in master.cells if kind_of(cell) == "answer"]
    answered = set().union(*map(names_defined, theirs))
    begin = f"{CHECK_CELL}.begin(globals(), {sorted(answered)!r})"
    cells = [_cell(f"{BEFORE}begin", begin)]
    own = [
        _cell(name, f"{CHECK_CELL}.define({source!r})")
        for name, source in (answers or {}).items()
        if name.startswith(OWN)
    ]
    last: list[dict[str, Any]] = []
    for cell in master.cells:
        if cell["cell_type"] != "code":
            continue
        kind, source, name = kind_of(cell), text_of(cell), cell["id"]
        if kind == "hidden":
            secret = f"{_seed_of(seed, name)}, {mark_of(seed, name)!r}"
            source = f"{CHECK_CELL}.hidden({source!r}, {name!r}, {secret})"
            text = None if expected is None else expected[name]
            (cells if in_place else last).append(_cell(name, source, text))
            if not in_place:
                cells.append(_cell(f"{BEFORE}{name}", f"{CHECK_CELL}.keep({name!r})"))
        elif kind == "answer":
            source = source if answers is None else answers.get(name, "")
            cells, own = cells + own, []
            cells.append(_cell(name, source))
        else:
            source = _with_numbers(source, numbers)
            cells.append(_cell(name, f"{CHECK_CELL}.open_check({source!r}, {name!r})"))
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [*cells, *last]}


def _cell(name: str, source: str, text: str | None = None) -> dict[str, Any]:
    """A cell to run, with the output that nbval must find."""
    wanted = [] if text is None else [{"output_type": "stream", "name": "stdout", "text": text}]
    tags = [] if text is None else ["nbval-check-output"]
    cell = {"cell_type": "code", "id": name, "source": source, "metadata": {"tags": tags}}
    return {**cell, "outputs": wanted, "execution_count": 1}


def mark_of(seed: int, cell: str) -> str:
    """The secret mark around the prints of a hidden check, which no student can know."""
    return hashlib.sha256(f"{seed}/{cell}/mark".encode()).hexdigest()[:16]


def _seed_of(seed: int, cell: str) -> int:
    return int.from_bytes(hashlib.sha256(f"{seed}/{cell}".encode()).digest()[:4], "big") >> 1


# ------------------------------------------------------------------------------- the student's


def collect(master: Master, notebook: NotebookJSON | None, problem: str = "") -> Submission:
    """Take the answers out of a submission by cell id, and note what is unusual.

    Only the source of answer and question cells is taken, and of code cells that the student has
    added, since they may define what an answer uses. If ids were lost (Colab saves an older
    format), nbgrader's ``grade_id`` finds the cell. Of two cells with the same id the first
    counts.
    """
    if notebook is None:
        return Submission(problem=problem)
    made = notebook.get("metadata")
    made = made.get("fltoolkit") if isinstance(made, dict) else None
    made = made if isinstance(made, dict) else {}
    numbers, checks = made.get("numbers"), made.get("checks")
    if type(numbers) is not int or not 0 <= numbers < MAX_NUMBERS:
        numbers = None
    released = release(master, numbers=numbers)
    wanted = {cell["id"]: cell for cell in released["cells"] if kind_of(cell)}
    cells = [c for c in notebook["cells"] if isinstance(c, dict)]
    found = _released(cells, wanted)
    if not found:
        if (of := str(made.get("assignment", master.name))) != master.name:
            return Submission(problem=f"another assignment: {of!r:.60}, not {master.name!r}")
        return Submission(problem="it has lost the ids of all cells: ask for the file again")
    counts = Counter(map(_id, cells))
    notes = [f"duplicate id: {name}" for name in wanted if counts[name] > 1]
    answers, above = {}, SET_UP
    for name, ours in wanted.items():
        kind, given = kind_of(ours), found.get(name)
        above = "" if kind == "answer" else above
        if given is None or given.get("cell_type") != ours["cell_type"]:
            notes.append(f"missing cell: {name}")
            continue
        text = text_of(given)
        same = text.strip() == text_of(ours).strip()
        if kind in ("hidden", "check"):  # it may have changed since this file was released
            as_released = isinstance(checks, dict) and checks.get(name) == _digest(given)
            notes += [] if same or as_released else [f"edited check, put back: {name}{above}"]
            continue
        if same:
            notes.append(f"not answered: {name}")
        if len(text) > MAX_ANSWER:
            notes.append(f"answer too long, not run: {name}")
        answers[name] = text if len(text) <= MAX_ANSWER else ""
    known, of_release = {id(c) for c in found.values()}, {*map(text_of, released["cells"])}
    extra = [c for c in cells if id(c) not in known and _id(c) not in wanted]
    texts = [text_of(cell) for cell in extra if cell.get("cell_type") == "code"]
    if texts := [text for text in texts if text.strip() and text not in of_release]:
        notes.append("cells of their own: only imports, functions, classes, constants are run")
        if sum(map(len, texts)) <= MAX_ANSWER:
            answers |= {f"{OWN} {n}": text for n, text in enumerate(texts[:100], 1)}
    return Submission(answers, notes, numbers=numbers)


def _id(cell: dict[str, Any]) -> str:
    name = cell.get("id")
    return name if isinstance(name, str) else ""


def _grade_id(cell: dict[str, Any]) -> str:
    about = cell.get("metadata")
    about = about.get("nbgrader") if isinstance(about, dict) else None
    name = about.get("grade_id") if isinstance(about, dict) else None
    return name if isinstance(name, str) else ""


def _released(cells: list[dict[str, Any]], wanted: Container[str]) -> dict[str, dict[str, Any]]:
    """The first cell with each id that is wanted, or else the first one with that grade_id."""
    found: dict[str, dict[str, Any]] = {}
    for name_of in (_id, _grade_id):
        for cell in cells:
            if (name := name_of(cell)) in wanted:
                found.setdefault(name, cell)
    return found


def check_notebook(path: str | Path) -> list[str]:
    """Run a student's notebook on this machine as the grader will, and list what is missing.

    Only the released cells are run, each for two minutes at most, in the released order; and of
    cells that the student has added, what they define: every other line of theirs that defines
    something or is a command of IPython's is named. Hidden checks are not known here. Returns a
    list of sentences; it is empty if no problem was found.
    """
    notebook, problem = read_submission(Path(path))
    if notebook is None:
        return [f"{path}: {problem}"]
    about = notebook.get("metadata", {}).get("fltoolkit")
    if not isinstance(about, dict) or not isinstance(about.get("cells"), list):
        return [f"{path}: not made by `fltoolkit assignment release`: ask for the file again"]
    try:
        import nbformat
        from nbclient import NotebookClient
    except ImportError as error:
        raise ImportError("checking a notebook needs: pip install nbclient nbformat") from error
    cells = [cell for cell in notebook["cells"] if isinstance(cell, dict)]
    found, counts = _released(cells, about["cells"]), Counter(map(_id, cells))
    digests = about["checks"] if isinstance(about.get("checks"), dict) else {}
    problems, place = [], 0
    run: list[dict[str, Any]] = []
    for name in about["cells"]:
        if (cell := found.get(name)) is None:
            problems.append(f"cell {name!r} is missing: take it from the release")
            continue
        kind, text = kind_of(cell), text_of(cell)
        if counts[name] > 1:
            problems.append(f"two cells have the id {name!r}: delete the copy")
        if digests.get(name, _digest(cell)) != _digest(cell):
            problems.append(
                f"cell {name!r} was changed, and is graded as it was released: put what you have "
                "added, such as an import, into an answer"
            )
        if kind == "question" and "*Your answer here.*" in text:
            problems.append(f"question {name!r} is not answered yet")
        if STUB in text and "NotImplementedError" in text:
            problems.append(f"answer {name!r} is not written yet")
        if cell.get("cell_type") == "code":
            place = place or len(run) * (kind == "answer")  # of the first answer
            run.append(_cell(name, text))
    known = {id(cell) for cell in found.values()}
    own = [c for c in cells if c.get("cell_type") == "code" and id(c) not in known]
    begin = f"{CHECK_CELL}.begin(globals(), [])\n{CHECK_CELL}.define"
    run[place:place] = [
        _cell(f"{OWN} {n}", f"{begin}({text_of(cell)!r})") for n, cell in enumerate(own, 1)
    ]
    book = nbformat.from_dict({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": run})
    client = NotebookClient(book, timeout=120, allow_errors=True, kernel_name="python3")
    client.execute(stderr=subprocess.DEVNULL)  # its kernel warns of what does not concern anybody
    for cell in book.cells:
        mine = cell.id.startswith(OWN)
        check = not mine and kind_of(found[cell.id]) == "check"
        for out in cell.outputs:
            if out.output_type == "error" and out.ename != "NotImplementedError":
                problems.append(f"cell {cell.id!r} stops with {out.ename}: {out.evalue[:200]}")
            for line in out.text.splitlines() if out.get("name") == "stdout" else ():
                if mine and NOT_RUN.fullmatch(line):
                    problems.append(f"{cell.id}: {line} (put it into an answer that needs it)")
                elif check and ": not " in line:
                    problems.append(f"cell {cell.id!r} prints: {line}")
    return problems
