"""Grade a folder of submissions; nbval runs each of them in a process of its own.

    1. Each submission has a seed of its own, made from the secret seed and the file. So whatever
       a student learns about the numbers in the hidden checks is of no use for another file.
    2. The master's own solution runs once with all these seeds. The output of its hidden checks is
       the expected output.
    3. Each submission's answers are put into the master and run inside the fences (sandbox.py).
    4. A hidden check that prints the expected output gives its points.

The expected outputs stay in the memory of this process and of the worker; they are in no file and
in no kernel.
"""

import contextlib
import hashlib
import importlib.util
import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from fltoolkit.assignments.looks import suspicious
from fltoolkit.assignments.master import (
    AssignmentError,
    Master,
    Submission,
    assemble,
    collect,
    load_master,
    mark_of,
    read_submission,
)
from fltoolkit.assignments.names import find_submissions, handed_in_as, name_notes
from fltoolkit.assignments.sandbox import (
    OWN_USER,
    WORDS,
    Limits,
    clean_environment,
    fences,
    kernel_command,
)
from fltoolkit.assignments.users import free_user, kill_user
from fltoolkit.assignments.worker import kill_children, unreadable

__all__ = ["AGAIN", "Result", "expected_outputs", "find_submissions", "grade", "grade_one"]

TIME_UP = "the time was up"
AGAIN = "not graded, run grade again"  # a status begins so if the student did not cause it
WORKER = Path(__file__).with_name("worker.py")


@dataclass
class Result:
    """One student's row of the gradebook, and the content of the feedback.

    >>> result = Result("ana", {"double": 2.0, "why": 1.5}, total=3.5)
    >>> result.total == sum(result.points.values()), result.status
    (True, 'graded')
    """

    student: str
    points: dict[str, float] = field(default_factory=dict)  # by task
    total: float = 0.0
    status: str = "graded"
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0  # real time
    cpu_seconds: float = 0.0  # processor time of the kernel
    memory: int = 0  # bytes of the largest process
    answers: dict[str, str] = field(default_factory=dict)
    said: dict[str, str] = field(default_factory=dict)  # errors and prints, not of hidden checks
    handed_in: str = ""  # the name of the file or folder that was handed in
    key: str = ""  # a secret hash of submission, master and seed; also the submission's own seed


def grade(
    submissions: str | Path,
    master: str | Path | Master,
    out: str | Path,
    *,
    jobs: int = 1,
    limits: Limits | None = None,
    seed: int | None = None,
    only: Iterable[str] = (),
    bubblewrap: bool = True,
    progress: Callable[[Iterable[Result], int], Iterable[Result]] | None = None,
) -> list[Result]:
    """Grade all submissions and keep one result file per student in ``out/results``.

    Earlier results of the same submission, master and seed are kept. So an interrupted run
    continues where it stopped, and if one student hands in again, only that submission is graded.
    On Linux, other processes of the same user can no longer read the memory of this process, since
    it holds the expected outputs.

    Args:
        submissions: the folder of submissions, see `find_submissions`.
        master: a master, its path, or its number.
        out: the folder for results; the secret seed is kept there, readable by its owner only.
        jobs: the number of submissions graded at a time; each takes a core and about half a
            gigabyte.
        limits: the limits for one submission; earlier results are kept even if limits change.
        seed: the secret seed; by default it is drawn once.
        only: grade only these students, and grade them again if there is a result.
        bubblewrap: use bubblewrap if it is installed.
        progress: wraps the iterator of results, e.g. with a bar.
    """
    if jobs < 1:
        raise ValueError(f"jobs={jobs}: must be at least 1")
    if os.name != "posix":
        raise OSError("grading needs Linux or macOS (on Windows: WSL or a container)")
    if any(importlib.util.find_spec(name) is None for name in ("nbval", "psutil")):
        raise ImportError('grading needs nbval and psutil: pip install "fltoolkit[grading]"')
    unreadable(reaper=False)
    master = master if isinstance(master, Master) else load_master(master)
    limits, out, folder = limits or Limits(), Path(out), Path(submissions)
    if folder.resolve() in (out.resolve(), *out.resolve().parents):
        raise AssignmentError(
            f"{out} is inside {folder} and would be graded as a student: give an --out outside it"
        )
    found = find_submissions(folder)
    only = set(only)
    if missing := sorted(only - set(found)):
        raise AssignmentError(
            f"there is no submission of {', '.join(missing)}; the students are: {', '.join(found)}"
        )
    (out / "results").mkdir(parents=True, exist_ok=True)
    seed = _keep_seed(out / "seed.json", master.name, seed)
    kept, todo = [], []
    for student, path in found.items():
        key = _key(path, master, seed)
        old = _load(out / "results" / f"{student}.json")
        if old is not None and student not in only and (only or old.key == key):
            kept.append(old)
        elif not only or student in only:
            todo.append((student, path, key))
    with contextlib.closing(_grade_all(todo, master, limits, jobs, bubblewrap, out)) as graded:
        fresh = progress(graded, len(todo)) if progress is not None else graded
        results = sorted([*kept, *fresh], key=lambda result: result.student)
    notes = name_notes(folder, found)
    for result in results:
        result.handed_in = handed_in_as(folder, found[result.student])
        result.notes += notes[result.student]
    return results


