"""Pipeline: stages that run one after the other, from a tree to bytes, and back."""

import copy
import itertools
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from fltoolkit.codecs.base import Codec, check_names
from fltoolkit.codecs.coders import BitPack
from fltoolkit.codecs.stage import (
    SEPARATOR,
    Coder,
    Part,
    Parts,
    Stage,
    expect_finite,
    is_main,
    side,
    weighed,
)
from fltoolkit.trees import Tree, check_finite
from fltoolkit.wire import (
    DTYPES,
    WireError,
    at_most,
    check_num_values,
    check_tree,
    most_values,
    pack,
    padding_nbytes,
    unpack,
)

PADDING = side("", "0")  # an entry of zeros, which only makes the message longer


class Explanation(NamedTuple):
    """What one stage of a pipeline made of a tree: a row of `Pipeline.explain`."""

    stage: str  # its repr
    parts: Parts  # what it passes on
    nominal_bits: float  # values at their nominal width, log2(num_levels) for symbols
    nbytes: int  # of the message if this were the last stage
    entropy_bits: float  # entropy of the symbols if independent; other values at full width

    def __repr__(self) -> str:  # without the tensors
        return (
            f"<{self.stage}: {self.nbytes:,} bytes, {self.nominal_bits:,.0f} nominal bits, "
            f"{self.entropy_bits:,.0f} bits of entropy>"
        )


