"""What an enemy behind the fence tries, as root and as an ordinary user, and what stays whole."""

import ctypes
import json
import os
import platform
import re
import resource
import select
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from ordinary import ordinary

from fltoolkit_grading import fence

psutil = pytest.importorskip("psutil")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the fence needs Linux")
WHO = ["root", "user"] if sys.platform == "linux" and os.geteuid() == 0 else ["user"]
PYTHON = [sys.executable, "-I", "-S", "-c"]
IO_URING, KEYCTL = 425, {"x86_64": 250}.get(platform.machine(), 219)

# every line of its output is one thing that worked; TARGET is a folder of the instructor's that can
# be read, VICTIM a process of the same user, PORT a server, NAME an abstract address
ENEMY = """
import ctypes, fcntl, json, mmap, os, resource, signal, socket, struct
TARGET, VICTIM, PORT, NAME, URING, KEYCTL = json.loads(os.read(0, 10_000))
c = ctypes.CDLL(None, use_errno=True)
file = os.path.join(TARGET, "grades.csv")
numbers = sorted({VICTIM, os.getppid()} - {0, 1, os.getpid()})
def attempt(name, act, *more):
    try:
        result = act(*more)
    except OSError:
        return
    if not (isinstance(result, int) and result < 0):
        print(name, flush=True)
print("begin", os.path.exists(file), flush=True)
attempt("chmod", os.chmod, file, 0o777)
attempt("chmod in C", c.chmod, file.encode(), 0o777)
attempt("utimes", os.utime, file, (1, 1))
attempt("setxattr", os.setxattr, file, "user.enemy", b"here")
attempt("rename", os.rename, file, file + "2")
attempt("unlink", os.unlink, file)
attempt("truncate", os.truncate, file, 0)
attempt("write", open, file, "a")
attempt("mknod", os.mknod, os.path.join(TARGET, "socket"), 0o140600)
for pid in numbers:
    one = (ctypes.c_ulong * 2)(1, 1)
    attempt("prlimit64", c.prlimit, pid, 0, ctypes.byref(one), None)
    attempt("sched_setaffinity", os.sched_setaffinity, pid, {0})
    attempt("setpriority", os.setpriority, os.PRIO_PROCESS, pid, 19)
    attempt("kill", os.kill, pid, 9)
    attempt("pidfd_open", c.syscall, 434, pid, 0)
    attempt("memory", open, f"/proc/{pid}/mem", "rb")
    a, b = socket.socketpair()
    attempt("FIOSETOWN", fcntl.ioctl, a, 0x8901, struct.pack("i", pid))
    attempt("F_SETOWN", fcntl.fcntl, a, fcntl.F_SETOWN, pid)
try:
    os.setpriority(os.PRIO_USER, os.getuid(), 10)  # its own processes only
except OSError:
    pass
attempt("connect", socket.create_connection, ("127.0.0.1", PORT), 1)
attempt("abstract", socket.socket(socket.AF_UNIX).connect, "\\0" + NAME)
for family in (16, 17, 38, 40):  # netlink, packets, cryptography, and the host of a virtual machine
    attempt(f"socket {family}", c.socket, family, 1, 0)
shared = os.open(file, os.O_RDONLY)  # what two fences see of each other at one file
for command in (5, 36):
    attempt(f"lock {command}", fcntl.fcntl, shared, command, struct.pack("hhqqi4x", 0, 0, 0, 0, 0))
for command in (6, 7, 37, 38):  # they seem to work and do nothing: Linux would refuse type 99
    fcntl.fcntl(shared, command, struct.pack("hhqqi4x", 99, 0, 0, 0, 0))
for number in range(2):  # the second one would fail
    fcntl.flock(os.open(file, os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)
attempt("notices", fcntl.fcntl, shared, fcntl.F_NOTIFY, 0)
attempt("time of a device", os.utime, "/dev/null")
attempt("time of a device in C", c.utimes, b"/dev/null", None)
attempt("inotify", c.inotify_init1, 0)
attempt("fanotify", c.fanotify_init, 0, 0)
attempt("io_uring", c.syscall, URING, 4, ctypes.create_string_buffer(200))
attempt("session keys", c.syscall, KEYCTL, 0, -3, 0)
attempt("log", c.klogctl, 3, ctypes.create_string_buffer(99), 99)
attempt("memory in a file", os.memfd_create, "x")  # this and what follows would be nobody's
attempt("secret memory", c.syscall, 447, 0)
for name in ("shmget", "semget", "msgget"):
    attempt(name, getattr(c, name), 0, 0o1600, 0o1600)
attempt("shared memory", mmap.mmap, -1, 1 << 16)
attempt("memory of a device", open, "/dev/zero", "rb")
mmap.mmap(-1, 1 << 16, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)  # its own
attempt("new namespace", c.unshare, 0x10000000)
# a file by its number: the root of the disk has number 2 on ext4, and from there any path goes on
by_handle = 304 if os.uname().machine == "x86_64" else 265
for place in ("/usr", "/", TARGET):
    for number in (2, 64, 128, 256):
        handle, mount = struct.pack("IiII", 8, 1, number, 0), os.open(place, os.O_RDONLY)
        attempt("file by its number", c.syscall, by_handle, mount, handle, 0)
attempt("mount", c.mount, b"tmpfs", b"/tmp", b"tmpfs", 0, None)
attempt("terminal", open, "/dev/tty", "w")
attempt("disk", os.open, "/dev/vda", os.O_RDONLY)
for place in ("/", "/dev", "/home", "/usr", "/etc", "/proc/sys/kernel", os.path.dirname(TARGET)):
    attempt(f"file in {place}", open, place + "/enemy", "w")
attempt("core_pattern", open, "/proc/sys/kernel/core_pattern", "w")
others = ("/tmp/" + NAME, "/dev/shm/" + NAME)
for secret in ("/etc/shadow", "/root/.bashrc", "/var", "/sys", "/run", *others):
    attempt(f"sees {secret}", os.stat, secret)
if set(os.environ) - {"PATH", "HOME", "TMPDIR", "LANG", "LC_CTYPE", "PWD"}:
    print("environment", sorted(os.environ))
if any(int(line.split()[1], 16) for line in open("/proc/self/status") if line.startswith("Cap")):
    print("capabilities")
pids = []
try:
    while len(pids) < 300:
        pids.append(os.fork())
        if pids[-1] == 0:
            signal.pause()
    print("forks")
except OSError:
    pass
for pid in pids:
    os.kill(pid, 9)
wrote, held = 0, []
for place in (".", "/tmp", "/dev/shm"):
    for number in range(100):
        try:
            held.append(open(f"{place}/{number}", "wb", buffering=0))
            os.unlink(held[-1].name)  # deleted, but still open
            while True:
                wrote += held[-1].write(bytes(1 << 16))
        except OSError as error:
            if error.errno == 28:
                break
if wrote > 2 << 20:
    print("filled", wrote)
try:
    bytearray(3 << 30)
    print("memory")
except MemoryError:
    pass
print("end", flush=True)
os.read(0, 1)  # until the grader has looked
"""

