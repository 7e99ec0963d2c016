"""Grade a folder of submissions: nbval runs each in its own process, this file hands out the work.

    1. the master's own solution is run once with the secret seed: what its checks print is expected
    2. each submission's answers are put into the master and run in a fence (sandbox.py)
    3. a hidden check that prints the same gives its points

The expected outputs stay in the memory of this process and of the worker; no file and no kernel
holds them.
"""

import contextlib
import hashlib
import importlib.util
import json
import os
import secrets
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
from fltoolkit.assignments.names import find_submissions, handed_in_as
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
AGAIN = "not graded, say grade again"  # how a status begins that is not the student's doing
WORKER = Path(__file__).with_name("worker.py")


@dataclass
class Result:
    """One student's row of the gradebook, and what the feedback shows."""

    student: str
    points: dict[str, float] = field(default_factory=dict)  # by task
    total: float = 0.0
    status: str = "graded"
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0  # on the clock
    cpu_seconds: float = 0.0  # the kernel's
    memory: int = 0  # bytes, the largest process
    answers: dict[str, str] = field(default_factory=dict)
    said: dict[str, str] = field(default_factory=dict)  # errors and prints, no hidden check's print
    handed_in: str = ""  # the name that the file or folder had
    key: str = ""  # of submission, master and seed: what must be the same to keep this result


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

    Results that are there already, of the same submission, master and seed, are kept: an
    interrupted run goes on where it was, and a student who hands in again is graded alone.
    This process becomes unreadable for others of its user (Linux), since it holds what is expected.

    Args:
        submissions: see `find_submissions`.
        master: a master, its path, or its number.
        out: the folder for results; the secret seed is kept there, readable by its owner only.
        jobs: so many at a time; each takes a core and about half a gigabyte.
        limits: what one submission may use; results that are kept had the limits of their time.
        seed: the secret seed; drawn once by default.
        only: grade these students again, whatever there is, and nobody else.
        bubblewrap: use it where it is installed.
        progress: wraps the iterator of results, e.g. with a bar.
    """
    if jobs < 1:
        raise ValueError(f"jobs={jobs}: at least 1")
    if os.name != "posix":
        raise OSError("grading needs Linux or macOS (on Windows: WSL or a container)")
    if any(importlib.util.find_spec(name) is None for name in ("nbval", "psutil")):
        raise ImportError('grading needs nbval and psutil: pip install "fltoolkit[grading]"')
    unreadable(reaper=False)
    master = master if isinstance(master, Master) else load_master(master)
    limits, out, folder = limits or Limits(), Path(out), Path(submissions)
    if folder.resolve() in (out.resolve(), *out.resolve().parents):
        raise AssignmentError(
            f"{out} lies in {folder} and would be graded as a student: give an --out beside it"
        )
    found = find_submissions(folder)
    only = set(only)
    if missing := sorted(only - set(found)):
        raise AssignmentError(
            f"no submission of {', '.join(missing)}; there are: {', '.join(found)}"
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
    with contextlib.closing(
        _grade_all(todo, master, seed, limits, jobs, bubblewrap, out)
    ) as graded:
        fresh = progress(graded, len(todo)) if progress is not None else graded
        results = sorted([*kept, *fresh], key=lambda result: result.student)
    for result in results:
        result.handed_in = handed_in_as(folder, found[result.student])
        if result.handed_in != result.student:
            entry = found[result.student].relative_to(folder).parts[0]
            result.notes.append(f"handed in as {entry!r}")
        if "~" in result.student:
            result.notes.append("another name looks the same: ask whose it is")
    return results


def _grade_all(
    todo: list[tuple[str, Path, str]],
    master: Master,
    seed: int,
    limits: Limits,
    jobs: int,
    bubblewrap: bool,
    out: Path,
) -> Generator[Result, None, None]:
    if not todo:
        return
    expected = expected_outputs(master, seed, limits=limits, bubblewrap=bubblewrap)

    def one(student: str, path: Path, key: str) -> Result:
        arguments = (student, path, master, seed, expected)
        try:
            result = grade_one(*arguments, limits=limits, bubblewrap=bubblewrap)
        except Exception as error:  # one submission's trouble
            result = _nothing(student, master)
            result.status = f"{AGAIN}: {type(error).__name__}: {error}"
        # without a key it is tried again: what was not the student's doing is no result
        result.key = "" if result.status.startswith(AGAIN) else key
        _write_private(out / "results" / f"{student}.json", json.dumps(asdict(result)))
        return result

    pool = ThreadPoolExecutor(jobs)
    try:
        for future in as_completed([pool.submit(one, *about) for about in todo]):
            yield future.result()
    finally:  # after Ctrl-C what runs is finished and kept, and what waits is not begun
        pool.shutdown(cancel_futures=True)


def expected_outputs(
    master: Master, seed: int, *, limits: Limits | None = None, bubblewrap: bool = True
) -> dict[str, str]:
    """What the master's own solution prints in each hidden check; an error names a bad master."""
    marks = {name: mark_of(seed, name) for name in master.ids("hidden")}
    run = _run(assemble(master, None, seed), marks, limits or Limits(), bubblewrap)
    for event in run.cells.values():
        if run.started and not event["passed"]:
            raise AssignmentError(
                f"master {master.name}: its own solution fails in cell {event['cell']!r} with "
                f"SEED from {seed}: {event['error']}. Nothing was graded"
            )
    printed = {name: run.cells.get(name, {}).get("text", "") for name in master.ids("hidden")}
    if silent := [name for name, text in printed.items() if not text.strip()]:
        raise AssignmentError(
            f"master {master.name}: {silent} printed nothing ({run.status}); nothing was graded. "
            "If no kernel starts here, a fence may hide Python: try --no-bubblewrap"
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
    """Grade one submission. Whatever is in the file, this returns a result."""
    began = time.monotonic()
    result = _nothing(student, master)
    try:
        submission = collect(master, *read_submission(path))
    except Exception as error:  # a file may be odd in ways nobody has thought of
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
        # the kernel ended before the checks behind: what stands before the end still counts
        notebook = assemble(master, submission.answers, seed, expected, in_place=True)
        points = _run(notebook, marks, replace(limits, total_seconds=left), bubblewrap)
        run.notes += [note for note in points.notes if note not in run.notes]
    for task in master.tasks:
        if task.id in result.points and points.cells.get(task.id, {}).get("passed"):
            result.points[task.id] = task.points
    for name, event in run.cells.items():  # of the first run: before any hidden check
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
    """An error in a hidden check, by a name that no student has chosen.

    >>> _error_of_ours("KeyError: 3"), _error_of_ours("SEED_is_12: no"), _error_of_ours("")
    ('KeyError', 'an error', '')
    """
    name = error.split(":")[0].strip()
    if not name or name in _KNOWN or error == TIME_UP:
        return name
    return "" if error.startswith("Cell outputs differ") else "an error"


def _nothing(student: str, master: Master) -> Result:
    """No points yet in what is graded here; questions wait for a person."""
    return Result(student, {task.id: 0.0 for task in master.tasks if not task.manual})


# ------------------------------------------------------------------------------ one process


@dataclass
class _Run:
    """What the worker said."""

    cells: dict[str, dict[str, Any]] = field(default_factory=dict)
    status: str = "graded"
    notes: list[str] = field(default_factory=list)
    memory: int = 0
    cpu_seconds: float = 0.0
    started: bool = False  # the kernel, and then the student's doing begins
    ended: bool = False  # the kernel, before its time


def _run(notebook: dict[str, Any], marks: dict[str, str], limits: Limits, bubblewrap: bool) -> _Run:
    """Run a notebook under nbval in a process of its own, in an empty folder, inside the fences."""
    folder, empty = (Path(tempfile.mkdtemp(prefix="fltk-")) for _ in range(2))
    (folder / "home").mkdir(mode=0o700)
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
        "memory": max(limits.memory, 4 << 30),  # the worker's: it takes in what a kernel shows
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
            pass  # said below
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
        # not rmtree: it recurses, and what a student makes can be deeper than Python
        subprocess.run(["rm", "-rf", "--", folder, empty], stderr=subprocess.DEVNULL, check=False)
    if not run.started:
        run.status = f"{AGAIN}: the kernel did not start (is memory or disk space short?)"
    elif run.memory == 0 and run.status == "graded":
        run.status = f"{AGAIN}: the grader's process ended (is memory or disk space short?)"
    elif run.status.endswith(("(code -9)", "(code 137)")):  # the second one is bubblewrap's word
        run.status = f"{AGAIN}: the kernel was killed (is memory short? then with --jobs 1)"
    return run


def _read_events(lines: Any, run: _Run) -> None:
    """Take in the worker's lines; the first verdict on a cell counts."""
    for line in lines:
        event = json.loads(line)
        if event["event"] == "cell" and run.ended:
            continue  # it was not run any more
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
            "give each assignment an --out of its own"
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
        except OSError:  # a full disk: no half of a file stays
            os.unlink(file.name)
            raise
    os.replace(file.name, path)


def _load(path: Path) -> Result | None:
    try:
        return Result(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None
