"""What several test files of this room share."""

from dataclasses import replace
from typing import Any

from fltoolkit.data import Dataset, load
from fltoolkit.labs import (
    Lab,
    ThresholdLab,
)
from fltoolkit.labs.picture import Picture, Trace, compose

SECONDS = 300  # far more than any of this takes


def few_digits() -> Dataset:
    """512 to train on, 8 batches an epoch, and 100 to test on."""
    data = load("digits").flat()
    train, test = slice(512), slice(100)
    return replace(
        data,
        x_train=data.x_train[train],
        y_train=data.y_train[train],
        x_test=data.x_test[test],
        y_test=data.y_test[test],
    )


DATA = few_digits()


def small(num_epochs: int = 12, **settings: Any) -> ThresholdLab:
    return ThresholdLab(DATA, num_epochs=num_epochs, **{"cut": 2, **settings})


def picture_of(lab: Lab) -> Picture:
    traces = {run.number: Trace(lab.board, run.history, run.training.channel) for run in lab.runs}
    for trace in traces.values():
        trace.catch_up()
    return compose(lab, traces)


def states(segments: list[tuple[int, int, str]]) -> str:
    return "".join(state * (end - start + 1) for start, end, state in segments)
