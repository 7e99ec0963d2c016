"""Prediction: a few whole numbers that describe what rows and columns of an update have in common.

Here: the sum of a few outer products that predicts each cell of a grid of symbols, and the levels
of rows and columns.
"""

import math
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import ThreadpoolController

from fltoolkit.arrays import Array

LEVELS = 32  # how many levels there are for a row, for a column and for the sum of both
RANK = 32  # outer products at most
FACTOR = 511  # the largest number in a product: float32 then adds RANK products exactly
PRECISIONS = 0.1, 0.2, 0.4, 0.8  # how coarse the factors may be; the best one is chosen
SHIFTS = range(-20, 44)  # factors are in units of 2**(-shift / 2)
FAR = 8 * 255  # the farthest a prediction, in eighths, lies from the most frequent symbol
REACH = 512  # what is left of a symbol, and factors, lie between -REACH and REACH
# The prediction is only tried if rows have more in common than random rows would have. The share of
# their squares that other rows explain must be larger than for random rows: by COMMON, or by the
# share of random rows, whichever is less
COMMON = 0.05
PART = 1 << 16  # how many cells are worked on at a time


def one_thread() -> Any:
    """Limit BLAS to one thread: more threads save no time here, and may change the bytes."""
    return _blas().limit(limits=1, user_api="blas")


@cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController()


class Factors(NamedTuple):
    """Outer products. Their sum, times 2**-shift, is close to the cells minus the mean."""

    rank: int = 0
    shift: int = 0
    mean: int = 0  # in eighths
    numbers: Array = np.zeros(0, np.int16)  # the rows' numbers of all products, then the columns'
    bits: float = 0  # about how many bits they cost

    def lengths(self, shape: tuple[int, ...]) -> list[int]:
        """How many numbers each side of each product has."""
        return [shape[0]] * self.rank + [shape[1]] * self.rank


class Prediction:
    """The prediction of each cell, rounded to a whole number, and the error of this rounding.

    The error is known in eighths, with its sign. Where the whole number is larger than the
    prediction, the sign of what is left of the cell is changed (the cell is folded).
    """

    def __init__(self, factors: Factors, shape: tuple[int, ...]):
        numbers = factors.numbers.astype(np.float32)
        left, right = np.split(numbers, [factors.rank * shape[0]])
        left *= np.float32(2.0 ** (3 - factors.shift))
        eighths = left.reshape(factors.rank, -1).T @ right.reshape(factors.rank, -1)
        eighths += np.float32(factors.mean)
        np.clip(eighths, -FAR, FAR, out=eighths)
        self._eighths = np.rint(eighths, out=eighths)

    def _parts(self) -> Iterator[tuple[slice, Array, Array, Array]]:
        """Yield parts that fit caches: rows, whole numbers, -1 where folded, eighths (0 to 4)."""
        step = PART // self._eighths.shape[1] + 1
        for start in range(0, len(self._eighths), step):
            rows = slice(start, start + step)
            eighths = self._eighths[rows].astype(np.int16)
            whole = (eighths + np.int16(4)) >> np.int16(3)
            eighths -= whole << np.int16(3)
            yield rows, whole, eighths >> np.int16(15), np.abs(eighths)

    def take_from(self, cells: Array) -> None:
        """Subtract the prediction from the cells, in place."""
        for rows, whole, fold, _ in self._parts():
            cells[rows] -= whole
            cells[rows] ^= fold
            cells[rows] -= fold

    def add_to(self, left: Array) -> None:
        """The inverse of `take_from`: restore the cells, in place."""
        for rows, whole, fold, _ in self._parts():
            left[rows] ^= fold
            left[rows] -= fold
            left[rows] += whole

    def add_contexts(self, contexts: Array) -> None:
        """Give cells with different eighths different contexts, in place."""
        for rows, _, _, eighths in self._parts():
            contexts[rows] += eighths.astype(np.uint8) * np.uint8(LEVELS)


def best_factors(cells: Array) -> tuple[Factors, Array]:
    """The outer products, if they seem to save bits, and the cells minus their prediction."""
    factors = _factors(cells)
    if factors.rank:
        left = cells.copy()
        Prediction(factors, cells.shape).take_from(left)
        if _cost(left) + factors.bits < _cost(cells):
            return factors, left
    return Factors(), cells


def _cost(cells: Array) -> float:
    """About how many bits the cells take: their entropy, minus what the levels save.

    If there are many rows, the estimate is made from some of them.
    """
    some = cells[:: 1 + (cells.size >> 18)]
    counts = np.bincount((some + np.int16(REACH)).reshape(-1))
    counts = counts[counts > 0]
    entropy = float(counts @ np.log2(some.size / counts))
    return (entropy - find_levels(np.abs(some)).saved) * cells.size / some.size


def _factors(cells: Array) -> Factors:
    """The outer products whose number and precision save most bits, by an estimate.

    They are found by subspace iteration, which begins with some of the rows. If these rows explain
    little of some other rows, there are no products. The estimate takes all numbers as normally
    distributed. A number in a product then takes about log2(1 + 12 variance / unit**2) / 2 bits.
    What is left of a cell takes half the logarithm of its row's variance; rounding adds 1/12 to
    this variance, and coarse factors add a share.
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
    chance = most / columns  # the mean share of rows that have nothing in common
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
    """Nearly orthonormal columns that span the same space, within the precision of float32."""
    values, vectors = np.linalg.eigh(matrix.T @ matrix)
    return matrix @ (vectors / np.sqrt(values.clip(1e-6 * values[-1] + 1e-30)))


class Levels(NamedTuple):
    """The levels of rows and of columns."""

    rows: Array
    columns: Array
    saved: float  # about how many bits the levels save


def find_levels(distances: Array) -> Levels:
    """The level of each row and column: how far its mean lies below the largest mean.

    A level is a factor of 2, or of sqrt(2) if many distances are not 0. If all distances are zeros
    and ones, odds are compared and not means. All levels are 0 if they would cost more than they
    save.
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
    """The entropy, in bits, of a number with a geometric distribution (0, 1, ...) and this mean."""
    return (1 + mean) * np.log2(1 + mean) - mean * np.log2(np.maximum(mean, 1e-30))
