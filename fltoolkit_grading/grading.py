"""Grade a folder of submissions; nbval runs each of them in another process.

    1. Each submission has a seed of its own, made from the secret seed and the file. So whatever
       a student learns about the numbers in the hidden checks is of no use for another file.
    2. The master's own solution runs once with all these seeds. The output of its hidden checks is
       the expected output.
    3. Each submission's answers are put into the master and run behind a fence (fence.py).
    4. A hidden check that prints the expected output gives its points.

The expected outputs stay in the memory of this process and of the worker; they are in no file and
in no kernel.
"""

import ast
import builtins
import contextlib
import functools
import hashlib
import importlib.util
import json
import os
import platform
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Container, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from fltoolkit_grading import fence
from fltoolkit_grading.check_cell import NOT_RUN
from fltoolkit_grading.master import (
    OWN,
    AssignmentError,
    Master,
    Submission,
    assemble,
    collect,
    kind_of,
    load_master,
    mark_of,
    own_numbers,
    read_submission,
    release,
    text_of,
)
from fltoolkit_grading.names import find_submissions, handed_in_as, name_notes, time_of
from fltoolkit_grading.reading import MAX_BYTES, suspicious, without_magic

TIME_UP = "the time was up"
AGAIN = "not graded, run grade again"  # a status begins so if the student did not cause it
UNREAD = "not graded, cannot be read"  # and so does this one
PATIENCE = 5  # real time per processor time, for code that sleeps
START_SECONDS = 300.0  # real time in which a kernel must be ready; the student has no part in it


@dataclass(frozen=True)
class Limits(fence.Bounds):
    """The limits for one submission.

    Time is processor time of the kernel and its processes, so a busy machine costs no points. Code
    that sleeps is stopped after `PATIENCE` times as long in real time.
    """

    cell_seconds: float = 20.0  # for one cell
    total_seconds: float = 100.0  # for all answers, and again for all hidden checks
    output: int = 1 << 20  # characters of output kept per cell; the rest is dropped
    fenced: bool = True  # False only for a master: code of your own, which can do what you can

    @property
    def longest(self) -> float:
        """The most real time in seconds that a submission can take, without the kernel's start."""
        return PATIENCE * 2 * self.total_seconds


@dataclass
class Grade:
    """One student's row of the gradebook, and the content of the feedback.

    >>> result = Grade("ana", {"double": 2.0, "why": 1.5}, late=-1.0)
    >>> result.total, result.status
    (2.5, 'graded')
    """

    student: str
    points: dict[str, float] = field(default_factory=dict)  # by task
    status: str = "graded"
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0  # real time
    cpu_seconds: float = 0.0  # processor time of the kernel
    memory: int = 0  # bytes of the largest process
    answers: dict[str, str] = field(default_factory=dict)
    output: dict[str, str] = field(default_factory=dict)  # errors and prints, not of hidden checks
    missed: dict[str, list[str]] = field(default_factory=dict)  # steps of a task, by their names
    handed_in: str = ""  # the name of the file or folder that was handed in
    saved: float = 0.0  # when the file was last changed, in seconds since 1970
    late: float = 0.0  # points for lateness, 0 or below
    key: str = ""  # a secret hash of submission, master and seed; also the submission's own seed

    @property
    def total(self) -> float:
        """All points, without those for lateness; never below 0."""
        return max(sum(self.points.values()) + self.late, 0.0)

    @property
    def graded(self) -> bool:
        """False if there was nothing to grade, or if the machine prevented it."""
        return not self.status.startswith((AGAIN, UNREAD))


