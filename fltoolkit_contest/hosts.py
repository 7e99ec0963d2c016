"""The fenced processes of a run: starting them, asking them, and what they have used.

A request goes to several processes at once, and the answers are read when all have arrived. Nothing
here knows rules of the contest but the limits on memory, processor time and waiting.
"""

import os
import selectors
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from fltoolkit.data.datasets import DIGITS
from fltoolkit_contest.card import printable
from fltoolkit_contest.pipes import Array, length_of, parse, to_bytes
from fltoolkit_contest.slots import CupError
from fltoolkit_grading import fence

_TORCH = ("torch", "torch-*", "torchgen", "functorch", "triton*", "nvidia*", "sympy", "mpmath")
_MORE = ("networkx", "jinja2", "markupsafe", "fsspec", "filelock", "typing_extensions.py")
_NAMES = ("fltoolkit", "fltoolkit_contest", "fltoolkit_research")  # the course's hold models
_OURS = tuple(os.path.realpath(p) for p in fence.packages() if Path(p).name in _NAMES)
_THEIRS = ("lazy_loader", "xxhash", "constriction", "threadpoolctl.py", "packaging")
PACKAGES = _TORCH + _MORE + ("numpy", "numpy.libs", "numpy-*") + _OURS + _THEIRS
"""The installed packages that a party can read: torch, NumPy, fltoolkit and what these need."""

PATIENCE = 10  # real time per processor time: others may use the machine, too
BOUNDS = fence.Bounds(memory=4 << 30)
_ENVIRONMENT = {"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
Request = tuple[dict[str, Any], list[Array]]


def checked(message: bytes | bytearray) -> Request:
    """An answer; CupError if it is damaged, or if the entry has ended with an error."""
    try:
        about, arrays = parse(memoryview(message)[8:])
    except ValueError as error:
        raise CupError(f"a party's answer is malformed: {error}") from None
    if why := about.get("error"):
        lines = about.get("lines") or ["?"]
        if str(why).startswith("ModuleNotFoundError"):
            why = f"{why}; Python's own modules, torch, NumPy and fltoolkit are there, no data set"
        line = lines[-1] if isinstance(lines, list) and isinstance(lines[-1], int) else "?"
        why = printable(str(why))
        raise CupError(f"the entry ended with an error (line {line} as it runs): {why}")
    return about, arrays


class Hosts:
    """Fenced processes that answer requests; ``cpu_seconds`` and ``memory`` (bytes) are measured.

    Args:
        cpu_seconds: the most processor time of all processes together.

    Raises CupError if a process breaks a limit or ends, and OSError where there can be no fence.
    """

    def __init__(self, cpu_seconds: float):
        self.limit = cpu_seconds
        self.processes: list[fence.Fenced] = []
        self.began = self.looked = time.monotonic()
        self.cpu_seconds, self.memory = 0.0, 0

    def __enter__(self) -> "Hosts":
        return self

    def __exit__(self, *exception: object) -> None:
        for process in self.processes:
            process.stop()

    def start(self, setups: Sequence[Request]) -> None:
        """Start a process for each setup (see party.py), and wait until all are ready."""
        command = [sys.executable, "-s", "-m", "fltoolkit_contest.party"]
        for _ in setups:
            process = fence.start(
                command,
                bounds=BOUNDS,
                readable=_OURS,
                packages=PACKAGES,
                hidden=[str(DIGITS)],  # the samples that a contest is about
                environment={**_ENVIRONMENT, "PYTHONPATH": fence.import_path()},
            )
            self.processes.append(process)
            for pipe in (process.stdin, process.stdout):
                os.set_blocking(pipe.fileno(), False)
        self.ask(setups)

    def ask(self, requests: Sequence[Request], of: Sequence[int] = ()) -> list[Request]:
        """Send each process its request (``of``: to which), and wait for all answers."""
        chosen = [self.processes[number] for number in of] if of else self.processes
        got = {process.stdout.fileno(): bytearray() for process in chosen}
        unsent = {
            process.stdin.fileno(): memoryview(to_bytes(*request))
            for process, request in zip(chosen, requests, strict=True)
        }
        self._pump(unsent, got)
        return [checked(body) for body in got.values()]

    def _pump(self, unsent: dict[int, memoryview], got: dict[int, bytearray]) -> None:
        """Write and read until every process has answered, within the limits."""
        with selectors.DefaultSelector() as ready:
            for number in unsent:
                ready.register(number, selectors.EVENT_WRITE)
            for number in got:
                ready.register(number, selectors.EVENT_READ)
            while ready.get_map():
                for key, _ in ready.select(0.5):
                    with suppress(BlockingIOError):  # a party can fill or empty its own pipes
                        if self._move(key.fd, unsent, got):
                            ready.unregister(key.fd)
                if time.monotonic() - self.looked > 0.5:
                    self.look()

    def _move(self, number: int, unsent: dict[int, memoryview], got: dict[int, bytearray]) -> bool:
        """Move some bytes through one pipe; True if all have come."""
        if number in unsent:
            try:
                unsent[number] = unsent[number][os.write(number, unsent[number][: 1 << 20]) :]
            except BrokenPipeError:
                raise CupError("a party's process has ended") from None
            return not unsent[number]
        mine = got[number]
        part = os.read(number, 1 << 20)
        if not part:
            raise CupError("a party's process has ended")
        mine += part
        if len(mine) < 8:
            return False
        try:
            wanted = 8 + length_of(bytes(mine[:8]))
        except ValueError as error:
            raise CupError(f"a party's answer is malformed: {error}") from None
        if len(mine) > wanted:
            raise CupError("a party's answer is malformed: more than one answer to one request")
        return len(mine) == wanted

    def look(self) -> None:
        """Measure; CupError if the run used more than it may."""
        self.looked = time.monotonic()
        for process in self.processes:
            if why := process.look():
                raise CupError(f"a party has used {why}")
        self.cpu_seconds = sum(process.cpu_seconds for process in self.processes)
        self.memory = sum(process.memory for process in self.processes)
        if self.cpu_seconds > self.limit:
            raise CupError(f"the run has used more than {self.limit:g} s of processor time")
        if self.looked - self.began > PATIENCE * self.limit:
            raise CupError(f"the run has lasted more than {PATIENCE * self.limit:g} s")
