"""The answers of notebook 07. Try to answer before you look."""

from collections.abc import Callable, Mapping, Sequence

from fltoolkit_course._reading import without_marks
from fltoolkit_course.comparison import near
from fltoolkit_course.guesses import AT_LEAST_0, PERCENT, Between
from fltoolkit_course.notebook import Answer, Notebook
from fltoolkit_research.analysis import Point

notebook = Notebook(
    "07",
    "The trade-off",
    guesses={
        "How many times fewer bytes for 90 %?": AT_LEAST_0,
        "FedAvg's bytes over FedPAQ's?": AT_LEAST_0,
        "How many times as long?": AT_LEAST_0,
        "Methods more accurate than one sum?": Between(0, 10),
        "The cheapest method's mean over four draws?": PERCENT,
    },
    file="07_",
)
bill, card, check, predict = notebook.bill, notebook.card, notebook.check, notebook.predict


@notebook.answer("cheapest with 93 %")
def cheapest(*, found: Sequence[Point]) -> Answer:
    """The point of the sweep with the fewest bytes whose accuracy is at least 93 %."""
    enough = [p for p in sorted(found, key=lambda p: p.nbytes) if p.value >= 0.93]

    def among(some: Sequence[Point]) -> Callable[[object], bool]:
        return lambda name: without_marks(name) in {without_marks(p.name) for p in some}

    return Answer(
        enough[0].name,
        (among(enough), "It reached 93 %; another sent less."),
        (among(found), "That one did not end with 93 %."),
    )


@notebook.answer("seconds")
def seconds_on_link(*, record: Mapping[str, float]) -> Answer:
    """Bytes at 1 MB/s and 50 ms for each message that waits for the one before."""
    sending, waiting = record["nbytes"] / 1e6, record["num_waits"] * 0.05
    return Answer(
        sending + waiting,
        (near(sending, 0.5), "That is the time of the bytes. Add the waiting."),
        (near(waiting, 0.5), "That is the waiting. Add the time of the bytes."),
        tolerance=0.5,
    )
