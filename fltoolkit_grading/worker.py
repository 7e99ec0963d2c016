"""The process that grades submissions: pytest with nbval, and the fenced kernel as its child.

``grading.py`` starts this file, writes jobs to its standard input, one line of JSON for each run of
a notebook, and reads one line of JSON for each cell from its standard output. The expected outputs
are part of a job and stay in this process's memory: they are never on disk and never in the kernel.

Everything that the kernel sends is bounded: a frame, the output kept for a cell, and the time (see
`grading.Limits`).
"""

import contextlib
import json
import math
import os
import queue
import re
import select
import shutil
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbval.plugin import IPyNbCell, IPyNbFile

from fltoolkit_grading import fence
from fltoolkit_grading.kernel import HEADER, MOST, frame

__all__ = ["spoken"]

_NUMBER = re.compile(r"([-+]?(?:\d+\.\d*|\.\d+|\d+)(?:[eE][-+]?\d+)?)")
GRACE_SECONDS = 5.0  # processor time in which a cell must end after it was interrupted
TIME_UP = "the time was up"
STOPPED = "stopped after the last cell"


def same_output(expected: str, got: str, relative: float = 1e-4, absolute: float = 1e-6) -> bool:
    """True if two printed texts are equal up to rounding.

    Words and whole numbers must be equal, and so must the count of numbers. Numbers with a decimal
    point or an exponent may differ a little, because sums in another order differ in their last
    bits.
    """
    ours, theirs = (_NUMBER.split(" ".join(text.split())) for text in (expected, got))
    if len(ours) != len(theirs) or ours[::2] != theirs[::2]:
        return False
    for a, b in zip(ours[1::2], theirs[1::2], strict=True):
        if a == b:
            continue
        if not (set(".eE") & set(a) and set(".eE") & set(b)):
            return False
        x, y = float(a), float(b)  # 1e999 is inf, and inf is close only to itself
        if not math.isclose(x, y, rel_tol=relative, abs_tol=absolute):
            return False
    return True


def printed(outputs: list[Any]) -> str:
    """A cell's text on standard output; other outputs are not compared."""
    return "".join(str(out.get("text", "")) for out in outputs if out.get("name") == "stdout")


def spoken(text: str, mark: str) -> str:
    """What a hidden check itself printed, which is between the marks (check_cell.py).

    >>> spoken("debug <m>right</m> and <m>, exactly</m>", "m")
    'right, exactly'
    """
    return "".join(part.split(f"</{mark}>")[0] for part in text.split(f"<{mark}>")[1:])


class Ended(Exception):
    """Raised when the kernel ended, or was ended, before its cell was done."""


