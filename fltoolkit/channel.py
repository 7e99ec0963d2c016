"""The channel: the one door through which data leaves a party, and the ledger beside it.

Not here: the frame (wire.py), compression (codecs), each link's two codecs and what they remember
(links.py), who speaks when (split).
"""

import os
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from fltoolkit.codecs.base import Codec, Masked
from fltoolkit.links import KINDS, Link, Links, check_kind
from fltoolkit.trees import Tree, dense_nbytes
from fltoolkit.wire import WireError, at_most

__all__ = ["KINDS", "Arrival", "Channel", "Transfer"]


class Transfer(NamedTuple):
    """One message that crossed. All sizes in bytes."""

    step: int  # the training step in which it was sent
    sender: str
    receiver: str
    kind: str  # one of KINDS
    nbytes: int  # the length of the message: values, names, shapes, checksum, all of it
    nbytes_dense: int  # what its values take uncompressed and without a header


class Arrival(NamedTuple):
    """What `Channel.cross` returns."""

    tree: Tree  # as the receiver decoded it
    message: bytes  # from which it was decoded; empty if no message came into this process


class Channel:
    """Carries trees between parties as real bytes and counts every one of them.

    The receiver gets what was decoded from the bytes, never the sender's tensors: what a codec
    loses is really lost, and what a message costs is really its length.

    To carry messages in another way, or to watch them, override `cross`.

    Args:
        codecs: a codec for each kind that is to be compressed; other kinds travel as they are.
            Each end of each directed link (sender, receiver, kind) has its own deep copy.
        max_links: with thousands of clients, keep what the codecs remember of so many links in
            memory, those used last, and the others' in files. The dearest codec memory is the
            residual of `ErrorFeedback`: 4 bytes a parameter and client.
        folder: where those files go: into a folder of this channel's own, deleted when it goes.
        max_values: how many values a message may become when it is decoded, such as the number of
            the model's parameters; more is a WireError before memory is taken. None: what
            `fltoolkit.wire` allows for a message of that length.

    Attributes:
        max_values: the same, to be changed at any time.
        step: the training step; protocols move it forward, and it dates the transfers.
        transfers: the ledger, one `Transfer` a message.
        links: the two codecs of each link; `Links.open` gives them.
        codecs: those of ``links``, by kind.

    Raises:
        TypeError: ``codecs`` is no mapping, or holds something that is no codec.
        ValueError: an unknown kind, only one of ``max_links`` and ``folder``, or `ErrorFeedback`
            for activations or gradients, where each message is about other samples.

    >>> import torch
    >>> channel = Channel()
    >>> tree = channel.send("alice", "bob", "activations", {"h": torch.zeros(64, 640)})
    >>> channel.nbytes(), channel.nbytes(kind="gradients")
    (163852, 0)
    """

    def __init__(
        self,
        codecs: Mapping[str, Codec] | None = None,
        *,
        max_links: int | None = None,
        folder: str | os.PathLike[str] | None = None,
        max_values: int | None = None,
    ):
        self.links = Links(codecs, max_links=max_links, folder=folder)
        self.max_values = max_values
        self.codecs = self.links.codecs
        self.step = 0
        self.transfers: list[Transfer] = []

    def send(self, sender: str, receiver: str, kind: str, tree: Tree) -> Tree:
        """Send a tree; returns what the receiver decodes: new CPU tensors, without gradients.

        Raises ValueError for an unknown kind or a message to oneself, and adds sender, receiver
        and kind to whatever a codec has to complain about.
        """
        return self.cross(Link(sender, receiver, kind), tree).tree

    def send_masked(self, sender: str, receiver: str, kind: str, tree: Tree) -> tuple[Tree, Tree]:
        """`send`, and which coordinates came, as `masked_mean` wants it; see `Pipeline.masks`."""
        link = Link(sender, receiver, kind)
        received, message = self.cross(link, tree)
        codec = self.links.open(link).receiving
        if not message or not isinstance(codec, Masked):
            return received, {}
        return received, codec.masks(message)  # a message that was decoded within the limit

    def cross(self, link: Link, tree: Tree) -> Arrival:
        """Carry one message over a link: open, encode, decode, count. `send` calls this.

        It is what a subclass overrides. One that only watches calls ``super().cross(link, tree)``
        and looks at what it gets. One that carries messages elsewhere takes the two codecs from
        ``self.links.open(link)``, encodes with the sender's or calls `decode`, whichever end is in
        this process, and calls `count` once for each message.
        """
        sending = self.links.open(link).sending
        try:
            message = sending.encode(tree)
            received = self.decode(link, message)
        except (TypeError, ValueError) as error:
            complaint = type(error) if type(error) in (TypeError, WireError) else ValueError
            raise complaint(f"{link.sender} -> {link.receiver}, {link.kind}: {error}") from error
        self.count(link, message, tree)
        return Arrival(received, message)

    def decode(self, link: Link, message: bytes) -> Tree:
        """What the receiver of a link makes of a message, of ``max_values`` values at most."""
        receiving = self.links.open(link).receiving
        if self.max_values is None:
            return receiving.decode(message)
        with at_most(self.max_values):
            return receiving.decode(message)

    def count(self, link: Link, message: bytes, tree: Tree) -> None:
        """Enter a message that crossed, and the tree that it stands for, into the ledger."""
        self.transfers.append(Transfer(self.step, *link, len(message), dense_nbytes(tree)))

    def change_codec(self, kind: str, codec: Codec, *, keep: bool = False) -> None:
        """Use another codec for a kind from the next message on; the ledger goes on.

        What the old codecs of its links remembered, such as residuals, is lost, unless ``keep``:
        then the new codec takes it over, and must be built like the old one with other numbers:
        ``ErrorFeedback(Pipeline(TopK(0.02)))`` after ``ErrorFeedback(Pipeline(TopK(0.01)))``.
        """
        self.links.change_codec(kind, codec, keep=keep)

    def nbytes(
        self, *, sender: str | None = None, receiver: str | None = None, kind: str | None = None
    ) -> int:
        """Bytes sent so far; with arguments, only those of that sender, receiver or kind.

        Raises ValueError for an unknown kind, and for a name that is in no transfer, if there are
        any: a name that is spelled otherwise than in the ledger would count as 0 bytes. A party
        that has only received has sent 0 bytes, and before the first message everything is 0.
        """
        chosen = self.which(sender=sender, receiver=receiver, kind=kind)
        return sum(self.transfers[number].nbytes for number in chosen)

    def which(
        self, *, sender: str | None = None, receiver: str | None = None, kind: str | None = None
    ) -> list[int]:
        """The places in ``transfers`` of what `nbytes` counts for the same arguments."""
        if kind is not None:
            check_kind(kind)
        for what, name in (("sender", sender), ("receiver", receiver)):
            if name is not None and self.transfers and name not in self.parties():
                raise ValueError(
                    f"{what}={name!r} has sent and received nothing: the ledger knows "
                    f"{', '.join(self.parties())}"
                )
        return [
            number
            for number, t in enumerate(self.transfers)
            if sender in (None, t.sender)
            and receiver in (None, t.receiver)
            and kind in (None, t.kind)
        ]

    def parties(self) -> list[str]:
        """Who has sent or received a message so far, in alphabetical order."""
        return sorted({name for t in self.transfers for name in (t.sender, t.receiver)})

    def unused_codecs(self) -> list[str]:
        """The kinds that have a codec and of which no message was sent so far.

        After a run, such a kind is a mistake: the run stands under the name of a codec that
        compressed nothing, e.g. one for ``"update"`` in split learning, where no update is sent.
        """
        sent = {transfer.kind for transfer in self.transfers}
        return [kind for kind in self.codecs if kind not in sent]

    def totals(self, clients: Collection[str]) -> Callable[[], dict[str, int]]:
        """A function that says what was sent so far; it reads only what is new each time.

        Up is what a client sent to someone who is none, down the reverse; the total has all links,
        those between two clients or two servers too.
        """
        seen = up = down = total = 0

        def totals() -> dict[str, int]:
            nonlocal seen, up, down, total
            for transfer in self.transfers[seen:]:
                total += transfer.nbytes
                if transfer.sender in clients and transfer.receiver not in clients:
                    up += transfer.nbytes
                elif transfer.receiver in clients and transfer.sender not in clients:
                    down += transfer.nbytes
            seen = len(self.transfers)
            return {"nbytes_up": up, "nbytes_down": down, "nbytes": total}

        return totals

    def state_dict(self) -> dict[str, Any]:
        """All that is needed to go on after a restart: the ledger, and each link's codec state."""
        transfers = [tuple(transfer) for transfer in self.transfers]
        return {"step": self.step, "transfers": transfers, **self.links.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved `state_dict`, with the same codecs; what was counted is replaced.

        Codecs built of other parts are refused before anything is changed; other numbers in them
        are taken, with a warning.
        """
        self.links.load_state_dict(state)
        self.step = state["step"]
        self.transfers = [Transfer(*row) for row in state["transfers"]]

    def __repr__(self) -> str:
        return f"<Channel: {len(self.transfers)} transfers, {self.nbytes():,} bytes>"
