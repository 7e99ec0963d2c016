"""The codecs of a channel: a copy for each end of each link, and what the copies remember.

Here: how a link is opened, how a codec is replaced during a run, and where the memory of thousands
of links is kept. Not here: who sends what, and the ledger (channel.py).
"""

import copy
import hashlib
import os
import shutil
import tempfile
import warnings
import weakref
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from fltoolkit.codecs.base import Codec, Identity, LinkState, check_codec, walk, weigh
from fltoolkit.codecs.stage import Sizes, Stage
from fltoolkit.codecs.wrappers import Wrapper
from fltoolkit.trees import Tree
from fltoolkit.wire import WireError

__all__ = ["KINDS", "CodecOf", "Link", "Links", "Once"]

_OF_TRAINING = ("activations", "gradients", "labels", "model", "update", "control", "samples")
_OF_SECRECY = ("keys", "shares", "masked", "unmasking", "intersection")
KINDS = _OF_TRAINING + _OF_SECRECY
"""What a message can be. ``update`` is a difference of models, ``control`` anything that steers,
``samples`` the training data themselves.

The last five are those of `fltoolkit_research.secrecy`: the four rounds of a secure sum, and
finding out which samples two owners have in common."""

OF_SAMPLES = ("activations", "gradients")
"""The kinds whose values belong to the samples of one batch, so that the next message is about
other samples."""


class Link(NamedTuple):
    """One direction between two parties, for one kind of message.

    >>> up, down = Link("alice", "bob", "activations"), Link("bob", "alice", "gradients")
    >>> up.receiver == down.sender
    True
    """

    sender: str
    receiver: str
    kind: str  # one of KINDS

    def __str__(self) -> str:
        return f"{self.sender} -> {self.receiver}, {self.kind}"


class Ends(NamedTuple):
    """The two codecs of a link, each with a memory of its own: only bytes connect them."""

    sending: Codec
    receiving: Codec


class Once:
    """The codec of a message to several receivers: it is encoded once and decoded once for all.

    Every receiver decodes the same bytes with a codec that has the same memory, so decoding once
    stands for all. Each receiver gets a copy.

    >>> from fltoolkit.codecs import Pipeline, Quantize
    >>> links = Links({"model": Pipeline(Quantize(2, stochastic=True))})
    >>> once = Once(links.codecs_of(Link("server", "all", "model")))
    >>> tree = {"w": torch.linspace(0, 1, 5)}
    >>> once.encode(tree) == once.encode(tree)
    True
    """

    counted = False  # True: the message was counted already, and costs nothing from now on

    def __init__(self, ends: Ends):
        self._ends = ends
        self.message: bytes | None = None  # what was encoded or received
        self._tree: Tree | None = None

    def encode(self, tree: Tree) -> bytes:
        """The message of the first call, which every receiver gets."""
        if self.message is None:
            self.message = self._ends.sending.encode(tree)
        return self.message

    def decode(self, message: bytes) -> Tree:
        """What every receiver holds. Raises WireError if a receiver got another message."""
        if self._tree is None:
            self.message, self._tree = message, self._ends.receiving.decode(message)
        if message != self.message:
            raise WireError("a receiver of a broadcast got another message than the others")
        return {name: tensor.clone() for name, tensor in self._tree.items()}

    def weigh(self, tree: Tree) -> Sizes | None:
        """The sizes of the message; None if the codec does not know them."""
        return weigh(self._ends.sending, tree)


CodecOf = Callable[[Link], Codec | None]
"""A function that chooses the codec of a link; None: its messages travel as they are."""


