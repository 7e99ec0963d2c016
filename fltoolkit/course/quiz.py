"""The quiz at the end of the course: the right answers, and a hint for each wrong one.

The questions are in notebook 10. The course does not say their answers: readers have to conclude
them from what they have learned.
"""

from fltoolkit.course._reading import letter
from fltoolkit.course.comparison import near
from fltoolkit.course.notebook import Answer, Notebook

__all__ = ["ask", "quiz", "quiz_card"]

quiz = Notebook("quiz", "The end quiz", guesses=0)
ask, quiz_card = quiz.check, quiz.card


def _choice(name: str, right: str, **hints: str) -> None:
    """A question whose answer is one letter; ``hints`` has a text for each wrong letter."""
    letters = "".join(sorted({right, *hints}))
    answer = Answer(right, hints=hints, read=lambda typed: letter(typed, letters))
    quiz.answer(name)(lambda: answer)


@quiz.answer("1, the factor of the total")
def total() -> Answer:
    """Updates take a fiftieth of the bytes, models stay as they are: 2 / (1 + 1 / 50)."""
    return Answer(
        2 / 1.02,
        tolerance=0.05,
        hints=[
            (near(50, 1), "The model is still sent in full: half of all bytes."),
            (near(25, 1), "Add the bytes of both directions, before and after."),
            (near(1 / 1.96, 0.03), "The other way round: before over after."),
        ],
    )


_choice(
    "2, a later cut",
    right="b",
    a="Who computes a layer does not change what it computes.",
    c="Fewer bytes, yes. But nothing is left out of the network: it is the same one.",
)
_choice(
    "3, what to ask first",
    right="c",
    a="A larger network would not say whether the rule is clever.",
    b="That shows how much is luck. Would a rule that knows nothing have done as well?",
)
_choice(
    "4, learning in silence",
    right="a",
    b="Nothing crosses in state C, in neither direction.",
    c="He does learn, from what he has stored. What stands still?",
)
_choice(
    "5, better by a shared residual",
    right="b",
    a="The same bytes crossed. What crossed them was not this client's to send.",
    c="Luck with one seed may be part of it, but the curve is better with every seed.",
)
_choice(
    "6, rounding at random",
    right="c",
    a="Each single value is further off than with the nearest level.",
    b="Both take one bit. What differs is the mean over many steps.",
)


@quiz.answer("7, seconds on a link")
def link() -> Answer:
    """200 messages of 50 ms, and 1 MB at 10 MB/s."""
    return Answer(
        10.1,
        tolerance=0.05,
        hints=[
            (near(0.1, 0.01), "Those are the bytes. Each message also waits."),
            (near(5.1, 0.11), "Two messages per step, one after the other."),
            (near(10, 0.01), "Nearly: the bytes take time as well."),
        ],
    )


_choice(
    "8, what 8 bits hide",
    right="a",
    b="A quarter of the bits is still far more than an image of 64 pixels needs.",
    c="Rounding can be undone only in part, yes; but what is lost is not the image.",
)
_choice(
    "9, a thousand telephones",
    right="b",
    a="Count: 2 x 1,000 clients x 100 million parameters against 2 x 10,000 samples x 100.",
    c="One pass over the data is the same work in both. The messages are not alike.",
)
_choice(
    "10, only an update",
    right="c",
    a="An update is many numbers, and code decides what stands in them.",
    b="Encryption keeps strangers out. The researcher is no stranger.",
)
