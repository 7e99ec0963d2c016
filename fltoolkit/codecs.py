"""Codecs: how a tree becomes the bytes of a message, and back.

Here: what a codec is, and how small stages make one. The stages themselves are in quantize.py
and sparse.py, the coders of symbols in entropy.py. Next: quantize.py.
"""

import copy
import math
from collections.abc import Mapping
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
    is_main,
    side,
)
from fltoolkit.trees import Tree
from fltoolkit.wire import DTYPES, WireError, pack, unpack

__all__ = [
    "Codec",
    "ErrorFeedback",
    "Explanation",
    "Identity",
    "LinkState",
    "Only",
    "Pipeline",
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
        for stage in stages[:-1]:
            if isinstance(stage, Coder):
                raise ValueError(f"{stage!r} turns symbols into bytes: it must come last")
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
        parts: Parts = {}
        for name, tensor in tree.items():
            if not is_main(name):
                raise ValueError(f"entry {name!r}: a name must not hold the character 0x1f")
            parts[name] = tensor
            if tensor.is_floating_point():
                parts[name] = values = tensor.detach().cpu().float()
                # a finite sum has finite terms, and is found much faster than by looking at each
                if not (math.isfinite(values.sum()) or bool(values.isfinite().all())):
                    raise ValueError(
                        f"entry {name!r} holds NaN or infinite values, which this codec cannot "
                        "carry: has training diverged?"
                    )
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
        for name in parts.keys() - tree.keys():
            main, _, what = name.partition(SEPARATOR)
            code = parts[name]
            if what != "dtype" or main not in tree or int(code) >= len(DTYPES):  # type: ignore[arg-type]
                raise WireError(f"entry {name!r} is unknown here: another codec made this message")
            tree[main] = tree[main].to(DTYPES[int(code)])  # type: ignore[arg-type]
        return tree


class ErrorFeedback:
    """Send the error of the last messages along with the next: what is lost now is sent later.

    x = tree + residual is encoded, and what the receiver does not get becomes the new residual, so
    at any time the sum of all inputs equals the sum of all that was sent, plus the residual.
    The residual belongs to one directed link; the channel sees to that. Integer entries have none.

    Source: Seide et al. 2014; Karimireddy et al. 2019, arXiv 1901.09847, algorithm 1.
    """

    def __init__(self, codec: Codec):
        self.codec = codec
        self.residual: Tree = {}

    def encode(self, tree: Tree) -> bytes:
        """Encode ``tree`` plus residual; remember what the receiver will miss."""
        wanted = dict(tree)
        for name, tensor in tree.items():
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
        if min_size < 0:
            raise ValueError(f"min_size={min_size}: entries of so many values or more are encoded")
        self.codec = codec
        self.min_size = min_size

    def encode(self, tree: Tree) -> bytes:
        """Two messages in one frame: the encoded entries, and the exact ones as they are."""
        large = {name: t for name, t in tree.items() if t.numel() >= self.min_size}
        exact = {name: t for name, t in tree.items() if name not in large}
        inner = torch.frombuffer(bytearray(self.codec.encode(large)), dtype=torch.uint8)
        return pack({SEPARATOR: inner, **exact})

    def decode(self, message: bytes) -> Tree:
        """Entries come back in the order: encoded, exact."""
        exact = unpack(message)
        if SEPARATOR not in exact:
            raise WireError("offset 0: expected a message of Only(...), another codec made it")
        inner = exact.pop(SEPARATOR)
        return {**self.codec.decode(inner.numpy().tobytes()), **exact}

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
