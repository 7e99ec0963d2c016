"""predict: how far off a guess is, and no answer before there is a guess."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from course.answers import NAN, Printed

from fltoolkit_course import predict
from fltoolkit_course.done import Guess
from fltoolkit_course.guesses import ANY, AT_LEAST_0, OF_ALL, PERCENT, SHARE, Between, Predict


@pytest.mark.parametrize(
    ("guess", "measured", "words"),
    [
        (50_000, 163_854, "3.3 times too small"),
        (100, 100.0, "exactly right"),
        (0, 5, "Your guess is 5 B too small."),
        (-3, 5, "the wrong sign"),
        (-1, -62, "62 times too close to 0"),
        (torch.tensor(3.0), np.float32(6.0), "2 times too small"),
        ("alice", "bob", "not what happened"),
        ("Gradient ", "gradients", "Right."),
        ([1, 2], 3, "not what happened"),
        (math.inf, 3, "too large"),
        (NAN, 3, "one of the two is NaN"),
    ],
)
def test_predict_says_how_far_off(guess: Any, measured: Any, words: str, capsys: Printed) -> None:
    predict("How much?", guess, measured, "B")
    printed = capsys.readouterr().out
    assert words in printed
    assert "your guess: " in printed
    assert "measured: " in printed


@pytest.mark.parametrize(
    ("question", "guess", "measured", "unit", "words"),
    [
        ("Per cent?", 90, 94.4, "%", "Your guess is 4.4 points too small."),
        ("Gap?", 90, 94.4, "%", "Your guess is 4.4 points too small."),
        ("Gained?", -3, -2, "points", "Your guess is 1 point too small."),
        ("Right, of 100 images?", 90, 94, "", "Your guess is 4 of 100 too small."),
    ],
)
def test_per_cents_and_images_differ_by_points_and_images(
    question: str, guess: Any, measured: Any, unit: str, words: str, capsys: Printed
) -> None:
    """Per cents of per cents are read as points: 90 % is no "4.7 % too small" beside 94.4 %."""
    Predict(possible=POSSIBLE)(question, guess, measured, unit)
    assert words in capsys.readouterr().out


@pytest.mark.parametrize("guess", [None, ...])
def test_no_guess_is_a_reminder_and_does_not_tell(guess: Any, capsys: Printed) -> None:
    kept: list[Guess] = []
    ask = Predict(lambda question, guess: kept.append(guess))
    ask("How many bytes?", guess, 163_854, "B")
    printed = capsys.readouterr().out
    assert "Replace None" in printed
    assert "163" not in printed
    assert not ask.shown
    ask("How many bytes?", guess, 163_854, "B")
    assert ask.shown
    printed = capsys.readouterr().out
    assert "You have not guessed; here is the measurement all the same.\n  measured:" in printed
    assert kept == [Guess("", "163,854 B")]


def test_a_question_of_its_own_answers_at_once_and_compares_later(capsys: Printed) -> None:
    kept: dict[str, Guess] = {}
    ask = Predict(kept.__setitem__)
    ask.ask("How many?", "about 2 kB", "B")
    assert "your guess: 2,000 B. The next cells measure it." in capsys.readouterr().out
    assert not kept
    ask("How many?", "about 2 kB", 4000, "B")
    assert kept["How many?"] == Guess("2,000 B", "4,000 B", "Your guess is 2 times too small.", 2.0)


def test_a_guess_made_late_is_compared_without_measuring_again(capsys: Printed) -> None:
    kept: dict[str, Guess] = {}
    ask = Predict(kept.__setitem__)
    ask.ask("How many?", None, "B")
    assert "Replace None" in capsys.readouterr().out
    ask("How many?", None, 163, "B")
    assert "You have not guessed" in capsys.readouterr().out
    assert ask.shown
    ask.ask("How many?", 163, "B")
    assert "measured:   163 B" in capsys.readouterr().out
    assert ask.shown
    assert kept["How many?"].guessed == "163 B"


def test_a_question_keeps_its_own_guess(capsys: Printed) -> None:
    """All questions of a notebook share one variable: it holds what was written last."""
    kept: dict[str, Guess] = {}
    ask = Predict(kept.__setitem__)
    my_guess: Any = 10
    ask.ask("How many?", my_guess, "B")
    my_guess = "alice"
    ask.ask("Who?", my_guess)
    for _ in range(2):  # the cell of the first question is run again after the second's
        ask("How many?", my_guess, 40, "B")
    ask("Who?", my_guess, "bob")
    assert {question: guess.guessed for question, guess in kept.items()} == {
        "How many?": "10 B",
        "Who?": "alice",
    }
    capsys.readouterr()
    ask.ask("How many?", None, "B")
    ask("How many?", my_guess, 40, "B")
    assert capsys.readouterr().out.count("You have not guessed") == 2


def test_a_question_of_the_saved_edition_asks_for_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: Printed
) -> None:
    monkeypatch.setenv("FLTOOLKIT_EDITION", "saved")
    Predict().ask("How many?", None)
    assert capsys.readouterr().out == "How many?\n  The next cells measure it.\n"


POSSIBLE: dict[str, Between | tuple[str, ...]] = {
    "Right, of {} images?": OF_ALL,
    "Per cent?": PERCENT,
    "Share?": SHARE,
    "Bytes?": AT_LEAST_0,
    "Nats?": ANY,
    "Who?": ("alice", "the bobs", "none"),
}


@pytest.mark.parametrize(
    ("question", "guess", "measured", "said"),
    [
        ("Right, of 1,437 images?", 1438, 97, "Your guess is 1,438. That is not possible"),
        ("Per cent?", "950 %", 97, "Write a number from 0 to 100, in %,"),
        ("Per cent?", 0.9, 97, "is 0.9. Did you mean 90 %? Write '90 %' or '0.9 %'"),
        ("Right, of 50 images?", "0,9", 44, "is '0,9'. Did you mean 45? Write '45' or '0.9 %'"),
        ("Share?", 33, 0.33, "a number from 0 to 1"),
        ("Bytes?", -3, 0, "a number that is at least 0"),
        ("Bytes?", "ten", 3, "is 'ten'. This is a str where a number should be"),
        ("Bytes?", math.inf, 3, "is inf. That is no finite number"),
        ("Nats?", "nan", 3.0, "is 'nan'. That is no finite number. Write a number"),
        ("Who?", "", "alice", "is ''. It is none of the answers. Write one of alice, the"),
    ],
)  # fmt: skip
def test_an_impossible_guess_is_refused_with_what_is_allowed(
    question: str, guess: Any, measured: Any, said: str, capsys: Printed
) -> None:
    kept: dict[str, Guess] = {}
    ask = Predict(kept.__setitem__, POSSIBLE)
    ask.ask(question, guess, "%" if question == "Per cent?" else "")
    printed = capsys.readouterr().out
    assert said in printed
    assert "run this cell again" in printed
    assert "The next cells" not in printed
    ask(question, guess, measured, "%" if question == "Per cent?" else "")
    printed = capsys.readouterr().out
    assert said in printed
    assert "where the question stands, and run that cell again" in printed
    assert "this cell" not in printed
    assert "measured: " in printed
    assert not kept[question].guessed


@pytest.mark.parametrize(
    ("question", "guess", "measured", "shown"),
    [
        ("Right, of 100 images?", "97 %", 96, "97"),
        ("Right, of 100 images?", 100, 96, "100"),
        ("Per cent?", "0.9 %", 97, "0.9"),
        ("Share?", "0,33", 0.3, "0.33"),
        ("Nats?", "\u22120,2", -0.232, "-0.2"),
        ("Who?", "Bob", "alice", "the bobs"),
    ],
)
def test_a_possible_guess_is_kept(
    question: str, guess: Any, measured: Any, shown: str, capsys: Printed
) -> None:
    kept: dict[str, Guess] = {}
    ask = Predict(kept.__setitem__, POSSIBLE)
    ask.ask(question, guess)
    assert f"your guess: {shown}. The next cells" in capsys.readouterr().out
    ask(question, guess, measured)
    assert kept[question].guessed == shown
