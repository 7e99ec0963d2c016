"""A fence around another program: it may compute, and talk through its standard input and output.

bubblewrap makes the fence: namespaces of its own (user, processes, network, IPC, host name,
cgroup), a machine that it can only read, and of that only the system and Python, one small disk in
memory, and no capability. Nothing here knows what the program does.

A filter of system calls refuses what is outside of all namespaces: the keys of the session that
started the program, sockets to the machine that hosts a virtual machine, the kernel's log, and by
what two programs see each other at a file or device of both (locks, leases, notices, times). It
also refuses memory that belongs to no process, which nobody would count, and io_uring, which can
make sockets. docs/security.md says what the fence stops, and what not.
"""

import functools
import importlib.util
import os
import platform
import re
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from fnmatch import translate
from itertools import pairwise
from pathlib import Path
from typing import Any

import fltoolkit

__all__ = ["HOME", "Bounds", "packages", "start"]

psutil: Any = importlib.import_module("psutil") if importlib.util.find_spec("psutil") else None
HOME = "/home/fenced"  # the disk in memory: the only place in which a fenced program can write
NOBODY = 65534  # the user that a fenced program has inside, and outside if root starts it
# files below /etc that Python, torch and matplotlib read; others may hold keys and passwords
_ETC = (
    "ld.so.cache ld.so.conf ld.so.conf.d alternatives "  # shared libraries
    "passwd group nsswitch.conf host.conf hosts resolv.conf services "
    "localtime timezone locale.alias locale.conf os-release mime.types fonts "
    "ssl/openssl.cnf ssl/cert.pem ssl/certs crypto-policies "
    "pki/tls/openssl.cnf pki/tls/certs pki/ca-trust/extracted "
    f"ipython python{sys.version_info.major}.{sys.version_info.minor}"
)
_SYSTEM = ("/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin", "/nix/store")
_DEVICES = ("null", "full", "random", "urandom")  # no disks, no terminals, no memory
# the kernel's number of an architecture, and its numbers of: socket, fcntl, mmap, and what is
# refused: keyctl, add_key, request_key, flock, inotify_init1, fanotify_init, utimensat, syslog,
# memfd_create, memfd_secret, shmget, semget, msgget, io_setup, and on x86-64 the older
# inotify_init, futimesat, utimes, utime
_MACHINES = {
    "x86_64": (
        *(0xC000003E, 41, 72, 9, 250, 248, 249, 73, 294, 300, 280, 103),
        *(319, 447, 29, 64, 68, 206, 253, 261, 235, 132),
    ),
    "aarch64": (
        *(0xC00000B7, 198, 25, 222, 219, 217, 218, 32, 26, 262, 88, 116),
        *(279, 447, 194, 190, 186, 0),
    ),
}
# commands of fcntl by which two programs see each other at a file or a device of both, and those
# of them that lock, with flock above: these seem to work and do nothing, since SQLite needs them
_SEEN, _LOCKS = (5, 36, *range(1024, 1027), 6, 7, 37, 38), (6, 7, 37, 38, 73, 32)
_IO_URING = 425  # its number on both
_FAMILIES = (1, 2, 10)  # sockets on this machine, IPv4, IPv6: a network namespace holds all three
_INSTALL = (
    "Debian, Ubuntu, WSL2: sudo apt install bubblewrap; Fedora: sudo dnf install bubblewrap; "
    "Arch: sudo pacman -S bubblewrap"
)
_ELSEWHERE = (
    "Windows: use WSL2 (wsl --install -d Ubuntu-24.04) and install bubblewrap in it. Windows and "
    "macOS: open the repository in a GitHub Codespace, or in its dev container; both have it"
)
_REFUSED = (
    "It needs bubblewrap 0.8 or newer and user namespaces. Ubuntu 24.04 allows them after: sudo "
    "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0. A container allows them with: "
    "docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined "
    "--security-opt systempaths=unconfined"
)


@dataclass(frozen=True)
class Bounds:
    """What a fenced program may use."""

    memory: int = 4 << 30  # bytes: of addresses per process, and resident of all together
    processes: int = 128  # processes and threads
    space: int = 64 << 20  # bytes of all its files together
    file_size: int = 16 << 20  # bytes of one file
    # what follows is counted whenever `Fenced.look` is called
    files: int = 20_000  # files and folders
    sockets: int = 1000  # each can hold 400 KB that belong to no process
    started: int = 5000  # processes that were seen, one after another; of each, the end is not

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if not (isinstance(value, bool) or value > 0):  # a subclass may have a switch
                raise ValueError(f"{name}={value}: must be above 0")


