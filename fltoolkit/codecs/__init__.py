"""How a tree becomes the bytes of a message, and back.

    from fltoolkit.codecs import Quantize, TopK, Entropy, ErrorFeedback, Difference, Pipeline

What a stage of your own needs is in two files: ``from fltoolkit.codecs.stage import Stage, Parts,
floats``, and `base` for a whole codec (docs/codecs.md, "A codec of your own").

A codec is a `Pipeline` of stages, or another codec in a wrapper. Read the room in this order:

    base        what a channel asks of a codec; the codec that compresses nothing
    stage       what travels from stage to stage, and what a stage is
    pipeline    stages one after the other, then a frame
    quantize    fewer bits per value, on evenly spaced levels
    codebooks   fewer bits per value, on other levels: learned ones, small floats
    sparse      fewer values: the largest, random ones, those that a mask names
    coders      symbols and places become bytes without loss
    wrappers    what a codec remembers between messages: error feedback, exact small entries
    difference  only what has changed since the last message

Files that begin with an underscore are read last: `_places` (which values are kept), `_contexts`
(adaptive models of symbols), `_range_coder` (one number after the other), `_lanes` (many coders in
step), `_outer_products` (what rows and columns tell of a value).
"""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
