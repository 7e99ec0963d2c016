"""Mounts that limit what a fenced kernel sees of the disk.

They need root or a user namespace. They change nothing for other processes, because sandbox.py has
left the common mount namespace before. This file uses the standard library only, because sandbox.py
loads it by its path.
"""

import ctypes
import os
import stat
from collections.abc import Iterable
from pathlib import Path

__all__ = ["leave", "limited_home", "open_the_way"]

NEW_MOUNTS = 0x00020000
_BIND, _REC, _PRIVATE, _NO_DEVICES, _NO_SETUID = 1 << 12, 1 << 14, 1 << 18, 1 << 2, 1 << 1
INODES = 20_000  # files and folders that a home may have


def _mount(source: str, target: str, kind: str, flags: int, data: str = "") -> bool:
    words = [word.encode() or None for word in (source, target, kind)]
    libc = ctypes.CDLL(None, use_errno=True)
    return bool(libc.mount(*words, ctypes.c_ulong(flags), data.encode() or None) == 0)


def leave() -> bool:
    """Make later mounts invisible to other processes; call it after ``unshare(NEW_MOUNTS)``."""
    return _mount("none", "/", "", _REC | _PRIVATE)


def limited_home(home: str, size: int, user: int, group: int) -> bool:
    """Mount an empty folder in memory at ``home`` that can hold ``size`` bytes and no more.

    The limit also counts files that were deleted and are still open.
    """
    about = f"size={size},nr_inodes={INODES},mode=700,uid={user},gid={group}"
    return _mount("tmpfs", home, "tmpfs", _NO_DEVICES | _NO_SETUID, about)


def open_the_way(paths: Iterable[str]) -> None:
    """Make these paths reachable for every user, even if a folder above them is closed (as /root).

    Each closed folder is covered by an empty folder that holds only these paths.
    """
    covered: dict[str, list[tuple[str, int]]] = {}
    for path in sorted({os.path.realpath(path) for path in paths if os.path.exists(path)}):
        for parent in reversed(Path(path).parents):
            if not os.stat(parent).st_mode & stat.S_IXOTH:
                held = os.open(path, os.O_PATH | os.O_CLOEXEC)
                covered.setdefault(str(parent), []).append((path, held))
                break
    for above, held_paths in covered.items():
        done = _mount("tmpfs", above, "tmpfs", _NO_DEVICES | _NO_SETUID, "size=1m,mode=755")
        for path, held in held_paths:
            if done and not os.path.lexists(path):
                if os.path.isdir(f"/proc/self/fd/{held}"):
                    os.makedirs(path)
                else:
                    os.makedirs(os.path.dirname(path), exist_ok=True)
                    Path(path).touch()
                _mount(f"/proc/self/fd/{held}", path, "", _BIND | _REC)
            os.close(held)
