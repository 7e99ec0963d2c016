"""The answers of notebook 14. Try to answer before you look."""

from collections.abc import Sequence

from fltoolkit_contest.card import bound as bound_of
from fltoolkit_contest.slots import charge
from fltoolkit_course.guesses import AT_LEAST_0
from fltoolkit_course.notebook import Answer, Notebook

notebook = Notebook(
    "14",
    "The megabyte cup",
    guesses={
        "Bytes at 90 %?": AT_LEAST_0,
        "Points between mean and bound?": AT_LEAST_0,
        "How many times fewer bytes does one sum take?": AT_LEAST_0,
        "Bytes of images at 90 %?": AT_LEAST_0,
    },
)
card, check, predict = notebook.card, notebook.check, notebook.predict


@notebook.answer("bytes of an exchange")
def bytes_of_an_exchange(*, num_owners: int, down: int, up: int) -> Answer:
    """Each owner gets a message and answers; each message is charged its length, too."""
    return Answer(
        num_owners * (charge(down) + charge(up)),
        (num_owners * (down + up), "The length of each message is charged, too."),
        (charge(down) + charge(up), "That is one owner. Each of them is charged."),
    )


@notebook.answer("the bound of five runs")
def bound_of_five(*, scores: Sequence[float]) -> Answer:
    """The mean less t s / sqrt(n), with t = 2.132."""
    mean = sum(scores) / len(scores)
    bound = bound_of(scores)
    return Answer(
        bound,
        (mean, "That is the mean. How sure is it?"),
        (mean - (mean - bound) / 2.132, "That is one standard error below the mean: t is 2.132."),
        tolerance=0.0003,
    )
