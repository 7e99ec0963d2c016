"""What each party of a secure sum computes: a client (`Member`) and the server (`Aggregator`).

They know no channel and nobody's name: clients are numbers, from 0 on.

A client u hides its vector x_u of whole numbers modulo 2^b under two kinds of masks:

    y_u = x_u + G(b_u) + sum over neighbours v of  G(s_uv) if u < v,  - G(s_uv) if u > v

G is a generator of uniform numbers. u and v agree on s_uv over the server, which cannot compute it.
In the sum of all y the masks of pairs cancel. The seed b_u protects a client whose y_u comes late:
the server may then have collected u's keys s_uv, to remove the masks of a client that seemed to be
gone, and without b_u it could read x_u.

Source: Bonawitz et al. 2017, arXiv 1611.04482, section 4 and figure 4, without what is needed
against a server that does not keep to the protocol (signatures, the consistency check).
"""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from fltoolkit_research.secrecy.keys import (
    NBYTES_KEY,
    Integers,
    KeyPair,
    Random,
    open_sealed,
    seal,
    stream,
)
from fltoolkit_research.secrecy.shamir import (
    NBYTES_SECRET,
    NBYTES_SHARE,
    WrongShare,
    from_shares,
    into_shares,
)

NBYTES_SEALED = 2 * NBYTES_SHARE + 16  # two shares and the tag of AES-GCM


class Member:
    """One client in one sum: its secrets, and what it has received.

    Args:
        number: its number among the clients.
        threshold: how many shares open a secret.
        bits: sums are modulo 2^bits.
        random: the source of its secrets.
    """

    def __init__(self, number: int, threshold: int, bits: int, random: Random):
        self.number, self.threshold, self.bits = number, threshold, bits
        self._random = random
        self._envelope_key, self._mask_key = (KeyPair(random(32)) for _ in range(2))
        self._seed = random(NBYTES_SECRET)  # b_u
        self._keys: dict[int, bytes] = {}
        self._shares: dict[int, tuple[bytes, bytes]] = {}  # of each neighbour's two secrets
        self._answered: set[int] = set()  # clients of whose secrets it has given a share

    def advertise(self) -> bytes:
        """Round 1: two public keys, one for envelopes and one for masks."""
        return self._envelope_key.public + self._mask_key.public

    def share(self, keys: Mapping[int, bytes]) -> dict[int, bytes]:
        """Round 2: for each neighbour, shares of the mask key and of the seed, sealed.

        Raises ValueError if there are fewer keys than the secrets need holders.
        """
        self._keys = dict(keys)
        holders = [self.number, *keys]
        if len(holders) < self.threshold:
            raise ValueError(f"{len(keys)} neighbours: too few for threshold={self.threshold}")
        secrets = (self._mask_key.private, self._seed)
        of_key, of_seed = (into_shares(s, holders, self.threshold, self._random) for s in secrets)
        self._shares[self.number] = of_key[self.number], of_seed[self.number]
        return {
            v: seal(self._envelope(v, self.number, v), of_key[v] + of_seed[v], _way(self.number, v))
            for v in keys
        }

    def mask(self, numbers: Integers, sealed: Mapping[int, bytes]) -> Integers:
        """Round 3: the numbers under the masks shared with those whose envelopes came.

        Raises ValueError for an envelope that does not open.
        """
        for v, envelope in sealed.items():
            try:
                key, way = self._envelope(v, v, self.number), _way(v, self.number)
                content = open_sealed(key, envelope, way)
                if len(content) != 2 * NBYTES_SHARE:
                    raise ValueError(f"{len(content)} bytes in place of two shares")
            except (KeyError, ValueError) as error:
                raise FromClient(v, f"its sealed shares: {error}") from error
            self._shares[v] = content[:NBYTES_SHARE], content[NBYTES_SHARE:]
        hidden = numbers.astype(bits_dtype(self.bits))
        hidden += stream(self._seed, len(hidden), hidden.dtype)
        for v in sealed:
            seed = self._mask_key.agree(self._keys[v][NBYTES_KEY:], b"mask")
            mask = stream(seed, len(hidden), hidden.dtype)
            hidden = hidden + mask if self.number < v else hidden - mask
        return _cut(hidden, self.bits)

    def unmask(self, survivors: Collection[int], gone: Collection[int]) -> dict[int, bytes]:
        """Round 4: a share of each survivor's seed, and of the mask key of each that is gone.

        Never both of one client, since with both the server could read its vector: ValueError.
        """
        asked = [*survivors, *gone]
        if len({*asked}) < len(asked) or self._answered & {*asked}:
            raise ValueError(
                "the server asks for both secrets of a client: that would uncover its vector, so "
                "no share is given"
            )
        self._answered |= {*asked}
        shares = {v: self._shares[v][1] for v in survivors}
        return shares | {v: self._shares[v][0] for v in gone}

    def _envelope(self, other: int, sender: int, receiver: int) -> bytes:
        """The key of the one message from sender to receiver."""
        public = self._keys[other][:NBYTES_KEY]
        return self._envelope_key.agree(public, b"envelope " + _way(sender, receiver))


