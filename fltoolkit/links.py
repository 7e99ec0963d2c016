"""The codecs of a channel: a copy for each end of each link, and what the copies remember.

Here: how a link is opened, and how a codec is replaced during a run.
"""

import copy
import warnings
import zlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from fltoolkit.codecs.base import Codec, Identity, check_codec, walk
from fltoolkit.codecs.stage import Stage
from fltoolkit.codecs.wrappers import Only
from fltoolkit.party import TrainingWarning
from fltoolkit.trees import Tree
from fltoolkit.wire import WireError

__all__ = ["KINDS", "CodecOf", "Link", "Links", "Once"]

_OF_TRAINING = ("activations", "gradients", "labels", "model", "update", "control", "samples")
_OF_SECRECY = ("keys", "shares", "masked", "unmasking", "intersection")
KINDS = _OF_TRAINING + _OF_SECRECY
"""What a message can be. ``update`` is a difference of models, ``control`` anything that steers,
``samples`` the training data themselves. The last five are the four rounds of a secure sum, and
finding out which samples two owners have in common."""

OF_SAMPLES = ("activations", "gradients")  # the next message is about other samples
OF_WEIGHTS = ("model", "update")  # their entries are a network's; its buffers are sent exactly


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


class Once(Codec):
    """The codec of a message to several receivers: it is encoded once and decoded once for all.

    Every receiver decodes the same bytes with a codec that has the same memory, so decoding once
    stands for all. Each receiver gets a copy.

    >>> import torch
    >>> from fltoolkit.codecs import Pipeline, Quantize
    >>> links = Links({"model": Pipeline(Quantize(2, stochastic=True))})
    >>> once = Once(links.codecs_of(Link("server", "all", "model")))
    >>> tree = {"w": torch.linspace(0, 1, 5)}
    >>> once.encode(tree) == once.encode(tree)
    True
    """

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


CodecOf = Callable[[Link], Codec | None]
"""A function that chooses the codec of a link; None: its messages travel as they are."""


