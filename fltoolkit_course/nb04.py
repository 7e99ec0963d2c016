"""The answers of notebook 04. Try to answer before you look."""

from fltoolkit_course.comparison import near
from fltoolkit_course.guesses import AT_LEAST_0, Between
from fltoolkit_course.notebook import Answer, Notebook

notebook = Notebook(
    "04",
    "Federated averaging",
    guesses={
        "Bytes of one round?": AT_LEAST_0,
        "Distance with the plain mean?": AT_LEAST_0,
        "Share of the bytes?": AT_LEAST_0,
        "Agreement?": Between(-1, 1),
        "Times sooner?": AT_LEAST_0,
        "Averages, if the one before is fetched?": AT_LEAST_0,
        "Federated over split?": AT_LEAST_0,
    },
)
bill, card, check, predict = notebook.bill, notebook.card, notebook.check, notebook.predict


@notebook.answer("the server's new weight")
def new_weight() -> Answer:
    return Answer(
        (30 * 1.0 + 10 * 5.0) / (30 + 10),
        (3.0, "That is the plain mean. The first client has three times as many images."),
        (4.0, "The other way round: who has more images counts more."),
    )


@notebook.answer("staleness")
def staleness(*, joined: int) -> Answer:
    """``joined``: the round in which the update counted; it started from the model of round 0."""
    return Answer(
        joined,
        (joined - 1, "Round 1 ends at second 2. Has Cem's update arrived by then?"),
        (joined + 1, "Round 2 lasts from second 2 to second 3."),
    )


@notebook.answer("images a client")
def images_a_client(*, num_parameters: int, cut_width: int) -> Answer:
    equal = num_parameters / cut_width
    return Answer(
        num_parameters // cut_width + 1,
        (lambda a: a == num_parameters // cut_width, "Here split learning still costs less."),
        (near(equal, 0.1), "There both cost the same. Which is the next number?"),
    )


@notebook.answer("bytes of 20 rounds of one")
def twenty_rounds_of_one(*, one_round: int, num_parameters: int) -> Answer:
    """20 rounds of one client send what one round of 20 clients sends."""
    values = 20 * 2 * num_parameters * 4
    return Answer(
        one_round,
        (values, "The values are right. Headers count too."),
        (one_round // 2, "That is one direction."),
    )
