"""What runs behind the fence: ``python -m fltoolkit_contest.party``, one owner or the server.

The verifier sends requests through standard input and reads answers from standard output; a process
can reach nothing else. An entry never sees this file's pipes, only a `Seat` and what arrived.
"""

import os
import traceback
from collections.abc import Generator
from typing import Any

import numpy as np

from fltoolkit_contest.pipes import Array, length_of, parse, to_bytes


class Seat:
    """What a party knows at the start, and the place to keep what it learns: ``me`` of an entry.

    An entry may set attributes of its own (``me.model = ...``); they stay with this party.

    >>> me = Seat({"number": 2, "num_owners": 5, "num_classes": 10, "seed": 7}, None, None)
    >>> me.number, int(me.rng().integers(10)), int(me.shared().integers(10))
    (2, 7, 3)
    """

    def __init__(self, about: dict[str, Any], x: Array | None, y: Array | None):
        self.number: int = about["number"]  # of the owner, from 0; -1: the server
        self.num_owners: int = about["num_owners"]
        self.num_classes: int = about["num_classes"]
        self.shape: tuple[int, ...] = tuple(about.get("shape", ()))  # of one sample
        self.seed: int = about["seed"]  # the same for all parties of a run
        self.x, self.y = x, y  # the party's own samples, or None

    def rng(self) -> np.random.Generator:
        """Random numbers of this party's own, the same whenever this run is made again."""
        return np.random.default_rng([self.seed, 1 + self.number])

    def shared(self) -> np.random.Generator:
        """Random numbers that all parties can draw alike, without a byte."""
        return np.random.default_rng([self.seed, 2**20])


class Process:
    """The seats of one process, and what they are asked."""

    def __init__(self, about: dict[str, Any], arrays: list[Array]):
        self.roles: dict[str, Any] = {"__name__": "entry"}
        self.roles_of, given = about["roles"], iter(arrays)
        exec(compile(next(given).tobytes(), "entry.py", "exec"), self.roles)
        self.seats = []
        for seat in about["seats"]:
            x, y = (next(given) if seat[what] else None for what in ("x", "y"))
            self.seats.append(Seat(seat, x, y))
        self.story: Generator[Any, Any, Any] | None = None
        self.predict: Any = None

    def reply(self, about: dict[str, Any], arrays: list[Array]) -> bytes:
        """The answer to one request; an error of the entry's becomes an answer, too."""
        try:
            return bytes(getattr(self, about["do"])(about, arrays))
        except Exception as error:
            return _failed(error)

    def answer(self, about: dict[str, Any], arrays: list[Array]) -> bytes:
        """Each owner of this process answers the message that reached it."""
        heads, bodies = [], []
        for seat, array in zip(self.seats, arrays, strict=True):
            kind, body, *bits = self.roles[self.roles_of[1]](seat, array.tobytes())
            heads.append([str(kind), *map(int, bits)])
            bodies.append(_integers(body) if bits else _raw(body))
        return to_bytes({"heads": heads}, bodies)

    def go_on(self, about: dict[str, Any], arrays: list[Array]) -> bytes:
        """The server goes on with what arrived, until it sends again or ends."""
        try:
            if self.story is None:
                self.story = self.roles[self.roles_of[0]](self.seats[0])
                sent = next(self.story)
            else:
                sent = self.story.send(arrays[0] if about["sum"] else [a.tobytes() for a in arrays])
        except StopIteration as end:
            self.predict = end.value
            return to_bytes({"end": True}, [])
        kind, body = sent
        each = isinstance(body, list | tuple)
        return to_bytes(
            {"kind": str(kind), "each": each}, [*map(_raw, body)] if each else [_raw(body)]
        )

    def encode(self, about: dict[str, Any], arrays: list[Array]) -> bytes:
        """What the features party sends for one hidden sample."""
        return to_bytes({}, [_raw(self.roles["encode"](self.seats[0], arrays[0]))])

    def ask(self, about: dict[str, Any], arrays: list[Array]) -> bytes:
        """The scores of one hidden sample."""
        if not callable(self.predict):
            raise TypeError(
                f"the server ended with {self.predict!r}: return a function from one sample to its "
                "scores, one number for each class"
            )
        sample = arrays[0].tobytes() if about["coded"] else arrays[0]
        return to_bytes({}, [_numbers(self.predict(sample))])


def _failed(error: BaseException) -> bytes:
    steps = traceback.extract_tb(error.__traceback__)
    lines = [step.lineno for step in steps if step.filename == "entry.py"]
    return to_bytes({"error": f"{type(error).__name__}: {error}"[:2000], "lines": lines}, [])


def _raw(body: Any) -> Array:
    if not isinstance(body, bytes | bytearray | memoryview):
        raise TypeError(
            f"a message is bytes, not a {type(body).__name__}: write array.tobytes(), or "
            "codec.encode(tree). In the league of sums an owner gives (kind, vector, bits)"
        )
    return np.frombuffer(body, np.uint8)


def _integers(vector: Any) -> Array:
    array = np.asarray(vector)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise TypeError(f"a vector of whole numbers is wanted, not {array.dtype}, {array.shape}")
    return array.astype(np.int64)


def _numbers(score: Any) -> Array:
    return np.asarray(score.detach() if hasattr(score, "detach") else score, np.float64).ravel()


def _in_a_child(process: Process, about: dict[str, Any], arrays: list[Array]) -> bytes:
    """The answer about a hidden sample, by a child that ends: no answer changes another one."""
    come, go = os.pipe()
    if (child := os.fork()) == 0:
        try:
            with os.fdopen(go, "wb") as pipe:
                pipe.write(process.reply(about, arrays))
        finally:
            os._exit(0)
    os.close(go)
    with os.fdopen(come, "rb") as pipe:
        reply = pipe.read()
    os.waitpid(child, 0)
    return reply or _failed(RuntimeError("the process that answered has ended"))


def main() -> None:
    """Answer requests until the verifier closes the pipe. Prints go nowhere."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1):
        os.dup2(nowhere, number)
    process: Any = None
    while len(first := requests.read(8)) == 8:
        about, arrays = parse(requests.read(length_of(first)))
        try:
            if process is None:
                process, reply = Process(about, arrays), to_bytes({}, [])
            elif about["do"] in ("encode", "ask"):
                reply = _in_a_child(process, about, arrays)
            else:
                reply = process.reply(about, arrays)
        except BaseException as error:
            reply = _failed(error)
        answers.write(reply)
        answers.flush()


if __name__ == "__main__":
    main()
