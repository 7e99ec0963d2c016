"""Codecs: how a tree becomes the bytes of a message, and back.

Here so far: the interface and the codec that changes nothing. Next: channel.py.
"""

from typing import Protocol, runtime_checkable

from fltoolkit.trees import Tree
from fltoolkit.wire import pack, unpack

__all__ = ["Codec", "Identity"]


@runtime_checkable
class Codec(Protocol):
    """What a `Channel` asks of a codec.

    ``decode`` needs the bytes and the codec's own configuration, nothing else. A codec may keep
    state between messages (a residual, a warm start): the channel gives each directed link its
    own copy, so two clients never share one.
    """

    def encode(self, tree: Tree) -> bytes:
        """Turn a tree into a message."""

    def decode(self, message: bytes) -> Tree:
        """Turn a message into the tree that the receiver computes with."""


class Identity:
    """Full precision: the plain frame of wire.py. Lossless."""

    def encode(self, tree: Tree) -> bytes:
        """See `pack`."""
        return pack(tree)

    def decode(self, message: bytes) -> Tree:
        """See `unpack`."""
        return unpack(message)

    def __repr__(self) -> str:
        return "Identity()"