def grade(
    submissions: str | Path,
    master: str | Path | Master,
    out: str | Path,
    *,
    jobs: int = 1,
    limits: Limits = Limits(),
    progress: Callable[[Iterable[Grade], int], Iterable[Grade]] | None = None,
) -> list[Grade]:
    """Grade all submissions and keep one result file per student in ``out/results``.

    Earlier results of the same submission, master and seed are kept. So an interrupted run
    continues where it stopped, and if one student hands in again, only that submission is graded.
    To grade one again that has not changed, delete its file.
    Raises OSError with what to install if there can be no fence on this machine.

    Args:
        submissions: the folder of submissions, see `find_submissions`.
        master: a master, its path, or its number.
        out: the folder for results; the secret seed is kept there, readable by its owner only.
        jobs: the number of submissions graded at a time; each takes a core and about half a
            gigabyte.
        limits: the limits for one submission; earlier results are kept even if limits change.
        progress: wraps the iterator of results, e.g. with a bar.
    """
    if jobs < 1:
        raise ValueError(f"jobs={jobs}: must be at least 1")
    out, folder = Path(out), Path(submissions)
    _check_tools(limits.fenced)
    master = master if isinstance(master, Master) else load_master(master)
    _check_places(folder, out, Path(master.path or out))
    found = find_submissions(folder)
    (out / "results").mkdir(parents=True, exist_ok=True)
    seed = _keep_seed(out / "seed.json", master.name)
    kept, todo = [], []
    for student, path in found.items():
        key = _key(path, master, seed)
        old = _load(out / "results" / f"{student}.json")
        if old is not None and old.key == key:
            kept.append(old)
        else:
            todo.append((student, path, key))
    with contextlib.closing(_grade_all(todo, master, limits, jobs, out)) as graded:
        fresh = progress(graded, len(todo)) if progress is not None else graded
        results = sorted([*kept, *fresh], key=lambda result: result.student)
    notes = name_notes(folder, found)
    for result in results:
        result.handed_in = handed_in_as(folder, found[result.student])
        result.saved = time_of(found[result.student])[0]
        result.notes += notes[result.student]
    return results


def _check_places(folder: Path, out: Path, master: Path) -> None:
    """Raise AssignmentError if students could see one of these, or if grades would be graded."""
    if folder.resolve() in (out.resolve(), *out.resolve().parents):
        raise AssignmentError(
            f"{out} is inside {folder} and would be graded as a student: give an --out outside it"
        )
    for place in (folder, out, master):
        around = {place.resolve(), *place.resolve().parents}
        for seen in fence.always_readable():
            if Path(seen).resolve() in around:
                raise AssignmentError(
                    f"{place} is inside {seen}, which every student's code can read: move it away"
                )


def _grade_all(
    todo: list[tuple[str, Path, str]], master: Master, limits: Limits, jobs: int, out: Path
) -> Generator[Grade, None, None]:
    if not todo:
        return
    seeds = [int(key, 16) for _, _, key in todo]
    expected = expected_outputs(master, seeds, limits=limits)
    if found := _undeserved(master, seeds[0], expected[seeds[0]], limits):
        raise AssignmentError(f"master {master.name}: {'; '.join(found)}. Nothing was graded")

    def one(student: str, path: Path, key: str) -> Grade:
        seed = int(key, 16)
        try:
            result = grade_one(student, path, master, seed, expected[seed], limits=limits)
        except Exception as error:  # other submissions are still graded
            result = _nothing(student, master)
            result.status = f"{AGAIN}: {type(error).__name__}: {error}"
        # without a key it is graded again next time, since the student did not cause this
        result.key = "" if result.status.startswith(AGAIN) else key
        text = json.dumps(asdict(result))
        write_whole(out / "results" / f"{student}.json", text, private=True)
        return result

    pool = ThreadPoolExecutor(jobs)
    try:
        for future in as_completed([pool.submit(one, *about) for about in todo]):
            yield future.result()
    finally:  # after Ctrl-C, running submissions are finished and kept; no other is begun
        pool.shutdown(cancel_futures=True)
        while _idle:
            _idle.pop().stop()