class Kernel:
    """The fenced kernel, with the methods that nbval calls.

    ``ended`` says why there is no kernel any more; it is empty as long as there is one.
    """

    def __init__(self, job: dict[str, Any]):
        self.job, self.ended = job, ""
        self.buffer, self.count = bytearray(), 0
        self.ready, self.done, self.messages = False, -1, list[dict[str, Any]]()
        self.folder = tempfile.TemporaryDirectory(prefix="fltk-") if job["unfenced"] else None
        settings = {"PYTHONPATH": fence.import_path(), "MPLBACKEND": "agg", "OMP_NUM_THREADS": "1"}
        settings |= dict.fromkeys(("PYTHONDONTWRITEBYTECODE", "PYTHONNOUSERSITE"), "1")
        text = " ".join("".join(cell["source"]) for cell in job["notebook"]["cells"])
        imports = ["torch"] if re.search(r"\b(torch|fltoolkit)\b", text) else []
        self.fenced = fence.start(
            [sys.executable, "-s", "-m", "fltoolkit_grading.kernel", *imports],
            bounds=fence.Bounds(**job["bounds"]),
            readable=fence.packages(),
            environment={**settings, "PYTHONHASHSEED": "0"},
            without_fence=self.folder.name if self.folder else "",
        )
        self.output, self.kept, self.error = list[str](), 0, ""
        self.by_machine, self.kills, self.looked = False, kills_for_memory(), 0.0
        began = time.monotonic()
        while not (self.ready or self.ended):
            self._read()
            if time.monotonic() - began > job["start_seconds"]:
                self._end(f"it was not ready after {job['start_seconds']:.0f} s")
        self.phase = self.now()  # the clock of all answers, or of all hidden checks
        self.cell = self.phase
        if self.ended:
            raise Ended(f"{self.error} {self.ended}")

    # ---------------------------------------------------------------- what nbval calls

    def is_alive(self) -> bool:
        return not self.ended

    def execute_cell_input(self, source: str, allow_stdin: bool = False) -> int:
        self.output, self.kept, self.error, self.messages = [], 0, "", []
        self.cell, number = self.now(), self.count
        self.count += 1
        with contextlib.suppress(OSError):  # the next read finds that the kernel has ended
            self._write(frame(b"x", source))
        return number

    def await_reply(self, number: int, timeout: float | None = None) -> None:
        """Wait until the cell is done; raises queue.Empty when its time is up."""
        total = self.job["total_seconds"]
        while self.done < number:
            self._read()
            if self._over(self.cell, timeout or 0.0) or self._over(self.phase, total):
                raise queue.Empty

    def interrupt(self) -> None:
        """Interrupt the cell every second; end the kernel if it does not obey."""
        began, again = self.now(), 0.0
        with contextlib.suppress(OSError):
            while self.done < self.count - 1:
                if time.monotonic() > again:
                    self._write(frame(b"i"))
                    again = time.monotonic() + 1
                self._read()
                last = self.job["total_seconds"] + GRACE_SECONDS
                if self._over(began, GRACE_SECONDS) or self._over(self.phase, last):
                    self._end(TIME_UP)
                    raise Ended

    def get_message(self, stream: str, timeout: float | None = None) -> dict[str, Any]:
        """The messages that nbval expects after a cell: its text, its error, and its end."""
        if not self.messages:
            about = {"parent_header": {"msg_id": self.count - 1}}
            # nbval would need quadratic time for these two characters
            text = "".join(self.output).replace("\b", "").replace("\r", "")
            self.messages = [
                about | {"msg_type": "stream", "content": {"name": "stdout", "text": text}},
                about | {"msg_type": "status", "content": {"execution_state": "idle"}},
            ]
            if self.error:
                name, _, value = self.error.partition(": ")
                content = {"ename": name, "evalue": value, "traceback": []}
                self.messages.insert(1, about | {"msg_type": "error", "content": content})
        return self.messages.pop(0)

    def await_idle(self, number: int, timeout: float) -> None:
        self.messages.clear()

    def stop(self) -> None:
        self._end(STOPPED)

    # ---------------------------------------------------------------- the pipe and the clock

    def now(self) -> tuple[float, float]:
        """Processor time, and real time without that of waiting for a processor."""
        return self.fenced.cpu_seconds, time.monotonic() - self.fenced.waited

    def _over(self, since: tuple[float, float], limit: float) -> bool:
        seconds, real = (now - then for now, then in zip(self.now(), since, strict=True))
        return seconds > limit or real > self.job["patience"] * limit

    def _write(self, content: bytes) -> None:
        """Write to a kernel that may read nothing, or slowly."""
        number = self.fenced.stdin.fileno()
        os.set_blocking(number, False)
        while content and not self.ended:
            if select.select([], [number], [], 0.1)[1]:
                content = content[os.write(number, content) :]
            else:
                self._read()
                if self._over(self.cell, self.job["cell_seconds"]):
                    self._end(TIME_UP)

    def _read(self) -> None:
        """Take what the kernel has sent, waiting a little; raises Ended if it has ended."""
        if self.ended:
            raise Ended
        number = self.fenced.stdout.fileno()
        if select.select([number], [], [], 0.1)[0]:
            content = os.read(number, 1 << 16)
            if not content:
                self._end("")
                raise Ended
            self.buffer += content
            while len(self.buffer) >= HEADER.size:
                kind, length = HEADER.unpack_from(self.buffer)
                if kind not in b"roed" or length > MOST:
                    self._end("it sent what no kernel sends")
                    raise Ended
                if len(self.buffer) < HEADER.size + length:
                    break
                text = self.buffer[HEADER.size : HEADER.size + length].decode(errors="replace")
                del self.buffer[: HEADER.size + length]
                self._take(kind, text)
        if time.monotonic() > self.looked + 0.5:
            excess = self.fenced.look()
            self.looked = time.monotonic()
            if excess:
                self._end(excess)
                raise Ended

    def _take(self, kind: bytes, text: str) -> None:
        if kind == b"r":
            self.ready = True
        elif kind == b"o":
            self.kept += len(text) or 1  # a frame without text takes memory, too
            if self.kept <= self.job["output"]:
                self.output.append(text)
        elif kind == b"e":
            self.error = text[:500] or "an error"
        elif text == str(self.count - 1):
            self.done = self.count - 1

    def _end(self, why: str) -> None:
        """End the kernel; ``why`` is empty if it has ended itself."""
        if not self.ended:
            self.fenced.look()
            with contextlib.suppress(Exception):
                if not why:  # no student's code reaches the first process of a fence
                    fence_ended = self.fenced.process.wait(2) < 0 and not self.job["unfenced"]
                    self.by_machine = fence_ended or kills_for_memory() > self.kills
            code = self.fenced.stop()
            self.ended = why or f"the kernel ended (code {code})"
            if self.folder:
                self.folder.cleanup()


def kills_for_memory() -> int:
    """How many processes Linux has killed so far because memory was short; 0 if it does not say."""
    with contextlib.suppress(OSError):
        counts = dict(line.split() for line in Path("/proc/vmstat").read_text().splitlines())
        return int(counts.get("oom_kill", 0))
    return 0


class Cell(IPyNbCell):
    """nbval's cell, which compares of a hidden check only the text between its marks."""

    def compare_outputs(self, test: list[Any], ref: list[Any], skip_compare: Any = None) -> bool:
        self.comparison_traceback: list[str] = []
        mark = self.parent.job["marks"].get(self.cell.id, "")
        return same_output(printed(ref), spoken(printed(test), mark))


