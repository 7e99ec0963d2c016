"""Secure sums: the server learns the sum of all clients' updates and no single one of them.

Here: the messages of the four rounds (`secure_sum`), and what training takes in place of a plain
average: `SecureSum`, and `PlainSum`, the same whole numbers in the clear. docs/secrecy.md says
what a secure sum protects and what not.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from fltoolkit.channel import Channel
from fltoolkit.codecs.base import Codec
from fltoolkit.federated.workers import client_seed
from fltoolkit.trees import Tree, as_vector, from_vector
from fltoolkit_research.secrecy.graph import Graph, complete, graph_of
from fltoolkit_research.secrecy.keys import NBYTES_KEY, Integers, random_source
from fltoolkit_research.secrecy.parties import (
    NBYTES_SEALED,
    Aggregator,
    FromClient,
    Member,
    pack_bits,
    unpack_bits,
)
from fltoolkit_research.secrecy.shamir import NBYTES_SHARE
from fltoolkit_research.secrecy.summing import Summed, bits_of_sum, check_can_sum

ROUNDS = ("keys", "shares", "masked", "unmasking")
"""The rounds of a secure sum, and the kinds of their messages."""

Dropouts = Callable[[Sequence[str], int], Mapping[str, str]]
"""``dropouts(clients, step)``: who drops out, and in which of `ROUNDS` it first sends nothing."""

Vectors = Mapping[str, Integers]  # of each client
Silent = Mapping[str, str]  # in which round a client drops out


class Sum(NamedTuple):
    """What `secure_sum` returns."""

    total: Integers | None  # modulo 2^bits; None in a process without the server
    clients: list[str]  # whose vectors are in it


def secure_sum(
    channel: Channel,
    server: str,
    vectors: Vectors,
    *,
    bits: int,
    threshold: float = 2 / 3,
    graph: Graph | None = None,
    silent: Silent | None = None,
    seed: int | None = None,
) -> Sum:
    """The sum modulo 2^bits of the clients' vectors, which the server cannot see one by one.

    Four rounds; whoever drops out sends nothing from then on:

    1. ``keys``: each client sends two public keys; the server passes on to each those of its
       neighbours
    2. ``shares``: each client makes shares of two secrets, its mask key and its own seed, and sends
       each neighbour one of either, sealed; the server passes them on
    3. ``masked``: each client sends its vector under the masks it shares with those neighbours
    4. ``unmasking``: the server says who is left; each client sends a share of the seed of each
       neighbour that is left, and of the mask key of each that dropped out after round 2

    Source: Bonawitz et al. 2017, arXiv 1611.04482, figure 4, for an honest but curious server; with
    a sparse graph Bell et al. 2020, ePrint 2020/704, algorithm 2.

    Args:
        channel: carries and counts all messages, by kind.
        server: its name.
        vectors: of each client, whole numbers from 0 to 2^bits - 1, all of one length. Over several
            processes only those of the clients in this process are read.
        bits: of the sum.
        threshold: to open a secret of a client, ``floor(threshold * number) + 1`` of its neighbours
            and itself must be left. Larger: more colluding clients are harmless, fewer may drop
            out. Below one half, a dishonest server could collect both secrets of a client.
        graph: who are neighbours; None: everybody.
        silent: who drops out, and in which of `ROUNDS`; see `Dropouts`.
        seed: makes the keys repeatable, for tests; None takes them from the operating system.

    Raises:
        RuntimeError: too many clients have dropped out, so that the sum is lost; raised before
            the server learns anything more.
        ValueError: an argument is not allowed, or a message cannot be right; the text names who has
            sent it. docs/secrecy.md says what a dishonest client can do all the same.
    """
    names, silent = list(vectors), dict(silent or {})
    if unknown := {*silent.values()} - {*ROUNDS}:
        raise ValueError(f"rounds {sorted(unknown)}: must be of {', '.join(ROUNDS)}")
    graph = complete(len(names)) if graph is None else graph
    if len(names) < 2 or not 0 < threshold < 1 or {*graph} != {*range(len(names))}:
        raise ValueError(
            f"{len(names)} clients, threshold={threshold}, a graph of {len(graph)}: two clients or "
            "more, a threshold between 0 and 1, and a graph of the clients' numbers"
        )
    _check_vectors({name: v for name, v in vectors.items() if channel.is_here(name)}, bits)
    needed = {u: int(threshold * (len(graph[u]) + 1)) + 1 for u in graph}
    members = {
        u: Member(u, needed[u], bits, random_source(seed, channel.step, name))
        for u, name in enumerate(names)
        if channel.is_here(name)
    }
    aggregator = Aggregator(bits, graph, needed) if channel.is_here(server) else None
    rounds = _Rounds(channel, server, names, graph, needed, silent, members, aggregator)
    keys = rounds.exchange_keys()
    envelopes = rounds.exchange_shares(keys)
    rounds.send_masked(vectors, envelopes, bits)
    rounds.unmask()
    with rounds.reading("unmasking"):
        total = None if aggregator is None else aggregator.total()
    return Sum(total, [names[u] for u in rounds.left["masked"]])


@dataclass
class _Rounds:
    """The four rounds of one sum: who sends what to whom.

    Clients are numbers here. A message is made where its sender is, and read where its receiver is;
    another process gives and gets an empty tree in its place.
    """

    channel: Channel
    server: str
    names: Sequence[str]
    graph: Graph
    needed: Mapping[int, int]  # how many shares open a secret of each client
    silent: Silent
    members: Mapping[int, Member]  # the clients in this process
    aggregator: Aggregator | None  # None in a process without the server

    def __post_init__(self) -> None:
        self.left: dict[str, list[int]] = {}  # who still sends in each round
        for k, round_ in enumerate(ROUNDS):
            gone = ROUNDS[: k + 1]
            self.left[round_] = [
                u for u, name in enumerate(self.names) if self.silent.get(name) not in gone
            ]

    @contextmanager
    def reading(self, round_: str, sender: str = "") -> Iterator[None]:
        """While a message is read that may be wrong: an error names who sent it, if that is known.

        Clients are numbers in the error: their places in the order in which they were given.
        """
        try:
            yield
        except (KeyError, TypeError, ValueError) as error:
            known = self.names[error.number] if isinstance(error, FromClient) else sender
            raise ValueError(
                f"secure sum, round {round_!r}: what {known or 'a client'!r} has sent cannot "
                f"be right: {error}. The sum of this round is lost"
            ) from error

    def exchange_keys(self) -> dict[int, dict[int, bytes]]:
        """Round 1: what each client gets, the public keys of each neighbour."""
        for u in self.left["keys"]:
            member = self.members.get(u)
            message = {"keys": _rows([member.advertise()])} if member else {}
            came = self.channel.send(self.names[u], self.server, "keys", message)
            if self.aggregator:
                with self.reading("keys", self.names[u]):
                    (self.aggregator.keys[u],) = _bytes(came["keys"], 2 * NBYTES_KEY, count=1)
        self._check_left("keys", owners="keys")
        return self._passed_on("keys", "keys", 2 * NBYTES_KEY, lambda server, u, v: server.keys[v])

    def exchange_shares(
        self, keys: Mapping[int, Mapping[int, bytes]]
    ) -> dict[int, dict[int, bytes]]:
        """Round 2: what each client gets, the sealed shares from each neighbour."""
        for u in self.left["shares"]:
            member = self.members.get(u)
            message = {"sealed": _rows([*member.share(keys[u]).values()])} if member else {}
            came = self.channel.send(self.names[u], self.server, "shares", message)
            if self.aggregator:
                receivers = self._neighbours(u, "keys")
                with self.reading("shares", self.names[u]):
                    rows = _bytes(came["sealed"], NBYTES_SEALED, count=len(receivers))
                for v, sealed in zip(receivers, rows, strict=True):
                    self.aggregator.sealed.setdefault(v, {})[u] = sealed
        self._check_left("shares", owners="shares")
        return self._passed_on(
            "shares", "sealed", NBYTES_SEALED, lambda server, u, v: server.sealed[u][v]
        )

    def _passed_on(
        self, round_: str, name: str, nbytes: int, of: Callable[[Aggregator, int, int], bytes]
    ) -> dict[int, dict[int, bytes]]:
        """What each client gets by way of the server: ``of(server, client, neighbour)`` of each."""
        got = {}
        for u in self.left[round_]:
            message = {}
            if self.aggregator:
                senders = self._neighbours(u, round_)
                rows = [of(self.aggregator, u, v) for v in senders]
                message = {"who": _numbers(senders), name: _rows(rows)}
            came = self.channel.send(self.server, self.names[u], round_, message)
            if u in self.members:
                with self.reading(round_, self.server):
                    rows = _bytes(came[name], nbytes)
                    got[u] = dict(zip(came["who"].tolist(), rows, strict=True))
        return got

    def send_masked(
        self, vectors: Vectors, envelopes: Mapping[int, Mapping[int, bytes]], bits: int
    ) -> None:
        """Round 3: each client's vector under its masks."""
        for u in self.left["masked"]:
            vector, message = vectors[self.names[u]], {}
            if u in self.members:
                with self.reading("shares", self.server):
                    hidden = self.members[u].mask(vector, envelopes[u])
                message = {"y": torch.from_numpy(pack_bits(hidden, bits))}
            came = self.channel.send(self.names[u], self.server, "masked", message)
            if self.aggregator:
                with self.reading("masked", self.names[u]):
                    y = came["y"].numpy()
                    self.aggregator.masked[u] = unpack_bits(y, bits, len(vector))
        self._check_left("masked", owners="shares")

    def unmask(self) -> None:
        """Round 4: the shares with which the server removes the masks."""
        self._check_left("unmasking", owners="shares")
        alive, answering = {*self.left["masked"]}, {*self.left["unmasking"]}
        for u in self.left["masked"]:
            shared = self._neighbours(u, "shares")
            survivors = [u, *(v for v in shared if v in alive)]
            gone = [v for v in shared if v not in alive]
            message = {}
            if self.aggregator:
                message = {"left": _numbers(survivors), "gone": _numbers(gone)}
            asked = self.channel.send(self.server, self.names[u], "unmasking", message)
            if u not in answering:
                continue
            message = {}
            if u in self.members:
                with self.reading("unmasking", self.server):
                    shares = self.members[u].unmask(asked["left"].tolist(), asked["gone"].tolist())
                message = {"shares": _rows([*shares.values()])}
            came = self.channel.send(self.names[u], self.server, "unmasking", message)
            if self.aggregator:
                with self.reading("unmasking", self.names[u]):
                    rows = _bytes(came["shares"], NBYTES_SHARE, count=len(shared) + 1)
                for v, share in zip([*survivors, *gone], rows, strict=True):
                    self.aggregator.shares.setdefault(v, {})[u] = share

    def _neighbours(self, u: int, round_: str) -> list[int]:
        """The neighbours of ``u`` that still send in this round."""
        return [v for v in self.left[round_] if v in self.graph[u]]

    def _check_left(self, round_: str, owners: str) -> None:
        """Raise RuntimeError if the secrets of those left in round ``owners`` cannot be opened."""
        for u in self.left[owners]:
            holders = self.graph[u] | {u}
            rest = len(holders & {*self.left[round_]})
            if rest < self.needed[u]:
                raise RuntimeError(
                    f"secure sum, round {round_!r}: {rest} of the {len(holders)} clients that hold "
                    f"shares of the secrets of {self.names[u]!r} are left, and "
                    f"{self.needed[u]} are needed. The sum of this round is lost, and nothing "
                    "about its updates is known. Take larger cohorts, or lower the threshold: then "
                    "fewer colluding clients can open a secret"
                )


