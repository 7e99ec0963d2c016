"""The answers of notebook 13. Try to answer before you look."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fltoolkit_course.guesses import AT_LEAST_0, OF_ALL, Between
from fltoolkit_course.notebook import Answer, Notebook

notebook = Notebook(
    "13",
    "What secrecy costs",
    guesses={
        "How many of ten may drop out?": Between(0, 10),
        "Explained variance from the sum of ten?": Between(high=100),
        "How many times the bytes up, with 2 bits?": AT_LEAST_0,
        "Shorter by how much?": Between(high=100),
        "Found at most, of 100?": OF_ALL,
    },
)
card, check, predict = notebook.card, notebook.check, notebook.predict


@notebook.answer("the third slip")
def third_slip(*, number: int, slips: Sequence[int]) -> Answer:
    """What is missing to the number, modulo 100."""
    missing = number - sum(slips)
    return Answer(
        missing % 100,
        (missing, "A slip holds a number from 0 to 99: count modulo 100."),
        (sum(slips) % 100, "That is the sum of the two slips that are there."),
    )


@notebook.answer("masks that cancel")
def masks_that_cancel(*, numbers: Sequence[Any], modulus: int) -> Answer:
    """Three hidden vectors that say nothing alone, and their sum."""
    total = np.sum([np.asarray(each) for each in numbers], axis=0) % modulus

    def read(answer: Any) -> list[str]:
        try:
            *hidden, got = (np.asarray(each, dtype=np.int64) for each in answer)
        except (TypeError, ValueError):
            hidden, got = [], total
        if len(hidden) != len(numbers) or any(h.shape != total.shape for h in (*hidden, got)):
            raise ValueError("Give four lists of numbers: what Ann, Ben and Cem send, and the sum.")
        met = {
            "somebody sends the number itself": not any(
                np.array_equal(h % modulus, np.asarray(x) % modulus)
                for h, x in zip(hidden, numbers, strict=True)
            ),
            "a number is not on the clock": all(
                ((h >= 0) & (h < modulus)).all() for h in (*hidden, got)
            ),
            "the masks do not cancel": np.array_equal(sum(hidden) % modulus, total),
            "the fourth is not the sum": np.array_equal(got % modulus, total),
        }
        return [words for words, fine in met.items() if not fine]

    return Answer(
        [],
        (lambda a: "the masks do not cancel" in a, "Of each pair one adds, one subtracts."),
        (lambda a: "a number is not on the clock" in a, "Each line ends in % 100."),
        read=read,
    )


@notebook.answer("bits under the mask")
def bits_under_the_mask(*, num_clients: int, bits: int) -> Answer:
    """So many that the largest sum still has a number of its own."""
    largest = num_clients * (2**bits - 1)
    return Answer(
        largest.bit_length(),
        (bits * num_clients, "Adding up does not need bits side by side: how large is the sum?"),
        (largest, "That is the largest sum. How many bits does it take?"),
    )