def expected_outputs(
    master: Master, seeds: Iterable[int], *, limits: Limits = Limits()
) -> dict[int, dict[str, str]]:
    """The output of the master's own solution in each hidden check, by seed and cell id.

    One kernel runs the solution once and its hidden checks with every seed. Raises AssignmentError
    if the solution fails or a hidden check prints nothing.
    """
    hidden, marks = master.ids("hidden"), {}
    notebook = assemble(master, None, 0)
    cells = [cell for cell in notebook["cells"] if cell["id"] not in hidden]
    for seed in dict.fromkeys(seeds):
        for cell in assemble(master, None, seed)["cells"]:
            if cell["id"] in hidden:
                name = f"{seed} {cell['id']}"
                marks[name] = mark_of(seed, cell["id"])
                cells.append({**cell, "id": name})
    limits = replace(limits, total_seconds=limits.total_seconds + len(marks))
    run = _run({**notebook, "cells": cells}, marks, limits)
    for event in run.cells.values():
        if run.started and not event["passed"]:
            raise AssignmentError(
                f"master {master.name}: its own solution fails in cell {event['cell']!r} (a number "
                f"before the name is the seed): {event['error']}. Nothing was graded"
            )
    printed: dict[int, dict[str, str]] = {}
    for name in marks:
        number, _, cell = name.partition(" ")
        printed.setdefault(int(number), {})[cell] = run.cells.get(name, {}).get("text", "")
    silent = {name for each in printed.values() for name, text in each.items() if not text.strip()}
    if silent:
        raise AssignmentError(
            f"master {master.name}: {sorted(silent)} printed nothing ({run.status}); nothing was "
            "graded. If no kernel starts here, the fence may hide Python: see docs/security.md"
        )
    return printed


def faults(master: Master, *, limits: Limits = Limits(), whole: bool = True) -> list[str]:
    """What is wrong with a master, found by running it; an empty list if nothing is.

    The master must get all points, with two seeds, and content every open check. The untouched
    release must get none, and neither must functions that only return None. ``whole=False`` runs
    only the solution and the untouched release. Raises AssignmentError if the solution fails.
    """
    _check_tools(limits.fenced)
    seeds, hidden = (secrets.randbits(64), secrets.randbits(64)), master.ids("hidden")
    expected = expected_outputs(master, seeds, limits=limits)
    first, second = (expected[seed] for seed in seeds)
    found = []
    for name in hidden:
        one, other = (text[name].split("\f") for text in (first, second))
        same = [*map(str.__eq__, one, other)]
        if any(same[1:] or same):  # what comes before the first step has no points
            found.append(f"{name!r}, or a step of it, prints the same with every SEED")
    found += _undeserved(master, seeds[0], first, limits, whole=whole)
    for seed in seeds if whole else ():
        marks = {name: mark_of(seed, name) for name in hidden}
        run = _run(assemble(master, None, seed, expected[seed]), marks, limits)
        for name, event in run.cells.items():
            if not event["passed"]:
                found.append(f"{name!r} fails the master's own answers: {event['error']}")
            elif name in master.ids("check") and ": not " in event["text"]:
                found.append(f"{name!r} is not content with the master: {event['text'].strip()}")
    return list(dict.fromkeys(found))


def _undeserved(
    master: Master, seed: int, expected: dict[str, str], limits: Limits, *, whole: bool = False
) -> list[str]:
    """The hidden checks that give points to the untouched release, or to functions of no use."""
    tried = {"the untouched release": {c["id"]: text_of(c) for c in release(master)["cells"]}}
    if whole:
        tried["functions that return None"] = {
            c["id"]: _hollow(text_of(c)) for c in master.cells if kind_of(c) == "answer"
        }
    found, marks = [], {name: mark_of(seed, name) for name in master.ids("hidden")}
    for about, answers in tried.items():
        run = _run(assemble(master, answers, seed, expected), marks, limits)
        if run.status.startswith(AGAIN):
            raise AssignmentError(f"master {master.name}: {run.status}")
        events = {name: run.cells.get(name, {}) for name in marks}
        given = [n for n, e in events.items() if e.get("passed") or any(e.get("steps", [])[1:])]
        found += [f"{name!r} gives its points to {about}" for name in given]
    return found