# --------------------------------------------------------------------- what training is given


class _Summing:
    """What `SecureSum` and `PlainSum` share: updates become whole numbers, and their sum a mean."""

    codec: Codec
    dropouts: Dropouts | None
    server: str
    seed: int

    def __post_init__(self) -> None:
        check_can_sum(self.codec)

    def __call__(self, channel: Channel, trees: Mapping[str, Tree]) -> Tree:
        """As an exchange: the server sends the mean to all workers, dropped out or not."""
        mean = self.collect(channel, self.server, trees, [])
        return channel.broadcast(self.server, [*trees], "model", mean)

    def collect(
        self, channel: Channel, server: str, updates: Mapping[str, Tree], late: Collection[str]
    ) -> Tree:
        """The mean of the updates that arrive; late clients drop out in round 3.

        In a process without the server, zeros replace the mean.
        """
        silent = dict.fromkeys(late, "masked")
        silent |= {} if self.dropouts is None else self.dropouts([*updates], channel.step)
        layout = Layout(next(iter(updates.values())))
        summed = Summed(self.codec, layout.num_values, channel.step)
        vectors = dict.fromkeys([*updates, *late], np.zeros(summed.num_numbers, np.uint64))
        for u, update in updates.items():
            if channel.is_here(u):
                salt = client_seed(self.seed, channel.step, u)
                vectors[u] = summed.numbers(layout.vector(update), salt)
        total, left = self._sum(channel, server, vectors, silent, summed.num_levels)
        if total is None:
            return layout.tree(torch.zeros(layout.num_values))
        return layout.tree(summed.mean(total, len(left)))

    def _sum(
        self, channel: Channel, server: str, vectors: Vectors, silent: Silent, num_levels: int
    ) -> Sum:
        raise NotImplementedError


