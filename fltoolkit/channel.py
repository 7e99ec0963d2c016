"""The channel: the one door through which data leaves a party, and the ledger beside it.

Not here: the frame (wire.py), compression (codecs.py), who speaks when (split.py).
Next: history.py.
"""

import copy
import zlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from fltoolkit.codecs import Codec, Identity, LinkState
from fltoolkit.trees import Tree, dense_nbytes
from fltoolkit.wire import WireError

__all__ = ["KINDS", "Channel", "Transfer"]

KINDS = ("activations", "gradients", "labels", "model", "update", "control")
"""What a message can be. ``update`` is a difference of models, ``control`` anything that steers."""


class Transfer(NamedTuple):
    """One message that crossed. All sizes in bytes."""

    step: int  # the training step in which it was sent
    sender: str
    receiver: str
    kind: str  # one of KINDS
    nbytes: int  # the length of the message: values, names, shapes, checksum, all of it
    nbytes_dense: int  # what its values take uncompressed and without a header


class Channel:
    """Carries trees between parties as real bytes and counts every one of them.

    The receiver gets what was decoded from the bytes, never the sender's tensors: what a codec
    loses is really lost, and what a message costs is really its length.

    Args:
        codecs: a codec for each kind that is to be compressed; other kinds travel as they are.
            Each end of each directed link (sender, receiver, kind) has its own deep copy.

    >>> import torch
    >>> channel = Channel()
    >>> tree = channel.send("alice", "bob", "activations", {"h": torch.zeros(64, 640)})
    >>> channel.nbytes(), channel.nbytes(kind="gradients")
    (163852, 0)
    """

    def __init__(self, codecs: Mapping[str, Codec] | None = None):
        self.codecs = dict(codecs or {})
        for kind, codec in self.codecs.items():
            _check_kind(kind)
            if not isinstance(codec, Codec):
                raise TypeError(f"codecs[{kind!r}] is {codec!r}: it has no encode and decode")
        self.step = 0  # protocols move it forward; it dates the transfers
        self.transfers: list[Transfer] = []
        self._links: dict[tuple[str, str, str], tuple[Codec, Codec]] = {}  # one at each end

    def send(self, sender: str, receiver: str, kind: str, tree: Tree) -> Tree:
        """Send a tree; returns what the receiver decodes: new CPU tensors, without gradients.

        Raises ValueError for an unknown kind or a message to oneself, and adds sender, receiver
        and kind to whatever a codec has to complain about.
        """
        link = (sender, receiver, kind)
        sending, receiving = self._links.get(link) or self._open(link)
        try:
            message = sending.encode(tree)
            received = receiving.decode(message)
        except (TypeError, ValueError) as error:
            complaint = type(error) if type(error) in (TypeError, WireError) else ValueError
            raise complaint(f"{sender} -> {receiver}, {kind}: {error}") from error
        self.transfers.append(
            Transfer(self.step, sender, receiver, kind, len(message), dense_nbytes(tree))
        )
        return received

    def nbytes(
        self, *, sender: str | None = None, receiver: str | None = None, kind: str | None = None
    ) -> int:
        """Bytes sent so far; with arguments, only those of that sender, receiver or kind."""
        if kind is not None:
            _check_kind(kind)
        return sum(
            t.nbytes
            for t in self.transfers
            if sender in (None, t.sender)
            and receiver in (None, t.receiver)
            and kind in (None, t.kind)
        )

    def state_dict(self) -> dict[str, Any]:
        """All that is needed to go on after a restart: the ledger, and each link's codec state."""
        links = [
            (*link, *(codec.state_dict() if isinstance(codec, LinkState) else {} for codec in ends))
            for link, ends in self._links.items()
        ]
        return {"step": self.step, "transfers": [tuple(t) for t in self.transfers], "links": links}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved `state_dict`, with the same codecs; what was counted is replaced."""
        self.step = state["step"]
        self.transfers = [Transfer(*row) for row in state["transfers"]]
        self._links = {}
        for sender, receiver, kind, *saved in state["links"]:
            for codec, ends_state in zip(self._open((sender, receiver, kind)), saved, strict=True):
                if isinstance(codec, LinkState):
                    codec.load_state_dict(ends_state)
                elif ends_state:
                    raise ValueError(
                        f"the saved run's codec for {kind} had state, {codec} has none"
                    )

    def _open(self, link: tuple[str, str, str]) -> tuple[Codec, Codec]:
        """A codec for each end of a link, so that only bytes connect the two."""
        sender, receiver, kind = link
        _check_kind(kind)
        if sender == receiver:
            raise ValueError(f"{sender!r} sends {kind} to itself: a message needs two parties")
        codec = self.codecs.get(kind, Identity())
        ends = self._links[link] = copy.deepcopy(codec), copy.deepcopy(codec)
        for end in ends:
            if isinstance(end, LinkState):
                end.start_link(zlib.crc32("|".join(link).encode()))
        return ends

    def __repr__(self) -> str:
        return f"<Channel: {len(self.transfers)} transfers, {self.nbytes():,} bytes>"


def _check_kind(kind: str) -> None:
    if kind not in KINDS:
        raise ValueError(f"kind {kind!r} is not one of {', '.join(KINDS)}")
