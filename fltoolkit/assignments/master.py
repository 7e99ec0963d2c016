"""Assignments: a master notebook with solutions, the release made from it, answers read back.

Cells carry nbgrader's metadata (schema 3), so masters and releases move between the two tools. The
kind of a cell follows from it:

    answer     solution, not graded     the student's code; its id finds it again
    question   solution and graded      an open question, graded by hand
    hidden     graded, not a solution   prints for a secret seed; worth points; not in the release
    check      locked                   open check or setup; in the release, worth nothing

Nothing here runs code (but `check`, on the student's own machine) and nothing needs nbformat.
The course's masters are in notebooks/assignments.
"""

import copy
import hashlib
import json
import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fltoolkit.assignments.reading import (
    has_marker,
    is_python,
    names_defined,
    plain,
    read_submission,
    size_of,
    without_markers,
)

__all__ = [
    "AssignmentError",
    "Master",
    "Submission",
    "Task",
    "assemble",
    "check",
    "collect",
    "lint",
    "load_master",
    "read_submission",
    "release",
]

Notebook = dict[str, Any]
MAX_ANSWER = 200_000  # characters
BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"
HIDDEN_BEGIN, HIDDEN_END = "### BEGIN HIDDEN TESTS", "### END HIDDEN TESTS"
BEFORE = "before-"  # ids of cells that are ours
STUB = "# Your code here"
_REGION = re.compile(
    r"^([ \t]*)### BEGIN SOLUTION.*?### END SOLUTION[^\n]*", re.DOTALL | re.MULTILINE
)
_HIDDEN = re.compile(
    r"^[ \t]*### BEGIN HIDDEN TESTS.*?### END HIDDEN TESTS[^\n]*\n?", re.DOTALL | re.MULTILINE
)


class AssignmentError(ValueError):
    """A master or a submission that cannot be used; the message says what to do."""


@dataclass(frozen=True)
class Task:
    """What points are given for: one hidden check, or one question graded by hand."""

    id: str
    points: float
    manual: bool
    title: str
    hint: str  # for the feedback of those who missed it


@dataclass(frozen=True)
class Master:
    """An instructor's notebook, read and looked through."""

    name: str
    notebook: Notebook
    digest: str  # of the file, so that a changed master grades anew

    @property
    def cells(self) -> list[dict[str, Any]]:
        """All cells in order."""
        return list(self.notebook["cells"])

    def ids(self, *kinds: str) -> list[str]:
        """The ids of the cells of these kinds, in order."""
        return [cell["id"] for cell in self.cells if kind_of(cell) in kinds]

    @property
    def tasks(self) -> list[Task]:
        """What points are given for, in order."""
        found = []
        for cell in self.cells:
            if (kind := kind_of(cell)) in ("hidden", "question"):
                ours = cell["metadata"].get("fltoolkit", {})
                points = cell["metadata"]["nbgrader"]["points"]
                title = ours.get("title", cell["id"])
                found.append(
                    Task(cell["id"], points, kind == "question", title, ours.get("hint", ""))
                )
        return found


@dataclass
class Submission:
    """What a student handed in: answers by cell id, and what was odd about the file."""

    answers: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    problem: str = ""  # why nothing could be read


def kind_of(cell: dict[str, Any]) -> str:
    """``answer``, ``question``, ``hidden``, ``check``, or ``""`` for the rest."""
    about = cell.get("metadata", {}).get("nbgrader")
    if not isinstance(about, dict):
        return ""
    if about.get("solution"):
        return "question" if about.get("grade") else "answer"
    return "hidden" if about.get("grade") else "check"


def text_of(cell: dict[str, Any]) -> str:
    """A cell's source as one string, whichever of the format's two ways it is saved in."""
    return plain(cell.get("source"))


# ----------------------------------------------------------------------------- the instructor's


