"""The answers of the codec gallery. Try to answer before you look."""

from collections.abc import Callable

import torch
from torch import Tensor

from fltoolkit.codecs.base import Codec
from fltoolkit.codecs.pipeline import Pipeline
from fltoolkit.codecs.quantize import Quantize
from fltoolkit_course._reading import read_codec
from fltoolkit_course.guesses import AT_LEAST_0, PERCENT, SHARE, Between
from fltoolkit_course.notebook import Answer, Notebook

notebook = Notebook(
    "gallery",
    "Codec gallery",
    guesses={
        "Bytes of the activations with 4 bits per value?": AT_LEAST_0,
        "Bits per value for the activations?": AT_LEAST_0,
        "Mean of what arrives?": SHARE,
        "Levels that the others use?": Between(0, 16),
        "Percentage kept?": PERCENT,
    },
    file="codec_gallery",
)
card, check, predict = notebook.card, notebook.check, notebook.predict


@notebook.answer("bits per value")
def three_levels() -> Answer:
    p = torch.tensor([0.5, 0.25, 0.25], dtype=torch.float64)
    return Answer(
        float(-(p * p.log2()).sum()),
        (lambda a: 1.57 < a < 1.6, "That is log2(3): right if all were equally frequent."),
        (lambda a: a == 2, "With plain numbers, yes. But A may have a shorter code."),
        tolerance=1e-6,
    )


@notebook.answer("what is still owed")
def residual(*, update: Tensor, total: Tensor, sent: Tensor) -> Answer:
    return Answer(
        40 * update - total,
        (lambda a: torch.equal(a, update - sent), "Almost: that forgets what was owed before."),
        (lambda a: torch.equal(a, total), "That is what has arrived."),
        tolerance=1e-4,
    )


@notebook.answer("Clip, then Quantize")
def clip(*, x: Tensor) -> Answer:
    limit = 3 * float(x.std())
    codec = Pipeline(Quantize(4))
    right = codec.decode(codec.encode({"x": x.clamp(-limit, limit)}))["x"]
    return Answer(
        right,
        (lambda a: a.abs().max() > 3 * limit, "Nothing is cut off yet: change out[name]."),
        (lambda a: a.min() >= 0, "Cut on both sides: values beyond - limit as well."),
        tolerance=1.05 * 2 * limit / 15,  # a level: std over n or n - 1 may move a value by one
    )


@notebook.answer("at most one bit per value")
def one_bit(*, compete: Callable[[Codec], float]) -> Answer:
    """``compete(codec)`` returns the bits per value that the codec takes."""
    return Answer(
        0.0,
        (lambda a: a > 0, "So many bits per value are beyond the budget of one."),
        read=lambda answer: max(compete(read_codec(answer)) - 1, 0.0),
    )
