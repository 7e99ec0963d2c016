"""Codecs around a codec: one sends later what was lost, one sends small entries exactly."""

from collections.abc import Collection, Mapping
from typing import Any

import torch

from fltoolkit.codecs.base import Codec, check_codec, check_names, walk
from fltoolkit.codecs.stage import SEPARATOR, expect_finite, is_main
from fltoolkit.trees import Tree, check_finite
from fltoolkit.wire import WireError, check_tree, pack, unpack

__all__ = ["Wrapper"]


class Wrapper(Codec):
    """A codec around another one: the base class of all such codecs.

    A subclass defines ``encode`` and ``decode``. If it has
    memory of its own, it extends ``start_link``, ``state_dict`` and ``load_state_dict``. If it
    takes other arguments besides the codec, it overrides ``__repr__``. If it holds a second codec,
    it overrides ``parts``.

    >>> from fltoolkit.codecs import Pipeline, TopK
    >>> ErrorFeedback(Pipeline(TopK(0.01))).codec
    Pipeline(TopK(fraction=0.01, scope='model'))
    """

    def __init__(self, codec: Codec):
        check_codec(f"{type(self).__name__}({codec!r})", codec)
        self.codec = codec

    def masks(self, message: bytes) -> Tree:
        """The masks of the inner codec; see `Pipeline.masks`."""
        return self.codec.masks(message)

    def parts(self) -> tuple[Codec, ...]:
        """The inner codec."""
        return (self.codec,)

    def start_link(self, salt: int) -> None:
        """Tell the inner codec that a link begins."""
        for codec in self.parts():
            codec.start_link(salt)

    def state_dict(self) -> dict[str, Any]:
        """The inner codec's state."""
        return self.codec.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved `state_dict`."""
        self.codec.load_state_dict(state)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.codec!r})"


class ErrorFeedback(Wrapper):
    """Send the error of the last messages along with the next: what is lost now is sent later.

    x = tree + decay * residual is encoded, and what the receiver does not get becomes the new
    residual. With ``decay=1`` the sum of all inputs equals the sum of all that was sent, plus the
    residual. With a smaller ``decay``, from 0 on, old errors fade and are lost: a coordinate that
    was left out for long does not come back with a step from long ago. Integers have no residual.

    This codec is for messages that the receiver adds up, such as updates of one model. A `Channel`
    refuses it for activations and gradients, where each message is about other samples.

    Source: Seide et al. 2014; Karimireddy et al. 2019, arXiv 1901.09847, algorithm 1. The decay:
    SparseLoCo (Sarfi et al. 2025, arXiv 2508.15706, algorithm 1, beta).

    >>> from fltoolkit.codecs import Pipeline, TopK
    >>> codec = ErrorFeedback(Pipeline(TopK(0.5)))
    >>> update = {"w": torch.tensor([3.0, 2.0])}
    >>> [codec.decode(codec.encode(update))["w"].tolist() for _ in range(3)]
    [[3.0, 0.0], [0.0, 4.0], [6.0, 0.0]]
    >>> codec.residual
    {'w': tensor([0., 2.])}
    """

    sends_later = True

    def __init__(self, codec: Codec, decay: float = 1.0):
        super().__init__(codec)
        if any(part.in_order for part in walk(codec)):
            raise ValueError(
                f"ErrorFeedback({codec!r}): the codec inside reads each message once, and sends "
                "later what it leaves out now. Leave ErrorFeedback out"
            )
        if not isinstance(decay, int | float) or not 0 <= decay <= 1:
            raise ValueError(
                f"decay={decay!r}: the share of the residual that is added to the next message, "
                "from 0 to 1"
            )
        self.decay = decay
        self.residual: Tree = {}

    def encode(self, tree: Tree) -> bytes:
        """Encode ``tree`` plus residual; remember what the receiver will not get."""
        owed, mine = self._owed(tree), {*self.residual}
        self.residual |= owed  # the old one is in the sum: large models need the memory
        try:
            message, sent = self.codec.encode_and_decode({**tree, **_narrowed(owed, tree)})
        except BaseException:  # up to rounding, what was owed before
            self.residual |= {name: owed[name] - tree[name].detach().cpu() for name in owed}
            raise
        for name, tensor in owed.items():  # in place of a sum, never of a caller's tensor
            out = tensor if name in mine else None
            self.residual[name] = torch.sub(tensor, sent[name].to(tensor.dtype), out=out)
        return message

    def decode(self, message: bytes) -> Tree:
        """Decode with the inner codec: the receiver needs no residual."""
        return self.codec.decode(message)

    def _owed(self, tree: Tree) -> Tree:
        """The float entries plus what the receiver did not get so far, in float32 or wider.

        In 16 bits a residual would soon be so large that a small update no longer changes it.
        """
        check_tree(tree)
        owed = {}
        for name, tensor in tree.items():
            if not tensor.is_floating_point():
                continue
            wide = tensor.detach().cpu().to(torch.promote_types(tensor.dtype, torch.float32))
            if (residual := self.residual.get(name)) is not None:
                if residual.shape != tensor.shape:
                    raise ValueError(
                        f"entry {name!r} has shape {tuple(tensor.shape)}, its residual "
                        f"{tuple(residual.shape)}: one link carries one model"
                    )
                wide = wide + (residual if self.decay == 1 else self.decay * residual)
            check_finite(name, wide)  # or the residual would keep it for ever
            owed[name] = wide
        return owed

    def start_link(self, salt: int) -> None:
        """Start with an empty residual."""
        self.residual = {}
        super().start_link(salt)

    def state_dict(self) -> dict[str, Any]:
        """Residual and the inner codec's state."""
        return {"residual": dict(self.residual), "codec": super().state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved `state_dict`."""
        self.residual = dict(state["residual"])
        super().load_state_dict(state["codec"])

    def __repr__(self) -> str:
        decay = "" if self.decay == 1 else f", decay={self.decay}"
        return f"ErrorFeedback({self.codec!r}{decay})"


def _narrowed(owed: Tree, tree: Tree) -> Tree:
    """The values in the dtypes of ``tree``, at most as large as these dtypes can hold."""
    narrow = {}
    for name, tensor in owed.items():
        if (dtype := tree[name].dtype) != tensor.dtype:
            most = torch.finfo(dtype).max
            tensor = tensor.clamp(-most, most).to(dtype)
        narrow[name] = tensor
    return narrow


class Only(Wrapper):
    """Compress large entries, send small ones exactly: ``Only(Pipeline(Quantize(8)))``.

    Biases and normalization weights take only a few bytes, and compression harms them most. The
    usual threshold is 10,000 values, as in TensorFlow Federated's compression tutorial. NaN and
    infinity are errors at both ends, also in small entries. Entries whose names are in ``exact``
    are sent exactly whatever their size is; a `Channel` does this with the buffers of a network.

    >>> from fltoolkit.codecs import Pipeline, Quantize
    >>> codec = Only(Pipeline(Quantize(1)), min_size=3)
    >>> tree = {"w": torch.tensor([0.0, 1.0, 4.0]), "b": torch.tensor([0.1, 0.2])}
    >>> codec.decode(codec.encode(tree))
    {'w': tensor([0., 0., 4.]), 'b': tensor([0.1000, 0.2000])}
    """

    def __init__(
        self, codec: Codec, min_size: int = 10_000, *, exact: Collection[str] = frozenset()
    ):
        super().__init__(codec)
        if min_size < 0:
            raise ValueError(f"min_size={min_size}: entries of so many values or more are encoded")
        self.min_size, self.exact = min_size, exact

    def encode(self, tree: Tree) -> bytes:
        """Two messages in one frame: the encoded entries, and the exact ones as they are."""
        check_tree(tree)
        large, exact = self._parted(tree)
        check_names(exact)
        for name, tensor in tree.items():
            if tensor.is_floating_point():
                check_finite(name, tensor)
        inner = torch.frombuffer(bytearray(self.codec.encode(large)), dtype=torch.uint8)
        return pack({SEPARATOR: inner, **exact})

    def decode(self, message: bytes) -> Tree:
        """Decode both messages. The encoded entries come first, then the exact ones."""
        inner, exact = self._opened(message)
        large = self.codec.decode(inner)
        if twice := large.keys() & exact.keys():
            raise WireError(f"entry {min(twice)!r} is there twice: encoded, and exact")
        return expect_finite({**large, **exact})

    def masks(self, message: bytes) -> Tree:
        """The masks of the large entries, from the inner codec; see `Pipeline.masks`."""
        inner, _ = self._opened(message)
        return super().masks(inner)

    def _parted(self, tree: Tree) -> tuple[Tree, Tree]:
        """The entries that are encoded, and those that are sent exactly."""
        exact = {n: t for n, t in tree.items() if t.numel() < self.min_size or n in self.exact}
        return {name: t for name, t in tree.items() if name not in exact}, exact

    def _opened(self, message: bytes) -> tuple[bytes, Tree]:
        """The inner codec's message, and the exact entries."""
        exact = unpack(message)
        inner = exact.pop(SEPARATOR, None)
        if inner is None or inner.dtype != torch.uint8 or not all(map(is_main, exact)):
            raise WireError("offset 0: expected a message of Only(...), another codec made it")
        return inner.numpy().tobytes(), exact

    def __repr__(self) -> str:
        exact = f", exact={sorted(self.exact)}" if self.exact else ""
        return f"Only({self.codec!r}, min_size={self.min_size}{exact})"