class Fenced:
    """A program that `start` has started. Its standard input and output are pipes of bytes."""

    def __init__(self, process: subprocess.Popen[bytes], bounds: Bounds):
        assert process.stdin is not None
        assert process.stdout is not None
        self.process, self.stdin, self.stdout = process, process.stdin, process.stdout
        self.bounds, self.cpu_seconds, self.memory, self.waited = bounds, 0.0, 0, 0.0
        self._seen: dict[int, float] = {}  # processor time of each process, when last seen

    def look(self) -> str:
        """Measure ``cpu_seconds`` and ``memory`` (the largest so far, bytes), of all its processes.

        ``waited`` is for how many seconds one of them wanted a processor that others had. Returns
        what it must not do, such as to exceed a bound, or an empty text. Call it twice per second.
        """
        seconds, memory, excess = 0.0, 0, ""
        for process in self._processes():
            with suppress(psutil.Error, OSError), process.oneshot():
                if process.status() == psutil.STATUS_STOPPED:
                    excess = "a process that stopped itself"
                times, place = process.cpu_times(), Path(f"/proc/{process.pid}")
                self._seen[process.pid] = times.user + times.system
                seconds += times.user + times.system + times.children_user + times.children_system
                memory += process.memory_info().rss
                disk = os.statvfs(f"{place}/root{HOME}")  # an error outside of the fence
                if disk.f_files - disk.f_ffree > self.bounds.files:
                    excess = f"more than {self.bounds.files:,} files"
                if int((place / "net/sockstat").read_text().split()[2]) > self.bounds.sockets:
                    excess = f"more than {self.bounds.sockets:,} sockets"
                waited = int((place / "schedstat").read_text().split()[1]) / 1e9
                self.waited = max(self.waited, waited)
        if len(self._seen) > self.bounds.started:
            excess = f"more than {self.bounds.started:,} processes"
        if memory > self.bounds.memory:  # what processes share was counted for each of them
            memory = 0
            for process in self._processes():
                with suppress(psutil.Error):
                    about = process.memory_full_info()
                    memory += getattr(about, "pss", about.uss)
        # of a child whose end was ignored, Linux adds the time to nobody's
        self.cpu_seconds = max(self.cpu_seconds, seconds, sum(self._seen.values()))
        self.memory = max(self.memory, memory)
        if memory > self.bounds.memory:
            excess = f"more than {self.bounds.memory / 2**30:g} GiB of memory"
        return excess

    def stop(self) -> int:
        """End all its processes; returns the exit code, above 128 after a signal."""
        found = self._processes()
        for process in found:  # among them the first one of its namespace, with which all end
            with suppress(psutil.Error):
                process.kill()
        code = self.process.wait()
        self.stdin.close()
        self.stdout.close()
        return 128 - code if code < 0 else code

    def _processes(self) -> list[Any]:
        with suppress(psutil.Error):
            own = psutil.Process(self.process.pid)
            return [own, *own.children(recursive=True)]
        return []


def missing() -> str:
    """Why there can be no fence on this machine and what to do; an empty text if there can be."""
    if sys.platform != "linux":
        return f"A fence needs Linux. {_ELSEWHERE}"
    if platform.machine() not in _MACHINES:
        known = ", ".join(_MACHINES)
        return f"bubblewrap is not used on {platform.machine()!r}, only on {known}"
    if shutil.which("bwrap") is None:
        return f"bubblewrap is not installed. {_INSTALL}"
    return _trial()


@functools.cache
def _trial() -> str:
    """What goes wrong if a fence is made, with what to do; or an empty text."""
    with _filter() as seccomp:
        command = _command(["true"], Bounds(), (), seccomp)
        done = subprocess.run(command, capture_output=True, text=True, pass_fds=[seccomp])
    if done.returncode == 0:
        return ""
    last = (done.stderr.strip() or f"it ended with {done.returncode}").splitlines()[-1]
    return f"bubblewrap makes no fence here: {last}. {_REFUSED}"


