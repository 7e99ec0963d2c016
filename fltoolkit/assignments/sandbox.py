"""Fences around the kernel process in which a student's code runs while it is graded.

Here: limits, a clean environment, Landlock and namespaces through the C library, and bubblewrap if
it is installed; with seccomp.py, mounts.py and audit.py. Not here: running the notebook
(worker.py). This file uses the standard library only, because the kernel starts it by its path,
before anything else is imported.

docs/security.md describes what each fence stops, and what no fence stops.
"""

import ctypes
import functools
import importlib.util
import json
import os
import platform
import re
import select
import shutil
import struct
import subprocess
import sys
import threading
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

__all__ = ["WORDS", "Limits", "clean_environment", "fences", "kernel_command"]

PACKAGE = Path(__file__).resolve().parent.parent
OWN_USER = "a user of its own"
# the words that an audit hook reports; the last one is about the pipe of reports itself
WORDS = ("network", "process", "write outside", "read outside", "signal", "silence or forge notes")
_CAPABILITIES = ("chown", "setuid", "setgid", "setpcap", "dac_read_search", "sys_admin")
# files below /etc that Python, torch and matplotlib read; others may hold keys and passwords
_ETC = (
    *("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives"),  # shared libraries
    *("passwd", "group", "nsswitch.conf", "host.conf", "hosts", "resolv.conf", "services"),
    *("localtime", "timezone", "locale.alias", "locale.conf", "os-release", "mime.types", "fonts"),
    *("ssl/openssl.cnf", "ssl/cert.pem", "ssl/certs", "crypto-policies"),
    *("pki/tls/openssl.cnf", "pki/tls/certs", "pki/ca-trust/extracted"),
    *("ipython", f"python{sys.version_info.major}.{sys.version_info.minor}"),
)
_DEVICES = ("null", "zero", "full", "random", "urandom", "shm")  # no disks, no terminals
_UNSHARE = ("--unshare-pid", "--unshare-net", "--unshare-ipc")
_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


@dataclass(frozen=True)
class Limits:
    """The limits for one submission.

    >>> Limits(cell_seconds=5).total_seconds
    300.0
    >>> Limits(memory=2**20)
    Traceback (most recent call last):
    ...
    ValueError: memory=1,048,576 bytes: torch does not start below 1 GiB
    """

    cell_seconds: float = 20.0  # processor time per cell, or five times as long in real time
    total_seconds: float = 300.0  # real time for the submission, with the start of the kernel
    memory: int = 4 << 30  # bytes of address space per process; torch alone maps about 1 GiB
    processes: int = 128  # processes and threads
    file_size: int = 16 << 20  # bytes per file written
    space: int = 64 << 20  # bytes of all its files together
    output: int = 1 << 20  # bytes of output kept per cell; the rest is dropped

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if not value > 0:
                raise ValueError(f"{name}={value}: a limit must be above 0")
        if self.memory < 1 << 30:
            raise ValueError(f"memory={self.memory:,} bytes: torch does not start below 1 GiB")


def fences(bubblewrap: bool = True) -> dict[str, str]:
    """The fences on this machine, by name; a value that begins with ``no`` is a missing fence.

    >>> sorted(fences())
    ['bubblewrap', 'calls', 'files', 'limits', 'network', 'space', 'user']
    """
    found = {"limits": "time, memory, processes, file size"}
    if sys.platform != "linux":
        return {
            **found,
            "bubblewrap": "no bubblewrap: Linux only",
            "calls": "no filter of system calls: Linux only",
            "files": "no fence but Python's own (audit hook)",
            "network": "no fence but Python's own (audit hook)",
            "space": "no limit of all files together, but a look at them twice a second",
            "user": "no user of its own",
        }
    command = _bwrap() if bubblewrap else None
    found["bubblewrap"] = (
        command or "no bubblewrap (apt install bubblewrap): others' processes are visible"
    )
    abi = _landlock_abi()
    found["files"] = f"Landlock {abi}" if abi > 0 else "bubblewrap" if command else "no Landlock"
    calls = _sibling("seccomp")
    why = calls.missing()
    found["calls"] = f"no filter of system calls: {why}" if why else f"{len(calls.NUMBERS)} refused"
    found["space"] = "a home of its own in memory"
    if not (command or _may_unshare()):
        found["space"] = "no limit of all files together, but a look at them twice a second"
    if command or _may_unshare():
        found["network"] = "namespace of its own"
    else:
        found["network"] = "Landlock: no TCP" if abi >= 4 else "no network fence but Python's own"
    if os.geteuid() != 0:
        found["user"] = "no user of its own: you do not run this as root"
    elif abi > 0 and _may_change_user():
        found["user"] = OWN_USER
    else:
        found["user"] = "no user of its own, and you are root: use an ordinary user or a container"
    return found


