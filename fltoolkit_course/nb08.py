"""The answers of notebook 08. Try to answer before you look."""

from collections.abc import Callable
from typing import Any

from fltoolkit_course.comparison import near
from fltoolkit_course.guesses import AT_LEAST_0, PERCENT, SHARE, Between
from fltoolkit_course.notebook import Answer, Notebook

notebook = Notebook(
    "08",
    "What leaks",
    guesses={
        "Explained variance of the victims' images?": Between(high=100),
        "How much less is explained at 8 bits?": Between(-100, 100),
        "Left with positions alone?": AT_LEAST_0,
        "Distance correlation with noise?": SHARE,
        "Accuracy with noise 4?": PERCENT,
        "How much less is explained?": Between(-100, 100),
        "AUC of the lengths?": SHARE,
    },
)
bill, card, check, predict = notebook.bill, notebook.card, notebook.check, notebook.predict


@notebook.answer("explained variance")
def by_hand() -> Answer:
    """Mean squared errors of 0.3 for the guesses and 0.8 for the mean image."""
    return Answer(
        100 * (1 - 0.3 / 0.8),
        (near(37.5, 0.5), "That is the share that is still missing."),
        (lambda a: a < 0, "The error of the mean image stands below the line."),
        tolerance=0.5,
    )


@notebook.answer("AUC")
def five_of_six() -> Answer:
    """Of six pairs five are the right way round."""
    return Answer(
        5 / 6,
        (near(83.3, 0.5), "As a number from 0 to 1, please, not in per cent."),
        (lambda a: a == 5, "That many pairs are right. As a share of all pairs?"),
        tolerance=0.005,
    )


@notebook.answer("explained variance at cut 2")
def shorter_bottom(*, at_2: float, at_4: float) -> Answer:
    """Both values as measured in the notebook, as shares; the answer is in per cent."""
    return Answer(
        100 * at_2,
        (near(100 * at_4, 0.2), "That is the cut at 4: pass cut=2 to trained."),
        (near(100 * at_4 / 5, 1), "Width is not what decides. Measure it."),
        tolerance=0.2,
    )


@notebook.answer("spent wisely")
def spent_wisely(*, attack: Callable[..., Any]) -> Answer:
    """``attack(codec, weight)`` trains, attacks and returns what `describe_leak` returns."""

    def read(answer: Any) -> list[str]:
        if not isinstance(answer, tuple | list) or len(answer) != 2:
            raise ValueError("Write two things in parentheses: (a codec, a weight for NoPeek).")
        leak = attack(*answer)
        print(leak.sentence)
        met = {
            "less explained": leak.explained_variance <= 0.5,
            "accuracy": leak.accuracy >= 0.92,
            "fewer bytes": leak.nbytes <= 400,
        }
        return [words for words, fine in met.items() if not fine]

    return Answer(
        [],
        (lambda a: "fewer bytes" in a, "After Noise(...), a Quantize(...) costs little."),
        (lambda a: "accuracy" in a, "Bob needs more: less noise, more bits, a smaller weight."),
        (lambda a: a, "Bob sees too much. NoPeek makes it faint, and noise covers it."),
        read=read,
    )