def _hollow(source: str) -> str:
    """Code whose functions do nothing and whose own names are None.

    >>> print(_hollow("def f(x):\\n    return x\\nbits = 8"))
    def f(x):
        return None
    bits = None
    """
    tree = ast.parse(without_magic(source))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            node.body = [ast.Return(ast.Constant(None))]
    for line in tree.body:
        if isinstance(line, ast.Assign):
            line.value = ast.Constant(None)
    return ast.unparse(ast.fix_missing_locations(tree))


def grade_one(
    student: str,
    path: Path,
    master: Master,
    seed: int,
    expected: dict[str, str],
    *,
    limits: Limits = Limits(),
) -> Grade:
    """Grade one submission. A result is returned whatever the file contains."""
    began = time.monotonic()
    result = _nothing(student, master)
    try:
        submission = collect(master, *read_submission(path))
    except Exception as error:  # the file may be broken in any way
        submission = Submission(problem=f"not a notebook: {type(error).__name__}")
    result.answers, result.notes = submission.answers, submission.notes
    if submission.problem:
        result.status = f"{UNREAD}: {submission.problem}"
        return result
    marks = {name: mark_of(seed, name) for name in master.ids("hidden")}
    numbers = submission.numbers
    if numbers is not None and numbers not in _numbers_of(student):
        result.notes.append("worth a look: the numbers of the open checks are another student's")
    made = functools.partial(assemble, master, submission.answers, seed, expected, numbers=numbers)
    run, points = _run_all(made, marks, limits)
    again = [each.status for each in (run, points) if each.status.startswith(AGAIN)]
    if again:  # the student did not cause it
        run.status = again[-1]
    else:
        for task in master.tasks:
            event = points.cells.get(task.id, {})
            if task.id in result.points and event.get("passed"):
                result.points[task.id] = task.points
            elif task.steps:  # what comes before the first step has no points
                right = [*event.get("steps", [])[1:], *(False for _ in task.steps)]
                steps = list(zip(task.steps, right, strict=False))
                result.points[task.id] = sum(given for (given, _), ok in steps if ok)
                result.missed[task.id] = [what for (_, what), ok in steps if not ok]
    result.output = _shown(run, points, marks)
    own = [text for name, text in result.output.items() if name.startswith(OWN)]
    lines = [x for x in "\n".join(own).splitlines() if NOT_RUN.fullmatch(x) and x.isprintable()]
    result.notes += [f"cells of their own: {line.replace(';', ',')}" for line in lines[:5]]
    result.status, result.memory, result.cpu_seconds = run.status, run.memory, run.cpu_seconds
    result.notes += run.notes
    looks = {k for source in submission.answers.values() for k in suspicious(source)}
    result.notes += [f"worth a look: {kind}" for kind in sorted(looks)]
    result.seconds = round(time.monotonic() - began, 2)
    return result


def _run_all(
    made: Callable[..., dict[str, Any]], marks: dict[str, str], limits: Limits
) -> tuple["_Run", "_Run"]:
    """The run of the notebook that ``made`` gives, and the run that gives the points.

    They differ if the kernel ended before the hidden checks began: answers before it still count.
    """
    run = points = _run(made(), marks, limits)
    if run.ended and not run.hidden and not run.status.startswith(AGAIN):
        points = _run(made(in_place=True), marks, limits)
        run.notes += [f"second run: {note}" for note in points.notes if note not in run.notes]
    return run, points


def _numbers_of(student: str) -> set[int]:
    """The numbers released for a name; platforms and look-alikes may have added to it."""
    bare = re.sub(r"~[0-9a-f]{4}$", "", student)  # the mark of a look-alike
    names = {bare, (short := re.sub(r"_\d+$", "", bare))}
    # Canvas writes armana for Ana Arm
    names |= {short[k:] + short[:k] for k in range(len(short)) if short != bare}
    return {own_numbers(name) for name in names if name.strip("_ .-")}