def load_master(path: str | Path) -> Master:
    """Read a master notebook and refuse one that could not be graded (see `lint`).

    A number stands for the course's own: ``load_master("1")`` looks for
    ``notebooks/assignments/1_*.ipynb`` below the current folder.
    """
    path = Path(path)
    if re.fullmatch(r"\d+", str(path)) and not path.exists():
        found = sorted(Path("notebooks/assignments").glob(f"{path}_*.ipynb"))
        if len(found) != 1:
            raise AssignmentError(
                f"assignment {path}: {len(found)} files fit notebooks/assignments/{path}_*.ipynb; "
                "run this in the course's folder or give the master's path"
            )
        path = found[0]
    try:
        content = path.read_bytes()
        notebook = json.loads(content)
    except (OSError, ValueError) as error:
        raise AssignmentError(f"master {path}: cannot be read as a notebook ({error})") from error
    master = Master(path.stem, notebook, hashlib.sha256(content).hexdigest())
    if problems := lint(notebook):
        raise AssignmentError(f"master {path}: " + "; ".join(problems))
    return master


def lint(notebook: Notebook) -> list[str]:
    """What is wrong with a master, as far as can be seen without running it."""
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
    for cell in cells:
        kind, source, name = kind_of(cell), text_of(cell), cell.get("id")
        if kind in ("answer", "question") and not _REGION.search(source):
            found.append(f"{kind} {name!r}: no {BEGIN} ... {END}")
        elif kind not in ("answer", "question") and BEGIN in source:
            found.append(f"cell {name!r} holds a solution but is no answer: it would be released")
        if kind == "hidden" and not _HIDDEN.search(source):
            found.append(f"hidden {name!r}: no {HIDDEN_BEGIN} ... {HIDDEN_END}")
        if kind == "hidden" and ("print(" not in source or "SEED" not in source):
            found.append(f"hidden {name!r}: it must print something that depends on SEED")
        if kind in ("hidden", "question"):
            points = cell["metadata"]["nbgrader"].get("points")
            if not isinstance(points, int | float) or not points > 0:
                found.append(f"{kind} {name!r}: points={points!r}, a number above 0")
        if kind and cell["metadata"]["nbgrader"].get("grade_id") != name:
            found.append(f"{kind} {name!r}: its grade_id must be its id")
    return found


def release(master: Master) -> Notebook:
    """The student's notebook: stubs for solutions, no hidden checks, no outputs, cells locked.

    Ids and nbgrader's metadata stay; tags say the kind of a cell to people and to tools.
    """
    notebook = copy.deepcopy(master.notebook)
    for cell in notebook["cells"]:
        kind, source = kind_of(cell), text_of(cell)
        metadata = {"nbgrader": cell["metadata"]["nbgrader"]} if kind else {}
        if kind == "answer":
            what = json.dumps(cell["metadata"].get("fltoolkit", {}).get("title", cell["id"]))
            stub = rf"\1{STUB}\n\1raise NotImplementedError({what})"
            source = _REGION.sub(stub, source)
        elif kind == "question":
            source = _REGION.sub("*Your answer here.*", source)
        elif kind == "hidden":
            points = cell["metadata"]["nbgrader"]["points"]
            title = cell["metadata"].get("fltoolkit", {}).get("title", cell["id"])
            source = (
                f"# {title}: {points:g} points. A hidden check runs here when this is graded.\n"
            )
            source = (source + _HIDDEN.sub("", text_of(cell))).rstrip()
        if kind:
            metadata |= {"tags": [kind], "deletable": False}
        if kind in ("hidden", "check"):
            metadata["editable"] = False
        if cell["cell_type"] == "code":
            cell.update(outputs=[], execution_count=None)
        cell.update(source=source, metadata=metadata)
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    wanted = master.ids("answer", "question", "hidden", "check")
    notebook["metadata"] = {
        "kernelspec": kernel,
        "language_info": {"name": "python"},
        "fltoolkit": {"assignment": master.name, "cells": wanted},
    }
    return notebook


