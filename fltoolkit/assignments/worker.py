"""The process that grades one submission: pytest with nbval, and the fenced kernel as its child.

``grading.py`` starts this file by its path (so that torch is not imported here), writes a job to
its standard input, and reads one line of JSON per cell from its standard output. The expected
outputs are part of the job and stay in this process's memory: they are never on disk and never in
the kernel. Other processes of the same user cannot read this process's memory.
"""

import contextlib
import json
import math
import os
import re
import select
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

__all__ = ["kill_children", "same_output", "spoken", "unreadable"]

_NUMBER = re.compile(r"([-+]?(?:\d+\.\d*|\.\d+|\d+)(?:[eE][-+]?\d+)?)")
CHECK = "nbval-check-output"


def same_output(expected: str, got: str, relative: float = 1e-4, absolute: float = 1e-6) -> bool:
    """True if two printed texts are equal up to rounding.

    Words and whole numbers must be equal, and so must the count of numbers. Numbers with a decimal
    point or an exponent may differ a little, because sums in another order differ in their last
    bits.

    >>> same_output("loss 0.50000, 12 B", "loss 0.50001, 12 B")
    True
    >>> same_output("12 B", "13 B"), same_output("0.5", "nan"), same_output("0.5", "0.501")
    (False, False, False)
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
    return "".join(
        str(out.get("text", ""))
        for out in outputs
        if out.get("output_type") == "stream" and out.get("name") == "stdout"
    )


def spoken(text: str, mark: str) -> str:
    """The text that a hidden check itself printed, which is between the marks (check_cell.py).

    >>> spoken("debug <m>right</m> and <m>, exactly</m>", "m")
    'right, exactly'
    """
    parts = text.split(f"<{mark}>")[1:]
    return "".join(part.split(f"</{mark}>")[0] for part in parts)


def kill_children(pid: int) -> None:
    """End all child processes of ``pid`` and their children, even if they start new ones."""
    import psutil

    for _ in range(50):
        try:
            children = psutil.Process(pid).children(recursive=True)
        except psutil.Error:
            return
        alive = [child for child in children if _lives(child)]
        if not alive:
            return
        for signal in ("suspend", "kill"):  # all are stopped before the first one is killed
            for child in alive:
                try:
                    getattr(child, signal)()
                except psutil.Error:
                    continue


def _lives(process: Any) -> bool:
    import psutil

    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def cpu_seconds() -> float:
    """The processor time that all child processes have used."""
    import psutil

    total = 0.0
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            times = child.cpu_times()
            total += times.user + times.system
    return total


def unreadable(reaper: bool = True) -> None:
    """Forbid other processes of this user to read the memory of this one.

    With ``reaper``, processes whose parent has ended become children of this process.
    """
    if sys.platform == "linux":
        import ctypes

        libc = ctypes.CDLL(None)
        libc.prctl(4, 0, 0, 0, 0)  # not dumpable: /proc/PID/mem, fd and environ belong to root
        if reaper:
            libc.prctl(36, 1, 0, 0, 0)
            libc.prctl(1, 9, 0, 0, 0)  # this process ends when the grader ends


def main() -> None:
    """Read the job, run it, write the events."""
    import resource  # imported here because Windows lacks it

    unreadable()
    events = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    job = json.load(sys.stdin)
    with contextlib.suppress(OSError, ValueError):  # macOS refuses
        resource.setrlimit(resource.RLIMIT_AS, (job["memory"], job["memory"]))
    lock = threading.Lock()

    def emit(**event: Any) -> None:
        with lock:
            events.write(json.dumps(event) + "\n")
            events.flush()

    import pytest

    peak = _Peak()
    plugin = _plugin(job, emit, peak)
    stub = Path(job["empty"], "submission.graded")
    stub.touch()
    options = ["-q", "--nbval-lax", f"--nbval-cell-timeout={job['cell_seconds']}"]
    options += ["-p", "nbval.plugin", "-p", "no:cacheprovider", "-c", os.devnull]
    code = pytest.main([*options, "--rootdir", job["empty"], str(stub)], plugins=[plugin])
    kill_children(os.getpid())
    emit(event="end", code=int(code), memory=peak.memory, cpu=peak.seconds)
    os._exit(0)  # libzmq would wait for a kernel that no longer answers


class _Peak:
    """The most memory of a single child process, and the processor time of all of them."""

    memory, seconds = 1, 0.0

    def look(self) -> None:
        import psutil

        self.seconds = max(self.seconds, cpu_seconds())
        for child in psutil.Process().children(recursive=True):
            try:
                text = Path(f"/proc/{child.pid}/status").read_text()
                held = int(text.split("VmHWM:")[1].split()[0]) * 1024
            except (OSError, IndexError):  # not Linux, or the process has ended
                try:
                    held = child.memory_info().rss
                except psutil.Error:
                    continue
            self.memory = max(self.memory, held)


def _plugin(job: dict[str, Any], emit: Any, peak: _Peak) -> Any:
    """A pytest plugin: nbval with a notebook from memory, a fenced kernel, and `same_output`."""
    import nbformat
    import nbval.plugin
    import psutil
    import pytest
    from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
    from jupyter_client.manager import KernelManager
    from nbval.kernel import RunningKernel

    class OneSpec(KernelSpecManager):
        def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
            return KernelSpec(
                argv=job["kernel"], display_name="graded", language="python",
                interrupt_mode="message",
            )  # fmt: skip

    class Kernel(RunningKernel):
        """nbval's kernel, with sockets in the job's folder; it drops output beyond the limit."""

        def __init__(self) -> None:
            self.begin_cell()
            folder = job["folder"]
            self.km = KernelManager(
                kernel_name="graded",
                kernel_spec_manager=OneSpec(),
                transport="ipc",
                connection_file=str(Path(folder, "k.json")),
            )
            null = open(os.devnull, "w")  # noqa: SIM115 (as long as the kernel)
            reads, writes = os.pipe()
            home = str(Path(folder, "home"))
            self.km.start_kernel(cwd=home, env=job["environment"], stdout=writes, stderr=null)
            os.close(writes)
            threading.Thread(target=self._watch, daemon=True).start()
            self.kc = self.km.client()
            self.kc.start_channels()
            self.kc.wait_for_ready(timeout=120)
            self._ensure_iopub_up()
            while select.select([reads], [], [], 0)[0] and os.read(reads, 1 << 16):
                pass  # reports from the start of the kernel are not about the student
            emit(event="started")
            if job["user"] is not None:  # root was needed to start the kernel, and no longer is
                os.setgroups([])
                os.setresgid(job["user"], job["user"], job["user"])
                os.setresuid(job["user"], job["user"], job["user"])
                unreadable()
            notes = open(reads, "rb")  # noqa: SIM115 (as long as the kernel)
            about = (notes, list(job["words"]), emit, self._alive)
            self.listener = threading.Thread(target=_listen, args=about, daemon=True)
            self.listener.start()

        def _watch(self) -> None:
            """End this process if the kernel dies; nbval would wait until the time is up."""
            process: Any = getattr(self.km.provisioner, "process")  # noqa: B009
            home, looked = Path(job["folder"], "home"), 0.0
            while process.poll() is None:
                time.sleep(0.1)
                if time.monotonic() > looked + 0.5:
                    looked = time.monotonic()
                    if disk_use(home) > job["space"]:
                        emit(event="tried", word="fill the disk")
                        with contextlib.suppress(psutil.Error):
                            psutil.Process(process.pid).kill()
            if hasattr(self, "km") and not self.stopping:
                time.sleep(0.5)  # first receive the kernel's last messages
                kill_children(os.getpid())
                self.listener.join(5)
                emit(event="dead", code=process.returncode, memory=peak.memory, cpu=peak.seconds)
                os._exit(1)

        stopping = False

        def _alive(self) -> bool:
            time.sleep(0.3)
            process: Any = getattr(self.km.provisioner, "process", None)
            return not self.stopping and process is not None and process.poll() is None

        def stop(self) -> None:
            """Stop the kernel: after the last cell, or if a cell cannot be interrupted."""
            self.stopping = True
            emit(event="halted")
            if job["user"] is None:
                super().stop()
            else:  # no longer root: grading.py ends it
                self.kc.stop_channels()
                del self.km
            self.listener.join(1)

        def begin_cell(self) -> None:
            self.nbytes, self.began, self.used = 0, time.monotonic(), cpu_seconds()

        def await_reply(self, msg_id: str, timeout: float | None = None) -> None:
            """Wait as nbval does, but measure processor time, since the machine may be busy."""
            while True:
                try:
                    return super().await_reply(msg_id, timeout=0.5)
                except nbval.plugin.Empty:
                    limit, waited = job["cell_seconds"], time.monotonic() - self.began
                    if waited > 5 * limit or cpu_seconds() - self.used > limit:
                        raise

        def get_message(self, stream: str, timeout: float | None = None) -> Any:
            while True:
                message = super().get_message(stream, timeout)
                if message["msg_type"] not in ("stream", "display_data", "execute_result", "error"):
                    return message
                self.nbytes += len(repr(message["content"]))
                if self.nbytes <= job["output"]:
                    return message
                if message["msg_type"] == "error":  # still an error, but a short one
                    message["content"].update(evalue="(long)", traceback=[])
                    return message
                if time.monotonic() - self.began > 5 * job["cell_seconds"] + 10:
                    raise nbval.plugin.Empty

    class Submission(nbval.plugin.IPyNbFile):
        def collect(self) -> Iterator[Any]:
            notebook = nbformat.from_dict(job["notebook"])
            nbval.plugin.find_comment_markers = lambda source: []  # ignore commands in comments
            nbval.plugin.nbformat = type("Memory", (), {"read": lambda *a, **k: notebook})
            for item in super().collect():
                item.compare_outputs = self._comparison(item)
                item.output_timeout = 10 + job["cell_seconds"]  # time to end after an interrupt
                yield item

        @staticmethod
        def _comparison(item: Any) -> Any:
            def compare(test: list[Any], ref: list[Any], skip_compare: Any = None) -> bool:
                item.comparison_traceback = []
                mark = job["marks"].get(item.cell.id, "")
                return same_output(printed(ref), spoken(printed(test), mark))

            return compare

        def setup(self) -> None:
            self.kernel = Kernel()

    class Plugin:
        def pytest_collect_file(self, file_path: Path, parent: Any) -> Any:
            if file_path.suffix == ".graded":
                return Submission.from_parent(parent, path=file_path)
            return None

        @pytest.hookimpl(tryfirst=True)
        def pytest_runtest_setup(self, item: Any) -> None:
            # after a time-out nbval 0.11 would fail all later cells; they get their own result
            item.parent.timed_out = False
            if item.parent.kernel is not None:
                item.parent.kernel.begin_cell()

        @pytest.hookimpl(hookwrapper=True)
        def pytest_runtest_makereport(self, item: Any, call: Any) -> Iterator[Any]:
            outcome: Any = yield
            report = outcome.get_result()
            if report.when == "call" or report.failed:
                peak.look()
                mark = job["marks"].get(item.cell.id)
                emit(**_event(item, report, call, job["output"], mark))

    return Plugin()


def _listen(notes: BinaryIO, words: list[str], emit: Any, alive: Any) -> None:
    """Report each of the ``words`` once that the kernel's audit hook sends.

    The last word is reported if the hook sent anything else, or if the pipe was closed while the
    kernel was alive.
    """
    told: set[str] = set()

    def tell(word: str) -> None:
        if word not in told:
            told.add(word)
            emit(event="tried", word=word)

    while line := notes.readline(100):
        word = line.decode(errors="replace").strip()
        tell(word if word in words else words[-1])
    if alive():
        tell(words[-1])


def disk_use(folder: Path) -> int:
    """The approximate bytes that a folder takes; at most 20,000 folders are read."""
    total, todo = 0, [str(folder)]
    for _ in range(20_000):
        if not todo:
            break
        with contextlib.suppress(OSError), os.scandir(todo.pop()) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    total += max(entry.stat(follow_symlinks=False).st_blocks * 512, 512)
                    if entry.is_dir(follow_symlinks=False):
                        todo.append(entry.path)
    return total


def _event(item: Any, report: Any, call: Any, limit: int, mark: str | None) -> dict[str, Any]:
    """The report on one cell; for a hidden check, with a mark, only the text between its marks."""
    outputs = list(item.test_outputs or [])
    text = printed(outputs)
    if mark is not None:
        text = spoken(text, mark)
    error = next((out for out in outputs if out.get("output_type") == "error"), None)
    said = f"{error['ename']}: {error['evalue']}" if error else ""
    if call.excinfo is not None and not error:
        said = str(call.excinfo.value)
    timed_out = item.parent.timed_out
    kernel = item.parent.kernel
    return {
        "event": "cell",
        "cell": item.cell.id,
        "passed": report.passed,
        "error": "the time was up" if timed_out else said[:500],
        "text": text[:limit],
        "flood": kernel is not None and kernel.nbytes > limit,
        "seconds": round(call.duration, 3),
    }


if __name__ == "__main__":
    sys.path = [path for path in sys.path if Path(path or ".") != Path(__file__).parent]
    main()
