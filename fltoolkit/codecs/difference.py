"""Send only what has changed since the last message of a link: both ends know what arrived then.

Here: `Difference`, a codec around another one, for what moves slowly and is sent again and again,
such as the server's model. Not here: what is lost for good without it, and caught up by
`ErrorFeedback` (codecs.py).
"""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from fltoolkit.codecs.base import Codec, LinkState, check_inner
from fltoolkit.trees import Tree, check_finite
from fltoolkit.wire import WireError, check_tree

__all__ = ["Difference"]


class Difference:
    """Encode the tree minus what the receiver holds already; both ends add what was decoded.

    ``known <- known + C(tree - known)``, from zero; ``known`` is what the receiver computes with.
    What C loses is part of the next difference, so nothing is lost for good: this is error feedback
    by itself, for a tree that is sent anew each time (a model), where `ErrorFeedback` is for what
    is summed up at the receiver (updates). Put no `ErrorFeedback` around it.

    A sparse C needs many messages to build a model up from zero: ``first`` sends the first one.
    (Sattler et al. 2019, arXiv 1903.02891, send STC both ways between parties that begin alike.)

    Integer entries travel whole. It needs every message to arrive, as a `Channel`'s do, and memory:
    4 bytes a parameter at either end of each link (``Channel(max_links=...)`` bounds it). A client
    that is seldom drawn gets a large difference, which costs accuracy and not bytes.

    Args:
        codec: C, for what is new.
        first: the codec of a link's first message; None: C, too.

    Source: Richtárik et al. 2021, arXiv 2106.05203 (EF21), whose "Markov compressor" it is.

    >>> import torch
    >>> from fltoolkit import Channel, Pipeline
    >>> from fltoolkit.codecs.quantize import Quantize
    >>> channel = Channel({"model": Difference(Pipeline(Quantize(1)))})
    >>> model = {"w": torch.tensor([0.0, 1.5, 4.0])}
    >>> [channel.send("server", "alice", "model", model)["w"].tolist() for _ in range(3)]
    [[0.0, 0.0, 4.0], [0.0, 1.5, 4.0], [0.0, 1.5, 4.0]]
    """

    def __init__(self, codec: Codec, first: Codec | None = None):
        for inner in (codec,) if first is None else (codec, first):
            check_inner(self, inner)
        self.codec, self.first = codec, first
        self.known: Tree = {}

    def encode(self, tree: Tree) -> bytes:
        """Encode what is new; remember what the receiver will hold."""
        check_tree(tree)
        codec = self._next
        message = codec.encode({name: self._without(name, t) for name, t in tree.items()})
        self._add(codec.decode(message))
        return message

    def decode(self, message: bytes) -> Tree:
        """The tree as the receiver holds it now, in tensors of its own."""
        self._add(self._next.decode(message))
        return {name: tensor.clone() for name, tensor in self.known.items()}

    @property
    def _next(self) -> Codec:
        """The codec of the next message."""
        return self.codec if self.known or self.first is None else self.first

    def _without(self, name: str, tensor: Tensor) -> Tensor:
        if tensor.is_floating_point():
            check_finite(name, tensor)  # the receiver would keep it for ever
        known = self.known.get(name)
        if known is None or not tensor.is_floating_point():
            return tensor
        if known.shape != tensor.shape:
            raise ValueError(
                f"entry {name!r} has shape {tuple(tensor.shape)}, the receiver holds "
                f"{tuple(known.shape)}: one link carries one model"
            )
        return tensor.detach().cpu() - known

    def _add(self, news: Tree) -> None:
        """Both ends do the same arithmetic, so they hold the same."""
        held = self.known
        for name, t in news.items():
            if name in held and held[name].shape != t.shape:
                raise WireError(f"entry {name!r} changed its shape to {tuple(t.shape)}")
        self.known = {
            name: held[name] + t if name in held and t.is_floating_point() else t
            for name, t in news.items()
        }

    def start_link(self, salt: int) -> None:
        """The receiver holds nothing yet."""
        self.known = {}
        for codec in (self.codec, self.first):
            if isinstance(codec, LinkState):
                codec.start_link(salt)

    def state_dict(self) -> dict[str, Any]:
        """What the receiver holds, and the inner codec's state."""
        inner = self.codec.state_dict() if isinstance(self.codec, LinkState) else {}
        return {"known": dict(self.known), "codec": inner}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved `state_dict`."""
        self.known = dict(state["known"])
        if isinstance(self.codec, LinkState):
            self.codec.load_state_dict(state["codec"])

    def __repr__(self) -> str:
        first = "" if self.first is None else f", first={self.first!r}"
        return f"Difference({self.codec!r}{first})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Difference) and repr(self) == repr(other)

    __hash__ = None  # type: ignore[assignment]
