"""The answers of notebook 05. Try to answer before you look."""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from fltoolkit.codecs.base import Codec
from fltoolkit_course._reading import read_codec
from fltoolkit_course.guesses import AT_LEAST_0, PERCENT, Between
from fltoolkit_course.notebook import Answer, Notebook

_DIRECTIONS = ("activations", "gradients", "update", "model")
notebook = Notebook(
    "05",
    "Quantization",
    guesses={
        "Largest error, in percent of the range?": PERCENT,
        "Accuracy with stochastic rounding?": PERCENT,
        "Which direction suffers most from one bit?": _DIRECTIONS,
        "Bits per value with Entropy?": AT_LEAST_0,
        "Points gained by growing?": Between(-100, 100),
    },
)
bill, card, check, predict = notebook.bill, notebook.card, notebook.check, notebook.predict


@notebook.answer("stochastic levels")
def stochastic_levels(*, x: Tensor, u: Tensor) -> Answer:
    """``x`` in steps above the least value; both rules with the right probability are right."""
    floor = x.floor()
    above = x - floor
    rules = {"": [u < above, u >= 1 - above]}
    rules["chance: this still rounds to the nearest level"] = [above >= 0.5]
    rules["the other probability: 0.3 of a step above a level goes up in 3 of 10 cases"] = [
        u > above,
        u <= 1 - above,
    ]

    def read(answer: Any) -> list[str]:
        if not isinstance(answer, Tensor):
            raise ValueError(f"This is a {type(answer).__name__} where a tensor should be.")
        if answer.shape != x.shape:
            raise ValueError(f"Its shape is {tuple(answer.shape)}, and w has {tuple(x.shape)}.")
        up = answer.double() - floor
        if not bool(((up == 0) | (up == 1)).all()):
            return ["one of the two levels beside each value"]
        for words, ups in rules.items():
            # where u nearly equals the fraction, rounding errors decide
            if any(float(((up == 1) != wanted).double().mean()) < 1e-3 for wanted in ups):
                return [words] if words else []
        return ["random numbers u that decide"]

    return Answer([], read=read)


@notebook.answer("gradients rescued")
def gradients_rescued(*, rescue: Callable[[Codec], tuple[float, float]], full: float) -> Answer:
    """``rescue(codec)`` trains; it returns accuracy and bits per value. ``full``: without codec."""

    def read(answer: Any) -> list[str]:
        score, real_bits = rescue(read_codec(answer))
        conditions = {
            "accuracy (within 2 points of full precision)": score >= full - 0.02,
            "fewer bits (0.5 at most)": real_bits <= 0.5,
        }
        return [words for words, met in conditions.items() if not met]

    return Answer([], read=read)
