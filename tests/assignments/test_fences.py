"""The single fences of the grader: system calls, a home of limited size, users, what is cleaned."""

import errno
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from fltoolkit.assignments import sandbox, seccomp, users
from fltoolkit.assignments.worker import disk_use

linux = pytest.mark.skipif(sys.platform != "linux", reason="these fences are Linux's")
filtered = pytest.mark.skipif(bool(seccomp.missing()), reason=f"seccomp: {seccomp.missing()}")
HEADERS = ("/usr/include/x86_64-linux-gnu/asm/unistd_64.h", "/usr/include/asm-generic/unistd.h")

_TRY = """
import ctypes, errno, os, socket, sys
sys.path.insert(0, {package!r})
import seccomp
libc = ctypes.CDLL(None, use_errno=True)
reads, notes = os.pipe()
other = os.fork()
if other == 0:
    os.read(reads, 1); os._exit(0)
assert seccomp.refuse(notes, os.getpid())
def call(number, *arguments):
    ctypes.set_errno(0)
    return libc.syscall(number, *arguments), errno.errorcode.get(ctypes.get_errno(), "")
column = seccomp.MACHINES[{machine!r}][1]
for name, numbers in seccomp.NUMBERS.items():
    if numbers[column] is not None:
        print(name, *call(numbers[column], 0, 0, 0, 0, 0))
for name, numbers in seccomp.OLDER.items():
    print(name, *call(numbers[column], 0, 0, 0))
print("younger", *call(999))
print("x32", *call(0x40000000 + 39))
print("kill other", *call(seccomp.WATCHED["kill"][column], other, 0))
print("kill all", *call(seccomp.WATCHED["kill"][column], -1, 0))
print("kill self", *call(seccomp.WATCHED["kill"][column], os.getpid(), 0))
print("close notes", *call(seccomp.WATCHED["close"][column], notes))
print("dup3 over notes", *call(seccomp.WATCHED["dup3"][column], 0, notes, 0))
print("dup3 elsewhere", call(seccomp.WATCHED["dup3"][column], 0, 99, 0)[1] or "fine")
print("new namespace", *call(seccomp.WATCHED["clone"][column], 0x10000000 | 17, 0, 0, 0, 0))
for family, kind in ((1, 2), (2, 2), (17, 3), (40, 1), (38, 5)):
    print("socket", family, kind, *call(seccomp.WATCHED["socket"][column], family, kind, 0))
for family in (1, 2, 10):
    print("stream", family, call(seccomp.WATCHED["socket"][column], family, 1, 0)[1] or "fine")
a, b = socket.socketpair()
a.send(b"x")
assert b.recv(1) == b"x"
assert seccomp.refuse_addresses()
a.send(b"y")
try:
    socket.socket(socket.AF_UNIX).bind("/tmp/never")
except PermissionError:
    print("bind refused")
os.write(notes, b"n" * 2)
os.waitpid(other, 0)
"""


@linux
@filtered
def test_refused_calls_are_refused_and_python_goes_on():
    package = str(Path(seccomp.__file__).parent)
    code = _TRY.format(package=package, machine=platform.machine())
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr
    said = dict(line.rsplit(" -1 ", 1) for line in done.stdout.splitlines() if " -1 " in line)
    for name in ("open_by_handle_at", "ptrace", "io_uring_setup", "mount", "connect", "unshare"):
        assert said[name] == "EPERM", done.stdout
    assert {n: said.get(n) for n in seccomp.NUMBERS if said.get(n, "EPERM") != "EPERM"} == {}
    unknown = ["clone3", "close_range", "younger"] + ["x32"] * (platform.machine() == "x86_64")
    assert {said[name] for name in unknown} == {"ENOSYS"}
    for name in ("kill other", "kill all", "close notes", "dup3 over notes", "new namespace"):
        assert said[name] == "EPERM", name
    assert [said[f"socket {n}"] for n in ("1 2", "2 2", "17 3", "40 1", "38 5")] == ["EPERM"] * 5
    for line in ("kill self 0", "dup3 elsewhere fine", "bind refused", "stream 1 fine"):
        assert line in done.stdout


@pytest.mark.parametrize("machine", seccomp.MACHINES)
def test_every_jump_of_the_filter_stays_inside(machine):
    """The machines that are not here, too: jumps, lengths, and an answer at each end."""
    lines = seccomp.program(machine, pid=1, notes=5)
    assert len(lines) < 4096  # what Linux takes
    for place, (code, yes, no, _) in enumerate(lines):
        if code in (0x15, 0x25, 0x45):
            assert place + 1 + max(yes, no) < len(lines)
    assert lines[-1][0] == 0x06
    numbers = [line[3] for line in lines if line[0] == 0x15]
    column = seccomp.MACHINES[machine][1]
    assert seccomp.NUMBERS["open_by_handle_at"][column] in numbers