class FromClient(ValueError):
    """What a client has sent cannot be right; ``number`` is the client's."""

    def __init__(self, number: int, words: str):
        super().__init__(words)
        self.number = number


class Aggregator:
    """The server in one sum: what it has received, and how it removes the masks.

    Args:
        bits: sums are modulo 2^bits.
        neighbours: of each client, those that exchange keys with it.
        needed: how many shares open a secret of each client.
    """

    def __init__(
        self, bits: int, neighbours: Mapping[int, Collection[int]], needed: Mapping[int, int]
    ):
        self.bits, self.neighbours, self.needed = bits, neighbours, needed
        self.keys: dict[int, bytes] = {}  # what each has advertised
        self.sealed: dict[int, dict[int, bytes]] = {}  # by receiver, then by sender
        self.masked: dict[int, Integers] = {}
        self.shares: dict[int, dict[int, bytes]] = {}  # by owner of the secret, then by holder

    def total(self) -> Integers:
        """The sum modulo 2^bits of the vectors of all clients whose masked vectors came.

        Raises ValueError if the shares of a secret do not give it; `FromClient` if it is known who
        has sent a wrong one.
        """
        values = iter(self.masked.values())
        total = next(values).astype(bits_dtype(self.bits))
        for hidden in values:
            total = total + hidden
        for u in self.masked:
            total = total - stream(self._opened(u, "seed"), len(total), total.dtype)
        senders = {v for envelopes in self.sealed.values() for v in envelopes}
        # who has shared secrets and sent no vector: others' vectors hold masks shared with it
        for v in sorted(senders - self.masked.keys()):
            key = KeyPair(self._opened(v, "mask key"))
            if key.public != self.keys[v][NBYTES_KEY:]:
                raise ValueError(
                    f"the shares of client {v}'s mask key give another key than it has sent: it "
                    "or one of its neighbours has sent a wrong one"
                )
            for u in self.masked.keys() & self.neighbours[v]:
                seed = key.agree(self.keys[u][NBYTES_KEY:], b"mask")
                mask = stream(seed, len(total), total.dtype)
                total = total - mask if u < v else total + mask
        return _cut(total, self.bits)

    def _opened(self, owner: int, what: str) -> bytes:
        """A secret of a client, from all shares of it."""
        try:
            return from_shares(self.shares[owner], self.needed[owner])
        except ValueError as error:
            words = f"of client {owner}'s {what}, {error}"
            if isinstance(error, WrongShare) and error.holder is not None:
                raise FromClient(error.holder, words) from error
            raise ValueError(words) from error


# ------------------------------------------------------------------------------ numbers modulo 2^b


def bits_dtype(bits: int) -> Any:
    """The smallest unsigned dtype of so many bits; its sums are right modulo 2^bits."""
    if not 1 <= bits <= 64:
        raise ValueError(f"bits={bits}: sums are modulo 2^1 to 2^64")
    return next(d for d in (np.uint8, np.uint16, np.uint32, np.uint64) if bits <= np.iinfo(d).bits)


def pack_bits(numbers: Integers, bits: int) -> Integers:
    """Numbers below 2^bits as bytes, without gaps."""
    rows = np.ascontiguousarray(numbers.astype(bits_dtype(bits))).view(np.uint8)
    flat = np.unpackbits(rows.reshape(len(numbers), -1), axis=1, bitorder="little")[:, :bits]
    return np.packbits(flat.reshape(-1), bitorder="little")


def unpack_bits(packed: Integers, bits: int, count: int) -> Integers:
    """The inverse of `pack_bits`. Raises ValueError for a wrong number of bytes."""
    if len(packed) != -(-count * bits // 8):
        raise ValueError(f"{len(packed)} bytes: {count} numbers of {bits} bits were expected")
    dtype = np.dtype(bits_dtype(bits))
    wide = np.zeros((count, dtype.itemsize * 8), np.uint8)
    flat = np.unpackbits(packed, bitorder="little", count=count * bits)
    wide[:, :bits] = flat.reshape(count, bits)
    return np.packbits(wide, axis=1, bitorder="little").view(dtype).reshape(-1)


def _cut(numbers: Integers, bits: int) -> Integers:
    """Modulo 2^bits."""
    return numbers & numbers.dtype.type((1 << bits) - 1)


def _way(sender: int, receiver: int) -> bytes:
    return b"%d to %d" % (sender, receiver)