def _error_of_ours(error: str) -> str:
    """The kind of an error in a hidden check; a name that a student may have made is not shown.

    >>> errors = ["KeyError: 3", "SEED_is_12: no", "<script>[12]: x", "Cell outputs differ", ""]
    >>> [_error_of_ours(error) for error in errors]
    ['KeyError', 'an error', 'an error', '', '']
    """
    name = error.split(":")[0].strip()
    if not name or hasattr(builtins, name) or error == TIME_UP:
        return name
    return "" if error.startswith("Cell outputs differ") else "an error"


def _nothing(student: str, master: Master) -> Grade:
    """A result with 0 points in each task; open questions are left out, a person grades them."""
    return Grade(student, {task.id: 0.0 for task in master.tasks if not task.manual})


# ------------------------------------------------------------------------------ one process


@dataclass
class _Run:
    """What the worker process has reported about one run."""

    cells: dict[str, dict[str, Any]] = field(default_factory=dict)
    status: str = "graded"
    notes: list[str] = field(default_factory=list)
    memory: int = 0
    cpu_seconds: float = 0.0
    started: bool = False  # True once the kernel runs and the student's code begins
    ended: bool = False  # True if the kernel ended too early
    hidden: bool = False  # True once the first hidden check begins


def _shown(run: _Run, points: _Run, marks: Container[str]) -> dict[str, str]:
    """What the feedback shows of each cell: prints, and of hidden checks the kind of an error.

    Prints are those of the first run, from before any hidden check.
    """
    shown = {
        name: (event["text"][:20_000] + event["error"]).strip()
        for name, event in run.cells.items()
        if name not in marks
    }
    hidden = {name: event for name, event in points.cells.items() if name in marks}
    return shown | {name: _error_of_ours(event["error"]) for name, event in hidden.items()}


class _Worker:
    """A process that runs notebooks under nbval, one after another (worker.py)."""

    def __init__(self) -> None:
        self.folder = tempfile.mkdtemp(prefix="fltk-")
        environment = {"PATH": os.environ.get("PATH", os.defpath), "HOME": self.folder}
        environment |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": fence.import_path()}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "fltoolkit_grading.worker", self.folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
            cwd=self.folder,  # `-m` imports from there first: not from a folder of submissions
            start_new_session=True,
        )

    def events(self, job: dict[str, Any], seconds: float) -> Iterator[dict[str, Any]]:
        """What happens while a job is run; the last event is ``end``, or the worker has ended."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        late = threading.Timer(seconds, self.process.kill)
        late.start()
        try:
            self.process.stdin.write(json.dumps(job) + "\n")
            self.process.stdin.flush()
            for line in self.process.stdout:
                yield (event := json.loads(line))
                if event["event"] == "end":
                    break
        except (BrokenPipeError, ValueError):  # the worker has ended, perhaps within a line
            pass
        finally:
            late.cancel()

    def stop(self) -> None:
        """End the process, and with it its kernel."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(OSError):
                pipe.close()  # type: ignore[union-attr]
        shutil.rmtree(self.folder, ignore_errors=True)


_idle: list[_Worker] = []  # a worker takes two seconds to start


def _check_tools(fenced: bool) -> None:
    if any(importlib.util.find_spec(name) is None for name in ("nbval", "psutil")):
        raise ImportError('grading needs nbval and psutil: pip install "fltoolkit[grading]"')
    if fenced and (why := fence.missing()):
        raise OSError(why)
    if os.name != "posix":
        raise OSError("grading needs Linux or macOS; in Windows use WSL2")


def _run(notebook: dict[str, Any], marks: dict[str, str], limits: Limits) -> _Run:
    """Run a notebook under nbval, in a worker, in a kernel behind the fence."""
    job = {
        "notebook": notebook,
        "marks": marks,
        "bounds": {each.name: getattr(limits, each.name) for each in fields(fence.Bounds)},
        "unfenced": not limits.fenced,
        "cell_seconds": limits.cell_seconds,
        "total_seconds": limits.total_seconds,
        "output": limits.output,
        "patience": PATIENCE,
        "start_seconds": START_SECONDS,
    }
    try:
        worker = _idle.pop()
    except IndexError:
        worker = _Worker()
    run = _Run(status=f"{AGAIN}: the grader's process ended (is memory or disk space short?)")
    well = False
    try:
        for event in worker.events(job, START_SECONDS + limits.longest + 100):
            _note(run, event, marks)
            well = event["event"] == "end"
    finally:
        if well:
            _idle.append(worker)
        else:
            worker.stop()
    return run


