"""What travels between the stages of a codec: tensors, symbols and indices, by name.

A name with `SEPARATOR` in it belongs to side information: what a stage needs to undo its work, such
as a range or a seed. Stages work on main entries only and leave side information alone. Both are
packed into the frame and counted.
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from fltoolkit.trees import is_finite
from fltoolkit.wire import WireError

__all__ = [
    "SEPARATOR",
    "Indices",
    "Memory",
    "Part",
    "Parts",
    "RandomStage",
    "Stage",
    "Symbols",
    "floats",
    "is_main",
    "side",
    "take_side",
    "take_symbols",
    "with_side",
]

SEPARATOR = "\x1f"
"""The ASCII unit separator: one byte, and in no parameter's name."""


class Symbols(NamedTuple):
    """Whole numbers from 0 to ``num_levels - 1``: quantized values before they become bits."""

    values: Tensor  # any shape, uint8 for up to 256 levels, else int32
    num_levels: int

    @classmethod
    def of(cls, numbers: Tensor, num_levels: int) -> "Symbols":
        """Whole numbers of any dtype as symbols."""
        return cls(numbers.to(torch.uint8 if num_levels <= 256 else torch.int32), num_levels)


class Indices(NamedTuple):
    """Which of ``size`` places are meant: strictly increasing int64, one dimension.

    The places count through the values of several tensors of these ``shapes``, one after the other.
    The shapes help a coder to find rows and columns. They are not sent; after decoding there are
    none.
    """

    values: Tensor
    size: int
    shapes: tuple[tuple[int, ...], ...] = ()


Part = Tensor | Symbols | Indices
"""One entry on its way through the stages."""

Parts = dict[str, Part]
"""What a stage gets and returns: entries by name, and their side information."""


class Memory:
    """What a codec or a stage remembers between the messages of one directed link: here nothing.

    A channel calls ``start_link`` of the copy that each end of a link has, and saves and restores
    its state together with the run.
    """

    sends_later = False  # True: what one message leaves out is added to the next one
    in_order = False  # True: decoding needs all messages before, each of them once and in order

    def start_link(self, salt: int) -> None:
        """Begin on one directed link, without memory; ``salt`` differs from link to link."""

    def state_dict(self) -> dict[str, Any]:
        """What must be kept to go on later: tensors and plain values, in dicts."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved `state_dict`."""


class Stage(Memory):
    """One step of a `Pipeline`: `apply` on the way out, `undo` on the way in.

    A stage changes the main entries that are float32 tensors (see `floats`), may add side
    information, and passes everything else on unchanged. ``undo`` needs only the parts and the
    stage's configuration, and it removes the stage's own side information. No input is changed in
    place. Input tensors are never empty and hold no NaN and no infinity. Subclasses are
    dataclasses, so that ``repr`` gives text from which the stage can be rebuilt.

    >>> class Halve(Stage):
    ...     def apply(self, parts):
    ...         return {**parts, **{name: x / 2 for name, x in floats(parts).items()}}
    ...     def undo(self, parts):
    ...         return {**parts, **{name: x * 2 for name, x in floats(parts).items()}}
    >>> Halve().undo(Halve().apply({"w": torch.tensor([3.0])}))
    {'w': tensor([3.])}
    """

    leaves_floats = True  # False: `apply` leaves no floats, so only a coder may follow
    leaves_out = False  # True: values that are not sent arrive as zeros

    def apply(self, parts: Parts) -> Parts:
        """Compress: take what the stage before made, and return what the next stage gets."""
        raise NotImplementedError(f"{type(self).__name__} has no apply")

    def undo(self, parts: Parts) -> Parts:
        """Restore what `apply` was given, as well as the stage can."""
        raise NotImplementedError(f"{type(self).__name__} has no undo")

    def masks(self, parts: Parts, later: dict[str, Tensor]) -> dict[str, Tensor]:
        """Which of the values that `undo` makes of ``parts`` were sent; see `Pipeline.masks`.

        ``later`` are the masks of ``parts`` themselves, from the stages after this one. They stay
        as they are unless a stage moves, mixes or leaves out values.
        """
        return later


