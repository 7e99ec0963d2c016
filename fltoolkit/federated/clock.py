"""Virtual time: how long each client takes, who drops out, and the weight of a late update.

A clock is a pure function of client and round, so a run with stragglers can be repeated exactly.
"""

import math
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from fltoolkit.federated.client import check_count, check_function
from fltoolkit.history import naming_its_words
from fltoolkit.trees import Tree

# -------------------------------------------------------------------------------------- clocks

Clock = Callable[[str, int], float]
"""``clock(client, round_)``: virtual seconds from being sent the model to delivering the update.

``math.inf``: the client drops out of this round and sends no update.
"""


@dataclass(frozen=True)
class Even:
    """Every client always takes the same time.

    >>> Even()("alice", 3)
    1.0
    """

    seconds: float = 1.0

    def __call__(self, client: str, round_: int) -> float:
        """The time, which is the same for all."""
        return self.seconds


@dataclass(frozen=True)
class LogNormal:
    """Fast and slow clients: each client has its own time, ``exp(sigma * normal)`` seconds.

    In each round this time is multiplied by noise, ``exp(noise * normal)``, and a client drops out
    with probability ``dropout``. Times depend only on the seed, the client's id and the round.

    >>> clock = LogNormal(sigma=1.0, noise=0.0, seed=1)
    >>> clock("alice", 0) == clock("alice", 7), clock("alice", 0) == clock("bob", 0)
    (True, False)
    """

    sigma: float  # larger = more unequal clients
    noise: float = 0.1  # larger = more unequal rounds
    dropout: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        for name, value in (("sigma", self.sigma), ("noise", self.noise)):
            if not 0 <= value < math.inf:
                raise ValueError(f"{name}={value}: a spread must be 0 or more, and finite")
        if not 0 <= self.dropout <= 1:
            raise ValueError(f"dropout={self.dropout}: a probability must be from 0 to 1")

    def __call__(self, client: str, round_: int) -> float:
        """The time of this client in this round."""
        who = zlib.crc32(client.encode())
        speed = np.random.default_rng([self.seed, who]).normal()
        today = np.random.default_rng([self.seed, who, round_])
        noise = today.normal()
        if today.random() < self.dropout:
            return math.inf
        return math.exp(self.sigma * speed + self.noise * noise)


@dataclass(frozen=True)
class Scripted:
    """Times written by hand: for each client a list by round; its last time is used from then on.

    >>> clock = Scripted({"alice": [1.0], "bob": [5.0, math.inf, 2.0]})
    >>> [clock("bob", round_) for round_ in range(4)], clock("alice", 3)
    ([5.0, inf, 2.0, 2.0], 1.0)
    """

    seconds: Mapping[str, Sequence[float]]

    def __call__(self, client: str, round_: int) -> float:
        """The time that the script gives."""
        if not (row := self.seconds.get(client)):
            raise ValueError(f"no times for client {client!r}, only for {sorted(self.seconds)}")
        return row[min(round_, len(row) - 1)]


# ------------------------------------------------------------------------------- stale updates

Staleness = Callable[[int], float]
"""The weight of an update that is so many rounds late: 1 if it is in time, 0 if it is dropped."""


@dataclass(frozen=True)
class Drop:
    """A late update is not used, but its bytes were sent and are counted.

    >>> Drop()(0), Drop()(1)
    (1.0, 0.0)
    """

    def __call__(self, staleness: int) -> float:
        """1 in time, 0 if late."""
        return float(staleness == 0)


@dataclass(frozen=True)
class Polynomial:
    """``(staleness + 1) ** -a``; with a = 0 a late update counts as one in time.

    Source: Xie et al. 2019, arXiv 1903.03934.

    >>> [round(Polynomial(0.5)(staleness), 2) for staleness in (0, 1, 3)]
    [1.0, 0.71, 0.5]
    """

    a: float = 0.5  # larger = late updates count less

    def __call__(self, staleness: int) -> float:
        """The weight of an update so many rounds late."""
        return float((staleness + 1) ** -self.a)


# ------------------------------------------------------------------------------------- arrivals


