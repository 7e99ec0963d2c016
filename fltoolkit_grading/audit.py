"""An audit hook, which reports to the grader what a student's Python code tries to do.

It refuses nothing: the fence does. Code that leaves Python, for example through ctypes, is not
reported.
"""

import os
from collections.abc import Callable
from typing import Any

from fltoolkit_grading.fence import always_readable, packages

WORDS = ("network", "process", "write outside", "read outside", "signal")
_TRIED = {  # Python's names of what is reported as the same word
    "network": "socket.connect socket.bind socket.sendto socket.getaddrinfo socket.gethostbyname",
    "process": "os.fork os.forkpty os.system os.exec os.posix_spawn os.spawn subprocess.Popen",
}
_WORD_OF = {event: word for word, events in _TRIED.items() for event in events.split()}
_CHANGED = "remove rename rmdir mkdir link symlink truncate chmod chown utime setxattr removexattr"
_CHANGES = {f"os.{name}" for name in _CHANGED.split()}  # of the file that is the first argument


def hook(folder: str, report: Callable[[str], None]) -> Callable[[str, tuple[Any, ...]], None]:
    """An audit hook that reports each of `WORDS` at most once.

    Args:
        folder: the folder in which files may be written.
        report: called with the word.

    >>> audit = hook("/tmp/home", print)
    >>> audit("socket.connect", ())  # Python calls the hook like this before it connects
    network
    >>> audit("open", ("/tmp/home/data.csv", "w", 0))
    """
    own = (os.path.realpath(folder), "/dev/null")  # behind the fence /tmp leads into the folder
    readable = map(os.path.realpath, [*always_readable(), *packages()])
    allowed = (*own, *readable, "/proc", "/sys", "/dev", "<")
    reported: set[str] = set()
    me = os.getpid()

    def audit(event: str, args: tuple[Any, ...]) -> None:
        word = _WORD_OF.get(event, "")
        if event == "os.kill" and args[0] not in (me, 0):
            word = "signal"
        elif event in _CHANGES and not _inside(args[0], own):
            word = "write outside"
        elif event == "open":
            path, mode, flags = args
            writes = any(c in (mode or "") for c in "wax+")
            if writes or (flags or 0) & (os.O_WRONLY | os.O_RDWR):
                word = "" if _inside(path, own) else "write outside"
            elif not _inside(path, allowed):
                word = "read outside"
        if word and word not in reported:
            reported.add(word)
            report(word)

    return audit


def _inside(path: Any, roots: tuple[str, ...]) -> bool:
    if not isinstance(path, str | bytes | os.PathLike):
        return True  # a descriptor that is open already
    name = os.path.realpath(os.fsdecode(path))
    return any(
        name == root or name.startswith(root + "/") or root == "<" == name[:1] for root in roots
    )
