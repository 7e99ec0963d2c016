"""Lanes: many coders side by side, so that one operation of numpy codes a whole row of numbers.

Some hundred coders, the lanes, have a state each. The first number goes to the first lane, the next
to the second, and so on: a row of numbers takes one step of all lanes. If a few numbers together
have at most 256 values, each lane takes so many of them at a time, as if they were one.

A lane is a coder of the kind rANS. Its state x is from 2^16 to 2^32 - 1. A distribution gives the
number s a frequency f(s), out of 2^15, and c(s), the sum of the frequencies of the numbers before
s. To decode, s is the number with c(s) <= x mod 2^15 < c(s) + f(s), and

    x <- f(s) * (x div 2^15) + (x mod 2^15) - c(s);  if x < 2^16: x <- 2^16 x + the next word

All lanes take their words of 16 bits from one sequence, in the order of the lanes. The encoder does
the same backwards, from the last number to the first, so that each lane ends with state 2^16. A
decoder that finds other states at the end, or words that nobody took, was given damaged bytes.

Distributions are computed from whole numbers, so they are the same on every machine.

Source: Duda 2013, arXiv 1311.2540 (rANS); Giesen 2014, arXiv 1402.3392 (lanes).
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fltoolkit import compiled
from fltoolkit.arrays import Array
from fltoolkit.wire import WireError

BITS = 15  # of a state say which number comes next
LOWEST = 1 << 16  # the lowest state
FEWEST = 1 << 13  # numbers of one distribution, or the range coder takes them
MOST_VALUES = 1 << 12  # of a number
LEAST, MOST = 256, 1 << 13  # lanes: fewer are slow, more do not fit into the cache
COST = 24  # bits that a lane costs: its first state holds nothing, its last one not all it could
SHARE = 0.0032  # of a message that all lanes may cost
AHEAD = 1 << 16  # how many numbers are looked up in one operation

MASK, SHIFT, LOW, WORD = map(np.uint32, ((1 << BITS) - 1, BITS, LOWEST, 16))  # as states are


def num_lanes(bits: float) -> int:
    """How many lanes are worth their cost if the numbers take so many bits; 0: none."""
    lanes = int(SHARE * bits / COST)
    return min(lanes, MOST) if lanes >= LEAST else 0


def can_take(count: int, num_values: int) -> bool:
    """Whether lanes code so many numbers of one distribution with so many values."""
    return count >= FEWEST and num_values <= MOST_VALUES


class _Table(NamedTuple):
    """A distribution of groups: numbers that a lane takes at a time."""

    group: int  # how many numbers are in a group
    num_values: int  # of one number
    frequencies: Array  # [groups] int64, at least 1 each, 2^15 in all

    @classmethod
    def of(cls, weights: Array) -> "_Table":
        """The distribution of weights (each above 0), with the largest group that costs little.

        Rare groups get a frequency of 1, more than their share. They may be so many that this costs
        about 1 / 256 of a group's bits, of which a lower bound is the logarithm of the largest
        share.
        """
        shares = _shares((weights * 256).astype(np.int64))
        size, group, all_shares = len(weights), 1, shares
        best = cls(1, size, _frequencies(shares))
        while group < 8 and size ** (group * 2) <= 256:
            group *= 2
            all_shares = _shares(np.outer(all_shares, all_shares).reshape(-1) >> 20)
            frequencies = _frequencies(all_shares)
            rare = int(np.count_nonzero(frequencies == 1))
            if rare << 8 <= (BITS - int(frequencies.max()).bit_length()) << BITS:
                best = cls(group, size, frequencies)
        return best

    def values(self) -> Array:
        """[groups] the numbers of each group, as one number in whose bytes they lie in order."""
        if self.group == 1:
            return np.arange(self.num_values, dtype=np.uint8 if self.num_values <= 256 else "<u2")
        digits = np.indices((self.num_values,) * self.group, np.uint8).reshape(self.group, -1)
        return np.ascontiguousarray(digits.T).view(f"<u{self.group}").reshape(-1)

    def groups(self, numbers: Array) -> Array:
        """The index of the group formed by each run of ``group`` numbers, shape [n / group]."""
        columns = numbers.reshape(-1, self.group).astype(np.intp)
        if self.group == 1:
            return columns[:, 0]
        return columns @ self.num_values ** np.arange(self.group - 1, -1, -1, dtype=np.intp)


def _shares(weights: Array) -> Array:
    """Weights as shares of about 2^20, at least 1 each."""
    shares: Array = np.maximum((weights << 20) // int(weights.sum()), 1)
    return shares


def _frequencies(shares: Array) -> Array:
    """Shares as frequencies: the rarest get 1, the others what is left, in proportion."""
    total = int(shares.sum())
    rare = shares << BITS < total
    left = (1 << BITS) - int(np.count_nonzero(rare))
    out: Array = np.maximum(shares * left // int(shares[~rare].sum()), 1)
    out[rare] = 1
    out[shares.argmax()] += (1 << BITS) - int(out.sum())
    return out


def write_lanes(calls: Sequence[tuple[Array, Array]], lanes: int) -> tuple[bytes, bytes, list[int]]:
    """States and words of the numbers of each call, which come with their weights.

    The numbers of a call are whole numbers below ``len(weights)``. Also returns how many numbers at
    the end of each call fill no group and are left to the caller.
    """
    return _write(calls, lanes, compiled.functions(same_bits))


def _write(
    calls: Sequence[tuple[Array, Array]], lanes: int, library: Any
) -> tuple[bytes, bytes, list[int]]:
    states, words, left = np.full(lanes, float(LOWEST)), [], []
    for numbers, weights in reversed(calls):
        table = _Table.of(weights)
        left.append(len(numbers) % table.group)
        groups = table.groups(numbers[: len(numbers) - left[-1]])
        # float64 holds all states exactly, and its division is faster than that of integers
        frequency = table.frequencies.astype(np.float64)
        before = np.cumsum(frequency) - frequency
        ahead = max(AHEAD // lanes, 1) * lanes
        for first in reversed(range(0, len(groups), ahead)):
            here = groups[first : first + ahead]
            if library:
                words.append(_write_compiled(library, states, here, table.frequencies))
                continue
            f, c = frequency.take(here), before.take(here)
            full, rest = f * (1 << 32 - BITS), (1 << BITS) - f
            for start in reversed(range(0, len(here), lanes)):
                row = slice(start, start + lanes)
                x = states[: len(f[row])]
                (over,) = (x >= full[row]).nonzero()
                large = x.take(over).astype(np.uint32)
                words.append(large.astype("<u2"))  # the lower half
                large >>= WORD
                x[over] = large
                times = x / f[row]
                np.floor(times, out=times)
                times *= rest[row]
                x += times  # 2^15 (x div f) + (x mod f)
                x += c[row]
    packed = b"".join([word.tobytes() for word in reversed(words)])
    return states.astype("<u4").tobytes(), packed, left[::-1]


def _write_compiled(library: Any, states: Array, here: Array, frequencies: Array) -> Array:
    """The words of some rows, as the loop of `_write` makes them."""
    assert int(here.view(np.uint64).max()) < len(frequencies)  # numpy would look, C does not
    words, before = np.empty(len(here), np.uint16), np.cumsum(frequencies) - frequencies
    tables = frequencies.astype(np.uint32), before.astype(np.uint32)
    arrays, sizes = (states, here, *tables, words), (len(states), len(here))
    num = compiled.call(library.write_lanes, *arrays, *sizes)
    return words[len(words) - num :].astype("<u2")


def same_bits(library: Any) -> bool:
    """Whether compiled loops write and read as those of numpy do."""
    numbers, weights = np.arange(5000, dtype=np.intp) ** 2 % 2003 % 17, np.arange(17.0, 0, -1)
    written = _write([(numbers, weights)], LEAST, None)
    if written != _write([(numbers, weights)], LEAST, library):
        return False
    states, words = (np.frombuffer(part, np.uint8) for part in written[:2])
    reader = LaneReader(states, words, library)
    same = np.array_equal(reader.read(len(numbers), weights), numbers)
    reader.expect_end()
    return same


class LaneReader:
    """Reads what `write_lanes` wrote: ``states`` and ``words`` are its bytes."""

    def __init__(self, states: Array, words: Array, library: Any = None):
        self._states = states.view("<u4").astype(np.uint32)
        self._words = words.view("<u2").astype(np.uint16)
        self._taken = 0
        self._library = library or compiled.functions(same_bits)
        if int(self._states.min()) < LOWEST:
            raise WireError(f"expected the states of lanes from {LOWEST} on")

    def read(self, count: int, weights: Array) -> Array:
        """The next numbers: all of ``count``, but for the last ones that fill no group."""
        table, lanes = _Table.of(weights), len(self._states)
        frequencies = table.frequencies
        before = np.cumsum(frequencies) - frequencies
        by_slot = table.values().repeat(frequencies)
        multiply = frequencies.repeat(frequencies).astype(np.uint32)
        add = (np.arange(1 << BITS) - before.repeat(frequencies)).astype(np.uint32)
        out = np.empty(count // table.group, by_slot.dtype)
        # memory that is used again in each step: new memory takes longer than the arithmetic
        ahead = max(AHEAD // lanes, 1) * lanes
        slots: Array = np.empty(min(ahead, len(out)), np.int64)
        spare, low = np.empty(lanes, np.uint32), np.empty(lanes, bool)
        for first in range(0, len(out), ahead):
            here = out[first : first + ahead]
            full = len(here) // lanes * lanes
            if self._library:
                self._read_compiled(slots[: len(here)], multiply, add)
                by_slot.take(slots[: len(here)], out=here, mode="clip")
                continue
            for slot in slots[:full].reshape(-1, lanes):
                self._step(self._states, slot, multiply, add, spare, low)
            if rest := len(here) - full:
                x, slot = self._states[:rest], slots[full : full + rest]
                self._step(x, slot, multiply, add, spare[:rest], low[:rest])
            by_slot.take(slots[: len(here)], out=here, mode="clip")
        return out.view(np.uint8) if table.group > 1 else out

    def _step(
        self, x: Array, slot: Array, multiply: Array, add: Array, spare: Array, low: Array
    ) -> None:
        """Decode a row: write the slots of its numbers, and let low states take a word each."""
        np.bitwise_and(x, MASK, out=slot)
        np.right_shift(x, SHIFT, out=x)
        multiply.take(slot, None, spare, "clip")
        x *= spare
        add.take(slot, None, spare, "clip")
        x += spare
        np.less(x, LOW, out=low)
        (places,) = low.nonzero()
        states = x.take(places)
        states <<= WORD
        first, self._taken = self._taken, self._taken + len(places)
        if self._taken > len(self._words):
            raise WireError("the words of the lanes end too early")
        states |= self._words[first : self._taken]
        x[places] = states

    def _read_compiled(self, slots: Array, multiply: Array, add: Array) -> None:
        arrays = self._states, self._words, slots, multiply, add
        sizes = len(self._states), len(self._words), self._taken, len(slots)
        self._taken = compiled.call(self._library.read_lanes, *arrays, *sizes)
        if self._taken > len(self._words):
            raise WireError("the words of the lanes end too early")

    def expect_end(self) -> None:
        """Raise WireError unless all words were taken and each lane is where the encoder began."""
        if self._taken != len(self._words) or (self._states != LOWEST).any():
            raise WireError("the lanes do not end as they began: their bytes are damaged")