@dataclass(frozen=True)
class SecureSum(_Summing):
    """The mean of updates by a secure sum: an `Exchange`, and a mean for `fedavg`.

    ``ddp(..., exchange=SecureSum(codec))``, ``diloco(..., exchange=SecureSum(codec))``,
    ``Server(mean=SecureSum(codec))``. All clients weigh the same. Sums are exact to the last
    bit, so the mean is the same as that of `PlainSum` with the same arguments.

    Args:
        codec: a pipeline that can sum, with a `Grid` at its end; see summing.py.
        neighbours: of each client, in the sparse graph of Bell et al.; None: everybody.
        threshold: see `secure_sum`.
        bits: of the sum; None: as many as all clients' symbols together need. With fewer, sums
            far from the middle wrap around without an error.
        dropouts: who drops out, and when; None: nobody.
        server: its name as an exchange; `fedavg` gives its own.
        seed: of the rounding and the graph.
    """

    codec: Codec
    neighbours: int | None = None
    threshold: float = 2 / 3
    bits: int | None = None
    dropouts: Dropouts | None = None
    server: str = "server"
    seed: int = 0

    def _sum(
        self, channel: Channel, server: str, vectors: Vectors, silent: Silent, num_levels: int
    ) -> Sum:
        whole = bits_of_sum(len(vectors), num_levels)
        bits = whole if self.bits is None else min(self.bits, whole)
        graph_seed = int(np.random.SeedSequence([self.seed, channel.step]).generate_state(1)[0])
        total, left = secure_sum(
            channel,
            server,
            {u: numbers & np.uint64((1 << bits) - 1) for u, numbers in vectors.items()},
            bits=bits,
            threshold=self.threshold,
            graph=graph_of(len(vectors), self.neighbours, graph_seed),
            silent=silent,
        )
        largest = len(left) * (num_levels - 1)
        if total is not None and bits == whole and total.max(initial=0) > largest:
            raise ValueError(
                f"secure sum: {len(left)} honest vectors add up to {largest} at most, and the sum "
                f"holds {total.max()}. A client has sent another vector, or other secrets, than it "
                "should; the masks do not show which. Nothing is averaged in this round"
            )
        return Sum(None if total is None else _lifted(total, bits, largest), left)


