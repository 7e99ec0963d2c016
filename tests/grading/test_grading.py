"""One batch with every honest and hostile submission, graded once; the tests read what came out."""

import contextlib
import csv
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from hostile import PLAIN, REAL, Desk, plain, saved
from hostile_others import OTHERS, together

from fltoolkit_grading import cli, fence, gradebook, grading
from fltoolkit_grading.grading import AGAIN, Limits, grade
from fltoolkit_grading.kernel import frame
from fltoolkit_grading.master import _seed_of, load_master

worker = pytest.importorskip("fltoolkit_grading.worker")

MASTER = Path(__file__).parents[2] / "notebooks" / "assignments" / "1_splitnn_by_hand.ipynb"
CASES = REAL | PLAIN | OTHERS
FENCED = pytest.mark.skipif(bool(fence.missing()), reason=fence.missing())


def slow_and_fenced(test):
    return pytest.mark.slow(FENCED(test))


@pytest.fixture(scope="session")
def master():
    return load_master(MASTER)


@pytest.fixture(scope="session")
def listener() -> Iterator[socket.socket]:
    """A server on this machine, which can be read from once somebody has called."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def contents(folder: Path) -> dict[str, tuple[object, ...]]:
    """What can be changed of each file: content, mode, time of change, attributes."""
    return {
        path.name: (path.read_bytes(), path.stat().st_mode, path.stat().st_mtime_ns)
        for path in folder.iterdir()
        if path.is_file()
    }


@pytest.fixture(scope="session")
def batch(master, listener, tmp_path_factory):
    """All cases, handed in for one of three masters and graded two at a time."""
    top = Path(tempfile.mkdtemp())  # not pytest's, which is closed: the fence alone must hold
    top.chmod(0o755)
    runs = tempfile.mkdtemp()  # short, since a socket's path must be
    os.chmod(runs, 0o711)
    Path(runs, "conftest.py").write_text("open(__file__ + '.run', 'w')")  # by anybody, as in /tmp
    all_out, found, before, outs = tmp_path_factory.mktemp("grades"), {}, {}, {}
    before_that = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as in the background of a script
    masters = ((master, REAL, 4), (plain(master), PLAIN, 2), (together(), OTHERS, 4))
    for each, cases, seconds in masters:
        folder, out = top / each.name, all_out / each.name
        folder.mkdir()
        desk = Desk(each, folder, listener.getsockname()[1])
        for name, case in cases.items():
            content = case.make(desk)
            if content is not None:
                (folder / f"{name}.ipynb").write_bytes(content)
        before[folder] = contents(folder)
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            patch.setattr(tempfile, "tempdir", runs)
            patch.setattr(grading, "PATIENCE", 50)  # others may keep this machine busy
            results = grade(folder, each, out, jobs=2, limits=Limits(cell_seconds=seconds))
        gradebook.write(each, results, out)
        found |= {result.student: result for result in results}
        outs |= dict.fromkeys(cases, out)
    signal.signal(signal.SIGINT, before_that)
    left = os.listdir(runs)
    shutil.rmtree(runs, ignore_errors=True)
    yield SimpleNamespace(results=found, before=before, outs=outs, left=left)
    subprocess.run(["rm", "-rf", "--", top], check=True)  # a folder in it is too deep for Python


@slow_and_fenced
@pytest.mark.parametrize("name", CASES)
def test_points_and_name(batch, name):
    result = batch.results[name]
    assert result.total == CASES[name].points, result
    assert all(n in "; ".join([result.status, *result.notes]) for n in CASES[name].named), result


@slow_and_fenced
def test_everybody_is_in_the_gradebook(batch):
    rows = {}
    for out in {*batch.outs.values()}:
        with open(out / "gradebook.csv", newline="") as file:
            part = {row["student"]: row for row in csv.DictReader(file)}
        assert [*part] == sorted(part)
        rows |= part
    assert float(rows["honest"]["total"]) == 11
    assert batch.results["honest"].notes == ["not answered: a1-privacy"]
    assert batch.results["right"].notes == []  # nobody who is honest is accused
    assert float(rows["endless"]["a1-step-weights"]) == 0
    assert float(rows["endless"]["a1-epoch-bill-check"]) == 3
    assert rows["honest"]["a1-privacy"] == ""  # nobody has read it yet
    assert rows.keys() == CASES.keys()
    assert {rows[name]["maximum"] for name in REAL | PLAIN} == {"12"}


@slow_and_fenced
def test_nobody_left_the_room_and_the_secret_is_for_the_owner_only(batch, listener):
    for folder, before in batch.before.items():
        assert contents(folder) == before  # nothing was written, nothing unpickled
    assert not select.select([listener], [], [], 0)[0]
    assert batch.left == ["conftest.py"]  # and it was not run
    for out in batch.outs.values():
        for path in (out / "seed.json", *(out / "results").iterdir()):
            assert path.stat().st_mode & 0o077 == 0


@slow_and_fenced
def test_feedback_shows_no_hidden_check(batch, master):
    pages = {n: (out / "feedback" / f"{n}.html").read_text() for n, out in batch.outs.items()}
    for name, page in pages.items():
        assert "affordable_steps(b, batch, cut)" not in page, name
        assert "SEED %" not in page, name
        assert "(SEED, " not in page, name
        for check in master.ids("hidden"):
            seed = str(_seed_of(int(batch.results[name].key or "0", 16), check))
            assert seed not in page, name
        for note in ("worth a look", "handed in as", "ended (code"):
            assert note not in page, name
    assert "root:" not in pages["attacks"]
    hinted = ["Do both halves move" in pages[name] for name in ("edited", "endless", "stub")]
    assert hinted == [True, False, False]  # the others define nothing
    assert "attacks" in (batch.outs["attacks"] / "summary.html").read_text()


@pytest.mark.parametrize(
    ("expected", "got", "same"),
    [
        ("a 1", "a 1", True),
        ("a 1", "a 2", False),
        ("a 1", "a 1.0", False),
        ("1.00000000e+00", "1.00000001e+00", True),
        ("1.00000000e+00", "1.01e+00", False),
        ("1.0", "nan", False),
        ("1.0 2.0", "1.0", False),
        ("1.0", "1.0 2.0", False),
        ("a\nb", "a b", True),
        ("1e308", "1e999", False),
    ],
)
def test_what_counts_as_the_same(expected, got, same):
    assert worker.same_output(expected, got) is same


# ------------------------------------------------------------- the worker, without a real kernel
class Pretended:
    """A fenced program that does what a test says, ten times per second of a clock that it sets."""

    def __init__(self, act):
        self.act, self.cpu_seconds, self.memory, self.now, self.started = act, 0.0, 1, 0.0, False
        self.waited = 0.0
        (commands, stdin), (stdout, self.results) = os.pipe(), os.pipe()
        self.commands = os.fdopen(commands, "rb", 0)
        self.stdin, self.stdout = os.fdopen(stdin, "wb", 0), os.fdopen(stdout, "rb", 0)
        os.set_blocking(self.results, False)
        self.process = SimpleNamespace(wait=lambda seconds: None)

    def send(self, kind: bytes, text: str = "") -> None:
        os.write(self.results, frame(kind, text))

    def look(self) -> str:
        self.act(self)
        return ""

    def stop(self) -> int:
        return 0


@pytest.fixture
def pretend(monkeypatch):
    """Makes a worker's kernel of `Pretended`; its clock moves when there is nothing to read."""

    def make(act, source="x = 1"):
        program = Pretended(act)
        real = select.select

        def wait(reads, writes, other, seconds):
            found = real(reads, writes, other, 0)
            program.now += 0.0 if any(found) else seconds
            return found

        def start(command, **_):
            program.command = command
            return program

        monkeypatch.setattr(fence, "start", start)
        monkeypatch.setattr(worker, "time", SimpleNamespace(monotonic=lambda: program.now))
        monkeypatch.setattr(worker, "select", SimpleNamespace(select=wait))
        job = {"unfenced": False, "bounds": {}, "output": 1000, "patience": 5}
        job |= {"notebook": {"cells": [{"source": source}]}}
        job |= {"cell_seconds": 2.0, "total_seconds": 10.0, "start_seconds": 300.0}
        return program, worker.Kernel(job)

    return make


