"""How a tree becomes the bytes of a message, and back.

    from fltoolkit.codecs import Quantize, TopK, Entropy, ErrorFeedback, Pipeline

What a stage of your own needs is in two files: ``from fltoolkit.codecs.stage import Stage, Parts,
floats``, and `base` for a whole codec (docs/codecs.md, "A codec of your own").

A codec is a `Pipeline` of stages, or another codec in a wrapper. Read the room in this order:

    base        what a channel asks of a codec; the codec that compresses nothing
    stage       what travels from stage to stage, and what a stage is
    pipeline    stages one after the other, then a frame
    quantize    fewer bits per value, on evenly spaced levels
    floats      fewer bits per value: small floats
    sparse      fewer values: the largest
    places      which values are kept, and how a sparse entry travels
    coders      symbols become bytes at a fixed width, without loss
    entropy     frequent symbols and places take fewer bits than rare ones, without loss
    wrappers    what a codec remembers between messages: error feedback, exact small entries

More codecs are in `fltoolkit_research.codecs`.
"""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