def _grade_all(
    todo: list[tuple[str, Path, str]],
    master: Master,
    limits: Limits,
    jobs: int,
    bubblewrap: bool,
    out: Path,
) -> Generator[Result, None, None]:
    if not todo:
        return
    seeds = [int(key, 16) for _, _, key in todo]
    expected = expected_outputs(master, seeds, limits=limits, bubblewrap=bubblewrap)

    def one(student: str, path: Path, key: str) -> Result:
        seed = int(key, 16)
        arguments = (student, path, master, seed, expected[seed])
        try:
            result = grade_one(*arguments, limits=limits, bubblewrap=bubblewrap)
        except Exception as error:  # other submissions are still graded
            result = _nothing(student, master)
            result.status = f"{AGAIN}: {type(error).__name__}: {error}"
        # without a key it is graded again next time, since the student did not cause this
        result.key = "" if result.status.startswith(AGAIN) else key
        _write_private(out / "results" / f"{student}.json", json.dumps(asdict(result)))
        return result

    pool = ThreadPoolExecutor(jobs)
    try:
        for future in as_completed([pool.submit(one, *about) for about in todo]):
            yield future.result()
    finally:  # after Ctrl-C, running submissions are finished and kept; no other is begun
        pool.shutdown(cancel_futures=True)


def expected_outputs(
    master: Master,
    seeds: Iterable[int],
    *,
    limits: Limits | None = None,
    bubblewrap: bool = True,
) -> dict[int, dict[str, str]]:
    """The output of the master's own solution in each hidden check, by seed and cell id.

    One kernel runs the solution once and its hidden checks with every seed. Raises AssignmentError
    if the solution fails or a hidden check prints nothing.
    """
    limits, hidden, marks = limits or Limits(), master.ids("hidden"), {}
    notebook = assemble(master, None, 0)
    cells = [cell for cell in notebook["cells"] if cell["id"] not in hidden]
    for seed in dict.fromkeys(seeds):
        for cell in assemble(master, None, seed)["cells"]:
            if cell["id"] in hidden:
                name = f"{seed} {cell['id']}"
                marks[name] = mark_of(seed, cell["id"])
                cells.append({**cell, "id": name})
    limits = replace(limits, total_seconds=limits.total_seconds + len(marks))
    run = _run({**notebook, "cells": cells}, marks, limits, bubblewrap)
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
            "graded. If no kernel starts here, a fence may hide Python: try --no-bubblewrap"
        )
    return printed


