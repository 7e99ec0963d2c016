"""What a channel asks of a codec, what a codec may offer besides, and the simplest codec.

Not here: stages in a row (pipeline.py), codecs around codecs (wrappers.py).

A codec must have ``encode`` and ``decode`` (`Codec`). Each other ability is a small protocol of its
own: memory between messages (`LinkState`), which values a message holds (`Masked`), sizes before a
message is made (`Weighed`), and what the codec is made of (`Composed`).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from fltoolkit.codecs.stage import Sizes, Stage, is_main
from fltoolkit.trees import Tree, dense_nbytes
from fltoolkit.wire import pack, unpack

__all__ = ["LinkState", "Masked", "Weighed", "walk", "weigh"]


@runtime_checkable
class Codec(Protocol):
    """What a `Channel` asks of a codec.

    ``decode`` needs the bytes and the codec's own configuration, nothing else.

    >>> isinstance(Identity(), Codec), isinstance("a text", Codec)
    (True, False)
    """

    def encode(self, tree: Tree) -> bytes:
        """Turn a tree into a message."""

    def decode(self, message: bytes) -> Tree:
        """Turn a message into the tree that the receiver computes with."""


@runtime_checkable
class LinkState(Protocol):
    """A codec that keeps memory between messages, such as a residual or a random generator.

    The channel calls ``start_link`` of the copy that each end of a link has, and saves and restores
    its state together with the run.

    >>> from fltoolkit.codecs import ErrorFeedback
    >>> ErrorFeedback(Identity()).state_dict()
    {'residual': {}, 'codec': {}}
    """

    def start_link(self, salt: int) -> None:
        """Begin on one directed link, without memory; ``salt`` differs from link to link."""

    def state_dict(self) -> dict[str, Any]:
        """What must be kept to go on later: tensors and plain values, in dicts."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved `state_dict`."""


@runtime_checkable
class Masked(Protocol):
    """A codec that can tell which values of a tree a message holds.

    >>> import torch
    >>> from fltoolkit.codecs import Pipeline, TopK
    >>> codec = Pipeline(TopK(0.5))
    >>> codec.masks(codec.encode({"w": torch.tensor([1.0, -5.0])}))
    {'w': tensor([False,  True])}
    """

    def masks(self, message: bytes) -> Tree:
        """Names to bool tensors of the entries' shapes; an entry without a mask was sent whole."""


@runtime_checkable
class Weighed(Protocol):
    """A codec that can tell how large its next message will be by other measures than its bytes.

    >>> import torch
    >>> Identity().weigh({"w": torch.zeros(100)})
    Sizes(nominal=400.0, entropy=400.0)
    """

    def weigh(self, tree: Tree) -> Sizes | None:
        """The sizes of the message of ``tree``; None if they are not known. Changes no state."""


@runtime_checkable
class Echoing(Protocol):
    """A codec that can tell what a receiver makes of a message while it makes the message."""

    def encode_and_decode(self, tree: Tree) -> tuple[bytes, Tree]:
        """What ``encode`` returns, and what ``decode`` would make of it."""


@runtime_checkable
class Composed(Protocol):
    """A codec that is made of stages or of other codecs; see `walk`."""

    def parts(self) -> "Sequence[Codec | Stage]":
        """What it is made of, in order."""


@dataclass(unsafe_hash=True)  # not frozen, so that dataclasses may extend it
class Identity:
    """Full precision: the plain frame of wire.py. Lossless; carries NaN and infinity exactly.

    >>> import torch
    >>> codec = Identity()
    >>> codec.decode(codec.encode({"x": torch.tensor([0.5, torch.inf])}))
    {'x': tensor([0.5000,    inf])}
    """

    def encode(self, tree: Tree) -> bytes:
        """The frame of `fltoolkit.wire.pack`."""
        return pack(tree)

    def decode(self, message: bytes) -> Tree:
        """The tree that `fltoolkit.wire.unpack` reads."""
        return unpack(message)

    def masks(self, message: bytes) -> Tree:
        """No masks: every entry was sent whole; see `Pipeline.masks`."""
        return {}

    def weigh(self, tree: Tree) -> Sizes:
        """Both sizes are those of the values as they are."""
        return Sizes(float(dense_nbytes(tree)), float(dense_nbytes(tree)))


def encode_and_decode(codec: Codec, tree: Tree) -> tuple[bytes, Tree]:
    """The message, and what a receiver makes of it; this may share memory with ``tree``."""
    if isinstance(codec, Echoing):
        return codec.encode_and_decode(tree)
    message = codec.encode(tree)
    return message, codec.decode(message)


def weigh(codec: Codec, tree: Tree) -> Sizes | None:
    """The sizes of the message that ``codec`` would make of ``tree``; None if it cannot tell.

    The codec's state does not change. A size that is not known stays empty in tables and figures.

    >>> import torch
    >>> from fltoolkit.codecs import Pipeline, Quantize
    >>> weigh(Pipeline(Quantize(2)), {"h": torch.tensor([0.0, 0.0, 3.0, 3.0])})  # range: 8 bytes
    Sizes(nominal=9.0, entropy=8.5)
    """
    return codec.weigh(tree) if isinstance(codec, Weighed) else None


def walk(codec: "Codec | Stage") -> "Iterator[Codec | Stage]":
    """Yield a codec, then all parts that it is made of: stages, inner codecs and their stages.

    >>> from fltoolkit.codecs import ErrorFeedback, Pipeline, Quantize, TopK
    >>> for part in walk(ErrorFeedback(Pipeline(TopK(0.01), Quantize(8)))):
    ...     print(type(part).__name__)
    ErrorFeedback
    Pipeline
    TopK
    Quantize
    """
    yield codec
    if isinstance(codec, Composed):
        for part in codec.parts():
            yield from walk(part)


def can_sum(codec: Codec) -> bool:
    """True if a secure sum (`fltoolkit_research.secrecy`) may add messages before they are decoded.

    All stages must have ``sums``: each sender uses the same levels and the same places, and no
    coder follows.

    >>> from fltoolkit.codecs import Entropy, Pipeline, Quantize, TopK
    >>> can_sum(Identity()), can_sum(Pipeline(TopK(0.1), Quantize(8), Entropy()))
    (False, False)
    """
    _, *stages = walk(codec)
    return bool(stages) and all(isinstance(stage, Stage) and stage.sums for stage in stages)


def check_codec(where: str, codec: object) -> None:
    """Raise TypeError if this is not a codec; ``where`` is how the caller wrote it."""
    if isinstance(codec, Stage):
        raise TypeError(f"{where}: needs a codec, and this is a stage. Write Pipeline({codec!r})")
    if isinstance(codec, type) or not isinstance(codec, Codec):
        raise TypeError(
            f"{where}: needs a codec, an object with encode and decode, such as Pipeline(TopK(0.1))"
        )


def check_names(tree: Tree) -> None:
    """Raise ValueError for a name that looks like side information."""
    for name in tree:
        if not is_main(name):
            raise ValueError(f"entry {name!r}: a name must not hold the character 0x1f")