def always_readable() -> list[str]:
    """What every fenced program can read: files of the system, this Python and its packages."""
    python = [sys.prefix, sys.base_prefix, sys.exec_prefix, str(Path(sys.executable).parent)]
    python += [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    python += [os.path.realpath(sys.prefix), os.path.realpath(sys.base_prefix)]
    step = sys.executable
    while os.path.islink(step):  # Python 3.10's, in an environment made from another one's Python
        step = os.path.normpath(os.path.join(os.path.dirname(step), os.readlink(step)))
        python += [] if any(Path(step).is_relative_to(each) for each in python) else [step]
    found = [*_SYSTEM, *(f"/etc/{name}" for name in _ETC.split()), *python]
    return list(dict.fromkeys(path for path in found if path and path != "/"))


def packages() -> list[str]:
    """The folders of this project's import packages, which a fenced program may read.

    Never the folder around them: in a checkout that is the repository, where the masters of the
    assignments and the records of the contest lie.

    >>> [Path(folder).name for folder in packages()][0]
    'fltoolkit'
    """
    homes = {Path(file).parents[1]: None for file in (fltoolkit.__file__, __file__)}
    marks = [mark for home in homes for mark in home.glob("fltoolkit*/py.typed")]
    return sorted(str(mark.parent) for mark in marks)


def import_path() -> str:
    """PYTHONPATH for a fenced Python that is to import `packages`."""
    return os.pathsep.join(dict.fromkeys(os.path.dirname(folder) for folder in packages()))


def start(
    command: Sequence[str],
    *,
    bounds: Bounds = Bounds(),
    readable: Sequence[str] = (),
    packages: Sequence[str] | None = None,
    hidden: Sequence[str] = (),
    environment: dict[str, str] | None = None,
    without_fence: str = "",
) -> Fenced:
    """Start a program behind a fence; raises OSError with what to do if there can be none.

    The program ends with the thread that called this function.

    Args:
        command: the program and its arguments; `HOME` is its working folder.
        bounds: see `Bounds`.
        readable: files and folders that it may read, besides `always_readable`.
        packages: patterns of the installed packages that it may read, such as ``numpy*``, or the
            real paths of some; None for all. Packages can hold data sets and trained models.
        hidden: files in readable folders that it cannot open.
        environment: variables in addition to PATH, HOME, TMPDIR and LANG; nothing is inherited.
        without_fence: a folder. If given, there is no fence, and the program works in this folder
            as the user who called; memory is measured all the same. For programs that one trusts.

    >>> program = start(["cat"], without_fence="/")
    >>> program.stdin.write(b"hello"), program.stdin.close(), program.stdout.read()
    (5, None, b'hello')
    >>> program.process.wait(), program.stop()
    (0, 0)
    """
    home = without_fence or HOME
    variables = {"PATH": os.defpath, "HOME": home, "TMPDIR": home, "LANG": "C.UTF-8"}
    variables |= environment or {}
    about: dict[str, Any] = {"env": variables, "start_new_session": True, "bufsize": 0}
    about |= {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    if psutil is None:
        raise ImportError('a fence needs psutil: pip install "fltoolkit[grading]"')
    if without_fence:
        return Fenced(subprocess.Popen(command, cwd=home, **about), bounds)
    if why := missing():
        raise OSError(why)
    with _filter() as seccomp:
        fenced = _command(command, bounds, readable, seccomp, packages, hidden)
        return Fenced(subprocess.Popen(fenced, pass_fds=[seccomp], **about), bounds)


def _few_packages(patterns: Sequence[str]) -> list[str]:
    """Arguments that cover each folder of packages with an empty one, with these packages in it.

    Of a link, as /lib is, a fenced program sees a folder: packages are covered under both paths.
    Conda's store of packages and other environments below the same folder are covered, too.
    """
    found, used = set(), [Path(path) for path in always_readable()]
    for root in used:
        folders = [root] if root.name.endswith("-packages") else []
        for place in ("", "lib*/", "local/lib*/"):
            folders += root.glob(f"{place}python3*/*-packages")
        others = filter(Path.is_dir, [root / "pkgs", *root.glob("envs/*")])
        folders += [p for p in others if not any(each.is_relative_to(p) for each in used)]
        for folder in folders:
            real = os.path.realpath(folder)
            found.add(real)
            below = os.path.join(os.path.realpath(root), folder.relative_to(root))
            if real == os.path.normpath(below):  # a link below the root leads to what is covered
                found.add(str(folder))
    view, wanted = [], re.compile("|".join(map(translate, patterns)) or "(?!)").match
    for each in sorted(path for path in found if os.path.isdir(path)):
        view += ["--tmpfs", each]
        real = os.path.realpath(each)  # of a thousand packages, only links are looked up
        for entry in os.scandir(each) if each.endswith("-packages") else ():
            path = os.path.realpath(entry) if entry.is_symlink() else f"{real}/{entry.name}"
            if wanted(entry.name) or path in patterns:
                view += ["--ro-bind", entry.path, entry.path]
        view += ["--remount-ro", each]
    return view


def _covered(view: Sequence[str], hidden: Sequence[str]) -> list[str]:
    """Arguments that put a device over these files, which no fenced program can open.

    They are put at each path by which the view shows the files.
    """
    places: dict[str, None] = {}
    for option, shown in pairwise(view):
        if option.startswith("--ro-bind"):
            for file in map(os.path.realpath, hidden):
                if Path(file).is_relative_to(inside := os.path.realpath(shown)):
                    places[os.path.join(shown, os.path.relpath(file, inside))] = None
    return [each for place in places for each in ("--ro-bind", "/dev/null", place)]


def _command(
    command: Sequence[str],
    bounds: Bounds,
    readable: Sequence[str],
    seccomp: int,
    packages: Sequence[str] | None = None,
    hidden: Sequence[str] = (),
) -> list[str]:
    """The command with bubblewrap in front of it."""
    bwrap = shutil.which("bwrap") or "bwrap"
    paths = [*always_readable(), *readable]
    view = []
    above = {str(folder) for path in paths for folder in Path(path).parents} - {"/"}
    for folder in sorted(above):
        view += ["--perms", "0755", "--dir", folder]  # a closed folder, as /root, is open there
    for path in paths:
        view += ["--ro-bind-try", path, path]
    view += [] if packages is None else _few_packages(packages)
    view += _covered(view, hidden)
    fence = [bwrap, "--unshare-all", "--unshare-user", "--disable-userns", "--new-session"]
    fence += ["--die-with-parent", "--seccomp", str(seccomp)]
    fence += ["--uid", str(NOBODY), "--gid", str(NOBODY), "--hostname", "fenced", *view]
    fence += ["--proc", "/proc", "--size", str(bounds.space), "--tmpfs", HOME]
    for device in _DEVICES:
        fence += ["--dev-bind", f"/dev/{device}", f"/dev/{device}"]
    for place in {"/tmp", "/dev/shm"} - above:  # both are on the one disk
        fence += ["--dir", f"{HOME}/.{Path(place).name}"]
        fence += ["--symlink", f"{HOME}/.{Path(place).name}", place]
    fence += ["--symlink", "/proc/self/fd", "/dev/fd", "--remount-ro", "/", "--chdir", HOME, "--"]
    tasks = bounds.processes + (_tasks_of_user() if os.getuid() else 0)
    limits = [f"--as={bounds.memory}", f"--fsize={bounds.file_size}", f"--nproc={tasks}"]
    fence += ["prlimit", *limits, "--nofile=256", "--core=0", "--"]
    if os.getuid() != 0:
        return [*fence, *command]
    # root may run any number of processes. So root makes a view in which others can read a Python
    # in root's home, and becomes nobody there, in a namespace whose processes end together
    first = [bwrap, "--die-with-parent", "--unshare-pid", *view, "--dev-bind", "/dev", "/dev"]
    become = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    return [*first, "--bind", "/proc", "/proc", "--dir", "/tmp", "--", *become, *fence, *command]


def _tasks_of_user() -> int:
    """The number of threads that this user already runs, since the limit counts them too."""
    count = 0
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if entry.stat().st_uid == os.getuid():
                count += len(os.listdir(entry / "task"))
    return count


@contextmanager
def _filter() -> Iterator[int]:
    """A file that holds the filter of system calls, for bubblewrap's ``--seccomp``."""
    number = os.memfd_create("filter")
    try:
        os.write(number, _program(platform.machine()))
        os.lseek(number, 0, os.SEEK_SET)
        yield number
    finally:
        os.close(number)


def _program(machine: str) -> bytes:
    """The filter: instructions of 8 bytes (code, jump if true, jump if false, constant).

    Source: the documentation of Linux, userspace-api/seccomp_filter.
    """
    load, equal, at_least, answer = 0x20, 0x15, 0x35, 0x06
    refuse = (answer, 0, 0, 0x00050001)  # "operation not permitted"
    allow, pretend = (answer, 0, 0, 0x7FFF0000), (answer, 0, 0, 0x00050000)
    architecture, socket, fcntl, mmap, *refused = _MACHINES[machine]
    lines = [(load, 0, 0, 4), (equal, 1, 0, architecture), refuse, (load, 0, 0, 0)]
    # on x86-64, numbers with bit 30 are other ways to the same calls
    lines += [(at_least, 0, 1, 0x40000000), refuse]
    for call in (*refused, _IO_URING):
        lines += [(equal, 0, 1, call), pretend if call in _LOCKS else refuse]
    # memory that stays while no process shows it: shared and of no file. 40: flags, 0x54: and
    lines += [(equal, 0, 5, mmap), (load, 0, 0, 40), (0x54, 0, 0, 0x2F), (equal, 0, 1, 0x21)]
    lines += [refuse, allow]
    lines += [(equal, 0, 2 * len(_SEEN) + 2, fcntl), (load, 0, 0, 24)]  # 24: the command
    for command in _SEEN:
        lines += [(equal, 0, 1, command), pretend if command in _LOCKS else refuse]
    lines += [allow]
    lines += [(equal, 1, 0, socket), allow, (load, 0, 0, 16)]  # 16: the family of a socket
    for family in _FAMILIES:
        lines += [(equal, 0, 1, family), allow]
    return b"".join(struct.pack("HBBI", *line) for line in [*lines, refuse])
