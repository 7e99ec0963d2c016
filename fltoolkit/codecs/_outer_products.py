"""Prediction: what is common to the rows and columns of an update, as a few whole numbers.

Here: the sum of a few outer products that predicts each cell of a grid of symbols, and the levels
of its rows and columns. Not here: how they and what is left are coded (_contexts.py, next).
"""

import math
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

__all__ = ["Factors", "Levels", "Prediction", "best_factors", "find_levels", "one_thread"]

LEVELS = 32  # of a row, of a column, of their sum
RANK = 32  # outer products at most
FACTOR = 511  # the largest number in one: then float32 adds up RANK of them exactly, in any order
PRECISIONS = 0.1, 0.2, 0.4, 0.8  # how coarse factors are, to choose from
SHIFTS = range(-20, 44)  # factors are in units of 2**(-shift / 2)
FAR = 8 * 255  # the farthest a prediction, in eighths, lies from the most frequent symbol
REACH = 512  # what is left of a symbol, and factors, lie between -REACH and REACH
COMMON = 0.05  # of their squares, if not less, rows must share beyond chance: else it is not tried
PART = 1 << 16  # cells at a time

Array = NDArray[Any]


def one_thread() -> Any:
    """Inside, BLAS has one thread: more of them spin, save no time, and may change the bytes."""
    return _blas().limit(limits=1, user_api="blas")


@cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController()


class Factors(NamedTuple):
    """Outer products whose sum, times 2**-shift, is near the cells minus their mean."""

    rank: int = 0
    shift: int = 0
    mean: int = 0  # in eighths
    numbers: Array | None = None  # of each product its rows, then of each its columns
    bits: float = 0  # about what they cost


class Prediction:
    """Of each cell the nearest whole number; by how many eighths it misses, and to which side.

    What is left of a cell is folded (its sign changed) where the whole number is too large.
    """

    def __init__(self, factors: Factors, shape: tuple[int, int]):
        assert factors.numbers is not None
        numbers = factors.numbers.astype(np.float32)
        left, right = np.split(numbers, [factors.rank * shape[0]])
        left *= np.float32(2.0 ** (3 - factors.shift))
        eighths = left.reshape(factors.rank, -1).T @ right.reshape(factors.rank, -1)
        eighths += np.float32(factors.mean)
        np.clip(eighths, -FAR, FAR, out=eighths)
        self._eighths = np.rint(eighths, out=eighths)

    def _parts(self) -> Iterator[tuple[slice, Array, Array, Array]]:
        """Rows, whole numbers, -1 where folded, eighths from 0 to 4; parts that stay in caches."""
        step = PART // self._eighths.shape[1] + 1
        for start in range(0, len(self._eighths), step):
            rows = slice(start, start + step)
            eighths = self._eighths[rows].astype(np.int16)
            whole = (eighths + np.int16(4)) >> np.int16(3)
            eighths -= whole << np.int16(3)
            yield rows, whole, eighths >> np.int16(15), np.abs(eighths)

    def take_from(self, cells: Array) -> None:
        """What is left of cells, in place."""
        for rows, whole, fold, _ in self._parts():
            cells[rows] -= whole
            cells[rows] ^= fold
            cells[rows] -= fold

    def add_to(self, left: Array) -> None:
        """Cells again, in place."""
        for rows, whole, fold, _ in self._parts():
            left[rows] ^= fold
            left[rows] -= fold
            left[rows] += whole

    def add_contexts(self, contexts: Array) -> None:
        """Tell cells apart by their eighths."""
        for rows, _, _, eighths in self._parts():
            contexts[rows] += eighths.astype(np.uint8) * np.uint8(LEVELS)


def best_factors(cells: Array) -> tuple[Factors, Array]:
    """Outer products, if they seem to save bits, and what they leave of the cells."""
    factors = _factors(cells)
    if factors.rank:
        left = cells.copy()
        Prediction(factors, cells.shape).take_from(left)
        if _cost(left) + factors.bits < _cost(cells):
            return factors, left
    return Factors(), cells


def _cost(cells: Array) -> float:
    """About how many bits cells take: their entropy, less what levels save; by some of the rows."""
    some = cells[:: 1 + (cells.size >> 18)]
    counts = np.bincount((some + np.int16(REACH)).reshape(-1))
    counts = counts[counts > 0]
    entropy = float(counts @ np.log2(some.size / counts))
    return (entropy - find_levels(np.abs(some)).saved) * cells.size / some.size