def assemble(
    master: Master,
    answers: dict[str, str] | None,
    seed: int,
    expected: dict[str, str] | None = None,
    *,
    in_place: bool = False,
) -> Notebook:
    """The notebook that is run: the master's, with a student's answers in the answer cells.

    The hidden checks stand behind all other cells and see the student's names as they were at
    their own place (check_cell.py says why and how).

    Args:
        master: everything but the answers comes from here.
        answers: source by cell id; a missing one leaves its cell empty. None: the master's own.
        seed: secret; each check gets a number made from it as ``SEED``.
        expected: what the hidden checks must print, by cell id, for nbval to compare.
        in_place: the hidden checks stay where they are. For an answer that ends the kernel: what
            came before it is still worth its points, but nothing that was printed may be shown.
    """
    theirs = [text_of(cell) for cell in master.cells if kind_of(cell) == "answer"]
    answered = set().union(*map(names_defined, theirs))
    begin = f"_check_cell.begin(globals(), {sorted(answered)!r})"
    cells = [_cell(f"{BEFORE}begin", begin)]
    last = [_cell(f"{BEFORE}checks", "_check_cell.restore()")]
    for cell in master.cells:
        if cell["cell_type"] != "code":
            continue
        kind, source, name = kind_of(cell), text_of(cell), cell["id"]
        if kind == "hidden":
            numbers = f"{_seed_of(seed, name)}, {mark_of(seed, name)!r}"
            source = f"_check_cell.hidden({source!r}, {name!r}, {numbers})"
            text = None if expected is None else expected[name]
            (cells if in_place else last).append(_cell(name, source, text))
            if not in_place:
                cells.append(_cell(f"{BEFORE}{name}", f"_check_cell.keep({name!r})"))
        elif kind == "answer":
            source = source if answers is None else answers.get(name, "")
            cells.append(_cell(name, without_markers(source)))
        else:
            cells.append(_cell(name, f"_check_cell.open_check({source!r}, {name!r})"))
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [*cells, *last]}


def _cell(name: str, source: str, text: str | None = None) -> dict[str, Any]:
    """A cell to run, and what nbval must hear from it."""
    if source.startswith("_check_cell."):
        source = f"from fltoolkit.assignments import check_cell as _check_cell\n{source}"
    heard = [] if text is None else [{"output_type": "stream", "name": "stdout", "text": text}]
    tags = [] if text is None else ["nbval-check-output"]
    return {
        "cell_type": "code", "id": name, "source": source, "metadata": {"tags": tags},
        "outputs": heard, "execution_count": 1,
    }  # fmt: skip


def mark_of(seed: int, cell: str) -> str:
    """What stands around the prints of a hidden check, and in nothing that a student knows."""
    return hashlib.sha256(f"{seed}/{cell}/mark".encode()).hexdigest()[:16]


def _seed_of(seed: int, cell: str) -> int:
    return int.from_bytes(hashlib.sha256(f"{seed}/{cell}".encode()).digest()[:4], "big") >> 1


# ------------------------------------------------------------------------------- the student's


def collect(master: Master, notebook: Notebook | None, problem: str = "") -> Submission:
    """Take the answers out of a submission by cell id, and note what is odd.

    Only the source of answer and question cells is taken. Where ids were lost (Colab saves an
    older format), nbgrader's ``grade_id`` finds the cell. Of two cells with one id the
    first counts.
    """
    if notebook is None:
        return Submission(problem=problem)
    wanted = {cell["id"]: cell for cell in release(master)["cells"] if kind_of(cell)}
    found: dict[str, dict[str, Any]] = {}
    notes, own = [], 0  # cells of their own
    cells = [c for c in notebook["cells"] if isinstance(c, dict)]
    for cell in cells:
        if isinstance(name := cell.get("id"), str) and name in wanted:
            if name in found:
                notes.append(f"duplicate id: {name}")
                own -= 1
            found.setdefault(name, cell)
    last = ""  # which cell of ours stands above
    for cell in cells:
        about = cell.get("metadata")
        about = about.get("nbgrader") if isinstance(about, dict) else None
        name = about.get("grade_id") if isinstance(about, dict) else None
        name = name if isinstance(name, str) and name in wanted else ""
        if name and name not in found:
            found[name] = cell
        kept = next((n for n, c in found.items() if c is cell), "")
        if not kept and cell.get("cell_type") == "code":
            own += 1
            split = name or last
            if kind_of(wanted.get(split, {})) == "answer" and text_of(cell).strip():
                notes.append(f"a split answer? Code in a second cell after {split} is not run")
        last = kept or (last if cell.get("cell_type") == "code" else "")
    metadata = notebook.get("metadata")
    made = metadata.get("fltoolkit") if isinstance(metadata, dict) else None
    of = str(made.get("assignment", master.name)) if isinstance(made, dict) else master.name
    if not found and of != master.name:
        return Submission(problem=f"another assignment: {of!r:.60}, not {master.name!r}")
    answers = {}
    for name, theirs in wanted.items():
        kind, given = kind_of(theirs), found.get(name)
        if given is None or given.get("cell_type") != theirs["cell_type"]:
            notes.append(f"missing cell: {name}")
        elif kind in ("answer", "question"):
            answers[name] = text_of(given)
            if len(answers[name]) > MAX_ANSWER:
                notes.append(f"answer too long, not run: {name}")
                answers[name] = ""
            if answers[name].strip() == text_of(theirs).strip():
                notes.append(f"not answered: {name}")
            about = given.get("metadata")
            tags = about.get("tags") if isinstance(about, dict) else None
            tags = [str(tag) for tag in tags] if isinstance(tags, list) else []
            if has_marker(answers[name]) or any(
                tag.startswith("nbval-") or tag in ("raises-exception", "skip-execution")
                for tag in tags
            ):
                notes.append(f"markers removed: {name}")
        elif text_of(given).strip() != text_of(theirs).strip():
            notes.append(f"edited check, put back: {name}")
        elif kind == "hidden" and given.get("outputs"):
            notes.append(f"outputs made up: {name}")
    if own > _unmarked_code(master):
        notes.append("cells of their own are not run: answers belong into the answer cells")
    if not is_python(metadata):
        notes.append("wrong kernel in the file: run with Python all the same")
    if (size := size_of([c.get("outputs") for c in cells])) > 5_000_000:
        notes.append(f"{size / 1e6:.0f} MB of saved output, dropped")
    return Submission(answers, list(dict.fromkeys(notes)))