@pytest.mark.parametrize("column", [0, 1], ids=["x86-64", "generic"])
def test_the_numbers_are_linuxs_own(column):
    path = Path(HEADERS[column])
    if not path.exists():
        pytest.skip(f"{path} is not here (apt install linux-libc-dev)")
    found = dict(re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", path.read_text()))
    for table in (seccomp.NUMBERS, seccomp.OLDER, seccomp.WATCHED):
        ours = {name: numbers[column] for name, numbers in table.items()}
        theirs = {name: int(found[name]) if name in found else None for name in ours}
        assert {n: v for n, v in ours.items() if theirs[n] not in (v, None)} == {}


def test_an_unknown_machine_is_told(monkeypatch):
    monkeypatch.setattr(platform, "machine", lambda: "pdp11")
    assert "'pdp11'" in seccomp.missing()
    assert not seccomp.refuse(5, 1)
    told = sandbox.fences()["calls"]
    assert told.startswith("no filter of system calls")


@linux
def test_a_user_is_nobodys(monkeypatch):
    """Names, running processes and other jobs' users are passed over."""
    psutil = pytest.importorskip("psutil")

    class Process:
        info = {"uids": (20_001, 20_001, 20_001), "gids": (20_002,)}  # noqa: RUF012

    drawn = iter([1, 2, 3, 4, 4, 5])
    monkeypatch.setattr(psutil, "process_iter", lambda *_: [Process()])
    monkeypatch.setattr(users.secrets, "randbelow", lambda _: next(drawn))
    monkeypatch.setattr(users, "_has_name", lambda user: user == 20_003)
    assert users.free_user() == 20_004  # 1 and 2 are running, 3 has a name
    assert users.free_user() == 20_005  # 4 is another job's
    monkeypatch.setattr(psutil, "process_iter", lambda *_: [])
    users.kill_user(20_004)
    users.kill_user(20_005)


@linux
def test_only_what_was_begun_later_is_ended(monkeypatch):
    psutil = pytest.importorskip("psutil")
    ended = []

    class Process:
        def __init__(self, born):
            self.info = {"uids": SimpleNamespace(real=7), "create_time": born}

        def kill(self):
            ended.append(self.info["create_time"])

    monkeypatch.setattr(psutil, "process_iter", lambda *_: [Process(50.0), Process(200.0)])
    users.kill_user(7, since=100.0)
    assert ended == [200.0]


def test_disk_use_counts_files_and_places(tmp_path):
    for number in range(10):
        (tmp_path / f"{number}").write_bytes(b"x" * 10_000)
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "deep").write_bytes(b"x" * 100_000)
    assert 200_000 <= disk_use(tmp_path) < 500_000
    assert disk_use(tmp_path / "none") == 0


@linux
@pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="mounting needs root")
def test_a_home_of_limited_size_and_a_way_through_a_closed_folder():
    """Deleted files that are still open count, and /closed/open can be reached by others."""
    place = Path(tempfile.mkdtemp())  # not pytest's, which is closed itself
    place.chmod(0o755)
    home, closed = place / "home", place / "closed"
    (closed / "open").mkdir(parents=True)
    (closed / "open" / "file").write_text("seen")
    (closed / "private").write_text("hidden")
    closed.chmod(0o700)
    home.mkdir()
    package = str(Path(seccomp.__file__).parent)
    code = f"""
import ctypes, os, sys
sys.path.insert(0, {package!r})
import mounts
if ctypes.CDLL(None).unshare(mounts.NEW_MOUNTS) or not mounts.leave():
    sys.exit(77)
mounts.open_the_way([{str(closed / "open")!r}])
assert mounts.limited_home({str(home)!r}, 1 << 20, 12345, 12345)
print(os.stat({str(closed)!r}).st_mode & 0o777, os.listdir({str(closed)!r}))
print(open({str(closed / "open" / "file")!r}).read())
f = open({str(home / "big")!r}, "wb", buffering=0)
os.unlink(f.name)
wrote = 0
try:
    while True:
        wrote += f.write(bytes(100_000))
except OSError as error:
    print(error.errno, wrote <= 1 << 20)
"""
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True)
    if done.returncode == 77:
        pytest.skip("this root may not have mounts of its own (a container?)")
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    assert said == [f"{0o755} ['open']", "seen", f"{errno.ENOSPC} True"]
    assert os.listdir(home) == []  # outside nothing was mounted
    assert (closed / "private").read_text() == "hidden"
    shutil.rmtree(place)
