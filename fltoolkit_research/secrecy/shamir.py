"""Shamir's secret sharing: any ``threshold`` shares open a secret, and fewer say nothing about it.

Plain lines instead of a library: the maintained one with wheels (pycryptodome) shares 16 bytes at a
time in a field of 2^128 elements, one bit after the other, and takes about a hundred times as long
for one sum among a hundred clients (benchmarks/share_speed.py). Not here: keys and ciphers
(keys.py).

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
    if len({*holders}) < len(holders) or min(holders, default=-1) < 0:
        raise ValueError(f"holders={list(holders)}: numbers from 0 on, each of them once")
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


def from_shares(shares: Mapping[int, bytes]) -> bytes:
    """The secret, by Lagrange's formula at 0, from as many shares as the threshold, or more.

    Too few shares, or shares of several secrets, give another value or a ValueError. To notice it,
    the caller must compare the result with something, as `Aggregator` does with public keys.
    """
    weights = _weights_at_zero(tuple(shares))
    values = (int.from_bytes(share, "big") for share in shares.values())
    secret = sum(w * value for w, value in zip(weights, values, strict=True)) % PRIME
    if secret >= 1 << 256:
        raise ValueError("these shares belong to no secret: too few of them, or of several secrets")
    return secret.to_bytes(NBYTES_SECRET, "big")


@lru_cache(maxsize=256)
def _weights_at_zero(holders: tuple[int, ...]) -> list[int]:
    """What each holder's value is multiplied with. Many secrets of a sum have the same holders."""
    weights = []
    for i in holders:
        above = below = 1
        for j in holders:
            if j != i:
                above, below = above * (j + 1) % PRIME, below * (j - i) % PRIME
        weights.append(above * pow(below, -1, PRIME) % PRIME)
    return weights
