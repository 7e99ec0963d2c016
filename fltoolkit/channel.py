"""The channel: the only way by which data leaves a party, and the ledger beside it."""

import warnings
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

from torch import nn

from fltoolkit.codecs.base import Codec
from fltoolkit.history import Totals, naming_its_words
from fltoolkit.links import KINDS, CodecOf, Ends, Link, Links, Once, check_kind, check_whole
from fltoolkit.party import TrainingWarning
from fltoolkit.trees import Tree, dense_nbytes
from fltoolkit.wire import WireError

__all__ = ["KINDS", "Channel", "Delivery", "Transfer"]


class Transfer(NamedTuple):
    """One message that was sent. All sizes are in bytes.

    >>> import torch
    >>> channel = Channel()
    >>> channel.step = 3
    >>> _ = channel.send("bob", "alice", "gradients", {"g": torch.zeros(10)})
    >>> channel.transfers[0]
    Transfer(step=3, sender='bob', receiver='alice', kind='gradients', nbytes=50, nbytes_dense=40)
    """

    step: int  # the training step in which it was sent
    sender: str
    receiver: str
    kind: str  # one of KINDS
    nbytes: int  # the length of the message: values, names, shapes, checksum
    nbytes_dense: int  # bytes of its values, uncompressed and without a header


class Delivery(NamedTuple):
    """What `Channel.cross` returns.

    >>> import torch
    >>> arrival = Channel().cross(Link("alice", "bob", "activations"), {"h": torch.ones(2)})
    >>> arrival.tree, len(arrival.message)
    ({'h': tensor([1., 1.])}, 18)
    """

    tree: Tree  # as the receiver decoded it
    message: bytes  # from which it was decoded; empty if no message came into this process