# the grader: it starts the enemy and says what the enemy could do
GRADER = """
import json, sys
from fltoolkit_grading import fence
code, about, target = json.load(sys.stdin)
bounds = fence.Bounds(memory=2 << 30, processes=64, space=2 << 20)
python = [sys.executable, "-I", "-S", "-c"]
enemy = fence.start([*python, code], bounds=bounds, readable=[target])
enemy.stdin.write(json.dumps(about).encode())
found = []
while line := enemy.stdout.readline():
    found.append(line.decode().strip())
    enemy.look()
    if found[-1] == "end":
        enemy.stdin.close()
enemy.process.wait()
print(json.dumps([found, enemy.stop(), enemy.memory, enemy.cpu_seconds]))
"""


@pytest.fixture
def target() -> Iterator[Path]:
    """A folder that every user can read, with a file whose mode and times can be compared."""
    folder = Path(tempfile.mkdtemp())  # not pytest's, which is closed: the fence alone must hold
    folder.chmod(0o755)
    (folder / "grades.csv").write_text("ana,11\n")
    yield folder
    shutil.rmtree(folder)


def with_a_secret_key() -> None:
    """Give this process a session of its own with a key in it, as a login does."""
    libc = ctypes.CDLL(None)
    libc.syscall(KEYCTL, 1, None)
    libc.syscall(KEYCTL - 2, b"user", b"secret", b"hidden", 6, -3)


