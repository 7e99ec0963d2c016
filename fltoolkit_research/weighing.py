"""Three sizes of a message: its nominal bits, its real bytes, and the entropy of its symbols.

Here: a channel that weighs some of its messages before they are sent. The real bytes come from the
ledger and are exact; the other two sizes are estimated from the messages that were weighed. Not
here: how a codec weighs (`fltoolkit.codecs.Codec.weigh`).
"""

import math
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass

from fltoolkit.channel import Delivery
from fltoolkit.codecs.base import Codec
from fltoolkit.codecs.stage import Sizes
from fltoolkit.links import Link
from fltoolkit.trees import Tree
from fltoolkit_research.codecs.same_mask import SameMaskChannel


class WeighingChannel(SameMaskChannel):
    """A channel that weighs every ``every``-th message of each kind and direction.

    Weighing takes about as long as encoding the message again, and changes nothing that is sent.

    Args:
        codecs: the codecs by kind, as in `Channel`.
        clients: the names of the clients. Messages from a client to another party go "up", those
            to a client "down", and those from client to client "across".
        every: every how many messages one is weighed; with 1 the sizes are exact.
    """

    def __init__(
        self,
        codecs: Mapping[str, Codec] | None = None,
        *,
        clients: Collection[str],
        every: int = 50,
    ):
        super().__init__(codecs)
        self.every, self.clients = every, frozenset(clients)
        self._sums: dict[str, _Sums] = {}

    def cross(self, link: Link, tree: Tree) -> Delivery:
        """Carry a message as `Channel` does; the sender's codec weighs every ``every``-th one."""
        sender, receiver = (party in self.clients for party in link[:2])
        way = "across" if sender == receiver else "up" if sender else "down"
        name = f"{link.kind}_{way}"
        sums = self._sums.get(name, _Sums())
        due, sizes = sums.messages % self.every == 0, None
        if due:
            with suppress(TypeError, ValueError):  # sending raises the same error, with the link
                sizes = self.links.codecs_of(link).sending.weigh(tree)
        arrival = super().cross(link, tree)
        self._sums[name] = sums  # after sending, because a message that failed has no sizes
        nbytes = len(arrival.message)
        sums.messages += 1
        sums.nbytes += nbytes
        if due:
            nominal, entropy = sizes or Sizes(math.nan, math.nan)
            sums.weighed += nbytes
            sums.nominal += nominal
            sums.entropy += entropy
        return arrival

    def sizes(self) -> dict[str, int]:
        """The sizes so far: ``nbytes_<kind>_<direction>``, ``nominal_...`` and ``entropy_...``.

        The first is exact. The other two are estimates: their ratio to the real bytes is that of
        the weighed messages. They are missing if a codec could not compute one of these.
        """
        record: dict[str, int] = {}
        for name, sums in sorted(self._sums.items()):
            record[f"nbytes_{name}"] = sums.nbytes
            for size, weight in (("nominal", sums.nominal), ("entropy", sums.entropy)):
                if not math.isnan(weight):
                    record[f"{size}_{name}"] = round(sums.nbytes * weight / sums.weighed)
        return record


@dataclass
class _Sums:
    """The sums over all messages of one kind in one direction; sizes are in bytes."""

    messages: int = 0
    nbytes: int = 0
    weighed: int = 0  # real bytes of those messages that were weighed
    nominal: float = 0.0  # NaN if unknown for one of the messages
    entropy: float = 0.0
