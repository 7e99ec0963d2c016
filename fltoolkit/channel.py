"""The channel: the one door through which data leaves a party, and the ledger beside it.

Not here: the frame (wire.py), compression (codecs.py), who speaks when (split.py).
"""

import copy
import hashlib
import os
import shutil
import tempfile
import warnings
import weakref
import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from fltoolkit.codecs.base import Codec, Identity, LinkState, walk
from fltoolkit.trees import Tree, dense_nbytes
from fltoolkit.wire import WireError

__all__ = ["KINDS", "Channel", "Transfer"]

KINDS = ("activations", "gradients", "labels", "model", "update", "control")
"""What a message can be. ``update`` is a difference of models, ``control`` anything that steers."""


Link = tuple[str, str, str]  # sender, receiver, kind
Ends = tuple[Codec, Codec]  # the sender's and the receiver's


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
        max_links: with thousands of clients, keep what the codecs remember of so many links in
            memory, those used last, and the others' in files. The dearest codec memory is the
            residual of `ErrorFeedback`: 4 bytes a parameter and client.
        folder: where those files go: into a folder of this channel's own, deleted when it goes.

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
    ):
        self.codecs = dict(codecs or {})
        _check_codecs(self.codecs)
        if (max_links is None) != (folder is None) or (max_links is not None and max_links < 1):
            raise ValueError(
                f"max_links={max_links}, folder={folder!r}: give both (1 link or more) or neither"
            )
        self.step = 0  # protocols move it forward; it dates the transfers
        self.transfers: list[Transfer] = []
        self._links: dict[Link, Ends] = {}  # by last use
        self._max_links = max_links
        self._folder = None if folder is None else Path(folder)
        self._own_folder: Path | None = None  # in that folder
        self._away: dict[Link, Path] = {}  # links whose state waits in a file
        self._changes: dict[str, int] = {}  # how often a kind's codec was changed

    def send(self, sender: str, receiver: str, kind: str, tree: Tree) -> Tree:
        """Send a tree; returns what the receiver decodes: new CPU tensors, without gradients.

        Raises ValueError for an unknown kind or a message to oneself, and adds sender, receiver
        and kind to whatever a codec has to complain about.
        """
        return self._cross((sender, receiver, kind), tree)[0]

    def send_masked(self, sender: str, receiver: str, kind: str, tree: Tree) -> tuple[Tree, Tree]:
        """`send`, and which coordinates came, as `masked_mean` wants it; see `Pipeline.masks`."""
        received, receiving, message = self._cross((sender, receiver, kind), tree)
        masks = getattr(receiving, "masks", None)
        return received, {} if masks is None else masks(message)

    def _cross(self, link: Link, tree: Tree) -> tuple[Tree, Codec, bytes]:
        """What arrives, by which codec it was decoded, and from which bytes."""
        sender, receiver, kind = link
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
        if self._max_links is not None:
            self._links[link] = self._links.pop(link)  # now the last one used
            self._put_away()
        return received, receiving, message

    def change_codec(self, kind: str, codec: Codec, *, keep: bool = False) -> None:
        """Use another codec for a kind from the next message on; the ledger goes on.

        What the old codecs of its links remembered, such as residuals, is lost, unless ``keep``:
        then the new codec takes it over, and must be built like the old one with other numbers:
        ``ErrorFeedback(Pipeline(TopK(0.02)))`` after ``ErrorFeedback(Pipeline(TopK(0.01)))``.
        """
        _check_codecs({kind: codec})
        closed = {kind} | {
            link[2]
            for link, ends in self._links.items()
            if any(_answers(part) and part.answers == kind for part in walk(ends[0]))
        }
        if keep:
            if closed != {kind}:
                raise ValueError(f"{kind} is answered by {sorted(closed - {kind})}: cannot keep it")
            old = self.codecs.get(kind, Identity())
            if [*map(type, walk(old))] != [*map(type, walk(codec))]:
                raise ValueError(
                    f"{kind}: {codec} cannot take over what {old} remembers: build it of the same "
                    "parts, with other numbers, or leave out keep"
                )
            self.codecs[kind] = codec
            for link in [link for link in self._links if link[2] == kind]:
                remembered = _states(self._links.pop(link))
                _load_states(self._open(link), kind, remembered)
            return  # links in files get the new codec when they are opened
        self.codecs[kind] = codec
        if any(link[2] == kind for link in (*self._links, *self._away)):  # its numbers were drawn
            self._changes[kind] = self._changes.get(kind, 0) + 1
        self._links = {link: ends for link, ends in self._links.items() if link[2] not in closed}
        self._away = {link: path for link, path in self._away.items() if link[2] not in closed}

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
        links = [(*link, *_states(ends)) for link, ends in self._links.items()]
        away = [
            (*link, *torch.load(path, weights_only=True, mmap=True))  # read when it is looked at
            for link, path in self._away.items()
        ]
        transfers = [tuple(t) for t in self.transfers]
        changes = dict(self._changes)
        return {
            "step": self.step,
            "transfers": transfers,
            "changes": changes,
            "codecs": _told(self.codecs),
            "links": [*away, *links],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved `state_dict`, with the same codecs; what was counted is replaced.

        Codecs built of other parts are refused before anything is changed; other numbers in them
        are taken, with a warning.
        """
        mine, saved = _told(self.codecs), state["codecs"]
        for kind in sorted(kind for kind, _ in mine.items() ^ saved.items()):
            (was, its), (now, own) = (told.get(kind, ("none", "")) for told in (saved, mine))
            if its != own:
                raise ValueError(
                    f"the run was saved with another codec for {kind}: {was}, now {now}. Build the "
                    "channel with the same ones to go on"
                )
            warnings.warn(f"{kind}: saved with {was}, goes on with {now}", stacklevel=2)
        self.step = state["step"]
        self.transfers = [Transfer(*row) for row in state["transfers"]]
        self._links, self._away, self._changes = {}, {}, dict(state["changes"])
        for sender, receiver, kind, *saved in state["links"]:
            _load_states(self._open((sender, receiver, kind)), kind, saved)
            self._put_away()

    def _open(self, link: Link) -> Ends:
        """A codec for each end of a link, so that only bytes connect the two."""
        sender, receiver, kind = link
        _check_kind(kind)
        if sender == receiver:
            raise ValueError(f"{sender!r} sends {kind} to itself: a message needs two parties")
        codec = self.codecs.get(kind, Identity())
        ends = self._links[link] = copy.deepcopy(codec), copy.deepcopy(codec)
        for end in ends:
            if isinstance(end, LinkState):
                end.start_link(zlib.crc32("|".join(link).encode()) + self._changes.get(kind, 0))
        for end, at_home in zip(
            ends, (1, 0), strict=True
        ):  # who sends this receives what it answers
            for stage in filter(_answers, walk(end)):
                back = self._links.get((receiver, sender, stage.answers))
                for other in () if back is None else walk(back[at_home]):
                    if hasattr(other, "last_masks"):
                        stage.listen(other)
        if link in self._away:
            _load_states(ends, kind, torch.load(self._away.pop(link), weights_only=True))
        return ends

    def _put_away(self) -> None:
        """Write the state of the links that were not used for longest into files."""
        if self._max_links is None or self._folder is None:
            return
        # who answers and who is answered must stay together; their state is small
        kept = {
            part.answers for codec in self.codecs.values() for part in walk(codec) if _answers(part)
        }
        kept |= {kind for kind, codec in self.codecs.items() if any(map(_answers, walk(codec)))}
        movable = [link for link in self._links if link[2] not in kept]
        for link in movable[: max(0, len(movable) - self._max_links)]:
            name = hashlib.sha256("|".join(link).encode()).hexdigest()[:32]
            if self._own_folder is None:
                self._folder.mkdir(parents=True, exist_ok=True)
                self._own_folder = Path(tempfile.mkdtemp(prefix="links-", dir=self._folder))
                weakref.finalize(self, shutil.rmtree, self._own_folder, ignore_errors=True)
            path = self._own_folder / f"{name}.pt"
            torch.save(_states(self._links.pop(link)), new := path.with_suffix(".tmp"))
            new.replace(path)  # who still reads the old file through `state_dict` keeps it
            self._away[link] = path

    def __repr__(self) -> str:
        return f"<Channel: {len(self.transfers)} transfers, {self.nbytes():,} bytes>"


def _states(ends: Ends) -> list[dict[str, Any]]:
    return [codec.state_dict() if isinstance(codec, LinkState) else {} for codec in ends]


def _load_states(ends: Ends, kind: str, states: Sequence[Mapping[str, Any]]) -> None:
    for codec, state in zip(ends, states, strict=True):
        if isinstance(codec, LinkState):
            codec.load_state_dict(state)
        elif state:
            raise ValueError(f"the saved run's codec for {kind} had state, {codec} has none")


def _told(codecs: Mapping[str, Codec]) -> dict[str, tuple[str, str]]:
    """Of each kind's codec, how it is written and of what classes it is built."""
    return {
        kind: (repr(codec), " ".join(type(part).__name__ for part in walk(codec)))
        for kind, codec in codecs.items()
    }


def _answers(part: Any) -> bool:
    return hasattr(part, "answers")


def _check_codecs(codecs: Mapping[str, Codec]) -> None:
    for kind, codec in codecs.items():
        _check_kind(kind)
        if not isinstance(codec, Codec):
            raise TypeError(f"codecs[{kind!r}] is {codec!r}: it has no encode and decode")


def _check_kind(kind: str) -> None:
    if kind not in KINDS:
        raise ValueError(f"kind {kind!r} is not one of {', '.join(KINDS)}")
