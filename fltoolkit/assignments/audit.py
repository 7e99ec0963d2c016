"""An audit hook, which reports to the grader what a student's Python code tries to do.

It uses the standard library only, because sandbox.py loads it by its path.
"""

import os
import time
from collections.abc import Callable
from typing import Any

__all__ = ["hook"]

_REFUSED = {
    "socket.connect": "network",
    "socket.bind": "network",
    "socket.sendto": "network",
    "socket.getaddrinfo": "network",
    "socket.gethostbyname": "network",
    "os.fork": "process",
    "os.forkpty": "process",
}
_NOTED = {"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn"}
_CHANGES = {"os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.chmod", "os.link", "os.symlink"}


def hook(folder: str, notes: int, readable: list[str]) -> Callable[[str, tuple[Any, ...]], None]:
    """An audit hook that reports forbidden actions, and refuses them where Python can.

    The report appears in the gradebook. Code that leaves Python, for example through ctypes, can
    avoid this hook; the other fences are for such code.

    Args:
        folder: the folder in which files may be written.
        notes: the pipe for reports; the filter of system calls protects it from being closed or
            replaced.
        readable: other folders from which files may be read.

    >>> reads, writes = os.pipe()
    >>> heard = hook("/tmp/home", writes, readable=["/usr"])
    >>> heard("socket.connect", ())  # Python calls the hook like this before it connects
    Traceback (most recent call last):
    ...
    PermissionError: not allowed while this is graded: socket.connect
    >>> os.read(reads, 100)
    b'network\\n'
    """
    own = (os.path.realpath(folder), "/dev/null", "/dev/shm")
    allowed = (*own, *map(os.path.realpath, readable), "/proc", "/sys", "/dev", "<")
    me = os.getpid()

    def note(word: str, refuse: str = "") -> None:
        for _ in range(1000):  # a full pipe becomes empty again, because the grader reads it
            try:
                os.write(notes, (word + "\n").encode())
                break
            except BlockingIOError:
                time.sleep(0.001)
            except OSError:
                break
        if refuse:
            raise PermissionError(f"not allowed while this is graded: {refuse}")

    def inside(path: Any, roots: tuple[str, ...]) -> bool:
        if not isinstance(path, str | bytes | os.PathLike):
            return True  # a descriptor that is open already
        name = os.path.realpath(os.fsdecode(path))
        return any(
            name == root or name.startswith(root + "/") or root == "<" == name[:1] for root in roots
        )

    def heard(event: str, args: tuple[Any, ...]) -> None:
        if event in _REFUSED:
            note(_REFUSED[event], event)
        elif event in _NOTED:
            note("process")
        elif event == "os.kill" and args[0] not in (me, 0):
            note("signal", event)
        elif event in _CHANGES and not inside(args[0], own):
            note("write outside", f"{event} {args[0]!r}")
        elif event == "open":
            path, mode, flags = args
            writes = any(c in (mode or "") for c in "wax+") or (flags or 0) & (
                os.O_WRONLY | os.O_RDWR
            )
            if writes and not inside(path, own):
                note("write outside", f"writing {path!r}")
            elif not writes and not inside(path, allowed):
                note("read outside", f"reading {path!r}")

    return heard
