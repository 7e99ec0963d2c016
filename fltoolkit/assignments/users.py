"""Free user numbers: if root runs the grader, each kernel gets a user of its own."""

import contextlib
import secrets
import threading
from pathlib import Path

__all__ = ["free_user", "kill_user"]

_USERS = threading.Lock()
_taken: set[int] = set()


def free_user() -> int:
    """The number of a user that does not exist: without name, processes, reserved range or job.

    Give the number back with `kill_user`.

    >>> user = free_user()
    >>> 20_000 <= user < 60_000, user != free_user()
    (True, True)
    """
    import psutil

    used: set[int] = set()
    for process in psutil.process_iter(["uids", "gids"]):
        used.update(process.info["uids"] or (), process.info["gids"] or ())
    ranges = []  # numbers reserved for the containers of other users
    for path in ("/etc/subuid", "/etc/subgid"):
        with contextlib.suppress(OSError):
            for line in Path(path).read_text(errors="replace").splitlines():
                first, count = (int(x) if x.isdigit() else 0 for x in line.split(":")[1:3])
                ranges.append(range(first, first + count))
    with _USERS:
        for _ in range(10_000):
            user = 20_000 + secrets.randbelow(40_000)
            if user in used | _taken or any(user in numbers for numbers in ranges):
                continue
            if not _has_name(user):
                _taken.add(user)
                return user
    raise OSError(
        "all user numbers from 20000 to 59999 are in use (names, /etc/subuid, processes): start "
        "the grader as an ordinary user"
    )


def _has_name(user: int) -> bool:
    import grp
    import pwd

    for known in (pwd.getpwuid, grp.getgrgid):
        with contextlib.suppress(KeyError):
            known(user)
            return True
    return False


def kill_user(user: int, since: float = 0.0) -> None:
    """End the processes of ``user``, a number from `free_user`, that began after ``since``.

    >>> user = free_user()
    >>> kill_user(user)  # it has no processes, so only the number becomes free again
    """
    import psutil

    for process in psutil.process_iter(["uids", "create_time"]):
        uids, born = process.info["uids"], process.info["create_time"] or 0.0
        if uids and uids.real == user and born >= since - 1:
            with contextlib.suppress(psutil.Error):
                process.kill()
    _taken.discard(user)
