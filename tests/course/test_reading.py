import math
from typing import Any

import numpy as np
import pytest
import torch
from course.answers import Printed

from fltoolkit_course import check
from fltoolkit_course._reading import letter
from fltoolkit_course.done import Guess
from fltoolkit_course.guesses import Predict

RIGHT: list[tuple[Any, Any, str]] = [  # what was typed, what was measured, its unit
    ("15 %", 15, "%"),
    ("15 %", 0.15, ""),
    ("3,75 %", 3.75, "%"),
    ("0,125", 0.125, ""),
    ("1,104", 1104, ""),
    ("1,104 B", 1104, "B"),
    ("1'104", 1104, ""),
    ("1.104,5", 1104.5, ""),
    ("1,104.5", 1104.5, ""),
    ("\u221262", -62, ""),
    ("28 bits", 28, "bits"),
    ("2x", 2, ""),
    ("~2", 2, ""),
    ("0.33 GB", 330, "MB"),
    ("2640 Mbit", 330, "MB"),
    ("4 bytes", 4, ""),
    ("1.5 million bytes", 1_500_000, "B"),
    ("200 ms", 0.2, "s"),
    ("5 percentage points", 5.0, "points"),
    ("inf", math.inf, ""),
    (torch.tensor(28), 28, ""),
    (28, torch.tensor(28.0), ""),
    (math.inf, math.inf, ""),
    ("The gradient.", "gradients", ""),
    (torch.tensor([1.0, 2.5]), [1.0, 2.5], ""),
]
WRONG: list[tuple[Any, Any, str, str]] = [  # typed, expected, unit; what is said
    ("1.104", 1104, "", "1,000 times too small"),
    ("28 bytes", 28, "bits", "8 times too large"),
    ("3 s", 3, "MB", "a number of s where one of MB should be"),
    ("64 * 640", 40_960, "", "2 numbers where a number should be"),
    ("1.2.3", 3, "", "cannot be read as a number"),
    ((3, 75), 3.75, "", "Python reads 3,75 as two numbers. Write a point, or '3,75'."),
    (True, 1, "", "a bool where a number should be"),
    (np.complex64(1), 1, "", "where a number should be"),
    (len, 1, "", "call it"),
    (10**400, 3, "", "too large"),
    pytest.param(-(10**5000), 3, "", "too small", id="of 5000 digits"),
    ("nan", 3, "", "NaN"),
    (3, "gradients", "", "not"),
]


@pytest.mark.parametrize(("typed", "measured", "unit"), RIGHT)
def test_a_right_guess_is_right_in_every_form(
    typed: Any, measured: Any, unit: str, capsys: Printed
) -> None:
    Predict()("How many?", typed, measured, unit)
    said = capsys.readouterr().out
    assert "Right." in said or "exactly right" in said, said


@pytest.mark.parametrize(("typed", "measured", "unit"), [row for row in RIGHT if not row[2]])
def test_a_right_answer_is_right_in_every_form(typed: Any, measured: Any, unit: str) -> None:
    assert check("the answer", typed, measured, tolerance=1e-6) is True


@pytest.mark.parametrize(("typed", "measured", "unit", "words"), WRONG)
def test_a_wrong_one_is_wrong_and_says_why(
    typed: Any, measured: Any, unit: str, words: str, capsys: Printed
) -> None:
    Predict()("How many?", typed, measured, unit)
    assert words in capsys.readouterr().out
    if not unit:
        assert check("the answer", typed, measured) is False
        assert words in capsys.readouterr().out


def test_a_unit_is_written_once() -> None:
    kept: dict[str, Guess] = {}
    ask = Predict(kept.__setitem__)
    ask("Share?", "25%", 25, "%")
    ask("Megabytes?", "330 MB", 300.0, "MB")
    ask("Huge?", 10**400, 300.0, "MB")
    assert kept["Share?"].guessed == kept["Share?"].measured == "25 %"
    assert kept["Megabytes?"].guessed == "330 MB"
    assert kept["Megabytes?"].factor == 1.1
    assert kept["Huge?"].guessed == "inf MB"


@pytest.mark.parametrize("typed", ["d", "", "ab", "b or c", "a later cut", 2, None])
def test_what_is_no_letter(typed: Any) -> None:
    with pytest.raises(ValueError, match="Write one letter of a, b, c"):
        letter(typed, "abc")