def ready(program: Pretended, after: float = 0.0) -> bool:
    if not program.started and program.now > after:
        program.started = True
        program.send(b"r")
        program.cell = program.now
    return program.started


def test_torch_is_imported_before_the_clock_begins_where_a_cell_names_it(pretend):
    for source, imports in (("import fltoolkit as flt", ["torch"]), ("print('torches')", [])):
        program, _ = pretend(ready, source)
        assert program.command[4:] == imports


def test_the_clock_begins_when_the_kernel_is_ready(pretend):
    """A kernel that takes four minutes to start, on a busy machine, costs nothing."""

    def act(program):
        if ready(program, after=240) and program.now > program.cell + 1:
            program.send(b"d", "0")

    program, kernel = pretend(act)
    number = kernel.execute_cell_input("x = 1")
    kernel.await_reply(number, 2.0)
    assert program.now > 240


@pytest.mark.parametrize(("slower", "waits"), [(9, False), (100, True)])
def test_waiting_for_a_processor_costs_nothing(pretend, slower, waits):
    """1 s of computing takes 9 s, where the limit is 2 s; or 100 s beside a hundred processes,
    ten times what code that sleeps may take.
    """

    def act(program):
        if ready(program):
            program.cpu_seconds = (program.now - program.cell) / slower
            program.waited = (program.now - program.cell) * 0.99 * waits
            if program.cpu_seconds >= 1:
                program.send(b"d", "0")

    program, kernel = pretend(act)
    kernel.await_reply(kernel.execute_cell_input("x = 1"), 2.0)
    assert program.now > slower - 1


