"""Three sizes of what is sent: nominal bits, real bytes, and the entropy of single symbols.

Here: a channel that weighs some of its messages before they are sent. Real bytes are the ledger's
and exact; the other two are estimates from the messages that were weighed. Not here: how a codec
weighs (`fltoolkit.codecs.weigh`).
"""

import math
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass

from fltoolkit.channel import Arrival, Channel
from fltoolkit.codecs.base import Codec, weigh
from fltoolkit.codecs.stage import Sizes
from fltoolkit.history import Record
from fltoolkit.links import Link
from fltoolkit.trees import Tree

__all__ = ["WeighingChannel", "weigh"]


class WeighingChannel(Channel):
    """A channel that weighs every ``every``-th message of each kind and direction; see `weigh`.

    Weighing changes nothing that is sent. It takes about as long as encoding once more.

    Args:
        codecs: as those of `Channel`.
        clients: the names of the clients. Messages from a client to another party go "up", the
            reverse goes "down", and all others (such as a bottom sent from client to client) go
            "across".
        every: how often to weigh; 1 is exact.
    """

    def __init__(
        self,
        codecs: Mapping[str, Codec] | None = None,
        *,
        clients: Collection[str],
        every: int = 50,
    ):
        super().__init__(codecs)
        if every < 1:
            raise ValueError(f"every={every}: weigh every 1 or more messages")
        self.every, self.clients = every, frozenset(clients)
        self._sums: dict[str, _Sums] = {}

    def cross(self, link: Link, tree: Tree) -> Arrival:
        """As in `Channel`; each ``every``-th message is also weighed by the sender's codec."""
        name = f"{link.kind}_{self._direction(link)}"
        sums = self._sums.get(name, _Sums())
        due, sizes = sums.messages % self.every == 0, None
        if due:
            with suppress(TypeError, ValueError):  # sending will complain, and say on which link
                sizes = weigh(self.links.open(link).sending, tree)
        arrival = super().cross(link, tree)
        self._sums[name] = sums  # only now: a message that failed has no sizes
        nbytes = len(arrival.message)
        sums.messages += 1
        sums.nbytes += nbytes
        if due:
            nominal, entropy = sizes or Sizes(math.nan, math.nan)
            sums.weighed += nbytes
            sums.nominal += nominal
            sums.entropy += entropy
        return arrival

    def _direction(self, link: Link) -> str:
        sender, receiver = (name in self.clients for name in link[:2])
        return "across" if sender == receiver else "up" if sender else "down"

    def sizes(self) -> Record:
        """``nbytes_<kind>_<direction>`` so far, exact; ``nominal_...``, ``entropy_...`` as weighed.

        The last two are estimates: their ratio to real bytes is that of the weighed messages. If a
        codec did not know the sizes of one of these, ``nominal_...`` and ``entropy_...`` are
        missing.
        """
        record: Record = {}
        for name, sums in sorted(self._sums.items()):
            record[f"nbytes_{name}"] = sums.nbytes
            for size, weight in (("nominal", sums.nominal), ("entropy", sums.entropy)):
                if not math.isnan(weight):
                    record[f"{size}_{name}"] = round(sums.nbytes * weight / sums.weighed)
        return record


@dataclass
class _Sums:
    """Of one kind in one direction; all but the number of messages in bytes."""

    messages: int = 0
    nbytes: int = 0
    weighed: int = 0  # real bytes of those messages that were weighed
    nominal: float = 0.0  # NaN: not known of one of them
    entropy: float = 0.0