class Links:
    """The links of one channel: each directed link has its own two copies of its kind's codec.

    So two clients never share a residual or a random number. The arguments and errors are those of
    `fltoolkit.Channel`.

    >>> from fltoolkit.codecs import ErrorFeedback
    >>> links = Links({"update": ErrorFeedback(Identity())})
    >>> one, other = (links.codecs_of(Link(name, "server", "update")) for name in ("alice", "bob"))
    >>> one.sending is other.sending, links.in_memory()[0].sender
    (False, 'alice')
    """

    def __init__(
        self,
        codecs: Mapping[str, Codec] | CodecOf | None = None,
        *,
        max_links: int | None = None,
        folder: str | os.PathLike[str] | None = None,
    ):
        self._codec_of = codecs if callable(codecs) else None
        given = {} if codecs is None or callable(codecs) else codecs
        check_codecs(given)
        self.codecs = dict(given)
        self.whole_models = False  # True: no codec may leave out some of a model's weights
        if (max_links is None) != (folder is None) or (max_links is not None and max_links < 1):
            raise ValueError(
                f"max_links={max_links}, folder={folder!r}: give both (1 link or more) or neither"
            )
        self._ends: dict[Link, Ends] = {}  # in the order of their last use
        self._max_links = max_links
        self._folder = None if folder is None else Path(folder)
        self._own_folder: Path | None = None  # a new folder inside ``folder``
        self._away: dict[Link, Path] = {}  # links whose state is in a file
        self._changes: dict[str, int] = {}  # how often a kind's codec was changed
        self._chosen: dict[Link, Codec] = {}  # what the function gave for a link last

    def codecs_of(self, link: Link, once: Once | None = None) -> Ends:
        """The two codecs of a link, made when it is first used; of a broadcast, ``once`` is both.

        Raises ValueError for an unknown kind, and for a party that sends to itself.
        """
        if once is not None:
            return Ends(once, once)
        if self._codec_of is not None and link.kind not in self.codecs:
            self._choose(link, self._codec_of(link) or Identity())
        ends = self._ends.get(link) or self._begin(link)
        if self._max_links is not None:
            self._ends[link] = self._ends.pop(link)  # now the last one used
            self._put_away()
        return ends

    def _choose(self, link: Link, codec: Codec) -> None:
        """Let a link go on with this codec; if it is another one than before, begin anew."""
        before = self._chosen.get(link)
        if before == codec:
            return
        check_codecs({link.kind: codec})
        if self.whole_models and link.kind == "model":
            check_whole(codec)
        self._chosen[link] = codec
        if before is not None:  # the random numbers so far are used up: another salt from now on
            self._changes[link.kind] = self._changes.get(link.kind, 0) + 1
            self._ends.pop(link, None)
            self._away.pop(link, None)

    def in_memory(self) -> list[Link]:
        """The links whose codecs are in memory, those used last at the end."""
        return list(self._ends)

    def change_codec(self, kind: str, codec: Codec, *, keep: bool = False) -> None:
        """Use another codec for a kind from the next message on; see `Channel.change_codec`."""
        check_codecs({kind: codec})
        if keep:
            old = self.codecs.get(kind, Identity())
            if [*map(type, walk(old))] != [*map(type, walk(codec))]:
                raise ValueError(
                    f"{kind}: {codec} cannot take over what {old} remembers: build it of the same "
                    "parts, with other numbers, or leave out keep"
                )
            self.codecs[kind] = codec
            for link in [link for link in self._ends if link.kind == kind]:
                remembered = _states(self._ends.pop(link))
                _load_states(self._begin(link), kind, remembered)
            return  # links in files get the new codec when they are opened
        self.codecs[kind] = codec
        if any(link.kind == kind for link in (*self._ends, *self._away)):
            # the random numbers of this link so far are used up; a new salt prevents repeating them
            self._changes[kind] = self._changes.get(kind, 0) + 1
        self._ends = {link: ends for link, ends in self._ends.items() if link.kind != kind}
        self._away = {link: path for link, path in self._away.items() if link.kind != kind}

    def state_dict(self) -> dict[str, Any]:
        """What is needed to go on after a restart: each link's state, and the codecs as text.

        A state that is kept in a file is read from there only when somebody looks at it.
        """
        links = [(*link, *_states(ends)) for link, ends in self._ends.items()]
        away = [
            (*link, *torch.load(str(path), weights_only=True, mmap=True))  # torch 2.2 wants a str
            for link, path in self._away.items()
        ]
        return {
            "changes": dict(self._changes),
            "codecs": _written(self.codecs),
            "links": [*away, *links],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved `state_dict`; see `Channel.load_state_dict`."""
        mine, saved = _written(self.codecs), state["codecs"]
        for kind in sorted(kind for kind, _ in mine.items() ^ saved.items()):
            (was, its), (now, own) = (of.get(kind, ("none", "")) for of in (saved, mine))
            if its != own:
                raise ValueError(
                    f"the run was saved with another codec for {kind}: {was}, now {now}. Build the "
                    "channel with the same ones to go on"
                )
            warnings.warn(f"{kind}: saved with {was}, goes on with {now}", stacklevel=3)
        self._ends, self._away, self._changes = {}, {}, dict(state["changes"])
        self._chosen = {}
        for sender, receiver, kind, *saved in state["links"]:
            _load_states(self.codecs_of(Link(sender, receiver, kind)), kind, saved)

    def _begin(self, link: Link) -> Ends:
        """Make a codec for each end of a link; if a file holds the link's state, load it."""
        sender, receiver, kind = link
        check_kind(kind)
        if sender == receiver:
            raise ValueError(f"{sender!r} sends {kind} to itself: a message needs two parties")
        # without a codec, messages are the plain frames that `wire.pack` makes: Identity
        codec = self.codecs.get(kind) or self._chosen.get(link) or Identity()
        ends = self._ends[link] = Ends(copy.deepcopy(codec), copy.deepcopy(codec))
        for end in ends:
            if isinstance(end, LinkState):
                end.start_link(zlib.crc32("|".join(link).encode()) + self._changes.get(kind, 0))
        if link in self._away:
            _load_states(ends, kind, torch.load(self._away.pop(link), weights_only=True))
        return ends

    def _put_away(self) -> None:
        """Write the state of the links that were not used for longest into files."""
        if self._max_links is None or self._folder is None:
            return
        for link in [*self._ends][: max(0, len(self._ends) - self._max_links)]:
            states = _states(self._ends.pop(link))
            if not any(states):  # there is nothing to be remembered
                continue
            name = hashlib.sha256("|".join(link).encode()).hexdigest()[:32]
            if self._own_folder is None:
                self._folder.mkdir(parents=True, exist_ok=True)
                self._own_folder = Path(tempfile.mkdtemp(prefix="links-", dir=self._folder))
                weakref.finalize(self, shutil.rmtree, self._own_folder, ignore_errors=True)
            path = self._own_folder / f"{name}.pt"
            torch.save(states, new := path.with_suffix(".tmp"))
            new.replace(path)  # an open `state_dict` can still read the old file
            self._away[link] = path


def check_kind(kind: str) -> None:
    """Raise ValueError if there is no such kind of message."""
    if kind not in KINDS:
        raise ValueError(f"kind {kind!r} is not one of {', '.join(KINDS)}")


def check_codecs(codecs: object) -> None:
    """Raise TypeError or ValueError if codecs cannot be used; the error says what to write."""
    if not isinstance(codecs, Mapping):
        raise TypeError(
            f"codecs={codecs!r}: needs a codec for each kind of message, in a mapping such as "
            '{"activations": Pipeline(Quantize(8))}, or a function of the link'
        )
    for kind, codec in codecs.items():
        check_kind(kind)
        check_codec(f"codecs[{kind!r}] = {codec!r}", codec)
        late = [p for p in walk(codec) if isinstance(p, Stage | Wrapper) and p.sends_later]
        if late and kind in OF_SAMPLES:
            raise ValueError(
                f"codecs[{kind!r}] = {codec!r}: {type(late[0]).__name__} adds what one message "
                f"leaves out to the next one, and the next {kind} belong to other samples, which "
                "get a stranger's error. Leave it out: a stochastic codec, such as "
                "Pipeline(Quantize(4, stochastic=True)), is right on average without a memory"
            )


def check_whole(codec: Codec | None) -> None:
    """Raise ValueError if a codec would spoil weights that a receiver goes on with.

    Two kinds do: a codec that adds what one message leaves out to the next, such as
    `ErrorFeedback`, is for changes that are added up; and of a sparse message, such as that of
    `TopK`, most weights arrive as zeros. Inside `Difference` both ends add up, so sparse is good.
    """
    if codec is None:
        return
    parts = [part for part in walk(codec) if isinstance(part, Stage | Wrapper)]
    if any(isinstance(part, Wrapper) and part.in_order for part in parts):
        return
    for part in parts:
        what = type(part).__name__
        if part.sends_later:
            why = f"{what} adds what one message leaves out to the next, for updates that add up"
        elif isinstance(part, Stage) and part.leaves_out:
            why = f"{what} leaves out most weights, which then arrive as zeros"
        else:
            continue
        raise ValueError(
            f"codecs['model'] = {codec!r}: {why}, and here a model is sent whole. Quantize it, "
            "Pipeline(Quantize(8)), or send what has changed since the last message: "
            "Difference(...) around a codec without ErrorFeedback"
        )


def _states(ends: Ends) -> list[dict[str, Any]]:
    return [codec.state_dict() if isinstance(codec, LinkState) else {} for codec in ends]


def _load_states(ends: Ends, kind: str, states: Sequence[Mapping[str, Any]]) -> None:
    for codec, state in zip(ends, states, strict=True):
        if isinstance(codec, LinkState):
            codec.load_state_dict(state)
        elif state:
            raise ValueError(
                f"the saved run's codec for {kind} had state, {codec} has none: build the channel "
                "with the codecs of the saved run"
            )


def _written(codecs: Mapping[str, Codec]) -> dict[str, tuple[str, str]]:
    """For each kind: the codec as text, and the names of the classes that it is built of."""
    return {
        kind: (repr(codec), " ".join(type(part).__name__ for part in walk(codec)))
        for kind, codec in codecs.items()
    }
