"""The answers of notebook 02. Try to answer before you look."""

from collections.abc import Sequence

from fltoolkit_course.comparison import near
from fltoolkit_course.guesses import AT_LEAST_0, Between
from fltoolkit_course.notebook import Answer, Notebook

_PROTOCOLS = ("relay", "SplitFed", "neither")
notebook = Notebook(
    "02",
    "Many Alices",
    guesses={
        "Bytes of one hand-over?": AT_LEAST_0,
        "Bytes of SplitFed, in multiples of FedAvg's?": AT_LEAST_0,
        "Fewer bytes on iid data, for every seed?": _PROTOCOLS,
        "Fewer bytes on skewed data, for every seed?": _PROTOCOLS,
        "Points lost in alice_3's second turn?": Between(-100, 100),
    },
    file="02_",
)
bill, card, check, predict = notebook.bill, notebook.card, notebook.check, notebook.predict


@notebook.answer("number of hand-overs")
def hand_overs(*, num_rounds: int, num_clients: int) -> Answer:
    turns = num_rounds * num_clients
    return Answer(
        turns - 1,
        (turns, "In the very first turn nothing is handed over."),
        (
            num_rounds * (num_clients - 1),
            f"At the start of a new round alice_{num_clients} hands over to alice_1.",
        ),
    )


@notebook.answer("weight of alice_2 in the mean")
def weight_in_the_mean(*, counts: Sequence[int]) -> Answer:
    return Answer(
        counts[1] / sum(counts),
        (near(1 / len(counts), 0.005), "All equal: that is the plain mean."),
        (near(counts[1], 0.5), "Those are her images. Which part of all images are they?"),
        tolerance=5e-4,
    )