def _note(run: _Run, event: dict[str, Any], marks: dict[str, str]) -> None:
    """Keep what an event says."""
    kind = event["event"]
    if kind == "cell":
        run.cells[event["cell"]] = event
        run.notes += _unusual(event, event["cell"] in marks)
    elif kind == "started":
        run.started = True
    elif kind == "hidden":
        run.hidden = True
    elif kind == "failed":
        run.status = f"{AGAIN}: the kernel did not start: {event['why']}"
    elif run.started:
        run.status, run.ended = event["why"] or "graded", bool(event["why"])
        run.memory, run.cpu_seconds = event["memory"], event["cpu"]
        if event["by_machine"]:
            run.status = f"{AGAIN}: the machine killed it (is memory short? then use --jobs 1)"


def _unusual(event: dict[str, Any], hidden: bool) -> Iterator[str]:
    """Notes on a cell. Those on a hidden check are for the instructor: a student could steer it."""
    where = "in a hidden check: " if hidden else ""
    if event["error"] == TIME_UP:
        yield f"{where}{TIME_UP}: {event['cell']}"
    if event["flood"]:
        yield f"{where}flood of output, dropped: {event['cell']}"
    if not hidden and event["error"].startswith(("SyntaxError", "IndentationError")):
        yield f"a syntax error in {event['cell']}: not run (Python {platform.python_version()})"
    for name in ("MemoryError", "SystemExit", "File too large"):
        if name in event["error"]:
            yield f"{where}{name}: {event['cell']}"


# ---------------------------------------------------------------------------- what is kept


def _key(path: Path, master: Master, seed: int) -> str:
    digest = hashlib.sha256(f"{master.digest}/{seed}/".encode())
    try:
        if path.is_file() and not path.is_symlink():
            with open(path, "rb") as file:  # what is too large is not read, so not graded
                digest.update(file.read(MAX_BYTES + 1))
    except OSError:
        digest.update(b"unreadable")
    return digest.hexdigest()


def _keep_seed(path: Path, name: str) -> int:
    """The secret seed of this folder, which is drawn once."""
    try:
        known: dict[str, int] = json.loads(path.read_text()) if path.exists() else {}
        if not isinstance(known, dict) or not all(isinstance(n, int) for n in known.values()):
            raise ValueError("no seed is in it")
    except ValueError as error:
        raise AssignmentError(
            f"{path} cannot be read: {error}. It holds the secret seed of these grades: bring back "
            "a copy of it, or delete it, and everybody is graded again"
        ) from error
    if others := sorted(set(known) - {name}):
        raise AssignmentError(
            f"{path.parent} holds the grades of {', '.join(others)}, not of {name}: "
            "use another --out for each assignment"
        )
    if name not in known:
        known[name] = secrets.randbits(128)
        write_whole(path, json.dumps(known), private=True)
    return known[name]


def write_whole(path: Path, text: str | bytes, *, private: bool = False) -> None:
    """Write a whole file or none, and nothing if this is in it already.

    What was in it before is there until the new text is on the disk. A ``private`` file is readable
    by its owner only; another one keeps its permissions.
    """
    path = Path(os.path.realpath(path))
    content = text if isinstance(text, bytes) else text.encode("utf-8", "replace")
    with contextlib.suppress(OSError):
        if path.read_bytes() == content:
            return
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        try:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            if not private:
                os.umask(mask := os.umask(0))
                os.chmod(file.name, path.stat().st_mode if path.exists() else 0o666 & ~mask)
        except OSError as error:  # the disk is full: leave no incomplete file
            os.unlink(file.name)
            raise OSError(error.errno, error.strerror, str(path)) from None
    os.replace(file.name, path)


def _load(path: Path) -> Grade | None:
    try:
        return Grade(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None
