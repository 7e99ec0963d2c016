"""Whole numbers in as few bits as their range needs: labels, ids, characters."""

from dataclasses import dataclass

import torch
from torch import Tensor

from fltoolkit.codecs.coders import MAX_LEVELS
from fltoolkit.codecs.stage import (
    Parts,
    Stage,
    Symbols,
    is_main,
    side,
    take_side,
    take_symbols,
    with_side,
)
from fltoolkit.wire import WireError

LOWEST = "i"  # the name of the side information: the smallest number, in the entry's own dtype
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


@dataclass
class Narrow(Stage):
    """Send whole numbers as their distance from the smallest one: exact, in few bits.

    A number takes ceil(log2(largest - smallest + 1)) bits, and with `Entropy` behind it about the
    entropy of the numbers. An entry whose numbers have a range of 65,536 or more is sent unchanged.
    Floating-point entries and bools are passed on, so this stage comes first:
    ``Pipeline(Narrow(), Quantize(4), ContextEntropy())``.

    >>> from fltoolkit.codecs import Pipeline
    >>> labels = {"y": torch.arange(8000) % 64}
    >>> [len(Pipeline(*stages).encode(labels)) for stages in ((), (Narrow(),))]
    [64011, 6031]
    """

    def apply(self, parts: Parts) -> Parts:
        """Each entry of whole numbers becomes `Symbols`; the smallest number is sent with them."""
        out = dict(parts)
        for name, part in parts.items():
            if not (isinstance(part, Tensor) and is_main(name) and part.dtype in INTEGERS):
                continue
            if not part.numel():
                continue
            numbers = part.detach().cpu().long()
            low, high = int(numbers.min()), int(numbers.max())
            if (num_levels := high - low + 1) > MAX_LEVELS:
                continue
            out[name] = Symbols.of(numbers - low, num_levels)
            out[side(name, LOWEST)] = torch.tensor(low, dtype=part.dtype)
        return out

    def undo(self, parts: Parts) -> Parts:
        """The whole numbers again, in their own dtype."""
        out = dict(parts)
        for name in with_side(parts, LOWEST):
            lowest, symbols = parts[side(name, LOWEST)], parts[name]
            if not isinstance(lowest, Tensor) or lowest.dtype not in INTEGERS:
                raise WireError(f"entry {name!r}: expected the smallest number, as an integer")
            low = int(take_side(out, name, LOWEST, lowest.dtype))
            num_levels = symbols.num_levels if isinstance(symbols, Symbols) else 0
            values = take_symbols(out, name, num_levels)
            if low + num_levels - 1 > torch.iinfo(lowest.dtype).max:
                raise WireError(f"entry {name!r}: {num_levels} numbers from {low} on do not fit")
            out[name] = (values.long() + low).to(lowest.dtype)
        return out
