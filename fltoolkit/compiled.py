"""Compiled loops, for those who ask for them: with the same bits as the plain code, and faster.

    python -m fltoolkit_research.codecs.compile

builds them with the C compiler of this machine, into the user's cache. Until then there are none;
nothing is compiled or loaded by an import. Not here: the C file and its builder, and the plain
code: each function stands beside its plain version, with a check that compares both.
"""

import ctypes
import os
import platform
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import torch

__all__ = ["call", "functions", "place"]

VERSION = 1  # of what the functions take and return: libraries of other versions are not read


def place() -> Path:
    """Where the library for this kind of processor is, once it was built."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    kind = f"{platform.machine()}-{torch.backends.cpu.get_cpu_capability()}"
    return Path(cache) / "fltoolkit" / f"compiled-{VERSION}-{kind}.so"


@cache
def functions(same: Callable[[Any], bool]) -> Any:
    """The library, if it is there and ``same`` says that it gives the bits of the plain code.

    Otherwise None: with a warning if there is a library. Each check runs once in a process.
    """
    if not (path := place()).is_file():
        return None
    try:
        library = ctypes.CDLL(str(path))
        if same(library):
            return library
        why = "its bits are not those of the plain code"
    except (AttributeError, OSError, ValueError) as error:  # no such function, no library, damaged
        why = str(error)
    warnings.warn(
        f"{path} is not used ({why}), the plain code is. Delete it, or build it again: "
        "python -m fltoolkit_research.codecs.compile",
        stacklevel=2,
    )
    return None


def call(function: Any, *arguments: Any) -> int:
    """Call it with contiguous arrays as pointers, whole numbers in 64 bits, and float32."""
    function.restype, made = ctypes.c_int64, {int: ctypes.c_int64, float: ctypes.c_float}
    return int(function(*[made[type(a)](a) if type(a) in made else a.ctypes for a in arguments]))