class RandomStage(Stage):
    """A stage that draws random numbers: new ones for each message, and other ones on each link.

    The numbers depend only on the stage's ``seed``, the link's salt and the number of the message.

    >>> from fltoolkit.codecs import Quantize
    >>> stage, tree = Quantize(1, stochastic=True), {"w": torch.tensor([0.0, 1.0, 1.0, 2.0])}
    >>> [stage.apply(tree)["w"].values.tolist() for _ in range(3)]
    [[0, 1, 1, 1], [0, 0, 0, 1], [0, 0, 1, 1]]
    """

    seed = 0
    _salt = 0
    _messages = 0

    def __post_init__(self) -> None:
        check_number("seed", self.seed, 0)

    def draw_key(self) -> np.random.SeedSequence:
        """The key from which the random generator of the next message is made."""
        key = np.random.SeedSequence([self.seed, self._salt, self._messages])
        self._messages += 1
        return key

    def start_link(self, salt: int) -> None:
        """Begin on one directed link, with random numbers of its own."""
        self._salt, self._messages = salt, 0

    def state_dict(self) -> dict[str, Any]:
        """The link's salt, and for how many messages random numbers have been drawn."""
        return {"salt": self._salt, "messages": self._messages}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved `state_dict`."""
        self._salt, self._messages = state["salt"], state["messages"]


class Coder(Stage):
    """A last stage: it turns every `Symbols` and `Indices` into a uint8 tensor, without loss.

    It works on main entries and on side information alike, since both may hold symbols.
    """


def side(name: str, what: str) -> str:
    r"""The name of side information ``what`` about entry ``name``.

    >>> side("conv1.weight", "scale")
    'conv1.weight\x1fscale'
    """
    return f"{name}{SEPARATOR}{what}"


def is_main(name: str) -> bool:
    """Whether the entry holds values, and not side information.

    >>> is_main("w"), is_main(side("w", "scale"))
    (True, False)
    """
    return SEPARATOR not in name


def floats(parts: Parts) -> dict[str, Tensor]:
    """The entries that stages work on: main entries that are float32 tensors and not empty.

    >>> parts = {"w": torch.ones(2), "steps": torch.tensor(7), side("w", "scale"): torch.ones(1)}
    >>> floats(parts)
    {'w': tensor([1., 1.])}
    """
    return {name: t for name, t in tensors_of(parts, torch.float32).items() if t.numel()}


def tensors_of(parts: Parts, dtype: torch.dtype) -> dict[str, Tensor]:
    """The main entries that are tensors of this dtype, also empty ones."""
    main = {name: part for name, part in parts.items() if is_main(name)}
    return {n: part for n, part in main.items() if isinstance(part, Tensor) and part.dtype == dtype}


def weighed(parts: Parts) -> tuple[float, float]:
    """The size of parts before a coder by two measures, in bits: nominal, and entropy.

    Nominal: each value at its width, ceil(log2(levels)) bits for a symbol, ceil(log2(n)) for a
    place. Entropy: the least if symbols and places were independent of each other.
    """
    nominal = entropy = 0.0
    for part in parts.values():
        if isinstance(part, Symbols):
            n = part.values.numel()
            nominal += n * math.ceil(math.log2(max(part.num_levels, 1)))
            counts = torch.bincount(part.values.reshape(-1).long()).double()
            shares = counts[counts > 0] / counts.sum()
            entropy += float(-(shares * shares.log2()).sum()) * n
        elif isinstance(part, Indices):
            n, k = part.size, len(part.values)
            nominal += k * math.ceil(math.log2(max(n, 2)))
            choices = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
            entropy += choices / math.log(2)  # of the number of ways to choose k of n
        else:
            nominal += 8.0 * part.nbytes
            entropy += 8.0 * part.nbytes
    return nominal, entropy


def with_side(parts: Parts, what: str) -> list[str]:
    """The names of the main entries that have side information ``what``.

    >>> parts = {"w": torch.zeros(3), side("w", "scale"): torch.ones(()), "b": torch.ones(2)}
    >>> with_side(parts, "scale")
    ['w']
    """
    return [name for name in parts if is_main(name) and side(name, what) in parts]


def take_side(
    parts: Parts,
    name: str,
    what: str,
    dtype: torch.dtype = torch.float32,
    shape: tuple[int, ...] | None = (),
) -> Tensor:
    """Take the side information ``what`` about entry ``name`` out of ``parts``, and check it.

    For ``undo``: bytes from the network may hold anything. ``dtype`` and ``shape`` (None: any) are
    what `apply` sent. The stage itself checks whether the values make sense: a scale must not be
    below 0, and a range must not go from high to low. Raises WireError if it is missing, has
    another dtype or shape, or holds NaN or infinity.

    >>> parts = {"w": torch.zeros(3), side("w", "scale"): torch.tensor(0.5)}
    >>> take_side(parts, "w", "scale"), list(parts)
    (tensor(0.5000), ['w'])
    """
    info = parts.pop(side(name, what), None)
    kind = str(dtype).removeprefix("torch.") + ("" if shape is None else f" of shape {shape}")
    expected = f"entry {name!r}: expected side information {what!r}, {kind}"
    if not isinstance(info, Tensor):
        raise WireError(f"{expected}: none came")
    if info.dtype != dtype or shape not in (None, tuple(info.shape)):
        raise WireError(
            f"{expected}, found {str(info.dtype).removeprefix('torch.')} of shape "
            f"{tuple(info.shape)}. If apply sent this, say so: take_side(..., dtype=, shape=)"
        )
    if not is_finite(info):
        raise WireError(f"entry {name!r}: expected finite side information {what!r}")
    return info


def take_symbols(parts: Parts, name: str, num_levels: int) -> Tensor:
    """The symbols of entry ``name``, checked: each is from 0 to ``num_levels - 1``.

    For ``undo``. The symbols stay in ``parts``; the stage replaces them there with the values.
    Raises WireError if the entry holds no symbols, has another number of levels, or is empty.

    >>> parts = {"w": Symbols(torch.tensor([0, 3, 1], dtype=torch.uint8), num_levels=4)}
    >>> take_symbols(parts, "w", num_levels=4)
    tensor([0, 3, 1], dtype=torch.uint8)
    """
    part = parts.get(name)
    if not isinstance(part, Symbols) or part.num_levels != num_levels:
        raise WireError(f"entry {name!r}: expected symbols of {num_levels} levels")
    values, fit = part.values, part.values.dtype == torch.uint8 and num_levels == 256
    if values.numel() and not fit:
        fit = 0 <= int(values.min()) <= int(values.max()) < num_levels
    if not fit or not values.numel():
        raise WireError(f"entry {name!r}: expected symbols from 0 to {num_levels - 1}, at least 1")
    return values


def expect_values(parts: Parts, name: str) -> Tensor:
    """For ``undo``: entry ``name``. Raises WireError unless it holds finite float32 values."""
    part = parts.get(name)
    if not isinstance(part, Tensor) or part.dtype != torch.float32:
        raise WireError(f"entry {name!r}: expected float32 values")
    return expect_finite({name: part})[name]


def expect_finite(received: dict[str, Tensor]) -> dict[str, Tensor]:
    """Raise WireError, which names the entry, if received values are NaN or infinite."""
    for name, values in received.items():
        if values.is_floating_point() and not is_finite(values):
            raise WireError(f"entry {name!r} holds NaN or infinite values: none were sent")
    return received


def check_number(name: str, value: object, low: int, high: int | None = None) -> None:
    """Raise ValueError unless an argument is a whole number from low to high."""
    if not isinstance(value, int) or value < low or (high is not None and value > high):
        allowed = f"{low} or more" if high is None else f"from {low} to {high}"
        raise ValueError(f"{name}={value!r}: expected a whole number {allowed}")
