"""The answers of notebook 09. Try to answer before you look."""

import re
from typing import Any

from fltoolkit_course.comparison import near
from fltoolkit_course.guesses import AT_LEAST_0
from fltoolkit_course.notebook import Answer, Notebook

notebook = Notebook(
    "09",
    "Private owners",
    guesses={
        "Bytes on the Drive, 32 bits over 8 bits?": AT_LEAST_0,
        "Minutes with the loss gate?": AT_LEAST_0,
        "Bytes of one update?": AT_LEAST_0,
    },
)
bill, card, check, predict = notebook.bill, notebook.card, notebook.check, notebook.predict


@notebook.answer("refused with an error")
def refused() -> Answer:
    """Attempts 1 to 4: the fifth fails silently, the sixth works."""

    def read(answer: Any) -> Any:
        """How many, or which ones: 4, [1, 2, 3, 4] or "1, 2, 3, 4"."""
        if isinstance(answer, str):
            numbers = [int(digits) for digits in re.findall(r"\d+", answer)]
            if not numbers:
                raise ValueError("Write how many, as a number, or which ones: [1, ...].")
            answer = numbers[0] if len(numbers) == 1 else numbers
        if isinstance(answer, list | tuple | set):
            return len(answer) if set(answer) <= {1, 2, 3, 4} else sum(map(int, answer)) + 100
        return answer

    return Answer(
        4,
        (lambda a: a == 5, "Who writes without permission gets no error."),
        (lambda a: a >= 100, "Numbers 5 and 6 gave no error to the one who tried."),
        read=read,
    )


@notebook.answer("our bytes")
def half_is_ours(*, ours: int, on_the_drive: int) -> Answer:
    """Our bytes are as many as those of the envelope, which an empty message shows."""
    return Answer(
        on_the_drive - ours,
        (near(2 * on_the_drive, 301), "That is all. Our half is as large as the envelope."),
        (near(on_the_drive / 2, 301), "Then two thirds were envelope, and it never shrinks."),
        tolerance=300,
    )


@notebook.answer("seconds")
def seconds_of_messages(*, num_messages: int) -> Answer:
    """One for each message: five rounds, two owners, a model and an update each."""
    return Answer(
        num_messages,
        (lambda a: a == num_messages / 2, "The model goes out as well."),
        (lambda a: a == 5, "Each owner gets a message and sends one, in each round."),
    )
