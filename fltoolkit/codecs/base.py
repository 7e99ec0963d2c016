"""What a channel asks of a codec (`Codec`), and the codec that compresses nothing (`Identity`).

A codec is ``encode`` and ``decode``. If it remembers something between messages, it also has the
three methods of `Memory` (stage.py): ``start_link``, ``state_dict`` and ``load_state_dict``. All
other methods have a default.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fltoolkit.codecs.stage import Memory, Stage, is_main
from fltoolkit.trees import Tree
from fltoolkit.wire import pack, unpack

__all__ = ["walk"]


class Codec(Memory):
    """Turns a tree into the bytes of a message, and back: the base class of all codecs.

    A codec of your own defines ``encode`` and ``decode``. To decode, the receiver has the message
    and its own copy of the codec, with the same configuration. If it also needs the messages before
    this one, set ``in_order = True`` (see `fltoolkit.codecs.stage.Memory`).

    Two codecs are equal if their class and ``repr`` are equal, so ``repr`` must be the call that
    builds the codec. A dataclass has such a ``repr``; ``eq=False`` leaves equality as it is here.

    `Halves` passes the tests of `fltoolkit.testing.Conformance`, except that an entry that was
    bfloat16 before arrives as float32.

    >>> import torch
    >>> from fltoolkit.trees import check_finite
    >>> @dataclass(eq=False)
    ... class Halves(Codec):
    ...     def encode(self, tree):
    ...         return pack({name: self.shortened(name, x) for name, x in tree.items()})
    ...     def decode(self, message):
    ...         tree = unpack(message)
    ...         return {n: x.float() if x.dtype == torch.bfloat16 else x for n, x in tree.items()}
    ...     def shortened(self, name, x):
    ...         check_finite(name, x)  # NaN must not pass silently
    ...         return x.bfloat16() if x.dtype == torch.float32 else x
    >>> Halves(), Halves() == Halves(), len(Halves().encode({"w": torch.zeros(1000)}))
    (Halves(), True, 2011)
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
