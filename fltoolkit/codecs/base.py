"""What a channel asks of a codec, what a codec may keep between messages, and the simplest one.

Not here: stages in a row (pipeline.py), codecs around codecs (wrappers.py).
"""

from collections.abc import Iterator, Mapping
from typing import Any, Protocol, runtime_checkable

from fltoolkit.codecs.stage import (
    is_main,
)
from fltoolkit.trees import Tree
from fltoolkit.wire import pack, unpack

__all__ = ["Codec", "Identity", "LinkState", "walk"]


@runtime_checkable
class Codec(Protocol):
    """What a `Channel` asks of a codec.

    ``decode`` needs the bytes and the codec's own configuration, nothing else.
    """

    def encode(self, tree: Tree) -> bytes:
        """Turn a tree into a message."""

    def decode(self, message: bytes) -> Tree:
        """Turn a message into the tree that the receiver computes with."""


@runtime_checkable
class LinkState(Protocol):
    """What a codec has besides if it keeps something between messages: a residual, a generator.

    The channel gives each directed link its own copy of the codec, tells the copy so, and saves
    and restores its state with the run; so two clients never share one.
    """

    def start_link(self, salt: int) -> None:
        """Begin on one directed link, without memory; ``salt`` differs from link to link."""

    def state_dict(self) -> dict[str, Any]:
        """What must be kept to go on later: tensors and plain values, in dicts."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved `state_dict`."""


class Identity:
    """Full precision: the plain frame of wire.py. Lossless."""

    encode = staticmethod(pack)
    decode = staticmethod(unpack)

    def masks(self, message: bytes) -> Tree:
        """None: every entry was sent whole; see `Pipeline.masks`."""
        return {}

    def __repr__(self) -> str:
        return "Identity()"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Identity)

    def __hash__(self) -> int:
        return hash(Identity)


def masks_of(codec: Codec, message: bytes) -> Tree:
    """What an inner codec sent, if it can tell."""
    if not hasattr(codec, "masks"):
        raise TypeError(f"{codec!r} has no masks(message): it cannot tell which values it sent")
    return codec.masks(message)


def check_names(tree: Tree) -> None:
    """Raise ValueError for a name that looks like side information."""
    for name in tree:
        if not is_main(name):
            raise ValueError(f"entry {name!r}: a name must not hold the character 0x1f")


def check_inner(outer: object, codec: object) -> None:
    """Raise TypeError for what is no codec inside another one."""
    if isinstance(codec, type) or not isinstance(codec, Codec):
        raise TypeError(
            f"{type(outer).__name__}({codec!r}): needs a codec, such as Pipeline(TopK(0.1))"
        )


def walk(codec: Codec) -> Iterator[Any]:
    """A codec, the codecs that it wraps, and their stages."""
    yield codec
    yield from getattr(codec, "stages", ())
    for name in ("codec", "first"):
        if (inner := getattr(codec, name, None)) is not None:
            yield from walk(inner)
