"""Codecs around a codec: what was lost is sent later, and small entries travel exactly.

Not here: sending only what has changed (difference.py).
"""

from collections.abc import Mapping
from typing import Any

import torch

from fltoolkit.codecs.base import (
    Codec,
    LinkState,
    check_inner,
    check_names,
    masks_of,
)
from fltoolkit.codecs.stage import (
    SEPARATOR,
    is_main,
)
from fltoolkit.trees import Tree, check_finite
from fltoolkit.wire import WireError, check_tree, pack, unpack

__all__ = ["ErrorFeedback", "Only"]


class ErrorFeedback:
    """Send the error of the last messages along with the next: what is lost now is sent later.

    x = tree + residual is encoded, and what the receiver does not get becomes the new residual, so
    at any time the sum of all inputs equals the sum of all that was sent, plus the residual.
    The residual belongs to one directed link; the channel sees to that. Integer entries have none.

    Source: Seide et al. 2014; Karimireddy et al. 2019, arXiv 1901.09847, algorithm 1.
    """

    def __init__(self, codec: Codec):
        check_inner(self, codec)
        self.codec = codec
        self.residual: Tree = {}

    def encode(self, tree: Tree) -> bytes:
        """Encode ``tree`` plus residual; remember what the receiver will miss."""
        check_tree(tree)
        wanted = dict(tree)
        for name, tensor in tree.items():
            if tensor.is_floating_point():
                check_finite(name, tensor)  # the residual would keep it for ever
            if tensor.is_floating_point() and name in self.residual:
                if self.residual[name].shape != tensor.shape:
                    raise ValueError(
                        f"entry {name!r} has shape {tuple(tensor.shape)}, its residual "
                        f"{tuple(self.residual[name].shape)}: one link carries one model"
                    )
                wanted[name] = tensor.detach().cpu() + self.residual[name]
        message = self.codec.encode(wanted)
        sent = self.codec.decode(message)
        for name, tensor in wanted.items():
            if tensor.is_floating_point():
                self.residual[name] = tensor.detach().cpu() - sent[name]
        return message

    def decode(self, message: bytes) -> Tree:
        """The inner codec's decoding: the receiver needs no residual."""
        return self.codec.decode(message)

    def masks(self, message: bytes) -> Tree:
        """What the inner codec sent; see `Pipeline.masks`."""
        return masks_of(self.codec, message)

    def start_link(self, salt: int) -> None:
        """Start with an empty residual."""
        self.residual = {}
        if isinstance(self.codec, LinkState):
            self.codec.start_link(salt)

    def state_dict(self) -> dict[str, Any]:
        """Residual and the inner codec's state."""
        inner = self.codec.state_dict() if isinstance(self.codec, LinkState) else {}
        return {"residual": dict(self.residual), "codec": inner}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved `state_dict`."""
        self.residual = dict(state["residual"])
        if isinstance(self.codec, LinkState):
            self.codec.load_state_dict(state["codec"])

    def __repr__(self) -> str:
        return f"ErrorFeedback({self.codec!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ErrorFeedback) and repr(self) == repr(other)

    __hash__ = None  # type: ignore[assignment]


class Only:
    """Compress large entries, send small ones exactly: ``Only(Pipeline(Quantize(8)))``.

    Biases and normalization weights take few bytes and suffer most. The classic threshold is
    10,000 values, as in TensorFlow Federated's compression tutorial.
    """

    def __init__(self, codec: Codec, min_size: int = 10_000):
        check_inner(self, codec)
        if min_size < 0:
            raise ValueError(f"min_size={min_size}: entries of so many values or more are encoded")
        self.codec = codec
        self.min_size = min_size

    def encode(self, tree: Tree) -> bytes:
        """Two messages in one frame: the encoded entries, and the exact ones as they are."""
        check_tree(tree)
        large = {name: t for name, t in tree.items() if t.numel() >= self.min_size}
        exact = {name: t for name, t in tree.items() if name not in large}
        check_names(exact)
        inner = torch.frombuffer(bytearray(self.codec.encode(large)), dtype=torch.uint8)
        return pack({SEPARATOR: inner, **exact})

    def decode(self, message: bytes) -> Tree:
        """Entries come back in the order: encoded, exact."""
        inner, exact = self._split(message)
        tree = self.codec.decode(inner)
        if twice := tree.keys() & exact.keys():
            raise WireError(f"entry {min(twice)!r} is there twice: encoded, and exact")
        return {**tree, **exact}

    def masks(self, message: bytes) -> Tree:
        """What the inner codec sent of the large entries; see `Pipeline.masks`."""
        inner, _ = self._split(message)
        return masks_of(self.codec, inner)

    def _split(self, message: bytes) -> tuple[bytes, Tree]:
        """The inner codec's message, and the exact entries."""
        exact = unpack(message)
        inner = exact.pop(SEPARATOR, None)
        if inner is None or inner.dtype != torch.uint8 or not all(map(is_main, exact)):
            raise WireError("offset 0: expected a message of Only(...), another codec made it")
        return inner.numpy().tobytes(), exact

    def start_link(self, salt: int) -> None:
        """Tell the inner codec."""
        if isinstance(self.codec, LinkState):
            self.codec.start_link(salt)

    def state_dict(self) -> dict[str, Any]:
        """The inner codec's state."""
        return self.codec.state_dict() if isinstance(self.codec, LinkState) else {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved `state_dict`."""
        if isinstance(self.codec, LinkState):
            self.codec.load_state_dict(state)

    def __repr__(self) -> str:
        return f"Only({self.codec!r}, min_size={self.min_size})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Only) and repr(self) == repr(other)

    __hash__ = None  # type: ignore[assignment]