@naming_its_words
class Channel:
    """Carries trees between parties as real bytes and counts every one of them.

    The receiver gets what was decoded from the bytes, and never the sender's tensors. To carry
    messages in another way, or to watch them, override `cross`.

    Args:
        codecs: a codec for each kind that is to be compressed; other kinds travel as they are.
            Each end of each directed link (sender, receiver, kind) has its own deep copy. Or a
            function that is given each message's `Link` and returns its codec, or None. A link's
            memory stays while its codecs are equal or differ in numbers only, such as
            ``ErrorFeedback(Pipeline(TopK(fraction[round])))``. With one that is built of other
            parts it begins anew, with a warning if something is lost.

    Attributes:
        step: the number of the training step. Protocols increase it, and each transfer records it.
        transfers: the ledger: one `Transfer` for each message.
        links: holds the two codecs of each link (`Links`).

    Raises TypeError or ValueError for codecs that cannot be used, such as `ErrorFeedback` for
    activations or gradients, where each message is about other samples than the one before.

    >>> import torch
    >>> channel = Channel()
    >>> tree = channel.send("alice", "bob", "activations", {"h": torch.zeros(64, 640)})
    >>> channel.nbytes(), channel.nbytes(kind="gradients")
    (163852, 0)

    Eight bits for one client, and four for the others:

    >>> from fltoolkit.codecs import Pipeline, Quantize
    >>> channel = Channel(lambda link: Pipeline(Quantize(8 if link.sender == "alice" else 4)))
    >>> for name in ("alice", "carol"):
    ...     _ = channel.send(name, "bob", "update", {"w": torch.rand(1000)})
    >>> [transfer.nbytes for transfer in channel.transfers]
    [1034, 533]
    """

    def __init__(self, codecs: Mapping[str, Codec] | CodecOf | None = None):
        self.links = Links(codecs)
        self.step = 0
        self.transfers: list[Transfer] = []
        self._trained: list[weakref.ref[nn.Module]] = []  # the networks of the last training

    @property
    def codecs(self) -> dict[str, Codec]:
        """The codecs by kind; empty if a function chooses them."""
        return self.links.codecs

    def send(self, sender: str, receiver: str, kind: str, tree: Tree) -> Tree:
        """Send a tree; returns what the receiver decodes: new CPU tensors, without gradients.

        Raises ValueError if the kind is unknown or if sender and receiver are the same. If a codec
        raises an error, the sender, the receiver and the kind are added to its text.
        """
        return self.cross(Link(sender, receiver, kind), tree).tree

    def send_masked(self, sender: str, receiver: str, kind: str, tree: Tree) -> tuple[Tree, Tree]:
        """As `send`; also returns which coordinates arrived, as `Pipeline.masks` gives them."""
        link = Link(sender, receiver, kind)
        received, message = self.cross(link, tree)
        return received, self.links.codecs_of(link).receiving.masks(message) if message else {}

    def broadcast(self, sender: str, receivers: Sequence[str], kind: str, tree: Tree) -> Tree:
        """Send one tree to several receivers, encoded once; returns what all of them decode.

        A codec that draws random numbers decodes differently on each link: a model that is sent to
        each client by `send` leaves clients that hold different models. Here all
        receivers get the same bytes, so all hold the same numbers, and the sender knows them. The
        message is counted once for each receiver. Codec memory such as a residual belongs to the
        sender and this group of receivers.

        With no receivers, nothing is sent and the result is a copy of the tree. Over several
        processes it is empty in a process with neither the sender nor a receiver, as with `send`.
        """
        names = [sender, *receivers]
        if isinstance(receivers, str) or len({*names}) < len(names):
            raise ValueError(
                f"{sender!r} to receivers={receivers!r}: give a list of names, each of them once, "
                "without the sender"
            )
        if not receivers:
            return {name: tensor.detach().cpu().clone() for name, tensor in tree.items()}
        # the group is a link of its own, named after all: another group has another memory
        once = Once(self.links.codecs_of(Link(sender, ", ".join(receivers), kind)))
        self.links.shared = {Link(sender, name, kind): Ends(once, once) for name in receivers}
        try:
            for link in self.links.shared:
                received = self.cross(link, tree).tree
        finally:
            self.links.shared = {}
        return received if once.message is None else once.decode(once.message)

    def is_here(self, name: str) -> bool:
        """Whether this party lives in this process; here: always."""
        return True

    def cross(self, link: Link, tree: Tree) -> Delivery:
        """Carry one message over a link: encode, decode, count. All methods that send call this.

        This is the method that a subclass overrides. A subclass that only watches calls
        ``super().cross(link, tree)`` and looks at the result. A subclass that carries messages to
        another process encodes with ``links.codecs_of(link).sending`` if the sender is in this
        process, calls `decode` if the receiver is, and calls `count` once for each message.
        """
        sending = self.links.codecs_of(link).sending
        try:
            message = sending.encode(tree)
            received = self.decode(link, message)
        except (TypeError, ValueError) as error:
            complaint = type(error) if type(error) in (TypeError, WireError) else ValueError
            raise complaint(f"{link}: {error}") from error
        self.count(link, message, tree)
        return Delivery(received, message)

    def decode(self, link: Link, message: bytes) -> Tree:
        """The tree that the receiver decodes from a message."""
        return self.links.codecs_of(link).receiving.decode(message)

    def count(self, link: Link, message: bytes, tree: Tree) -> None:
        """Write one message into the ledger: its length, and the dense size of its tree."""
        self.transfers.append(Transfer(self.step, *link, len(message), dense_nbytes(tree)))

    def change_codec(self, kind: str, codec: Codec, *, keep: bool = False) -> None:
        """Use another codec for a kind from the next message on; the ledger goes on.

        What the old codecs of this kind remembered, such as residuals, is lost. With ``keep=True``
        the new codec takes this memory over; then only numbers in it may differ, such as
        ``ErrorFeedback(Pipeline(TopK(0.02)))`` after ``ErrorFeedback(Pipeline(TopK(0.01)))``.
        """
        self.links.change_codec(kind, codec, keep=keep)

    def nbytes(
        self, *, sender: str | None = None, receiver: str | None = None, kind: str | None = None
    ) -> int:
        """Bytes sent so far; with arguments, only those of that sender, receiver or kind.

        Raises ValueError for an unknown kind and, once the ledger holds a transfer, for a name that
        is in no transfer: otherwise a misspelled name would count as 0 bytes.
        """
        if kind is not None:
            check_kind(kind)
        known = {name for t in self.transfers for name in (t.sender, t.receiver)}
        for what, name in (("sender", sender), ("receiver", receiver)):
            if name is not None and known and name not in known:
                raise ValueError(
                    f"{what}={name!r} has sent and received nothing: the ledger knows "
                    f"{', '.join(sorted(known))}"
                )
        return sum(
            t.nbytes
            for t in self.transfers
            if sender in (None, t.sender)
            and receiver in (None, t.receiver)
            and kind in (None, t.kind)
        )

    def unused_codecs(self) -> list[str]:
        """The kinds whose codec was not used so far. After a run, such a codec is a mistake."""
        sent = {transfer.kind for transfer in self.transfers}
        return [kind for kind in self.codecs if kind not in sent]

    def begin(
        self,
        clients: Collection[str],
        networks: Collection[nn.Module],
        *,
        sends_weights: bool = False,
    ) -> Callable[[], Totals]:
        """What a protocol calls before its first message; returns `totals` of the clients.

        From now on the networks' buffers, such as the running variances of BatchNorm, are sent
        exactly in messages of the kinds ``model`` and ``update``: a codec could make them negative.
        Warns (`fltoolkit.party.TrainingWarning`) if a training of other networks has used this
        channel, unless the channel was loaded.

        Args:
            clients: their names.
            networks: the modules that this training changes.
            sends_weights: True if messages of the kind ``model`` hold the weights themselves.
                ValueError is then raised for a codec that would leave some of them out.
        """
        if sends_weights:
            check_whole(self.codecs.get("model"))
        self.links.whole_models = sends_weights
        buffers = (network.named_buffers(remove_duplicate=False) for network in networks)
        self.links.exact = frozenset(name for each in buffers for name, _ in each)
        known = {id(network()) for network in self._trained}
        if self.transfers and known and known.isdisjoint(map(id, networks)):
            warnings.warn(
                "this channel was used by another training, of other networks: the records of this "
                "one count the bytes of both, and what its codecs remember (residuals, "
                "differences) leaks into this one. Make a new Channel for each training",
                TrainingWarning,
                stacklevel=3,
            )
        self._trained = [weakref.ref(network) for network in networks]
        return self.totals(clients)

    def totals(self, clients: Collection[str]) -> Callable[[], Totals]:
        """A function that returns what was sent so far; each call reads only the new transfers.

        ``nbytes_up`` counts what clients sent to others, ``nbytes_down`` the other direction, and
        ``nbytes`` all links, also those between two clients or between two servers.
        """
        seen = up = down = total = 0

        def totals() -> Totals:
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
        """All that is needed to go on after a restart: the ledger and the codecs' memory."""
        transfers = [tuple(transfer) for transfer in self.transfers]
        return {"step": self.step, "transfers": transfers, **self.links.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved `state_dict`, with the same codecs. It replaces this ledger.

        If a codec is built of other parts than the saved one, ValueError is raised before anything
        is changed. If only numbers in it differ, a warning is given and the run goes on.
        """
        step, transfers = state["step"], [Transfer(*row) for row in state["transfers"]]
        for number in (step, *(n for row in transfers for n in (row.step, *row[4:]))):
            if not isinstance(number, int) or number < 0:
                raise ValueError(f"the ledger holds {number!r} where steps and bytes are counted")
        self.links.load_state_dict(state)
        self._trained, self.step, self.transfers = [], step, transfers

    def __repr__(self) -> str:
        unused = self.unused_codecs() if self.transfers else []
        idle = f", no message for the codec of {' and '.join(unused)}" if unused else ""
        return f"<Channel: {len(self.transfers)} transfers, {self.nbytes():,} bytes{idle}>"
