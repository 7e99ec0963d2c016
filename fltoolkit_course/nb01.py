"""The answers of notebook 01. Try to answer before you look."""

import torch

from fltoolkit.wire import pack
from fltoolkit_course.comparison import near
from fltoolkit_course.guesses import AT_LEAST_0, PERCENT, Between
from fltoolkit_course.notebook import Answer, Notebook

notebook = Notebook(
    "01",
    "Vanilla SplitNN",
    guesses={
        "How many bytes did Alice send for one batch?": AT_LEAST_0,
        "Weights still equal, after float16 on the wire?": PERCENT,
        "Right after about a quarter of the bytes?": PERCENT,
        "Bytes sent, in multiples of the raw images?": AT_LEAST_0,
        "Of six drawings, how many show the right digit?": Between(0, 6),
    },
    file="01_",
)
bill, card, check, predict = notebook.bill, notebook.card, notebook.check, notebook.predict


def epoch_nbytes(num_samples: int, batch_size: int, width: int) -> int:
    """Bytes of one epoch of split learning in float32, both directions, headers included.

    Args:
        num_samples: of the training set; the last batch may be shorter than the others.
        batch_size: samples in a batch.
        width: values that cross the cut for one sample.

    100 samples in batches of 64 are two batches, so four messages. Beside the 2 * 100 * 640 * 4
    bytes of values there are four headers:

    >>> epoch_nbytes(100, 64, 640) - 2 * 100 * 640 * 4
    48
    """
    full, rest = divmod(num_samples, batch_size)
    sizes = [batch_size] * full + [rest] * (rest > 0)
    message = {rows: len(pack({"h": torch.zeros(rows, width)})) for rows in set(sizes)}
    return 2 * sum(message[rows] for rows in sizes)


@notebook.answer("length of the float16 message")
def float16_message() -> Answer:
    values = 64 * 640 * 2
    return Answer(
        len(pack({"h": torch.zeros(64, 640, dtype=torch.float16)})),
        (values, "Those are the bytes of the values. Header and checksum count, too."),
        (2 * values + 12, "That is the message in float32. A float16 takes two bytes."),
    )


@notebook.answer("bytes of one epoch with cut=2")
def cut_at_two(*, num_samples: int, batch_size: int) -> Answer:
    right = epoch_nbytes(num_samples, batch_size, 128)
    return Answer(
        right,
        (2 * 128 * 4 * num_samples, "The values are right. Add the headers of each message."),
        (right // 2, "That is one direction only."),
        (epoch_nbytes(num_samples, batch_size, 640), "Is the cut still at 4?"),
    )


@notebook.answer("fraction saved")
def larger_batches(*, num_samples: int) -> Answer:
    saved = 1 - epoch_nbytes(num_samples, 256, 640) / epoch_nbytes(num_samples, 64, 640)
    return Answer(
        saved,
        (near(0.75, 0.01), "A quarter of the messages, each four times longer."),
        (lambda a: a > 1, "As a fraction between 0 and 1, please: 0.5 is half."),
        tolerance=1e-4,
    )
