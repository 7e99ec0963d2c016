"""The answers of the appendix of notebooks 05 and 06. Try to answer before you look."""

from fltoolkit_course.comparison import near
from fltoolkit_course.guesses import AT_LEAST_0, PERCENT, Between
from fltoolkit_course.notebook import Answer, Notebook

notebook = Notebook(
    "06b",
    "Appendix to 05 and 06",
    guesses={
        "Share kept of 4.weight?": PERCENT,
        "How far ahead is the masked mean?": Between(-100, 100),
        "TopK's message, in multiples of STC's?": AT_LEAST_0,
        "Mibit a round with true 8 bits?": AT_LEAST_0,
    },
    file="appendix_top_k",
)
card, check, predict = notebook.card, notebook.check, notebook.predict


@notebook.answer("bits in use")
def bits_in_use(*, per_value: float) -> Answer:
    return Answer(
        8 / per_value * 32,
        (lambda a: round(a) == 4, "That is how many are not in use."),
        (near(per_value, 0.01), "Those are the bits per value. Which share is the code?"),
        tolerance=0.02,  # the printed number has two digits, so this is 28 to three or four
    )


@notebook.answer("a zero that was sent")
def zero_that_was_sent() -> Answer:
    return Answer(
        (0 + 2) / 2,
        (2, "That counts Ben only. But Ann has sent something: zero."),
        (0, "Ben has sent 2, and he counts, too."),
    )


@notebook.answer("four of ten")
def weighted_and_masked() -> Answer:
    weighted, masked = 4 * -2 / 10, 4 * -2 / 4
    return Answer(
        [weighted, masked],
        (lambda a: list(a) == [masked, weighted], "The other way round: weighted mean first."),
        (lambda a: a[0] == a[1], "The two means divide by different numbers of clients."),
        tolerance=1e-6,
    )