def clean_environment(home: Path) -> dict[str, str]:
    """The kernel's environment: nothing is inherited, and files are written to ``home``.

    >>> environment = clean_environment(Path("/tmp/home"))
    >>> environment["HOME"], "USER" in environment
    ('/tmp/home', False)
    """
    return {
        "PATH": os.defpath,
        "HOME": str(home),
        "TMPDIR": str(home),
        "IPYTHONDIR": str(home / ".ipython"),
        "JUPYTER_CONFIG_DIR": str(home / ".jupyter"),
        "MPLCONFIGDIR": str(home / ".matplotlib"),
        "LANG": "C.UTF-8",
        "MPLBACKEND": "agg",
        "OMP_NUM_THREADS": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        "PYTHONNOUSERSITE": "1",
    }


def kernel_command(
    folder: Path, limits: Limits, *, user: int | None = None, bubblewrap: bool = True
) -> list[str]:
    """The command that starts a fenced kernel, which may write into ``folder/home`` only.

    Args:
        folder: an existing folder with an empty ``home`` in it; the sockets of the connection are
            made in ``folder`` itself.
        limits: see `Limits`.
        user: the number of a user for this kernel, if the grader runs as root with Landlock.
        bubblewrap: use bubblewrap if it is installed.

    >>> command = kernel_command(Path("/tmp/job"), Limits(), bubblewrap=False)
    >>> command[0] == sys.executable, command[-2:]
    (True, ['-f', '{connection_file}'])
    """
    settings = {"folder": str(folder), "user": user, **asdict(limits)}
    command = [sys.executable, "-s", str(Path(__file__).resolve()), json.dumps(settings)]
    bwrap = _bwrap() if bubblewrap else None
    inside = _bubblewrap(bwrap, folder, limits) if bwrap else []
    return [*inside, *command, "-f", "{connection_file}"]