def test_cells_that_ignore_their_end_end_together(pretend):
    """Each sleeps 20 s after it was interrupted; then no cell begins any more."""

    def act(program):
        if ready(program) and program.now > program.cell + 30:
            program.send(b"d", str(kernel.count - 1))

    program, kernel = pretend(act)

    def run_a_cell():
        number, program.cell = kernel.execute_cell_input("sleep"), program.now
        with contextlib.suppress(worker.queue.Empty):
            kernel.await_reply(number, 2.0)
        kernel.interrupt()

    with contextlib.suppress(worker.Ended):
        while program.now < 500:
            run_a_cell()
    assert kernel.ended == worker.TIME_UP
    assert program.now < 5 * (10 + worker.GRACE_SECONDS) + 1


@pytest.mark.parametrize(("speed", "seconds"), [(1.0, 2), (0.0, 10)], ids=["computes", "sleeps"])
def test_what_does_not_end_is_stopped(pretend, speed, seconds):
    """After its processor time, or five times as much real time; if it does not obey, for good."""

    def act(program):
        if ready(program):
            program.cpu_seconds = (program.now - program.cell) * speed

    program, kernel = pretend(act)
    number, began = kernel.execute_cell_input("while True: pass"), program.now
    with pytest.raises(worker.queue.Empty):
        kernel.await_reply(number, 2.0)
    assert seconds <= program.now - began < seconds + 1
    with pytest.raises(worker.Ended):
        kernel.interrupt()
    assert kernel.ended == worker.TIME_UP
    assert b"i\0\0\0\0" in program.commands.read(1000)