@pytest.mark.parametrize("who", WHO)
def test_an_enemy_reaches_nothing(who, target):
    """Files, processes, keys and networks that belong to the user who grades."""
    if why := fence.missing():
        pytest.skip(why)
    python = [sys.executable, "-c"]
    as_who = (lambda *c: ordinary(*c, writable=str(target))) if who == "user" else lambda *c: [*c]
    command = as_who(*python, GRADER)
    victim = subprocess.Popen(as_who(*PYTHON, "import time; time.sleep(600)"))
    server, local = socket.create_server(("127.0.0.1", 0)), socket.socket(socket.AF_UNIX)
    name = f"fltoolkit-{os.getpid()}"
    local.bind(f"\0{name}")
    local.listen()
    server.settimeout(0)
    local.settimeout(0)
    shared = [Path(place, name) for place in ("/tmp", "/dev/shm")]
    for path in shared:
        path.touch()
    before = (target / "grades.csv").stat()
    process = psutil.Process(victim.pid)
    limits = resource.prlimit(victim.pid, resource.RLIMIT_CPU)
    kept = (process.nice(), process.cpu_affinity())
    about = [str(target), victim.pid, server.getsockname()[1], name, IO_URING, KEYCTL]
    done = subprocess.run(
        command,
        input=json.dumps([ENEMY, about, str(target)]),
        capture_output=True,
        text=True,
        env={**os.environ, "SECRET": "1"},
        preexec_fn=with_a_secret_key,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found, code, memory, seconds = json.loads(done.stdout)
    assert found == ["begin True", "end"]
    assert (code, memory > 0, seconds > 0) == (0, True, True)
    after = (target / "grades.csv").stat()
    for field in ("st_mode", "st_mtime_ns", "st_uid"):
        assert getattr(after, field) == getattr(before, field)
    assert os.listdir(target) == ["grades.csv"]
    assert (target / "grades.csv").read_text() == "ana,11\n"
    assert os.listxattr(target / "grades.csv") == []
    assert victim.poll() is None
    assert (process.nice(), process.cpu_affinity()) == kept
    assert resource.prlimit(victim.pid, resource.RLIMIT_CPU) == limits
    for each in (server, local):
        with pytest.raises(BlockingIOError):
            each.accept()
        each.close()
    for path in shared:
        path.unlink()
    victim.kill()
    victim.wait()


def fenced(code: str, **bounds: int) -> fence.Fenced:
    if why := fence.missing():
        pytest.skip(why)
    return fence.start([*PYTHON, code], bounds=fence.Bounds(**bounds))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "bounds", "excess"),
    [
        (
            "import os\nfor k in range(10**7): os.mknod(f's{k}', 0o140600)",
            {"files": 1000},
            "more than 1,000 files",
        ),
        (
            "import os, time\nfor _ in range(3): os.fork()\nx = bytearray(b'1') * (60 << 20)\n"
            "time.sleep(600)",
            {"memory": 300 << 20},
            "of memory",
        ),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)", {}, "stopped itself"),
        (
            "import socket, time\nx = [socket.socketpair() for _ in range(90)]\ntime.sleep(600)",
            {"sockets": 100},
            "more than 100 sockets",
        ),
        (
            "import os, signal\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\nwhile True:\n"
            "    if os.fork() == 0:\n        os._exit(sum(range(10**6)) > 0)",
            {"started": 50},
            "more than 50 processes",
        ),
    ],
    ids=["files", "memory of all", "stops", "sockets", "short lives"],
)
def test_what_exceeds_a_bound_is_seen(code, bounds, excess):
    program, until = fenced(code, **bounds), time.monotonic() + 600
    while not (found := program.look()):
        assert time.monotonic() < until, "nothing was found in 10 minutes"
        time.sleep(0.05)
    program.stop()
    assert excess in found


@pytest.mark.slow
def test_time_of_children_whose_end_is_ignored_is_counted():
    program = fenced(
        "import os, signal, time\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
        "for _ in range(2):\n    if os.fork() == 0:\n        while time.process_time() < .7: pass\n"
        "        time.sleep(1)\n        os._exit(0)\n    try:\n        os.wait()\n"
        "    except ChildProcessError: pass\nprint()"
    )
    while not select.select([program.stdout], [], [], 0.05)[0]:
        assert not program.look()
    assert program.stop() >= 0
    assert program.cpu_seconds > 1.3