class Pipeline(Codec):
    """Stages one after the other, then a frame: ``Pipeline(TopK(0.01), Quantize(8), Entropy())``.

    Each stage works on the result of the stage before: quantization after top-k gets the kept
    values only. Floating-point entries are compressed as float32 and decoded to their own dtype.
    Integers, bools and empty tensors are sent unchanged. If the last stage is not a coder, symbols
    are packed at their nominal width (`BitPack`).

    Raises ValueError, which names the entry, for values that are NaN or infinite.

    >>> from fltoolkit.codecs import Quantize, TopK
    >>> codec = Pipeline(TopK(0.5), Quantize(2))
    >>> codec.decode(codec.encode({"w": torch.tensor([0.0, -4.0, 1.0, 2.0])}))
    {'w': tensor([ 0., -4.,  0.,  2.])}
    """

    def __init__(self, *stages: Stage):
        for stage in stages:
            if not isinstance(stage, Stage):
                raise TypeError(f"{stage!r} is no stage; give objects: Quantize(8), TopK(0.1)")
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
        """Run all stages forward and pack the result."""
        return self._message(tree, self._before_coder(tree))

    def encode_and_decode(self, tree: Tree) -> tuple[bytes, Tree]:
        """The message, and what a receiver makes of it, which may share memory with ``tree``.

        For a sender that must know what arrives, such as `ErrorFeedback`. The coder loses nothing,
        so it is not undone.
        """
        parts = self._before_coder(tree)
        message = self._message(tree, parts)
        for stage in reversed(self._stages[:-1]):
            parts = stage.undo(parts)
        return message, self._leave(parts)

    def _before_coder(self, tree: Tree) -> Parts:
        parts = self._enter(tree)
        for stage in self._stages[:-1]:
            parts = stage.apply(parts)
        return parts

    def _message(self, tree: Tree, parts: Parts) -> bytes:
        coder = self._stages[-1]
        assert isinstance(coder, Coder)
        entries = cast(Tree, coder.apply(parts))
        message = pack(entries)
        short = padding_nbytes(sum(tensor.numel() for tensor in tree.values()), len(message))
        if short:  # or a receiver refuses it: see "How large a message may become" in wire.py
            message = pack({**entries, PADDING: torch.zeros(short, dtype=torch.uint8)})
        return message

    def decode(self, message: bytes) -> Tree:
        """Unpack and run all stages backward. Raises WireError for damaged bytes."""
        with at_most(most_values(len(message))):
            parts = self._received(message)
            for stage in reversed(self._stages):
                parts = stage.undo(parts)
            return self._leave(parts)

    def masks(self, message: bytes) -> Tree:
        """Which coordinates a message really holds, in the form that `masked_mean` takes.

        Returns bool tensors of the entries' shapes, by name. A zero that was sent counts as sent.
        An entry without a mask was sent whole. Raises WireError for damaged bytes.
        """
        with at_most(most_values(len(message))):
            parts, masks = self._received(message), Tree()
            for stage in reversed(self._stages):
                masks = stage.masks(parts, masks)
                parts = stage.undo(parts)
            tree = self._leave(parts)
        # a stage that changes shapes also mixes the values
        return {n: m for n, m in masks.items() if n in tree and m.shape == tree[n].shape}

    def _received(self, message: bytes) -> Parts:
        """The parts in a message, without padding."""
        return {name: part for name, part in unpack(message).items() if name != PADDING}

    def explain(self, tree: Tree) -> list[Explanation]:
        """For teaching: what each stage returns, and its size by three measures.

        >>> from fltoolkit.codecs import Quantize, TopK
        >>> rows = Pipeline(TopK(0.1), Quantize(4)).explain({"w": torch.arange(1000.0)})
        >>> [(row.stage.split("(")[0], row.nbytes) for row in rows]
        [('TopK', 499), ('Quantize', 170), ('BitPack', 170)]
        """
        parts, rows = self._enter(tree), []
        for stage in copy.deepcopy(self._stages):
            parts = stage.apply(parts)
            nbytes = len(pack(cast(Tree, BitPack().apply(parts))))
            nominal, entropy = weighed(parts)
            rows.append(Explanation(repr(stage), parts, nominal, nbytes, entropy))
        return rows

    def parts(self) -> tuple[Stage, ...]:
        """The stages."""
        return self.stages

    def start_link(self, salt: int) -> None:
        """Tell each stage that a link begins; each stage gets another salt."""
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

    def _enter(self, tree: Tree) -> Parts:
        """Check names and values, and bring floating-point entries to float32."""
        check_tree(tree)
        check_names(tree)
        parts: Parts = {}
        for name, tensor in tree.items():
            parts[name] = tensor
            if tensor.is_floating_point():
                parts[name] = values = tensor.detach().cpu().float().resolve_neg()
                check_finite(name, values)
                if tensor.dtype != torch.float32:
                    parts[side(name, "dtype")] = torch.tensor(DTYPES.index(tensor.dtype)).byte()
        return parts

    def _leave(self, parts: Parts) -> Tree:
        """Convert entries to their own dtype; raise for side information that no stage has used."""
        tree: Tree = {}
        check_num_values(
            sum(p.numel() for n, p in parts.items() if isinstance(p, Tensor) and is_main(n))
        )
        for name, part in parts.items():
            if not isinstance(part, Tensor):
                raise WireError(f"entry {name!r} is still coded: another codec made this message")
            if is_main(name):
                tree[name] = part
        expect_finite(tree)
        for name in parts.keys() - tree.keys():
            main, _, what = name.partition(SEPARATOR)
            dtype, tensor = _dtype(parts[name]), tree.get(main)
            if what != "dtype" or dtype is None or tensor is None or tensor.dtype != torch.float32:
                raise WireError(f"entry {name!r} is unknown here: another codec made this message")
            top = min(torch.finfo(dtype).max, torch.finfo(torch.float32).max)
            tree[main] = tensor.clamp(-top, top).to(dtype)  # rounding up must not overflow
        return tree


def _dtype(code: Part) -> torch.dtype | None:
    """The dtype that an entry had, if the code is one of a floating-point dtype."""
    if not isinstance(code, Tensor) or code.dtype != torch.uint8 or code.dim():
        return None
    dtype = DTYPES[int(code)] if int(code) < len(DTYPES) else None
    return dtype if dtype is not None and dtype.is_floating_point else None
