"""The answers of notebook 11. Try to answer before you look."""

from fltoolkit_course.guesses import ANY, AT_LEAST_0, OF_ALL
from fltoolkit_course.notebook import Answer, Notebook

notebook = Notebook(
    "11",
    "Training a language model across the world",
    guesses={
        "Bytes of one step?": AT_LEAST_0,
        "Nats per character?": AT_LEAST_0,
        "Nats worse?": ANY,
        "Nats lost with H = 10?": ANY,
        "Nats gained by the outer momentum?": ANY,
        "Times fewer bytes?": AT_LEAST_0,
        "Times the text?": AT_LEAST_0,
        "Of {}, how many are better than alone?": OF_ALL,
    },
)
bill, card, check, predict = notebook.bill, notebook.card, notebook.check, notebook.predict


@notebook.answer("bytes of a step in a ring")
def a_ring(*, num_parameters: int, num_workers: int) -> Answer:
    """Each of N chunks is sent N - 1 times to be added up, and N - 1 times to reach everybody."""
    tree = 4 * num_parameters
    return Answer(
        2 * (num_workers - 1) * tree,
        (
            2 * num_workers * tree,
            "That is what a server needs. In a ring nobody sends to "
            "somebody who has the chunk already.",
        ),
        ((num_workers - 1) * tree, "That is half of it: first the sums travel, then the means."),
    )


@notebook.answer("times fewer bytes in all")
def in_all(*, times_up: int, num_workers: int) -> Answer:
    """2 N B through a server, against N (N - 1) B / times_up from each to all others."""
    return Answer(
        2 * times_up / (num_workers - 1),
        (times_up, "That is the uplink. To how many others does each message go?"),
        (times_up / (num_workers - 1), "The reference sends in both directions."),
        tolerance=0.05,
    )


@notebook.answer("seconds a worker waits")
def waiting_worker(*, nbytes: float, nbytes_per_second: float, seconds_per_step: float) -> Answer:
    """A worker waits for as long as the message takes longer than the ten steps."""
    alone = nbytes / nbytes_per_second
    return Answer(
        max(0.0, alone - 10 * seconds_per_step),
        (alone, "That is how long the message takes. Ten steps are computed meanwhile."),
        (0, "Ten steps take less time than the message does."),
        tolerance=0.01,
    )