class Links:
    """The links of one channel: each directed link has its own two copies of its kind's codec.

    So two clients never share a residual or a random number. The arguments and errors are those of
    `fltoolkit.Channel`.

    >>> from fltoolkit.codecs import ErrorFeedback
    >>> links = Links({"update": ErrorFeedback(Identity())})
    >>> one, other = (links.codecs_of(Link(name, "server", "update")) for name in ("alice", "bob"))
    >>> one.sending is other.sending, [link.sender for link in links.ends]
    (False, ['alice', 'bob'])
    """

    def __init__(self, codecs: Mapping[str, Codec] | CodecOf | None = None):
        self._codec_of = codecs if callable(codecs) else None
        given = {} if codecs is None or callable(codecs) else codecs
        check_codecs(given)
        self.codecs = dict(given)
        self.whole_models = False  # True: no codec may leave out some of a model's weights
        self.exact: frozenset[str] = frozenset()  # a network's buffers, which no codec may change
        self.ends: dict[Link, Ends] = {}  # the codecs of the links that are open
        self.shared: dict[Link, Ends] = {}  # in a broadcast: one codec for all of its links
        self._chosen: dict[Link, Codec] = {}  # what the function gave for a link last
        self._changes: dict[str, int] = {}  # how often a kind's codec was changed

    def codecs_of(self, link: Link) -> Ends:
        """The two codecs of a link, made when it is first used.

        Raises ValueError for an unknown kind, and for a party that sends to itself.
        """
        if link in self.shared:
            return self.shared[link]
        if self._codec_of is not None and link.kind not in self.codecs:
            self._choose(link, self._codec_of(link) or Identity())
        ends = self.ends.get(link) or self._begin(link)
        if not self.exact or link.kind not in OF_WEIGHTS or type(ends.sending) is Identity:
            return ends
        return Ends(*(Only(end, 0, exact=self.exact) for end in ends))

    def _choose(self, link: Link, codec: Codec) -> None:
        """Let a link go on with this codec.

        Its memory is kept if only numbers differ from the codec before; otherwise it begins anew,
        and if something was remembered there is a warning.
        """
        before = self._chosen.get(link)
        if before == codec:
            return
        check_codecs({link.kind: codec})
        if self.whole_models and link.kind == "model":
            check_whole(codec)
        self._chosen[link] = codec
        if before is None or link not in self.ends:
            return
        if [*map(type, walk(before))] == [*map(type, walk(codec))]:
            self._replace(link)
            return
        if any(part.sends_later or part.in_order for part in walk(before)):
            warnings.warn(
                f"{link}: what {before} remembers is lost, because {codec} is built of other parts",
                TrainingWarning,
                stacklevel=5,
            )
        self._close([link])

    def _replace(self, link: Link) -> None:
        """Begin a link with another codec, which takes the memory over."""
        before = self.ends.pop(link)
        for new, end in zip(self._begin(link), before, strict=True):
            new.load_state_dict(end.state_dict())

    def change_codec(self, kind: str, codec: Codec, *, keep: bool = False) -> None:
        """Use another codec for a kind from the next message on; see `Channel.change_codec`."""
        check_codecs({kind: codec})
        old = self.codecs.get(kind, Identity())
        if keep and [*map(type, walk(old))] != [*map(type, walk(codec))]:
            raise ValueError(
                f"{kind}: {codec} cannot take over what {old} remembers: build it of the same "
                "parts, with other numbers, or leave out keep"
            )
        self.codecs[kind] = codec
        links = [link for link in self.ends if link.kind == kind]
        if not keep:
            self._close(links)
            return
        for link in links:
            self._replace(link)

    def _close(self, links: list[Link]) -> None:
        """Forget what the codecs of links of one kind remember."""
        for link in links:
            self.ends.pop(link, None)
        if links:  # their random numbers so far are used up; another salt prevents repeating them
            self._changes[links[0].kind] = self._changes.get(links[0].kind, 0) + 1

    def _begin(self, link: Link) -> Ends:
        """Make a codec for each end of a link."""
        check_kind(link.kind)
        for name in (link.sender, link.receiver):
            if not isinstance(name, str):
                raise TypeError(f"{name!r}: give a name, a string such as 'client 3' or party.name")
        if link.sender == link.receiver:
            raise ValueError(f"{link.sender!r} sends {link.kind} to itself: give two parties")
        # without a codec, messages are the plain frames that `wire.pack` makes: Identity
        codec = self.codecs.get(link.kind) or self._chosen.get(link) or Identity()
        ends = self.ends[link] = Ends(copy.deepcopy(codec), copy.deepcopy(codec))
        for end in ends:
            end.start_link(zlib.crc32("|".join(link).encode()) + self._changes.get(link.kind, 0))
        return ends

    def state_dict(self) -> dict[str, Any]:
        """What is needed to go on after a restart: each link's state, and the codecs as text."""
        links = [(*link, *(end.state_dict() for end in ends)) for link, ends in self.ends.items()]
        return {"changes": dict(self._changes), "codecs": _written(self.codecs), "links": links}

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
        self.ends, self._chosen, self._changes = {}, {}, dict(state["changes"])
        for sender, receiver, kind, *states in state["links"]:
            ends = self.codecs_of(Link(sender, receiver, kind))
            for end, its in zip(ends, states, strict=True):
                end.load_state_dict(its)


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
        late = [part for part in walk(codec) if part.sends_later]
        if late and kind in OF_SAMPLES:
            raise ValueError(
                f"codecs[{kind!r}] = {codec!r}: {type(late[0]).__name__} adds what one message "
                f"leaves out to the next one, and the next {kind} belong to other samples, which "
                "get a stranger's error. Leave it out: a stochastic codec, such as "
                "Pipeline(Quantize(4, stochastic=True)), is right on average without a memory"
            )


def check_whole(codec: Codec | None) -> None:
    """Raise ValueError if a codec would spoil weights that a receiver goes on with."""
    parts = [] if codec is None else [*walk(codec)]
    if any(part.in_order for part in parts):  # both ends add up, as in `Difference`
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
            "fltoolkit_research.codecs.Difference(...) around a codec without ErrorFeedback"
        )


def _written(codecs: Mapping[str, Codec]) -> dict[str, tuple[str, str]]:
    """For each kind: the codec as text, and the names of the classes that it is built of."""
    return {
        kind: (repr(codec), " ".join(type(part).__name__ for part in walk(codec)))
        for kind, codec in codecs.items()
    }
