"""Three sizes of what crosses: nominal bits, real bytes, and the entropy that no coder can beat.

Here: a channel that weighs some of its messages before they are sent. Real bytes are the ledger's
and exact; the other two are estimates from the messages that were weighed.
"""

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass

from fltoolkit.channel import Channel, Link
from fltoolkit.codecs.base import Codec
from fltoolkit.codecs.difference import Difference
from fltoolkit.codecs.pipeline import Pipeline
from fltoolkit.codecs.stage import Coder
from fltoolkit.codecs.wrappers import ErrorFeedback, Only
from fltoolkit.history import Record
from fltoolkit.trees import Tree, dense_nbytes

__all__ = ["WeighingChannel", "weigh"]


def weigh(codec: Codec, tree: Tree) -> tuple[float, float]:
    """Nominal and entropy size, in bytes, of the message that ``codec`` would make of ``tree``.

    Nominal: every value at the width its stage gives it, ``ceil(log2(levels))`` bits a symbol and
    ``ceil(log2(n))`` a place. Entropy: the fewest bits for symbols taken as independent of each
    other. Both without the frame's header. The codec is only read. One that is none of the
    package's counts as if it compressed nothing.

    >>> import torch
    >>> from fltoolkit.codecs.quantize import Quantize
    >>> weigh(Pipeline(Quantize(2)), {"h": torch.tensor([0.0, 0.0, 3.0, 3.0])})  # range: 8 bytes
    (9.0, 8.5)
    """
    if isinstance(codec, ErrorFeedback):
        owed = {name: t + codec.residual.get(name, 0) for name, t in tree.items()}
        return weigh(codec.codec, owed)
    if isinstance(codec, Difference):
        return weigh(codec._next, {name: codec._without(name, t) for name, t in tree.items()})
    if isinstance(codec, Only):
        exact = {name: t for name, t in tree.items() if t.numel() < codec.min_size}
        large = {name: t for name, t in tree.items() if name not in exact}
        nominal, entropy = weigh(codec.codec, large)
        return nominal + dense_nbytes(exact), entropy + dense_nbytes(exact)
    if isinstance(codec, Pipeline):
        rows = zip(codec.stages, codec.explain(tree), strict=False)  # a last row packs bits
        last = [row for stage, row in rows if not isinstance(stage, Coder)][-1:]
        if last:
            return last[0].nominal_bits / 8, last[0].entropy_bits / 8
    return float(dense_nbytes(tree)), float(dense_nbytes(tree))


class WeighingChannel(Channel):
    """A channel that weighs every ``every``-th message of each kind and direction; see `weigh`.

    Weighing changes nothing that is sent. It takes about as long as encoding once more.

    Args:
        codecs: as those of `Channel`.
        clients: who is a client. What one sends to somebody who is none goes "up", the reverse
            "down", all else (a bottom handed from client to client) "across".
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

    def _cross(self, link: Link, tree: Tree) -> tuple[Tree, Codec, bytes]:
        sums = self._sums.setdefault(f"{link[2]}_{self._direction(link)}", _Sums())
        weights = None
        if sums.messages % self.every == 0:
            sending = (self._links.get(link) or self._open(link))[0]
            with suppress(TypeError, ValueError):  # sending will complain, and say on which link
                weights = weigh(sending, tree)
        crossed = super()._cross(link, tree)
        nbytes = len(crossed[2])
        sums.messages += 1
        sums.nbytes += nbytes
        if weights is not None:
            sums.weighed += nbytes
            sums.nominal += weights[0]
            sums.entropy += weights[1]
        return crossed

    def _direction(self, link: Link) -> str:
        sender, receiver = (name in self.clients for name in link[:2])
        return "across" if sender == receiver else "up" if sender else "down"

    def sizes(self) -> Record:
        """``nbytes_<kind>_<direction>`` so far, exact; ``nominal_...``, ``entropy_...`` as weighed.

        Estimates: the ratio to real bytes is that of the weighed messages.
        """
        record: Record = {}
        for name, sums in sorted(self._sums.items()):
            record[f"nbytes_{name}"] = sums.nbytes
            record[f"nominal_{name}"] = round(sums.nbytes * sums.nominal / sums.weighed)
            record[f"entropy_{name}"] = round(sums.nbytes * sums.entropy / sums.weighed)
        return record


@dataclass
class _Sums:
    """Of one kind in one direction; all but the number of messages in bytes."""

    messages: int = 0
    nbytes: int = 0
    weighed: int = 0  # real bytes of those messages that were weighed
    nominal: float = 0.0
    entropy: float = 0.0
