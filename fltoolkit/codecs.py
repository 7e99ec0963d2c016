"""Codecs: how a tree becomes the bytes of a message, and back.

Here: what a codec is, and how small stages make one. The stages themselves are in quantize.py
and sparse.py, the coders of symbols in entropy.py. Next: quantize.py.
"""

import copy
import itertools
import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor

from fltoolkit.entropy import BitPack
from fltoolkit.parts import (
    SEPARATOR,
    Coder,
    Indices,
    Part,
    Parts,
    Stage,
    Symbols,
    floats,
    is_main,
    side,
)
from fltoolkit.trees import Tree, check_finite, is_finite
from fltoolkit.wire import DTYPES, WireError, check_tree, pack, unpack

__all__ = [
    "Codec",
    "ErrorFeedback",
    "Explanation",
    "Identity",
    "LinkState",
    "Only",
    "Pipeline",
    "walk",
]


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


class Explanation(NamedTuple):
    """What one stage of a pipeline made of a tree: a row of `Pipeline.explain`."""

    stage: str  # its repr
    parts: Parts  # what it hands on
    nominal_bits: float  # values at their nominal width, log2(num_levels) for symbols
    nbytes: int  # of the message, if the pipeline ended here
    entropy_bits: float  # of the symbols, taken as independent; other values at full width


