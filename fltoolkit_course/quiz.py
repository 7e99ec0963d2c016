"""The quizzes of the course: right answers, and a hint for each wrong one.

Notebooks 03, 06, 09 and 12 end with one. The course does not say their answers: readers have to
conclude them from what they have learned.
"""

from fltoolkit_course._reading import letter
from fltoolkit_course.comparison import near
from fltoolkit_course.notebook import Answer, Notebook

quiz = Notebook("quiz", "The quizzes", guesses={})
ask, quiz_card = quiz.check, quiz.card


def _choice(name: str, right: str, **hints: str) -> None:
    """A question whose answer is one letter; ``hints`` has a text for each wrong letter."""
    letters = "".join(sorted({right, *hints}))
    answer = Answer(right, *hints.items(), read=lambda typed: letter(typed, letters))
    quiz.answer(name)(lambda: answer)


# about notebooks 00 to 03
_choice(
    "a later cut",
    right="b",
    a="Who computes a layer does not change what it computes.",
    c="Fewer bytes, yes. But nothing is left out of the network: it is the same one.",
)
_choice(
    "what to ask first",
    right="c",
    a="A larger network would not say whether the rule is clever.",
    b="That shows how much is luck. Would a rule that knows nothing have done as well?",
)
_choice(
    "learning in silence",
    right="a",
    b="In state C only the announcement of the state crosses: 14 bytes an epoch.",
    c="He does learn, from what he has stored. What stands still?",
)

# about notebooks 04 to 06


@quiz.answer("the factor of the total")
def total() -> Answer:
    """Updates take a fiftieth of the bytes, models stay as they are: 2 / (1 + 1 / 50)."""
    return Answer(
        2 / 1.02,
        (near(50, 1), "The model is still sent in full: half of all bytes."),
        (near(25, 1), "Add the bytes of both directions, before and after."),
        tolerance=0.05,
    )


_choice(
    "rounding at random",
    right="c",
    a="Each single value is further off than with the nearest level.",
    b="Both take one bit. What differs is the mean over many steps.",
)
_choice(
    "better by a shared residual",
    right="b",
    a="The same bytes crossed. What crossed them was not this client's to send.",
    c="Luck with one seed may be part of it, but the curve is better with every seed.",
)

# about notebooks 07 to 09


@quiz.answer("seconds on a link")
def link() -> Answer:
    """200 messages of 50 ms, and 1 MB at 10 MB/s."""
    return Answer(
        10.1,
        (near(0.1, 0.01), "Those are the bytes. Each message also waits."),
        (near(5.1, 0.11), "Two messages per step, one after the other."),
        tolerance=0.05,
    )


_choice(
    "a thousand telephones",
    right="b",
    a="Count: 2 x 1,000 clients x 100 million parameters against 2 x 10,000 samples x 100.",
    c="One pass over the data is the same work in both. The messages are not alike.",
)
_choice(
    "what 8 bits hide",
    right="a",
    b="A quarter of the bits is still far more than an image of 64 pixels needs.",
    c="Rounding can be undone only in part, yes; but what is lost is not the image.",
)

# about notebooks 10 to 12
_choice(
    "only an update",
    right="c",
    a="An update is many numbers, and code decides what stands in them.",
    b="Encryption keeps strangers out. The researcher is no stranger.",
)
_choice(
    "what stands beside a factor",
    right="b",
    a="That is one more method. What was won by the optimizer, and what by the messages?",
    c="It would send more. Would the factor then mean another thing?",
)
_choice(
    "both ends at home",
    right="b",
    a="No labels cross, that is true. What does a block do to the character that it is given?",
    c="64 values of one bit are 64 bits for a character, and a hundred characters need seven.",
)


@quiz.answer("the longer message")
def longer() -> Answer:
    """LoRA: 8 (256 + 64) values of 4 bytes. All weights: 256 times 64 values of 2 bits."""
    return Answer(
        2.5,
        (near(0.4, 0.01), "The other way round: the longer one over the shorter one."),
        (near(0.156, 0.01), "Those are values. A value of float32 has 32 bits, the other 2."),
        tolerance=0.05,
    )
