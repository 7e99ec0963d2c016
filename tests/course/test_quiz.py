"""The quiz at the end: right answers in several spellings, and a hint for each wrong one."""

import json
import re
from pathlib import Path

import pytest
from course.answers import NAN, Case, Printed, assert_checks

from fltoolkit.course.quiz import quiz
from fltoolkit.research import seconds_on

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "10_beyond_one_machine.ipynb"


def letters(right: str, *wrong: str) -> Case:
    return Case(right=[right, right.upper(), f"({right})", f" {right})"], wrong=[*wrong, "d", 1])


CASES = {
    "1, the factor of the total": Case(
        right=[2, 1.96, 100 / 51, 2 / 1.02], wrong=[50, 25, 0.51, NAN]
    ),
    "2, a later cut": letters("b", "a", "c"),
    "3, what to ask first": letters("c", "a", "b"),
    "4, learning in silence": letters("a", "b", "c"),
    "5, better by a shared residual": letters("b", "a", "c"),
    "6, rounding at random": letters("c", "a", "b"),
    "7, seconds on a link": Case(
        right=[10.1, 100 * 2 * 0.05 + 0.1, 10.12], wrong=[0.1, 5.1, 5, 10, 101, NAN]
    ),
    "8, what 8 bits hide": letters("a", "b", "c"),
    "9, a thousand telephones": letters("b", "a", "c"),
    "10, only an update": letters("c", "a", "b"),
}


def test_checks(capsys: Printed) -> None:
    assert_checks(quiz, CASES, capsys)


def test_the_seconds_are_those_of_the_package() -> None:
    run = {"nbytes": 1_000_000, "num_waits": 200}
    assert seconds_on(run, rate=10e6, latency=0.05) == pytest.approx(10.1)


def test_the_notebook_asks_each_question_once_and_offers_the_letters() -> None:
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    code = "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "code")
    assert re.findall(r'^ask\("(.+?)", answer_\d+\)', code, re.MULTILINE) == list(CASES)
    prose = "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")
    for number, case in enumerate(CASES.values(), 1):
        question = prose.split(f"**Question {number}.**")[1].split("**Question")[0]
        assert ("\n- a)" in question) == isinstance(case.right[0], str)