class Pipeline:
    """Stages one after the other, then a frame: ``Pipeline(TopK(0.01), Quantize(8), Entropy())``.

    Each stage works on what the one before left: quantization after top-k sees the kept values
    only. Floating-point entries are compressed (as float32, and come back in their own dtype);
    integers, bools and empty tensors pass through. If the last stage is no coder, symbols are
    packed at their nominal width (`BitPack`).

    Raises ValueError, naming the entry, for values that are NaN or infinite.
    """

    def __init__(self, *stages: Stage):
        for stage in stages:
            if not isinstance(stage, Stage):
                raise TypeError(
                    f"{stage!r} is no stage; give objects, such as Quantize(8), TopK(0.1)"
                )
        for stage, after in itertools.pairwise(stages):
            if isinstance(stage, Coder):
                raise ValueError(f"{stage!r} turns symbols into bytes: it must come last")
            if not (stage.leaves_floats or isinstance(after, Coder)):
                raise ValueError(
                    f"{after!r} would have nothing to do: {stage!r} before it leaves no float "
                    "values. Put it first, or leave one of them out"
                )
        self.stages = stages
        ends = bool(stages) and isinstance(stages[-1], Coder)
        self._stages = list(stages) if ends else [*stages, BitPack()]

    def encode(self, tree: Tree) -> bytes:
        """Run all stages forward and pack what is left."""
        parts = self._enter(tree)
        for stage in self._stages:
            parts = stage.apply(parts)
        return pack(_tensors(parts))

    def decode(self, message: bytes) -> Tree:
        """Unpack and run all stages backward. Raises WireError for damaged bytes."""
        parts: Parts = dict(unpack(message))
        for stage in reversed(self._stages):
            parts = stage.undo(parts)
        return self._leave(parts)

    def masks(self, message: bytes) -> Tree:
        """Which coordinates a message really sent, as `masked_mean` wants it.

        Names to bool tensors of the entries' shapes. A zero that was sent counts as sent, since
        masks come from the places and not from the values. An entry without a mask was sent whole.
        Raises WireError for damaged bytes.
        """
        parts: Parts = dict(unpack(message))
        masks: Tree = {}
        for stage in reversed(self._stages):
            own = stage.masks(parts)
            if own and masks:  # a later stage left out some of what this one kept
                ones = {name: mask.float() for name, mask in masks.items()}
                own = {name: x.bool() for name, x in floats(stage.undo({**parts, **ones})).items()}
            parts = stage.undo(parts)
            masks = own or ({} if stage.mixes else masks)
        tree = self._leave(parts)  # where a stage changed shapes, it mixed the values
        return {
            name: m for name, m in masks.items() if name in tree and m.shape == tree[name].shape
        }

    def explain(self, tree: Tree) -> list[Explanation]:
        """For teaching: what is left after each stage, and its size by three measures.

        Encodes ``tree`` on copies of the stages; the pipeline's own state does not move.
        """
        parts, rows = self._enter(tree), []
        for stage in copy.deepcopy(self._stages):
            parts = stage.apply(parts)
            nbytes = len(pack(_tensors(BitPack().apply(parts))))
            nominal, entropy = (sum(map(of, parts.values())) for of in (_nominal, _entropy))
            rows.append(Explanation(repr(stage), parts, nominal, nbytes, entropy))
        return rows

    def start_link(self, salt: int) -> None:
        """Tell each stage, each with another salt."""
        for number, stage in enumerate(self._stages):
            stage.start_link(salt + number)

    def state_dict(self) -> dict[str, Any]:
        """The state of each stage, by its number."""
        return {str(number): stage.state_dict() for number, stage in enumerate(self._stages)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved `state_dict`."""
        for number, stage in enumerate(self._stages):
            stage.load_state_dict(state[str(number)])

    def __repr__(self) -> str:
        return f"Pipeline({', '.join(map(repr, self.stages))})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pipeline) and repr(self) == repr(other)

    __hash__ = None  # type: ignore[assignment]

    def _enter(self, tree: Tree) -> Parts:
        """Check names and values, and bring floating-point entries to float32."""
        check_tree(tree)
        _check_names(tree)
        parts: Parts = {}
        for name, tensor in tree.items():
            parts[name] = tensor
            if tensor.is_floating_point():
                parts[name] = values = tensor.detach().cpu().float()
                check_finite(name, values)
                if tensor.dtype != torch.float32:
                    parts[side(name, "dtype")] = torch.tensor(DTYPES.index(tensor.dtype)).byte()
        return parts

    def _leave(self, parts: Parts) -> Tree:
        """Bring entries back to their own dtype; complain about what no stage has undone."""
        tree: Tree = {}
        for name, part in parts.items():
            if not isinstance(part, Tensor):
                raise WireError(f"entry {name!r} is still coded: another codec made this message")
            if is_main(name):
                tree[name] = part
                if part.is_floating_point() and not is_finite(part):
                    raise WireError(f"entry {name!r} holds NaN or infinite values: none were sent")
        for name in parts.keys() - tree.keys():
            main, _, what = name.partition(SEPARATOR)
            dtype, tensor = _dtype(parts[name]), tree.get(main)
            if what != "dtype" or dtype is None or tensor is None or tensor.dtype != torch.float32:
                raise WireError(f"entry {name!r} is unknown here: another codec made this message")
            top = min(torch.finfo(dtype).max, torch.finfo(torch.float32).max)
            tree[main] = tensor.clamp(-top, top).to(dtype)  # what was rounded up must not overflow
        return tree


class ErrorFeedback:
    """Send the error of the last messages along with the next: what is lost now is sent later.

    x = tree + residual is encoded, and what the receiver does not get becomes the new residual, so
    at any time the sum of all inputs equals the sum of all that was sent, plus the residual.
    The residual belongs to one directed link; the channel sees to that. Integer entries have none.

    Source: Seide et al. 2014; Karimireddy et al. 2019, arXiv 1901.09847, algorithm 1.
    """

    def __init__(self, codec: Codec):
        _check_inner(self, codec)
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
        return _masks(self.codec, message)

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
        _check_inner(self, codec)
        if min_size < 0:
            raise ValueError(f"min_size={min_size}: entries of so many values or more are encoded")
        self.codec = codec
        self.min_size = min_size

    def encode(self, tree: Tree) -> bytes:
        """Two messages in one frame: the encoded entries, and the exact ones as they are."""
        check_tree(tree)
        large = {name: t for name, t in tree.items() if t.numel() >= self.min_size}
        exact = {name: t for name, t in tree.items() if name not in large}
        _check_names(exact)
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
        return _masks(self.codec, inner)

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


def _masks(codec: Codec, message: bytes) -> Tree:
    """What an inner codec sent, if it can tell."""
    if not hasattr(codec, "masks"):
        raise TypeError(f"{codec!r} has no masks(message): it cannot tell which values it sent")
    return codec.masks(message)


def _check_names(tree: Tree) -> None:
    """Raise ValueError for a name that looks like side information."""
    for name in tree:
        if not is_main(name):
            raise ValueError(f"entry {name!r}: a name must not hold the character 0x1f")


def _check_inner(outer: object, codec: object) -> None:
    """Raise TypeError for what is no codec inside another one."""
    if isinstance(codec, type) or not isinstance(codec, Codec):
        raise TypeError(
            f"{type(outer).__name__}({codec!r}): needs a codec, such as Pipeline(TopK(0.1))"
        )


def _dtype(code: Part) -> torch.dtype | None:
    """The dtype that an entry had, if the code is one of a floating-point dtype."""
    if not isinstance(code, Tensor) or code.dtype != torch.uint8 or code.dim():
        return None
    dtype = DTYPES[int(code)] if int(code) < len(DTYPES) else None
    return dtype if dtype is not None and dtype.is_floating_point else None


def _tensors(parts: Parts) -> Tree:
    """The parts, all of which are tensors once the coder is done."""
    assert all(isinstance(part, Tensor) for part in parts.values())
    return parts  # type: ignore[return-value]


def _nominal(part: Part) -> float:
    """Bits of a part at the nominal width of its values."""
    if isinstance(part, Symbols):
        return part.values.numel() * math.ceil(math.log2(max(part.num_levels, 1)))
    if isinstance(part, Indices):
        return len(part.values) * math.ceil(math.log2(max(part.size, 2)))
    return 8.0 * part.nbytes


def _entropy(part: Part) -> float:
    """The fewest bits for a part whose symbols, or positions, are independent of each other."""
    if isinstance(part, Symbols):
        counts = torch.bincount(part.values.reshape(-1).long()).double()
        shares = counts[counts > 0] / counts.sum()
        return float(-(shares * shares.log2()).sum()) * part.values.numel()
    if isinstance(part, Indices):  # log2 of the number of ways to choose k of n
        n, k = part.size, len(part.values)
        return (math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)) / math.log(2)
    return 8.0 * part.nbytes


def walk(codec: Codec) -> Iterator[Any]:
    """A codec, the codecs that it wraps, and their stages."""
    yield codec
    yield from getattr(codec, "stages", ())
    for name in ("codec", "first"):
        if (inner := getattr(codec, name, None)) is not None:
            yield from walk(inner)