@naming_its_words
@dataclass(frozen=True)
class Arrivals:
    """When a round ends, and what becomes of updates that come after its end.

    The defaults wait for everybody, and everybody takes one virtual second.

    Args:
        wait_for: how many updates a round needs; the other clients of the cohort are backups. None
            waits for all.
        timeout: virtual seconds after which a round ends with what has arrived.
        staleness: the weight of an update that comes rounds later than it was asked for.
        clock: how long each client takes.

    >>> Arrivals(wait_for=5, staleness=Polynomial(0.5), clock=LogNormal(1.0)).wait_for
    5
    """

    wait_for: int | None = None
    timeout: float = math.inf
    staleness: Staleness = Drop()
    clock: Clock = Even()

    def __post_init__(self) -> None:
        check_count("wait_for", self.wait_for)
        if not self.timeout > 0:
            raise ValueError(f"timeout={self.timeout}: give virtual seconds above 0")
        check_function("staleness", self.staleness)
        check_function("clock", self.clock)

    def with_staleness(
        self, updates: "Iterable[ReceivedUpdate]", round_: int
    ) -> "list[ReceivedUpdate]":
        """The updates, each weight multiplied by that of its staleness; those of 0 are left out.

        >>> late = ReceivedUpdate("ann", 0, 5.0, 100, 0.3, {}, {})
        >>> arrivals = Arrivals(staleness=Polynomial(1.0))
        >>> [update.weight for update in arrivals.with_staleness([late], round_=1)]
        [50.0]
        """
        factors = [(u, weight_of(self.staleness, round_ - u.round_)) for u in updates]
        return [u._replace(weight=u.weight * factor) for u, factor in factors if factor > 0]


# ---------------------------------------------------------------------------------- the backlog


class ReceivedUpdate(NamedTuple):
    """A client's update as it arrives at the server, or the report that its training failed."""

    client: str
    round_: int  # in which the client was asked
    seconds: float  # when the update arrives, in virtual time
    weight: float  # number of samples
    loss: float
    delta: Tree | None  # None: the training of this client failed
    masks: Tree  # which coordinates were sent; empty if all were


@dataclass
class Backlog:
    """What the next round needs: the late updates that have not arrived yet, and the virtual time.

    Give a backlog to `fedavg` if you want to save the run and go on later; `save_run` accepts it
    like a party.

    >>> backlog = Backlog(late=[ReceivedUpdate("ann", 0, 5.0, 100, 0.3, {}, {})])
    >>> backlog.idle(["ann", "bea"]), [update.client for update in backlog.take(until=6.0)]
    (['bea'], ['ann'])
    """

    seconds: float = 0.0
    late: list[ReceivedUpdate] = field(default_factory=list)
    name = "late updates"  # of the file in which it is saved

    def idle(self, clients: Iterable[str]) -> list[str]:
        """The clients that are not at work for an earlier round any more, and so can be drawn."""
        busy = {a.client for a in self.late if a.seconds > self.seconds}
        return [client for client in clients if client not in busy]

    def take(self, until: float) -> list[ReceivedUpdate]:
        """Set the time to ``until``; return the late updates that have arrived by then."""
        self.seconds = until
        come = sorted((a for a in self.late if a.seconds <= until), key=lambda a: a.seconds)
        self.late = [a for a in self.late if a.seconds > until]
        return come

    def state_dict(self) -> dict[str, Any]:
        """Plain values and tensors, so that it can be saved without pickle."""
        return {"seconds": self.seconds, "late": [a._asdict() for a in self.late]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved `state_dict`."""
        self.seconds = state["seconds"]
        self.late = [ReceivedUpdate(**a) for a in state["late"]]


def takes(clock: Clock, client: str, round_: int) -> float:
    """The time that a clock gives. Raises ValueError if it is negative or NaN."""
    if not (seconds := clock(client, round_)) >= 0:
        raise ValueError(
            f"{clock!r} gives {seconds} for {client!r} in round {round_}: virtual seconds, 0 or "
            "more, or math.inf for a drop-out"
        )
    return seconds


def weight_of(staleness: Staleness, rounds: int) -> float:
    """The weight of an update that is so many rounds late. Raises ValueError if it is negative."""
    if not 0 <= (weight := staleness(rounds)) < math.inf:
        raise ValueError(
            f"{staleness!r} gives the weight {weight} to an update {rounds} rounds late: a weight "
            "must be 0 or more, and finite"
        )
    return weight
