"""The answers of notebook 12. Try to answer before you look."""

from fltoolkit_course.guesses import ANY, AT_LEAST_0, PERCENT
from fltoolkit_course.notebook import Answer, Notebook

notebook = Notebook(
    "12",
    "Splitting a transformer",
    guesses={
        "Share of characters that the probe finds?": PERCENT,
        "Share found from one bit?": PERCENT,
        "Differences are better by how many nats?": ANY,
        "LoRA is better by how many nats?": ANY,
        "Nats with only the two ends?": AT_LEAST_0,
    },
)
bill, card, check, predict = notebook.bill, notebook.card, notebook.check, notebook.predict


@notebook.answer("characters that Bob is given")
def characters_given(*, context: int) -> Answer:
    """The labels are the inputs, shifted by one place: the first input is not a label."""
    return Answer(
        context - 1,
        (context, "The labels begin with the second character: which input is none of them?"),
        (1, "That is how many he is not given."),
    )


@notebook.answer("bytes of the activations of a step")
def bytes_of_a_step(*, batch_size: int, context: int, width: int, bits: int) -> Answer:
    """Every character of every window has ``width`` activations of so many bits."""
    values = batch_size * context * width
    nbytes = values * bits // 8
    return Answer(
        nbytes,
        (values * bits, "That is in bits."),
        (2 * nbytes, "Only the activations: the gradients go the other way."),
        tolerance=0.02 * nbytes,  # the header may be counted, or not
    )


@notebook.answer("values of a LoRA")
def values_of_a_lora(*, rows: int, columns: int, rank: int) -> Answer:
    """B [rows, rank] and A [rank, columns]."""
    return Answer(
        rank * (rows + columns),
        (rows * columns, "That is the matrix itself."),
        (rank * columns, "That is A alone. B is sent, too."),
    )