def test_a_missing_fence_says_what_to_install(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert "sudo apt install bubblewrap" in fence.missing()
    with pytest.raises(ValueError, match="files=0: must be above 0"):
        fence.Bounds(files=0)
    monkeypatch.setattr(platform, "machine", lambda: "pdp11")
    assert "'pdp11'" in fence.missing()
    monkeypatch.setattr(sys, "platform", "darwin")
    for word in ("WSL2", "Codespace", "dev container"):
        assert word in fence.missing()
    with pytest.raises(OSError, match="WSL2"):
        fence.start(["true"])


def test_a_fence_that_this_machine_refuses_says_why(monkeypatch):
    """As in a container, or in Ubuntu 24.04 as it is installed."""
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed (apt install bubblewrap)")
    fence._trial.cache_clear()
    monkeypatch.setattr(fence, "_command", lambda *_: ["bwrap", "--no-such-option"])
    try:
        why = fence.missing()
    finally:
        fence._trial.cache_clear()
    for words in ("Unknown option --no-such-option", "apparmor_restrict", "0.8 or newer"):
        assert words in why


@pytest.mark.parametrize("machine", sorted(fence._MACHINES))
def test_every_jump_of_the_filter_stays_inside(machine):
    """The machines that are not here, too."""
    code = fence._program(machine)
    lines = [code[k : k + 8] for k in range(0, len(code), 8)]
    for place, line in enumerate(lines):
        if line[0] in (0x15, 0x35):
            assert place + 1 + max(line[2], line[3]) < len(lines)
    assert lines[-1][0] == 0x06


def test_the_numbers_of_calls_are_linuxs_own():
    headers = {
        "x86_64": "/usr/include/x86_64-linux-gnu/asm/unistd_64.h",
        "aarch64": "/usr/include/asm-generic/unistd.h",
    }
    for machine, path in headers.items():
        if not Path(path).exists():
            pytest.skip(f"{path} is not here (apt install linux-libc-dev)")
        text = Path(path).read_text()
        names = "socket fcntl mmap keyctl add_key request_key flock inotify_init1 fanotify_init"
        names += " utimensat syslog memfd_create memfd_secret shmget semget msgget io_setup"
        names += " inotify_init futimesat utimes utime" * (machine == "x86_64")
        for name, number in zip(names.split(), fence._MACHINES[machine][1:], strict=True):
            assert re.search(rf"#define __NR(3264)?_{name} {number}\n", text)
        assert f"#define __NR_io_uring_setup {fence._IO_URING}\n" in text


def test_packages_are_covered_by_every_path_to_them(tmp_path, monkeypatch):
    """As where a virtual environment is a link."""
    if why := fence.missing():
        pytest.skip(why)
    (tmp_path / "link").symlink_to(sys.prefix)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "link"))
    roots = [tmp_path / "link", os.path.realpath(sys.prefix), "", "/usr", "/usr/local"]
    places = [f"{root}/lib*/python3*/*-packages/*" for root in roots]
    code = f"import glob; print(*sum(map(glob.glob, {places}), []), sep='\\n')"
    program = fence.start([*PYTHON, code], packages=["numpy"])
    found = program.stdout.read().decode().splitlines()
    assert {os.path.basename(path) for path in found} <= {"numpy"}
    assert any(path.startswith(str(tmp_path)) for path in found)
    assert fence.start([*PYTHON, code]).stdout.read().count(b"-packages/") > len(found)
    program.stop()


def test_a_hidden_file_cannot_be_read_by_any_path_to_it(tmp_path):
    if why := fence.missing():
        pytest.skip(why)
    (folder := tmp_path / "folder").mkdir()
    for name in ("secret", "other"):
        (folder / name).write_text(name)
    (tmp_path / "link").symlink_to(folder)
    ways = [str(folder), str(tmp_path / "link")]
    code = f"""
for way in {ways}:
    for name in ("other", "secret"):
        try:
            print(open(way + "/" + name).read())
        except PermissionError:
            print("hidden")
"""
    program = fence.start([*PYTHON, code], readable=ways, hidden=[str(folder / "secret")])
    assert program.stdout.read().decode().split() == ["other", "hidden"] * 2
    program.stop()


def test_packages_of_other_environments_are_covered(tmp_path, monkeypatch):
    """Below conda's folder, and below that of pyenv, which can hold the running environment."""
    mine, other, store = (tmp_path / name for name in ("envs/mine", "envs/torch", "pkgs"))
    for folder in (mine / "lib/python3.1/site-packages", store, other):
        (folder / "torch" / "data").mkdir(parents=True)
    ours = tmp_path / "lib/python3.1/site-packages/fltoolkit"
    for folder in (ours, mine / "lib/python3.1/site-packages/fltoolkit"):
        folder.mkdir(parents=True)
    monkeypatch.setattr(fence, "always_readable", lambda: [str(tmp_path), str(mine)])
    view = fence._few_packages(["torch", os.path.realpath(ours)])
    covered = {path for option, path in pairwise(view) if option == "--tmpfs"}
    packages = {str(folder / "lib/python3.1/site-packages") for folder in (mine, tmp_path)}
    assert covered == {*packages, str(store), str(other)}
    shown = [path for option, path in pairwise(view) if option == "--ro-bind"]
    assert {*shown} == {str(mine / "lib/python3.1/site-packages/torch"), str(ours)}
    assert "--ro-bind" not in fence._few_packages([])


def test_each_link_that_leads_to_python_is_readable(tmp_path, monkeypatch):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to("../other")
    (tmp_path / "other").symlink_to(os.path.realpath(sys.executable))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python"))
    assert str(tmp_path / "other") in fence.always_readable()
    assert str(tmp_path) not in fence.always_readable()


def test_of_a_checkout_only_packages_are_readable():
    """The masters lie beside them."""
    ours = {os.path.realpath(path) for path in fence.packages()}
    root = Path(fence.__file__).parents[1]
    assert ours == {str(path.parent.resolve()) for path in root.glob("fltoolkit*/__init__.py")}


def test_only_what_is_needed_is_readable():
    paths = fence.always_readable()
    assert not {"/", "/etc", "/home", "/root", "/tmp", "/var", str(Path.home())} & {*paths}
    assert all(stat.S_ISDIR(os.stat(p).st_mode) or "/etc/" in p for p in paths if os.path.exists(p))
