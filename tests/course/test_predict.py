"""predict: how far off a guess is, and no answer before there is a guess."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from course.answers import NAN, Printed

from fltoolkit.course import predict


@pytest.mark.parametrize(
    ("guess", "measured", "words"),
    [
        (50_000, 163_854, "3.3 times too small"),
        (400, 100.0, "4 times too large"),
        (110, 100, "10 % too large"),
        (100, 100.0, "exactly right"),
        (0, 5, "5 too small"),
        (-3, 5, "8 too small"),
        (5, 0, "5 too large"),
        (-2, -5, "3 too large"),
        (torch.tensor(3.0), np.float32(6.0), "2 times too small"),
        (math.inf, 3, "inf too large"),
        (NAN, 3, "one of the two is NaN"),
        ("alice", "alice", "Right."),
        ("alice", "bob", "not what happened"),
        ([1, 2], 3, "not what happened"),
    ],
)
def test_predict_says_how_far_off(guess: Any, measured: Any, words: str, capsys: Printed) -> None:
    predict("How much?", guess, measured, "B")
    printed = capsys.readouterr().out
    assert words in printed
    assert "your guess: " in printed
    assert "measured: " in printed


@pytest.mark.parametrize("guess", [None, ...])
def test_no_guess_is_a_reminder_and_does_not_tell(guess: Any, capsys: Printed) -> None:
    predict("How many bytes?", guess, 163_854, "B")
    printed = capsys.readouterr().out
    assert "Replace None" in printed
    assert "163" not in printed