def _factors(cells: Array) -> Factors:
    """As many, and as precise, as save most bits, if all were normal distributions.

    By subspace iteration from some of the rows: none if those tell little about some others. A
    number in a product takes about log2(1 + 12 variance / unit**2) / 2 bits; what is left of a
    cell, half the logarithm of its row's variance, to which rounding adds 1/12, and coarse factors
    a share.
    """
    rows, columns = cells.shape
    most = min(RANK, rows // 4, columns // 4)
    if not most:
        return Factors()
    mean = round(8 * float(cells.mean()))
    x = cells - np.float32(mean / 8)
    some = slice(0, rows // most * most, rows // most)
    right = _orthonormal(x[some].T)
    others = x[rows // most // 2 : some.stop : some.step]
    shared, every = (float(np.square(y).sum()) for y in (others @ right, others))
    chance = most / columns  # so much, on average, of rows that have nothing in common
    if shared < (chance + min(chance, COMMON)) * every:
        return Factors()
    for part in (x[::4] if rows >= 16 * most else x, x):  # the first pass need not be exact
        right = _orthonormal(part.T @ _orthonormal(part @ right))
    left, sizes, turn = np.linalg.svd(x @ right, full_matrices=False)
    right = right @ turn.T
    explained = np.pad(np.cumsum((left * sizes) ** 2, axis=1), ((0, 0), (1, 0)))
    energy = np.einsum("ij,ij->i", x, x)[:, None] - explained
    logs = np.log2(energy.clip(0) / columns + 1 / 12).mean(0)  # for each rank
    variances = sizes / math.sqrt(cells.size)  # of the numbers in each product
    precisions = np.array(PRECISIONS)[:, None]
    squares = precisions * 2.0 ** logs[1:] / np.maximum(np.cumsum(variances), 1e-30)
    each = np.log2(1 + 12 * variances / squares[..., None]) @ np.tri(most).T
    side = (rows + columns) / 2 * np.diagonal(each, axis1=1, axis2=2)
    rest = cells.size / 2 * (logs[1:] + np.log2(1 + precisions / 6))
    precision, rank = np.unravel_index((side + rest).argmin(), rest.shape)
    if (side + rest).min() >= cells.size / 2 * logs[0]:
        return Factors()
    bits = float(side[precision, rank])
    rank, shift = int(rank) + 1, round(-math.log2(squares[precision, rank]))
    shift = min(max(shift, SHIFTS.start), SHIFTS.stop - 1)
    scale = np.sqrt(sizes[:rank]) * 2.0 ** (shift / 2)
    balance = (rows / columns) ** 0.25
    numbers = [(left[:, :rank] * scale * balance).T, (right[:, :rank] * scale / balance).T]
    flat = np.concatenate([part.reshape(-1) for part in numbers])
    return Factors(rank, shift, mean, np.rint(flat).clip(-FACTOR, FACTOR), bits)


def _orthonormal(matrix: Array) -> Array:
    """Nearly orthonormal columns that span the same, as far as float32 can tell."""
    values, vectors = np.linalg.eigh(matrix.T @ matrix)
    return matrix @ (vectors / np.sqrt(values.clip(1e-6 * values[-1] + 1e-30)))


class Levels(NamedTuple):
    """Of rows and columns; none where all are 0."""

    rows: Array | None = None
    columns: Array | None = None
    saved: float = 0  # bits, about


def find_levels(distances: Array) -> Levels:
    """Of rows and columns: how far their means lie below the greatest, in powers of 2 or sqrt(2).

    Of zeros and ones: their odds. All are 0 where they would cost more than they save.
    """
    step = 1 if np.count_nonzero(distances) < 1 << 13 else 2
    odds, found = int(distances.max()) <= 1, []
    saved, at_once = 0.0, distances.size * float(geometric_bits(distances.mean()))
    for axis in (1, 0):
        means = distances.mean(axis)
        sizes = means / (1 - means + 0.25 / distances.shape[axis]) if odds else means
        share = np.maximum(sizes / max(sizes.max(), 1e-9), 1e-9)
        levels = np.minimum(np.rint(-step * np.log2(share)), LEVELS - 1).astype(np.int32)
        counts = np.bincount(levels)
        counts = counts[counts > 0]
        cost = float(counts @ np.log2(len(levels) / counts)) + 5 * len(counts)
        gain = at_once - distances.size * float(geometric_bits(means).mean())
        found.append(levels if gain > cost else np.zeros_like(levels))
        saved += max(gain - cost, 0)
    return Levels(found[0], found[1], saved)


def geometric_bits(mean: Any) -> Any:
    """Of a number from 0 on with this mean and a geometric distribution."""
    return (1 + mean) * np.log2(1 + mean) - mean * np.log2(np.maximum(mean, 1e-30))
