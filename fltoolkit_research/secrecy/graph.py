"""Who shares masks with whom: everybody with everybody, or each client with some others."""

import math
from collections.abc import Mapping

import numpy as np

Graph = Mapping[int, frozenset[int]]
"""For each client's number, the numbers of its neighbours; the relation is symmetric."""


def complete(num_clients: int) -> Graph:
    """Each client is a neighbour of all others, as in Bonawitz et al. 2017."""
    all_clients = frozenset(range(num_clients))
    return {u: all_clients - {u} for u in range(num_clients)}


def graph_of(num_clients: int, degree: int | None, seed: int) -> Graph:
    """`random_regular`; `complete` without a degree, or with too few clients for it."""
    if degree is None or degree >= num_clients - 1:
        return complete(num_clients)
    return random_regular(num_clients, degree, seed)


def random_regular(num_clients: int, degree: int, seed: int) -> Graph:
    """A random ring in which each client knows the degree / 2 next ones on either side.

    This is the random Harary graph of Bell et al. 2020 (ePrint 2020/704, section 3). A client has
    ``degree`` keys and shares, however many clients there are.

    Raises ValueError for a degree that is odd or not below the number of clients.
    """
    if degree % 2 or not 2 <= degree < num_clients:
        raise ValueError(
            f"degree={degree}: an even number from 2 to {num_clients - 1}, below the number of "
            "clients. With fewer clients take the complete graph (neighbours=None)"
        )
    places = np.random.default_rng(seed).permutation(num_clients)
    steps = [step for half in range(1, degree // 2 + 1) for step in (half, -half)]
    return {
        int(places[p]): frozenset(int(places[(p + step) % num_clients]) for step in steps)
        for p in range(num_clients)
    }


def num_neighbours(num_clients: int) -> int:
    """The smallest even degree of `random_regular` that keeps the three promises of Bell et al.

    A client's secrets open with more than two thirds of the ``degree + 1`` shares that it and its
    neighbours hold. A fifth of the clients work together with the server, and a tenth drop out:

    1. No client has so many corrupt neighbours that they open its secrets, but with probability
       2^-40 (hypergeometric tail, times the number of clients).
    2. Without the corrupt and the silent ones the graph hangs together, or the server would learn
       the sum of a part: ``num_clients * 0.3^(degree / 2) <= 2^-40``.
    3. Each client has enough neighbours that answer, but with probability 2^-20.

    Returns ``num_clients - 1`` (the complete graph) if no smaller degree will do.

    Source: Bell, Bonawitz, Gascón, Lepoint and Raykova 2020, "Secure single-server aggregation with
    (poly)logarithmic overhead", ePrint 2020/704, section 3.

    >>> [num_neighbours(n) for n in (100, 1000, 10_000)]
    [54, 78, 96]
    """
    num_corrupt, num_silent = num_clients // 5, num_clients // 10
    removed = (num_corrupt + num_silent) / num_clients
    others = num_clients - 1
    for degree in range(2, others, 2):
        needed = 2 * (degree + 1) // 3 + 1
        opened = num_clients * _chance(range(needed, degree + 1), others, num_corrupt, degree)
        apart = num_clients * removed ** (degree / 2)
        own = 1  # of the shares that are needed, it holds one itself
        lost = num_clients * _chance(range(needed - own), others, others - num_silent, degree)
        if max(opened, apart) <= 2.0**-40 and lost <= 2.0**-20:
            return degree
    return others


def _chance(counts: range, others: int, marked: int, drawn: int) -> float:
    """That as many of the drawn ones are marked as ``counts`` says (hypergeometric)."""
    ways = sum(math.comb(marked, k) * math.comb(others - marked, drawn - k) for k in counts)
    return ways / math.comb(others, drawn)