def test_all_that_a_kernel_can_send_is_bounded(pretend):
    """Output, an error, and a frame that says it is 8 MB long."""

    def act(program):
        if not ready(program) or program.now < program.cell:
            return
        for _ in range(20):
            program.send(b"o", "y" * 999)
        for _ in range(3000):
            program.send(b"o", "")
        program.send(b"e", "E" * 10_000)
        if program.now > 3:
            os.write(program.results, b"o" + (8 << 20).to_bytes(4, "little") + bytes(1000))

    _, kernel = pretend(act)
    number = kernel.execute_cell_input("x = 1")
    with pytest.raises(worker.Ended):
        kernel.await_reply(number, 10.0)
    assert kernel.ended == "it sent what no kernel sends"
    assert sum(map(len, kernel.output)) <= 1000 < kernel.kept
    assert len(kernel.output) <= 1000
    assert len(kernel.error) <= 500
    assert len(kernel.buffer) < 200_000


# ------------------------------------------------------------------------- what the grader says
@slow_and_fenced
def test_a_kernel_that_does_not_start_is_nobodys_fault(master, tmp_path, monkeypatch):
    """No points are taken, and the next run grades it again."""
    path = tmp_path / "ana.ipynb"
    path.write_bytes(saved(Desk(master, tmp_path, 1).honest()))
    monkeypatch.setattr(grading, "START_SECONDS", 0.01)
    result = grading.grade_one("ana", path, master, 1, dict.fromkeys(master.ids("hidden"), "x"))
    assert result.status.startswith(f"{AGAIN}: the kernel did not start: ")
    assert "not ready after" in result.status


def test_a_worker_that_ends_is_nobodys_fault(master, tmp_path, monkeypatch):
    path = tmp_path / "ana.ipynb"
    path.write_bytes(saved(Desk(master, tmp_path, 1).honest()))
    monkeypatch.setattr(sys, "executable", shutil.which("true"))
    monkeypatch.setattr(grading, "_idle", [])
    result = grading.grade_one("ana", path, master, 1, dict.fromkeys(master.ids("hidden"), "x"))
    assert result.status == f"{AGAIN}: the grader's process ended (is memory or disk space short?)"
    assert result.total == 0


def test_without_bubblewrap_the_instructor_learns_what_to_do(master, tmp_path, monkeypatch, capsys):
    path = tmp_path / "in" / "ana.ipynb"
    path.parent.mkdir()
    path.write_bytes(saved(Desk(master, tmp_path, 1).honest()))
    monkeypatch.setattr(fence, "missing", lambda: "bubblewrap is not installed. sudo apt install")
    out = tmp_path / "out"
    code = cli.main(["grade", str(path.parent), "--assignment", str(MASTER), "--out", str(out)])
    assert code == 2
    said = capsys.readouterr().err
    assert "sudo apt install" in said
    assert not out.exists()


@slow_and_fenced
def test_what_was_begun_ends_with_a_grader_that_was_killed(master, tmp_path):
    """SIGKILL leaves no time to clean up, and no worker and no kernel behind."""
    import psutil

    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "ana.ipynb").write_bytes(saved(Desk(master, tmp_path, 1).honest()))
    code = (
        "from fltoolkit_grading import grade\n"
        f"grade({str(folder)!r}, {str(MASTER)!r}, {str(tmp_path / 'out')!r})"
    )
    grader = subprocess.Popen([sys.executable, "-c", code])

    def is_kernel(process: psutil.Process) -> bool:
        try:
            return process.name() != "bwrap" and "fltoolkit_grading.kernel" in process.cmdline()
        except psutil.Error:
            return False

    found: list[psutil.Process] = []
    for _ in range(12_000):
        found = psutil.Process(grader.pid).children(recursive=True)
        if any(map(is_kernel, found)):
            break
        time.sleep(0.05)
    grader.kill()
    grader.wait()
    assert any(map(is_kernel, found)) or len(found) > 3
    _, alive = psutil.wait_procs(found, timeout=300)
    assert not alive