@dataclass(frozen=True)
class PlainSum(_Summing):
    """The same whole numbers as `SecureSum`, added by the server in the clear.

    So the difference between the two is what secrecy costs, and nothing else: the means are equal
    to the last bit. Each client sends its symbols at their own width (kind ``update``).
    """

    codec: Codec
    dropouts: Dropouts | None = None
    server: str = "server"
    seed: int = 0

    def _sum(
        self, channel: Channel, server: str, vectors: Vectors, silent: Silent, num_levels: int
    ) -> Sum:
        return plain_sum(channel, server, vectors, silent, bits_of_sum(1, num_levels))


def plain_sum(channel: Channel, server: str, vectors: Vectors, silent: Silent, bits: int) -> Sum:
    """The sum of vectors of numbers below 2^bits, which are sent in the clear (kind ``update``).

    Clients that would drop out of a secure sum before its last round send nothing.
    """
    total = np.zeros(len(next(iter(vectors.values()))), np.uint64)
    left = [u for u in vectors if silent.get(u, "unmasking") == "unmasking"]
    if not left:
        raise RuntimeError("all clients have dropped out: there is nothing to add")
    for u in left:
        packed = torch.from_numpy(pack_bits(vectors[u], bits))
        came = channel.send(u, server, "update", {"y": packed} if channel.is_here(u) else {})
        if channel.is_here(server):
            try:
                total += unpack_bits(came["y"].numpy(), bits, len(total))
            except (KeyError, TypeError, ValueError) as error:
                raise ValueError(f"what {u!r} has sent cannot be right: {error}") from error
    return Sum(total if channel.is_here(server) else None, left)


