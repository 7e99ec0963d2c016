"""Shamir's secret sharing: any ``threshold`` shares open a secret, and fewer say nothing about it.

Plain lines instead of a library: the maintained one with wheels (pycryptodome) shares 16 bytes at a
time in a field of 2^128 elements, one bit after the other, which takes far longer.

The secret is the value at 0 of a random polynomial of degree ``threshold - 1``; the share of the
holder with number p is its value at p + 1. Numbers are remainders of division by `PRIME`.

Source: Shamir 1979, "How to share a secret", Communications of the ACM 22(11).
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

PRIME = 2**256 + 297
"""The smallest prime above 2^256, so that every secret of 32 bytes is a number of the field."""

NBYTES_SECRET, NBYTES_SHARE = 32, 33


def into_shares(
    secret: bytes, holders: Sequence[int], threshold: int, random: Callable[[int], bytes]
) -> dict[int, bytes]:
    """A share of 33 bytes for each holder.

    Args:
        secret: 32 bytes.
        holders: their numbers, 0 or more, each once.
        threshold: how many shares open the secret, from 1 to the number of holders.
        random: returns so many random bytes.

    >>> import os
    >>> shares = into_shares(b"one key of exactly 32 bytes here", [0, 1, 2], 2, os.urandom)
    >>> from_shares({0: shares[0], 2: shares[2]})
    b'one key of exactly 32 bytes here'
    """
    if len(secret) != NBYTES_SECRET:
        raise ValueError(f"a secret of {len(secret)} bytes: {NBYTES_SECRET} are needed")
    _check_holders(holders)
    if not 1 <= threshold <= len(holders):
        raise ValueError(f"threshold={threshold}: must be 1 to {len(holders)}, the holders")
    # 48 random bytes per coefficient: their remainder is uniform but for 2^-127
    more = [int.from_bytes(random(48), "big") % PRIME for _ in range(threshold - 1)]
    constant = int.from_bytes(secret, "big")
    shares = {}
    for holder in holders:
        value, x = 0, holder + 1
        for coefficient in more:
            value = (value + coefficient) * x % PRIME
        shares[holder] = ((value + constant) % PRIME).to_bytes(NBYTES_SHARE, "big")
    return shares


def from_shares(shares: Mapping[int, bytes], threshold: int | None = None) -> bytes:
    """The secret, by Lagrange's formula at 0, from as many shares as the threshold, or more.

    With ``threshold``, shares above it must lie on the polynomial of the others. Raises
    `WrongShare` if one does not, and ValueError for shares that belong to no secret. Exactly
    ``threshold`` shares, or fewer, fit each other whatever they are: then the caller must compare
    the result with something, as `Aggregator` does with public keys.
    """
    _check_holders([*shares])
    values = {}
    for holder, share in shares.items():
        values[holder + 1] = number = int.from_bytes(share, "big")
        if len(share) != NBYTES_SHARE or number >= PRIME:
            raise WrongShare([holder], f"is no share of {NBYTES_SHARE} bytes")
    if threshold is not None and not _fit(values, threshold):
        without = ({x: y for x, y in values.items() if x != gone} for gone in values)
        rest = zip(shares, without, strict=True)
        wrong = [holder for holder, others in rest if _fit(others, threshold)]
        raise WrongShare(wrong if len(values) > threshold + 1 else [])
    at_zero, _ = _weights(tuple(values))
    secret = sum(w * y for w, y in zip(at_zero, values.values(), strict=True)) % PRIME
    if secret >= 1 << 256:
        raise ValueError("these shares belong to no secret: too few of them, or of several secrets")
    return secret.to_bytes(NBYTES_SECRET, "big")


class WrongShare(ValueError):
    """Shares do not fit each other; ``holder`` is whose share is wrong, if that is known."""

    def __init__(self, wrong: Sequence[int], why: str = "does not fit the others"):
        self.holder = wrong[0] if len(wrong) == 1 else None
        unknown = "the shares do not fit each other, and they do not show which of them are wrong"
        super().__init__(
            unknown if self.holder is None else f"the share of holder {self.holder} {why}"
        )


def _fit(values: Mapping[int, int], threshold: int) -> bool:
    """Whether all values lie on one polynomial of degree ``threshold - 1``.

    The sum of ``y / prod_j (x - x_j)`` times any polynomial is then zero, as long as the degrees
    together are below the number of points minus one (Lagrange).
    """
    _, weights = _weights(tuple(values))
    terms = [w * y % PRIME for w, y in zip(weights, values.values(), strict=True)]
    for _ in range(len(values) - threshold):
        if sum(terms) % PRIME:
            return False
        terms = [term * x % PRIME for term, x in zip(terms, values, strict=True)]
    return True


@lru_cache(maxsize=256)
def _weights(points: tuple[int, ...]) -> tuple[list[int], list[int]]:
    """For each point: ``prod_j x_j / (x_j - x)``, and ``prod_j 1 / (x - x_j)``, over the others.

    The first are Lagrange's weights at 0. Many secrets of a sum have the same holders.
    """
    at_zero, inverse = [], []
    for x in points:
        above = below = 1
        for other in points:
            if other != x:
                above, below = above * -other % PRIME, below * (x - other) % PRIME
        inverse.append(pow(below, -1, PRIME))
        at_zero.append(above * inverse[-1] % PRIME)
    return at_zero, inverse


def _check_holders(holders: Sequence[int]) -> None:
    """Raise ValueError unless these are numbers of holders; PRIME - 1 would hold the secret."""
    once = 0 < len(holders) == len({*holders})
    if not once or not 0 <= min(holders) <= max(holders) < 2**32:
        raise ValueError(
            f"holders={list(holders)}: one or more numbers from 0 to 2^32 - 1, each of them once"
        )
