"""What several test files of this room share."""

import time
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

from fltoolkit.data import Samples, load
from fltoolkit_course.labs import FedAvgLab, Lab, ThresholdLab

SECONDS = 300  # far more than any of this takes


def few_digits(num_train: int = 512) -> Samples:
    """512 to train on, 8 batches an epoch, and 100 to test on."""
    data = load("digits").flat()
    train, test = slice(num_train), slice(100)
    return replace(
        data,
        x_train=data.x_train[train],
        y_train=data.y_train[train],
        x_test=data.x_test[test],
        y_test=data.y_test[test],
    )


DATA, FEW = few_digits(), few_digits(200)


def small(num_epochs: int = 12, **settings: Any) -> ThresholdLab:
    return ThresholdLab(DATA, num_epochs=num_epochs, **{"cut": 2, **settings})


def small_fedavg(num_rounds: int = 6, **settings: Any) -> FedAvgLab:
    settings = {"cohort_size": 2, "local_steps": 1, "seed": 1, **settings}
    return FedAvgLab(FEW, num_clients=6, num_rounds=num_rounds, **settings)


def wait_until(what: Callable[[], object]) -> None:
    end = time.monotonic() + SECONDS
    while not what():
        assert time.monotonic() < end
        time.sleep(0.005)


def by_script(lab: Lab) -> dict[str, Any]:
    """What is known after the lab's script was executed, with ``printed`` lines.

    The data that the lab was given are known, unless the script loads them.
    """
    printed: list[str] = []
    known = {"print": printed.append, "__name__": "by_script", "data": lab.data}
    exec(lab.script(), known)
    return {**known, "printed": printed}


def assert_repeated(lab: Lab) -> dict[str, Any]:
    """The script makes the records and sends the messages of the current run, all of them."""
    again = by_script(lab)
    assert again["history"] == lab.current.history
    assert again["training"].channel.transfers == lab.current.training.channel.transfers
    return again


def per_record(lab: Lab, key: str) -> list[int]:
    """What each record of the current run adds to a running total."""
    totals = [0, *(int(record[key]) for record in lab.current.history)]
    return [b - a for a, b in pairwise(totals)]