class GradedFile(IPyNbFile):
    """A notebook of nbval's that is read from memory and runs in a fenced kernel."""

    job: dict[str, Any]
    emit: Any

    def collect(self) -> Iterator[Cell]:
        cells = nbformat.from_dict(self.job["notebook"]).cells
        for number, cell in enumerate(cells):
            checked = "nbval-check-output" in cell.metadata.tags
            options = defaultdict(bool, check=checked)
            about = {"name": cell.id, "cell_num": number, "cell": cell, "options": options}
            yield Cell.from_parent(self, **about)

    def setup(self) -> None:
        self.kernel = Kernel(self.job)
        self.emit(event="started")


class Plugin:
    """Collects the job's notebook, and reports on its cells."""

    def __init__(self, job: dict[str, Any], emit: Any):
        self.job, self.emit, self.kernel = job, emit, None
        self.hidden = False  # True from the first hidden check on

    def pytest_collect_file(self, file_path: Path, parent: Any) -> Any:
        if file_path.suffix != ".graded":
            return None
        book = GradedFile.from_parent(parent, path=file_path)
        book.job, book.emit = self.job, self.emit
        return book

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_call(self, item: Any) -> None:
        self.kernel = kernel = item.parent.kernel
        item.parent.timed_out = False  # nbval would fail all later cells
        if item.cell.id in self.job["marks"] and not self.hidden:
            self.hidden = True  # hidden checks have a time of their own
            kernel.phase = kernel.now()
            self.emit(event="hidden")

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: Any, call: Any) -> Iterator[Any]:
        outcome: Any = yield
        report, kernel = outcome.get_result(), item.parent.kernel
        if report.when == "setup" and report.failed:
            self.emit(event="failed", why=str(call.excinfo.value)[:500])
            item.session.shouldfail = "there is no kernel"
        elif report.when == "call" and kernel.ended:
            item.session.shouldfail = "the kernel has ended"
        elif report.when == "call":
            self.emit(**self._event(item, report, call))

    def _event(self, item: Any, report: Any, call: Any) -> dict[str, Any]:
        """The report on one cell; for a hidden check, with a mark, the text between its marks."""
        kernel, mark = item.parent.kernel, self.job["marks"].get(item.cell.id)
        text = printed(item.test_outputs or [])
        said = text if mark is None else spoken(text, mark)
        steps = zip(printed(item.cell.outputs).split("\f"), said.split("\f"), strict=False)
        error = kernel.error
        if call.excinfo is not None and not error:
            error = str(call.excinfo.value)[:500]
        return {
            "event": "cell",
            "cell": item.cell.id,
            "passed": report.passed,
            "error": TIME_UP if item.parent.timed_out else error,
            "text": said,
            "steps": [same_output(*step) for step in steps if mark is not None],
            "flood": kernel.kept > self.job["output"],
            "seconds": round(call.duration, 3),
        }


def run_job(job: dict[str, Any], folder: str, emit: Any) -> None:
    """Run a job's notebook; ``emit`` is called with each event, the last one is ``end``."""
    plugin = Plugin(job, emit)
    stub = Path(folder, "submission.graded")
    stub.touch()
    options = ["-q", "-s", "--nbval-lax", f"--nbval-cell-timeout={job['cell_seconds']}"]
    options += ["-p", "nbval.plugin", "-p", "no:cacheprovider", "-p", "no:unraisableexception"]
    # of the folder above, which may be everybody's, nothing is listed and no conftest.py is run
    options += ["-c", os.devnull, "--noconftest", "--confcutdir", folder, "--rootdir", folder]
    code = pytest.main([*options, str(stub)], plugins=[plugin])
    if code == pytest.ExitCode.INTERNAL_ERROR:
        emit(event="failed", why="pytest itself failed: does `python -m pytest --version` work?")
    kernel: Any = plugin.kernel
    used = (kernel.fenced.memory, kernel.fenced.cpu_seconds) if kernel else (0, 0.0)
    why = kernel.ended if kernel and kernel.ended != STOPPED else ""
    by_machine = bool(kernel and kernel.by_machine)
    emit(event="end", why=why, memory=used[0], cpu=round(used[1], 2), by_machine=by_machine)


def main() -> None:
    """Read jobs and run them, until standard input ends: ``worker.py EMPTY_FOLDER``."""
    events = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    jobs: queue.Queue[str] = queue.Queue()

    def receive() -> None:
        for line in sys.stdin:
            jobs.put(line)
        shutil.rmtree(sys.argv[1], ignore_errors=True)
        os._exit(0)  # the grader has ended, perhaps in the middle of a job; the kernel ends, too

    threading.Thread(target=receive, daemon=True).start()

    def emit(**event: Any) -> None:
        events.write(json.dumps(event) + "\n")

    while True:
        run_job(json.loads(jobs.get()), sys.argv[1], emit)


if __name__ == "__main__":
    main()