def grade_one(
    student: str,
    path: Path,
    master: Master,
    seed: int,
    expected: dict[str, str],
    *,
    limits: Limits | None = None,
    bubblewrap: bool = True,
) -> Result:
    """Grade one submission. A result is returned whatever the file contains.

    >>> path = Path(tempfile.mkdtemp()) / "ana.ipynb"
    >>> _ = path.write_text("This is no notebook.")
    >>> grade_one("ana", path, Master("demo", {"cells": []}, ""), seed=0, expected={}).status
    'not a notebook: not JSON'
    """
    began = time.monotonic()
    result = _nothing(student, master)
    try:
        submission = collect(master, *read_submission(path))
    except Exception as error:  # the file may be broken in any way
        submission = Submission(problem=f"not a notebook: {type(error).__name__}")
    result.answers, result.notes = submission.answers, submission.notes
    if submission.problem:
        result.status = submission.problem
        return result
    limits = limits or Limits()
    marks = {name: mark_of(seed, name) for name in master.ids("hidden")}
    notebook = assemble(master, submission.answers, seed, expected)
    run = _run(notebook, marks, limits, bubblewrap)
    points, left = run, limits.total_seconds - (time.monotonic() - began)
    if run.ended and not set(marks) & set(run.cells) and left > 0:
        # the kernel ended before the hidden checks ran: answers before that point still count
        notebook = assemble(master, submission.answers, seed, expected, in_place=True)
        points = _run(notebook, marks, replace(limits, total_seconds=left), bubblewrap)
        run.notes += [note for note in points.notes if note not in run.notes]
    for task in master.tasks:
        if task.id in result.points and points.cells.get(task.id, {}).get("passed"):
            result.points[task.id] = task.points
    for name, event in run.cells.items():  # from the first run, before any hidden check
        if name not in marks:
            result.said[name] = (event["text"][:20_000] + event["error"]).strip()
    for name in set(marks) & set(points.cells):
        result.said[name] = _error_of_ours(points.cells[name]["error"])
    for each in (run, points):
        if each.status.startswith(AGAIN):
            run.status = each.status
            result.points = _nothing(student, master).points
    result.total = sum(result.points.values())
    result.status, result.memory, result.cpu_seconds = run.status, run.memory, run.cpu_seconds
    result.notes += run.notes
    looks = {k for source in submission.answers.values() for k in suspicious(source)}
    result.notes += [f"worth a look: {kind}" for kind in sorted(looks)]
    result.seconds = round(time.monotonic() - began, 2)
    return result


_KNOWN = {
    *("ArithmeticError", "AssertionError", "AttributeError", "EOFError", "FileNotFoundError"),
    *("ImportError", "IndexError", "KeyError", "MemoryError", "ModuleNotFoundError", "NameError"),
    *("NotImplementedError", "OSError", "OverflowError", "PermissionError", "RecursionError"),
    *("RuntimeError", "StopIteration", "SyntaxError", "SystemExit", "TypeError", "ValueError"),
    *("UnboundLocalError", "ZeroDivisionError", "KeyboardInterrupt", "IndentationError"),
}


def _error_of_ours(error: str) -> str:
    """The kind of an error in a hidden check; a name that a student may have made is not shown.

    >>> _error_of_ours("KeyError: 3"), _error_of_ours("SEED_is_12: no"), _error_of_ours("")
    ('KeyError', 'an error', '')
    """
    name = error.split(":")[0].strip()
    if not name or name in _KNOWN or error == TIME_UP:
        return name
    return "" if error.startswith("Cell outputs differ") else "an error"


def _nothing(student: str, master: Master) -> Result:
    """A result with 0 points in each task; open questions are left out, a person grades them."""
    return Result(student, {task.id: 0.0 for task in master.tasks if not task.manual})


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