class Layout:
    """All entries of a tree as one vector, and back. Raises ValueError for whole numbers in it."""

    def __init__(self, tree: Tree):
        if wrong := [name for name, t in tree.items() if not t.is_floating_point()]:
            raise ValueError(
                f"entries {wrong} are not floating-point, and secure sums carry nothing else: use "
                "a model without such buffers (LayerNorm or GroupNorm for BatchNorm)"
            )
        self._like = tree
        self.num_values = sum(t.numel() for t in tree.values())

    def vector(self, tree: Tree) -> Tensor:
        """The values of all entries, one after the other."""
        return as_vector(tree).detach().cpu().float()

    def tree(self, vector: Tensor) -> Tree:
        """The entries with these values."""
        values = from_vector(vector, self._like)
        return {name: part.to(self._like[name].dtype) for name, part in values.items()}


def _lifted(total: Integers, bits: int, largest: int) -> Integers:
    """The sum itself from its remainder: the number nearest to the middle of 0 and ``largest``."""
    lowest = max(0, (largest - (1 << bits) + 1) // 2)
    modulus = np.int64(1) << bits
    return ((total.astype(np.int64) - lowest) % modulus + lowest).clip(0, largest).astype(np.uint64)


# ------------------------------------------------------------------------------ bytes in trees


def _rows(each: Sequence[bytes]) -> Tensor:
    """Byte strings of one length as rows: uint8 [count, length]."""
    flat = np.frombuffer(b"".join(each), np.uint8)
    return torch.from_numpy(flat.reshape(len(each), -1).copy() if each else np.zeros((0, 0), "u1"))


def _bytes(rows: Tensor, length: int, count: int | None = None) -> list[bytes]:
    """The byte strings again. Raises ValueError for another length or number than expected."""
    count = len(rows) if count is None else count
    if rows.dtype != torch.uint8 or (count and rows.shape != (count, length)):
        raise ValueError(
            f"{rows.dtype} {list(rows.shape)} in place of {count} rows of {length} bytes"
        )
    return [row.tobytes() for row in rows.numpy()]


def _check_vectors(vectors: Vectors, bits: int) -> None:
    """Raise ValueError for vectors of unlike lengths, or with numbers that are not of the sum."""
    lengths = {name: np.shape(vector) for name, vector in vectors.items()}
    if len({*lengths.values()}) > 1 or any(len(shape) != 1 for shape in lengths.values()):
        raise ValueError(f"vectors of the shapes {lengths}: all must be of one length, [length]")
    for name, vector in vectors.items():
        numbers = np.asarray(vector)
        whole = numbers.dtype.kind in "iu"
        if not whole or (len(numbers) and not 0 <= numbers.min() <= numbers.max() < 1 << bits):
            raise ValueError(
                f"the vector of {name!r} holds {numbers.dtype} from {numbers.min(initial=0)} to "
                f"{numbers.max(initial=0)}: give whole numbers from 0 to 2^{bits} - 1"
            )


def _numbers(clients: Sequence[int]) -> Tensor:
    return torch.tensor(clients, dtype=torch.int16)
