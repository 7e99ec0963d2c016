"""How a tree becomes the bytes of a message, and back: the one door for codecs.

    from fltoolkit.codecs import Quantize, TopK, Entropy, ErrorFeedback, Difference, Pipeline

A codec is a `Pipeline` of stages, or another codec in a wrapper. Read the room in this order:

    base        what a channel asks of a codec; the codec that compresses nothing
    stage       what travels from stage to stage, and what a stage is
    pipeline    stages one after the other, then a frame
    quantize    fewer bits per value, on evenly spaced levels
    codebooks   fewer bits per value, on other levels: learned ones, small floats
    sparse      fewer values: the largest, random ones, those that a mask names
    rotate      a random rotation before quantization
    lowrank     a matrix as the product of two thin ones, rows in a fixed subspace
    narrow      whole numbers in as few bits as their range needs
    coders      symbols and places become bytes without loss
    wrappers    what a codec remembers between messages: error feedback, exact small entries
    difference  only what has changed since the last message

The engine rooms begin with an underscore and are read last: `_places` (which values are kept),
`_contexts` (adaptive models of symbols), `_range_coder` (one number after the other), `_lanes`
(many coders in step), `_outer_products` (what rows and columns tell of a value).
"""

from fltoolkit.codecs.base import (
    Codec,
    Composed,
    Identity,
    LinkState,
    Masked,
    Weighed,
    can_sum,
    walk,
    weigh,
)
from fltoolkit.codecs.codebooks import BFloat16, Float8, Half, LloydMax, Quantiles
from fltoolkit.codecs.coders import BitPack, Deflate, Entropy, Zstd
from fltoolkit.codecs.difference import Difference
from fltoolkit.codecs.lowrank import PowerSGD, Subspace
from fltoolkit.codecs.narrow import Narrow
from fltoolkit.codecs.pipeline import Pipeline
from fltoolkit.codecs.quantize import QSGD, Quantize, Sign, Ternary
from fltoolkit.codecs.rotate import (
    DRIVE,
    EDEN,
    Rotate,
)
from fltoolkit.codecs.sparse import DGC, STC, RandomK, RandTopK, SameMask, TopK, num_kept
from fltoolkit.codecs.stage import (
    SEPARATOR,
    Answered,
    Answering,
    Coder,
    Drawing,
    Indices,
    Part,
    Parts,
    Sizes,
    Stage,
    Symbols,
    floats,
    is_main,
    side,
    take_side,
    take_symbols,
    with_side,
)
from fltoolkit.codecs.wrappers import ErrorFeedback, Only, Wrapper

__all__ = [
    "DGC",
    "DRIVE",
    "EDEN",
    "QSGD",
    "SEPARATOR",
    "STC",
    "Answered",
    "Answering",
    "BFloat16",
    "BitPack",
    "Codec",
    "Coder",
    "Composed",
    "Deflate",
    "Difference",
    "Drawing",
    "Entropy",
    "ErrorFeedback",
    "Float8",
    "Half",
    "Identity",
    "Indices",
    "LinkState",
    "LloydMax",
    "Masked",
    "Narrow",
    "Only",
    "Part",
    "Parts",
    "Pipeline",
    "PowerSGD",
    "Quantiles",
    "Quantize",
    "RandTopK",
    "RandomK",
    "Rotate",
    "SameMask",
    "Sign",
    "Sizes",
    "Stage",
    "Subspace",
    "Symbols",
    "Ternary",
    "TopK",
    "Weighed",
    "Wrapper",
    "Zstd",
    "can_sum",
    "floats",
    "is_main",
    "num_kept",
    "side",
    "take_side",
    "take_symbols",
    "walk",
    "weigh",
    "with_side",
]