def _run(notebook: dict[str, Any], marks: dict[str, str], limits: Limits, bubblewrap: bool) -> _Run:
    """Run a notebook under nbval in a process of its own, in an empty folder, inside the fences."""
    folder, empty = (Path(tempfile.mkdtemp(prefix="fltk-")) for _ in range(2))
    (folder / "home").mkdir(mode=0o700)
    _save_font_lists(folder / "fonts")
    user = worker_user = None
    began = time.time()
    if fences(bubblewrap)["user"] == OWN_USER:
        user, worker_user = free_user(), free_user()
        for path in (folder, folder / "home"):
            os.chown(path, user, user)
    job = {
        "notebook": notebook,
        "kernel": kernel_command(folder, limits, user=user, bubblewrap=bubblewrap),
        "environment": clean_environment(folder / "home"),
        "marks": marks,
        "user": worker_user,
        "space": limits.space,
        "folder": str(folder),
        "empty": str(empty),  # the worker's own
        "words": WORDS,
        "memory": max(limits.memory, 4 << 30),  # for the worker, which receives all output
        "cell_seconds": limits.cell_seconds,
        "output": limits.output,
    }
    environment = {"PATH": os.defpath, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "HOME": str(folder)}
    run, worker = _Run(), None
    try:
        worker = subprocess.Popen(
            [sys.executable, str(WORKER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
            start_new_session=True,
        )
        reader = threading.Thread(target=_read_events, args=(worker.stdout, run), daemon=True)
        reader.start()
        assert worker.stdin is not None
        try:
            worker.stdin.write(json.dumps(job))
            worker.stdin.close()
            worker.wait(limits.total_seconds)
        except subprocess.TimeoutExpired:
            run.status = TIME_UP
        except BrokenPipeError:
            pass  # the status below tells it
    finally:
        if worker is not None:
            kill_children(worker.pid)
            worker.kill()
            worker.wait()
            reader.join(10)
            for pipe in (worker.stdin, worker.stdout):
                with contextlib.suppress(OSError):
                    pipe.close()  # type: ignore[union-attr]
        for number in (user, worker_user):
            if number is not None:
                kill_user(number, since=began)
        # not rmtree, because a student may make folders deeper than Python's recursion limit
        subprocess.run(["rm", "-rf", "--", folder, empty], stderr=subprocess.DEVNULL, check=False)
    if not run.started:
        run.status = f"{AGAIN}: the kernel did not start (is memory or disk space short?)"
    elif run.memory == 0 and run.status == "graded":
        run.status = f"{AGAIN}: the grader's process ended (is memory or disk space short?)"
    elif run.status.endswith(("(code -9)", "(code 137)")):  # 137 is bubblewrap's code for it
        run.status = f"{AGAIN}: the kernel was killed (is memory short? then use --jobs 1)"
    return run


def _save_font_lists(folder: Path) -> None:
    """Copy the list of fonts that matplotlib has made here; the kernel gives it to its matplotlib.

    Without one, matplotlib makes a list with the first plot, and starts a process for that: it
    takes a second, and looks as if the student had started one.
    """
    import matplotlib.font_manager  # this makes the list, if there is none

    folder.mkdir(mode=0o755)
    with contextlib.suppress(OSError):  # then each kernel makes its own
        for path in Path(matplotlib.get_cachedir()).glob("fontlist-*.json"):
            shutil.copyfile(path, folder / path.name)


def _read_events(lines: Any, run: _Run) -> None:
    """Read the worker's lines; if a cell is reported twice, the first report counts."""
    for line in lines:
        event = json.loads(line)
        if event["event"] == "cell" and run.ended:
            continue  # this cell did not run, because the kernel had ended
        if event["event"] == "cell":
            run.cells.setdefault(event["cell"], event)
            if event["error"] == TIME_UP:
                run.notes.append(f"{TIME_UP}: {event['cell']}")
            if event["flood"]:
                run.notes.append(f"flood of output, dropped: {event['cell']}")
            for kind in ("MemoryError", "SystemExit", "File too large"):
                if kind in event["error"]:
                    run.notes.append(f"{kind}: {event['cell']}")
        elif event["event"] == "tried":
            run.notes.append(f"tried: {event['word']}")
        elif event["event"] == "started":
            run.started = True
        elif event["event"] == "halted":
            run.ended = True
        else:
            run.memory, run.cpu_seconds = max(event["memory"], 1), round(event["cpu"], 2)
            if event["event"] == "dead":
                run.ended = True
                run.status = f"the kernel ended (code {event['code']})"


# ---------------------------------------------------------------------------- what is kept


def _key(path: Path, master: Master, seed: int) -> str:
    digest = hashlib.sha256(f"{master.digest}/{seed}/".encode())
    try:
        if path.is_file() and not path.is_symlink():
            with open(path, "rb") as file:
                while block := file.read(1 << 20):
                    digest.update(block)
    except OSError:
        digest.update(b"unreadable")
    return digest.hexdigest()


def _keep_seed(path: Path, name: str, seed: int | None) -> int:
    """The secret seed of this folder: the given one, the one kept, or a new one."""
    known: dict[str, int] = json.loads(path.read_text()) if path.exists() else {}
    if others := sorted(set(known) - {name}):
        raise AssignmentError(
            f"{path.parent} holds the grades of {', '.join(others)}, not of {name}: "
            "use another --out for each assignment"
        )
    if seed is None:
        seed = known.get(name, secrets.randbits(128))
    if known.get(name) != seed:
        _write_private(path, json.dumps({**known, name: seed}))
    return seed


def _write_private(path: Path, text: str) -> None:
    """Write a whole file or none, readable by its owner only."""
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False, encoding="utf-8") as file:
        try:
            file.write(text)
            file.flush()
        except OSError:  # the disk is full: leave no incomplete file
            os.unlink(file.name)
            raise
    os.replace(file.name, path)


def _load(path: Path) -> Result | None:
    try:
        return Result(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None