def _split_answers(cells: list[dict[str, Any]], kept: list[dict[str, Any]]) -> list[str]:
    """Answers below which code stands in cells of the student's own."""
    split, answer = [], ""
    for cell in cells:
        if cell in kept:
            answer = str(cell.get("id")) if kind_of(cell) == "answer" else ""
        elif cell["cell_type"] == "code" and text_of(cell).strip() and answer:
            split.append(answer)
    return list(dict.fromkeys(split))


def _unmarked_code(master: Master) -> int:
    return sum(c["cell_type"] == "code" and not kind_of(c) for c in master.cells)


def check(path: str | Path, *, seconds: float = 120.0) -> list[str]:
    """Run a student's own notebook as the grader will, on this machine, and say what is missing.

    Only the released cells are run, in the released order: what a cell of one's own defines is
    not there. Hidden checks are not known here. Returns a list of sentences, empty if all is well.

    Args:
        path: the student's notebook, made by `release`.
        seconds: the time limit per cell.
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
    found = []
    names = [cell.get("id") for cell in notebook["cells"]]
    found += [
        f"cell {name!r} is missing: take it from the release"
        for name in about["cells"]
        if name not in names
    ]
    found += [
        f"cell id {n!r} stands twice: delete the copy" for n, k in Counter(names).items() if k > 1
    ]
    kept = [cell for cell in notebook["cells"] if cell.get("id") in about["cells"]]
    own = [c for c in notebook["cells"] if c["cell_type"] == "code" and c not in kept]
    found += [
        f"is answer {name!r} split? Code in a second cell after it will not run: join the two cells"
        for name in _split_answers(notebook["cells"], kept)
    ]
    if any(text_of(cell).strip() for cell in own):
        found.append(
            f"{len(own)} code cells of your own will not run: what is needed belongs in answers"
        )
    run = nbformat.from_dict({**notebook, "nbformat_minor": 5, "cells": copy.deepcopy(kept)})
    NotebookClient(run, timeout=seconds, allow_errors=True, kernel_name="python3").execute()
    for cell in run.cells:
        name = cell.id
        if kind_of(cell) == "question" and "*Your answer here.*" in text_of(cell):
            found.append(f"question {name!r} is not answered yet")
        if cell.cell_type != "code":
            continue
        if STUB in text_of(cell) and "NotImplementedError" in text_of(cell):
            found.append(f"answer {name!r} is not written yet")
        for out in cell.outputs:
            if out.output_type == "error" and out.ename != "NotImplementedError":
                found.append(f"cell {name!r} stops with {out.ename}: {out.evalue[:200]}")
            elif out.get("name") == "stdout" and kind_of(cell) == "check":
                lines = [line for line in out.text.splitlines() if ": not " in line]
                found += [f"cell {name!r} says: {line}" for line in lines]
    return found
