"""The answers of notebook 03b. Try to answer before you look."""

from collections.abc import Iterable

from fltoolkit.channel import Transfer
from fltoolkit_course.comparison import near
from fltoolkit_course.guesses import AT_LEAST_0, PERCENT, Between
from fltoolkit_course.notebook import Answer, Notebook

notebook = Notebook(
    "03b",
    "Many clients",
    guesses={
        "Points that B buys after one epoch in A?": Between(-100, 100),
        "Bob's weights that are equal after B and after C?": PERCENT,
        "Points by which the budget gate is better?": Between(-100, 100),
        "Factor of states and bits together?": AT_LEAST_0,
        "Factor with a C that uploads?": AT_LEAST_0,
    },
)
bill, card, check, predict = notebook.bill, notebook.card, notebook.check, notebook.predict


@notebook.answer("percentage of the transfers")
def transfers() -> Answer:
    share = 4 / 106.7  # 8 bits instead of 32 explain a factor of 4
    return Answer(
        100 * share,
        (near(25 * share, 0.02), "That leaves out the bits: 8 instead of 32."),
        (near(share, 0.001), "As a percentage, please."),
        tolerance=0.02,
    )


@notebook.answer("hand-overs")
def bottoms_handed_over(*, transfers: Iterable[Transfer]) -> Answer:
    return Answer(
        sum(transfer.kind == "model" for transfer in transfers),
        (60, "In C nobody computes with the bottom."),
        (19, "In B each Alice computes with the final bottom: she needs it."),
    )
