"""What a channel asks of a codec, and the codec that compresses nothing.

Not here: stages in a row (pipeline.py), codecs around codecs (wrappers.py).

A codec is ``encode`` and ``decode`` and, if it remembers something between messages, the three
methods of its `Memory`. All other methods answer questions, and have an answer already.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fltoolkit.codecs.stage import Memory, Sizes, Stage, is_main
from fltoolkit.trees import Tree, dense_nbytes
from fltoolkit.wire import pack, unpack

__all__ = ["walk"]


class Codec(Memory):
    """Turns a tree into the bytes of a message, and back: the base class of all codecs.

    A codec of your own defines ``encode`` and ``decode``. ``decode`` needs the bytes and the
    codec's own configuration, nothing else. Its ``repr`` is the call that makes an equal codec, as
    that of a dataclass is.

    >>> import torch
    >>> class Halves(Codec):
    ...     def encode(self, tree):
    ...         return pack({name: x.half() for name, x in tree.items()})
    ...     def decode(self, message):
    ...         return {name: x.float() for name, x in unpack(message).items()}
    >>> len(Halves().encode({"w": torch.zeros(1000)}))
    2011
    """

    def encode(self, tree: Tree) -> bytes:
        """Turn a tree into a message."""
        raise NotImplementedError(f"{type(self).__name__} has no encode")

    def decode(self, message: bytes) -> Tree:
        """Turn a message into the tree that the receiver computes with."""
        raise NotImplementedError(f"{type(self).__name__} has no decode")

    def encode_and_decode(self, tree: Tree) -> tuple[bytes, Tree]:
        """The message, and what a receiver makes of it; this may share memory with ``tree``.

        A codec whose ``decode`` changes its memory must override it.
        """
        message = self.encode(tree)
        return message, self.decode(message)

    def masks(self, message: bytes) -> Tree:
        """Which values a message holds: bool tensors of the entries' shapes, by name.

        An entry without a mask was sent whole.
        """
        return {}

    def weigh(self, tree: Tree) -> Sizes | None:
        """The size of the next message by other measures than its bytes; None: it is not known.

        Changes no memory.
        """
        return None

    def parts(self) -> "Sequence[Codec | Stage]":
        """What the codec is made of, in order; see `walk`."""
        return ()

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and repr(self) == repr(other)

    __hash__ = None  # type: ignore[assignment]


@dataclass(unsafe_hash=True)  # not frozen, so that dataclasses may extend it
class Identity(Codec):
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

    def weigh(self, tree: Tree) -> Sizes:
        """Both sizes are those of the values as they are."""
        return Sizes(float(dense_nbytes(tree)), float(dense_nbytes(tree)))


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
    if isinstance(codec, Codec):
        for part in codec.parts():
            yield from walk(part)


def check_codec(where: str, codec: object) -> None:
    """Raise TypeError if this is not a codec; ``where`` is how the caller wrote it."""
    if isinstance(codec, Stage):
        raise TypeError(f"{where}: needs a codec, and this is a stage. Write Pipeline({codec!r})")
    if not isinstance(codec, Codec):
        raise TypeError(
            f"{where}: needs a codec, such as Pipeline(TopK(0.1)). A class of your own extends "
            "fltoolkit.codecs.Codec, with encode and decode"
        )


def check_names(tree: Tree) -> None:
    """Raise ValueError for a name that looks like side information."""
    for name in tree:
        if not is_main(name):
            raise ValueError(f"entry {name!r}: a name must not hold the character 0x1f")
