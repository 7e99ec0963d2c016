"""The answers of notebook 10. Try to answer before you look."""

from fltoolkit_course.comparison import near
from fltoolkit_course.guesses import AT_LEAST_0
from fltoolkit_course.notebook import Answer, Notebook

notebook = Notebook(
    "10",
    "Beyond one machine",
    guesses={
        "How many times as long?": AT_LEAST_0,
        "When does she know?": ("at once", "after the timeout"),
        "Seconds of waiting with 60 % of the steps in state C?": AT_LEAST_0,
    },
)
bill, card, check, predict = notebook.bill, notebook.card, notebook.check, notebook.predict


@notebook.answer("bytes of an envelope")
def envelope(*, extra: int, num_messages: int) -> Answer:
    """All envelopes have the same size; the remainder of the division are the greetings."""
    right = extra // num_messages
    return Answer(
        right,
        (lambda a: a == extra, "That is all of them together: divide by the messages."),
        (lambda a: 0 < a - right < 1, "Leave the greetings out: an envelope has whole bytes."),
    )


@notebook.answer("seconds of waiting")
def waiting_in_split() -> Answer:
    """15 epochs of 23 batches, two messages per batch, 20 ms each."""
    right = 15 * 23 * 2 * 0.020
    return Answer(
        right,
        (near(right / 2, 0.05), "Each batch has two messages."),
        (near(1000 * right, 50), "In seconds, please, not in milliseconds."),
        tolerance=0.05,
    )
