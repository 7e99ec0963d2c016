"""Send only what has changed since the last message of a link: both ends know what arrived before.

Here: `Difference`, a codec around another one, for a tree that changes slowly and is sent again and
again, such as the server's model.
"""

from collections.abc import Mapping
from typing import Any

from fltoolkit.codecs.base import Codec, check_codec
from fltoolkit.codecs.stage import expect_finite
from fltoolkit.codecs.wrappers import Wrapper
from fltoolkit.trees import Tree, check_finite, is_finite
from fltoolkit.wire import WireError, bound_to, check_tree


class Difference(Wrapper):
    """Encode the tree minus what the receiver holds already; both ends add what was decoded.

    ``known <- known + C(tree - known)``, which begins at zero; the receiver computes with
    ``known``. What C loses is part of the next difference, so this already is a form of error
    feedback: put no `ErrorFeedback` around it. Integer entries are sent whole. Memory: 4 bytes for
    each parameter at either end of each link.

    Every message must arrive, once and in order, as it does in a `Channel`; another one raises
    WireError (see `bound_to`), and the receiver can still read the right one. If that is lost,
    `Channel.change_codec` with the same codec makes the next message a first one. NaN and infinity
    are errors at both ends, also in a difference or sum of finite values.

    Args:
        codec: C, the codec of the differences.
        first: the codec of a link's first message, for a sparse C, which would need many messages
            to send a whole model; None: C.

    Source: Richtárik et al. 2021, arXiv 2106.05203 (EF21), whose "Markov compressor" it is.

    >>> import torch
    >>> from fltoolkit import Channel
    >>> from fltoolkit.codecs import Pipeline, Quantize
    >>> channel = Channel({"model": Difference(Pipeline(Quantize(1)))})
    >>> model = {"w": torch.tensor([0.0, 1.5, 4.0])}
    >>> [channel.send("server", "alice", "model", model)["w"].tolist() for _ in range(3)]
    [[0.0, 0.0, 4.0], [0.0, 1.5, 4.0], [0.0, 1.5, 4.0]]
    """

    in_order = True

    def __init__(self, codec: Codec, first: Codec | None = None):
        super().__init__(codec)
        if first is not None:
            check_codec(f"Difference(..., first={first!r})", first)
        self.first = first
        self.known: Tree = {}

    def encode(self, tree: Tree) -> bytes:
        """Encode the difference; remember what the receiver will hold."""
        codec, news = self._next(), self._news(tree)
        with bound_to(self.known, _OUT_OF_ORDER):
            message, arrives = codec.encode_and_decode(news)
            known = self._added(arrives)
        for name, tensor in known.items():
            if tensor.is_floating_point() and not is_finite(tensor):
                raise ValueError(f"entry {name!r}: {_TOO_LARGE}")
        self.known = known
        return message

    def encode_and_decode(self, tree: Tree) -> tuple[bytes, Tree]:
        """The message, and what the receiver then holds, which the sender knows."""
        return self.encode(tree), dict(self.known)

    def decode(self, message: bytes) -> Tree:
        """Decode the difference, and return a copy of the tree that the receiver now holds."""
        with bound_to(self.known, _OUT_OF_ORDER):
            self.known = expect_finite(self._added(self._next().decode(message)))
        return {name: tensor.clone() for name, tensor in self.known.items()}

    def masks(self, message: bytes) -> Tree:
        """No masks: the receiver holds a value for every coordinate."""
        return {}

    def parts(self) -> tuple[Codec, ...]:
        """C, and the codec of the first message if it is another one."""
        return (self.codec,) if self.first is None else (self.codec, self.first)

    def _next(self) -> Codec:
        """The codec of the next message."""
        return self.codec if self.known or self.first is None else self.first

    def _news(self, tree: Tree) -> Tree:
        """The tree without what the receiver holds already."""
        check_tree(tree)
        if other := self._other(tree):
            raise ValueError(f"{other}: one link carries one model")
        news = dict(tree)
        for name, tensor in tree.items():
            if not tensor.is_floating_point():
                continue
            check_finite(name, tensor)
            if self.known:
                news[name] = tensor.detach().cpu() - self.known[name]
                if not is_finite(news[name]):
                    raise ValueError(f"entry {name!r}: {_TOO_LARGE}")
        return news

    def _other(self, tree: Tree) -> str:
        """How the entries of a tree differ from those that the receiver holds; "" if they fit."""
        if not self.known:
            return ""
        new, held = (
            {name: f"{str(t.dtype)[6:]} {tuple(t.shape)}" for name, t in each.items()}
            for each in (tree, self.known)
        )
        for name in {**new, **held}:
            one, other = new.get(name, "not there"), held.get(name, "no such entry")
            if one != other:
                return f"entry {name!r} is {one}, and the receiver holds {other}"
        return ""

    def _added(self, news: Tree) -> Tree:
        """What the receiver holds afterwards. Both ends do the same arithmetic."""
        if other := self._other(news):
            raise WireError(f"{other}: {_OUT_OF_ORDER}")
        return {
            name: self.known[name] + t if self.known and t.is_floating_point() else t.clone()
            for name, t in news.items()
        }

    def start_link(self, salt: int) -> None:
        """The receiver holds nothing yet."""
        self.known = {}
        super().start_link(salt)

    def state_dict(self) -> dict[str, Any]:
        """What the receiver holds, and the inner codec's state."""
        return {"known": dict(self.known), "codec": super().state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved `state_dict`."""
        self.known = dict(state["known"])
        super().load_state_dict(state["codec"])

    def __repr__(self) -> str:
        first = "" if self.first is None else f", first={self.first!r}"
        return f"Difference({self.codec!r}{first})"


_OUT_OF_ORDER = (
    "it does not follow the last message that was read here. Difference needs every message of a "
    "link, once and in order. What is held here has not changed, so the right message can still be "
    "read; if it is lost, start again at both ends: channel.change_codec(kind, codec) with the "
    "same codec, or load_run of one save"
)

_TOO_LARGE = (
    "it is finite, but its difference from what the receiver holds, or their sum, is not. Has "
    "training diverged? Values this large cannot be sent as differences"
)