@functools.cache
def _bwrap() -> str | None:
    """The path of bubblewrap if it is installed and works (in some containers it does not)."""
    command = shutil.which("bwrap") if sys.platform == "linux" else None
    if command is None:
        return None
    probe = [command, *_UNSHARE, "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "true"]
    return command if subprocess.run(probe, capture_output=True).returncode == 0 else None


def _bubblewrap(bwrap: str, folder: Path, limits: Limits) -> list[str]:
    """A file system with system, Python and ``folder`` only; no network, no other processes."""
    space, home = str(limits.space), str(folder / "home")
    command = [bwrap, "--die-with-parent", *_UNSHARE]
    if os.geteuid() == 0:  # the kernel drops all of these later
        for capability in _CAPABILITIES:
            command += ["--cap-add", f"cap_{capability}"]
    command += ["--proc", "/proc", "--dev", "/dev"]
    for path in ("/dev/shm", "/tmp"):
        command += ["--size", space, "--tmpfs", path]
    for path in _readable():
        command += ["--ro-bind-try", path, path]
    command += ["--bind", str(folder), str(folder), "--size", space, "--tmpfs", home]
    return [*command, "--chdir", home, "--"]


def _readable() -> list[str]:
    """The folders a kernel must read: the system, Python with its packages, this package."""
    system = ["/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin", "/nix/store"]
    system += [f"/etc/{name}" for name in _ETC]
    python = [sys.prefix, sys.base_prefix, sys.exec_prefix, str(Path(sys.executable).parent)]
    python += [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    found = [*system, *python, os.path.realpath(sys.prefix), os.path.realpath(sys.base_prefix)]
    return list(dict.fromkeys([*(p for p in found if p and p != "/"), str(PACKAGE)]))


# ---------------------------------------------------------------- in the kernel's own process


def main() -> None:
    """Set up the fences, then become an ipykernel: ``sandbox.py SETTINGS -f CONNECTION_FILE``.

    Standard output is a pipe to the worker, which receives the reports of the audit hook there. A
    report that was sent cannot be erased.
    """
    settings = json.loads(sys.argv.pop(1))
    folder, user = settings["folder"], settings["user"]
    home = f"{folder}/home"
    room = Path(__file__).resolve().parent  # python puts a script's own folder first
    sys.path = [path for path in sys.path if Path(path or ".").resolve() != room]
    notes = os.dup(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.environ.pop("JPY_PARENT_PID", None)  # in a process namespace the parent seems to be dead
    _isolate(settings)
    if user is not None:
        os.chown(sys.argv[sys.argv.index("-f") + 1], user, user)  # the connection file
    os.chdir(home)  # the folder that is mounted there now
    landlock = _landlock([home], [folder])
    _set_limits(settings)
    if user is not None and landlock:
        _become(user)
    elif _LIBC is not None:
        _set_capabilities(0)
    shutil.copytree(f"{folder}/fonts", os.environ["MPLCONFIGDIR"], dirs_exist_ok=True)
    if _LIBC is not None:
        _LIBC.prctl(1, 9, 0, 0, 0)  # ends with the worker, if they have the same user
    calls = _sibling("seccomp")
    calls.refuse(notes, os.getpid())
    # a thread that is made now has the fences as well
    threading.Thread(target=_end_with_reader, args=(notes,), daemon=True).start()
    sys.meta_path.insert(0, _PackageFinder())
    from ipykernel.kernelapp import IPKernelApp

    # torch and the names of the package, before the hook listens and before time is measured
    package = importlib.import_module("fltoolkit")
    for name in package.__all__:
        getattr(package, name)  # its file is imported with the first use

    kernel = IPKernelApp.instance()
    kernel.initialize(["--HistoryManager.enabled=False", *sys.argv[1:]])
    sys.addaudithook(_sibling("audit").hook(home, notes, _readable()))
    calls.refuse_addresses()  # after the kernel's own sockets were made; holds for all threads
    kernel.start()


def _end_with_reader(pipe: int) -> None:
    """End this process when nobody reads the pipe any more: the worker has ended.

    The kernel of Linux sends the signal of a parent's death only if the parent was allowed to send
    it, and a worker that root started is another user by then.
    """
    poll = select.poll()
    poll.register(pipe, 0)
    poll.poll()
    os._exit(1)


def _sibling(name: str) -> Any:
    """A module beside this file, loaded by its path, so that the package is not imported."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class _PackageFinder:
    """Finds fltoolkit at its place, even if the folder above it may not be listed."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> Any:
        if name != "fltoolkit":
            return None
        where = [str(PACKAGE)]
        return importlib.util.spec_from_file_location(
            name, PACKAGE / "__init__.py", submodule_search_locations=where
        )


def _set_limits(settings: dict[str, Any]) -> None:
    import resource

    seconds = int(settings["total_seconds"]) + 1
    wanted = {
        "RLIMIT_AS": settings["memory"],
        "RLIMIT_CPU": seconds,
        "RLIMIT_FSIZE": settings["file_size"],
        "RLIMIT_NOFILE": 256,
        "RLIMIT_CORE": 0,
        "RLIMIT_NPROC": settings["processes"]
        + (_tasks_of_user() if settings["user"] is None else 0),
    }
    for name, value in wanted.items():
        kind = getattr(resource, name, None)
        if kind is not None:
            hard = resource.getrlimit(kind)[1]
            limit = value if hard == resource.RLIM_INFINITY else min(value, hard)
            try:
                resource.setrlimit(kind, (limit, limit))
            except (OSError, ValueError):  # macOS refuses some
                continue


def _tasks_of_user() -> int:
    """The number of threads that this user already runs, since the limit counts them too."""
    count = 0
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if entry.stat().st_uid == os.getuid():
                count += len(os.listdir(entry / "task"))
        except OSError:
            continue
    return count


# ------------------------------------------------------------ Linux, through the C library

_NEWIPC, _NEWUSER, _NEWNET = 0x08000000, 0x10000000, 0x40000000
_DAC_READ_SEARCH = 1 << 2


def _landlock_abi() -> int:
    """Landlock's version in this Linux, or a number below 1 if it has none."""
    return int(_LIBC.syscall(444, None, 0, 1)) if _LIBC is not None else 0


def _landlock(writable: list[str], sockets: list[str]) -> bool:
    """Allow this process only to read the system and Python, and to write to ``writable``.

    In the folders ``sockets`` it may read, and make sockets. This cannot be undone. From version 4
    of Landlock the process can also use no TCP, and from version 6 send no signals to processes
    outside.
    Source: the Linux kernel's documentation, userspace-api/landlock.
    """
    abi = _landlock_abi()
    if _LIBC is None or abi < 1:
        return False
    rights = (1 << (13 + (abi >= 2) + (abi >= 3) + (abi >= 5))) - 1
    attributes = struct.pack("QQQ", rights, 3 if abi >= 4 else 0, 3 if abi >= 6 else 0)
    size = 8 if abi < 4 else 16 if abi < 6 else 24
    ruleset = _LIBC.syscall(444, attributes, size, 0)
    if ruleset < 0:
        return False
    read, write_file = 0b1101, 0b0010  # execute, read a file, list a folder; write a file
    rules = [(path, read) for path in [*_readable(), "/proc", "/sys"]]
    rules += [(f"/dev/{name}", read | write_file) for name in _DEVICES]
    rules += [(path, rights) for path in writable]
    rules += [(path, read | 1 << 9) for path in sockets]
    for path, allowed in rules:
        try:
            place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue
        if not os.path.isdir(path):
            allowed &= 0b0111 | (1 << 14)
        _LIBC.syscall(445, ruleset, 1, struct.pack("=Qi", allowed & rights, place), 0)
        os.close(place)
    _LIBC.prctl(38, 1, 0, 0, 0)  # no new privileges
    done = _LIBC.syscall(446, ruleset, 0) == 0
    os.close(ruleset)
    return done


@functools.cache
def _may_unshare() -> bool:
    """True if a process of this user can get a network namespace of its own."""
    if _LIBC is None:
        return False
    flags = _NEWNET if os.geteuid() == 0 else _NEWUSER | _NEWNET
    code = f"import ctypes, sys; sys.exit(ctypes.CDLL(None).unshare({flags}) != 0)"
    return subprocess.run([sys.executable, "-I", "-S", "-c", code], check=False).returncode == 0


def _isolate(settings: dict[str, Any]) -> None:
    """Use namespaces: no network, no shared memory of other processes, a home of limited size.

    Some machines do not allow this for ordinary users; then nothing changes.
    """
    if _LIBC is None:
        return
    user, group, mounts = os.getuid(), os.getgid(), _sibling("mounts")
    if user == 0:
        _LIBC.unshare(_NEWNET)
        alone = _LIBC.unshare(mounts.NEW_MOUNTS) == 0
    elif alone := _LIBC.unshare(_NEWUSER | _NEWNET | mounts.NEW_MOUNTS) == 0:
        for name, text in [
            ("setgroups", "deny"),
            ("uid_map", f"{user} {user} 1"),
            ("gid_map", f"{group} {group} 1"),
        ]:
            try:
                Path(f"/proc/self/{name}").write_text(text)
            except OSError:
                continue
    _LIBC.unshare(_NEWIPC)  # some systems do not have this
    if alone and mounts.leave():
        if settings["user"] is not None:
            user = group = settings["user"]
            mounts.open_the_way([*_readable(), settings["folder"]])
        mounts.limited_home(f"{settings['folder']}/home", settings["space"], user, group)


def _become(user: int) -> None:
    """Turn root into a user without a name, and drop all capabilities if Python stays readable."""
    assert _LIBC is not None
    _LIBC.prctl(8, 1, 0, 0, 0)  # keep capabilities when the user changes
    os.setgroups([])
    os.setgid(user)
    os.setuid(user)
    # one capability is needed if Python is in root's home and no mount could make it reachable
    if _reads_python() or not _set_capabilities(_DAC_READ_SEARCH):
        _set_capabilities(0)
    _LIBC.prctl(4, 1, 0, 0, 0)  # may read its own /proc


def _reads_python() -> bool:
    """True if this process can read the packages that it is going to import."""
    names = ("os", "ipykernel", "torch", "zmq")
    try:
        for where in [importlib.util.find_spec(name) for name in names]:
            with open(str(where and where.origin), "rb") as file:
                file.read(1)
        os.listdir(PACKAGE)
        os.listdir(sys.base_prefix)
    except (OSError, ImportError):
        return False
    return True


def _set_capabilities(mask: int) -> bool:
    """Keep these capabilities and drop all others."""
    assert _LIBC is not None
    header = struct.pack("Ii", 0x20080522, 0)
    return bool(_LIBC.capset(header, struct.pack("6I", mask, mask, 0, 0, 0, 0)) == 0)


def _may_change_user() -> bool:
    """True if this root may give files to a user, become a user, and end a user's processes."""
    found = re.search(r"CapEff:\s*(\w+)", Path("/proc/self/status").read_text())
    needed = 1 << 0 | 1 << 5 | 1 << 6 | 1 << 7  # chown, kill, setgid, setuid
    return found is not None and int(found[1], 16) & needed == needed


if __name__ == "__main__":
    print(platform.python_version(), file=sys.stderr)
    main()
