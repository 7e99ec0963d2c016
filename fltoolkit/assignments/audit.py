"""An audit hook, which reports to the grader what a student's Python code tries to do.

It refuses nothing: the fence does. Code that leaves Python, for example through ctypes, is not
reported.
"""

import os
from collections.abc import Callable
from typing import Any

from fltoolkit.fence import always_readable

__all__ = ["WORDS", "hook"]

WORDS = ("network", "process", "write outside", "read outside", "signal")
_TRIED = {
    **dict.fromkeys(("socket.connect", "socket.bind", "socket.sendto"), "network"),
    **dict.fromkeys(("socket.getaddrinfo", "socket.gethostbyname"), "network"),
    **dict.fromkeys(("os.fork", "os.forkpty", "subprocess.Popen", "os.system"), "process"),
    **dict.fromkeys(("os.exec", "os.posix_spawn", "os.spawn"), "process"),
}
_CHANGES = {
    *("os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.truncate"),
    *("os.chmod", "os.chown", "os.utime", "os.setxattr", "os.removexattr"),
}


def hook(folder: str, report: Callable[[str], None]) -> Callable[[str, tuple[Any, ...]], None]:
    """An audit hook that reports each of `WORDS` at most once.

    Args:
        folder: the folder in which files may be written.
        report: called with the word.

    >>> heard = hook("/tmp/home", print)
    >>> heard("socket.connect", ())  # Python calls the hook like this before it connects
    network
    >>> heard("open", ("/tmp/home/data.csv", "w", 0))
    """
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    own = (os.path.realpath(folder), "/dev/null", "/dev/shm", "/tmp")
    readable = [*always_readable(), package]
    allowed = (*own, *map(os.path.realpath, readable), "/proc", "/sys", "/dev", "<")
    reported: set[str] = set()
    me = os.getpid()

    def note(word: str) -> None:
        if word not in reported:
            reported.add(word)
            report(word)

    def inside(path: Any, roots: tuple[str, ...]) -> bool:
        if not isinstance(path, str | bytes | os.PathLike):
            return True  # a descriptor that is open already
        name = os.path.realpath(os.fsdecode(path))
        return any(
            name == root or name.startswith(root + "/") or root == "<" == name[:1] for root in roots
        )

    def heard(event: str, args: tuple[Any, ...]) -> None:
        if event in _TRIED:
            note(_TRIED[event])
        elif event == "os.kill" and args[0] not in (me, 0):
            note("signal")
        elif event in _CHANGES and not inside(args[0], own):
            note("write outside")
        elif event == "open":
            path, mode, flags = args
            writes = any(c in (mode or "") for c in "wax+") or (flags or 0) & (
                os.O_WRONLY | os.O_RDWR
            )
            if writes and not inside(path, own):
                note("write outside")
            elif not writes and not inside(path, allowed):
                note("read outside")

    return heard
