"""The wire of the contest: what every message is charged, and what arrives at its receiver.

Time goes in exchanges. In each, the server sends a message to every owner and every owner answers,
empty messages included; nobody receives anything before all have sent. So silence, order and time
carry no information for free, and the length of a message is charged, too.
"""

from collections import Counter
from typing import Any

import numpy as np

from fltoolkit.channel import KINDS
from fltoolkit_contest.pipes import Array

LARGEST_BITS = 32


class CupError(ValueError):
    """An entry broke a rule, or ended with an error; the text says which and what to do."""


def charge(nbytes: int) -> int:
    """What a message of so many bytes costs: its length as a varint, then the bytes.

    >>> charge(0), charge(100), charge(1000)
    (1, 101, 1002)
    """
    return max(1, -(-nbytes.bit_length() // 7)) + nbytes


def _charged(array: Array) -> int:
    if array.dtype != np.uint8 or array.ndim != 1:
        raise CupError("a party's answer is malformed: a message is a row of bytes")
    return charge(array.size)


class Wire:
    """Carries the messages of one run and keeps the ledger.

    Attributes:
        ledger: bytes by direction and kind, such as ``ledger["up", "update"]``.
        exchanges: how many there were.
    """

    def __init__(self, league: str, num_owners: int):
        self.league, self.num_owners = league, num_owners
        self.ledger: Counter[tuple[str, str]] = Counter()
        self.exchanges = 0

    @property
    def nbytes(self) -> int:
        """All bytes so far, both directions, each receiver counted."""
        return sum(self.ledger.values())

    def down(self, about: dict[str, Any], arrays: list[Array]) -> list[Array]:
        """The server's message: one for all, or a list with one for each owner."""
        self.exchanges += 1
        if about.get("each"):
            if self.league == "sums":
                raise CupError("league of sums: the server sends one message to all, not a list")
            if len(arrays) != self.num_owners:
                raise CupError(
                    f"the server sent a list of {len(arrays)} messages: give one for each of the "
                    f"{self.num_owners} owners, in the order of their numbers"
                )
        elif len(arrays) != 1:
            raise CupError("a party's answer is malformed: one message for all was announced")
        messages = arrays if about.get("each") else arrays * self.num_owners
        self._write("down", about.get("kind"), sum(_charged(m) for m in messages))
        return messages

    def up(self, heads: list[list[Any]], arrays: list[Array]) -> list[Array]:
        """The owners' answers; in the league of sums, their sum modulo 2^b alone."""
        if self.league == "sums":
            return [self._sum(heads, arrays)]
        for head, array in zip(heads, arrays, strict=True):
            if len(head) != 1:
                raise CupError(f"league {self.league}: an owner gives (kind, bytes), without bits")
            self._write("up", head[0], _charged(array))
        return arrays

    def coded(self, arrays: list[Array]) -> None:
        """League split: count what the features party sends about the hidden samples."""
        for array in arrays:
            self._write("up", "activations", _charged(array))

    def _sum(self, heads: list[list[Any]], arrays: list[Array]) -> Array:
        shapes = {(*map(str, head), array.size) for head, array in zip(heads, arrays, strict=True)}
        if len(shapes) != 1 or len(heads[0]) != 2:
            raise CupError(
                "league of sums: every owner gives (kind, vector, bits), with vectors of one "
                f"length and the same bits; here {sorted(shapes, key=str)[:3]}"
            )
        kind, bits = heads[0]
        if not (isinstance(bits, int) and 1 <= bits <= LARGEST_BITS):
            raise CupError(f"bits={bits}: 1 to {LARGEST_BITS} are allowed")
        if any(array.dtype != np.int64 or array.ndim != 1 for array in arrays):
            raise CupError("a party's answer is malformed: a vector of int64 was announced")
        self._write("up", kind, charge(-(-arrays[0].size * bits // 8)) * self.num_owners)
        total = sum((a.astype(np.int64) % (1 << bits) for a in arrays), np.zeros((), np.int64))
        return np.asarray(total % (1 << bits), np.int64)

    def _write(self, direction: str, kind: object, nbytes: int) -> None:
        if kind not in KINDS:
            raise CupError(f"kind {kind!r}: choose one of {', '.join(KINDS)}")
        self.ledger[direction, str(kind)] += nbytes
