import json
import re
from pathlib import Path

import pytest
from course.answers import NAN, Case, Printed, assert_checks

from fltoolkit_course.quiz import quiz

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"


def letters(right: str, *wrong: str) -> Case:
    forms = ("{}", "({})", " {}) ", "{}.", "Answer {}", "'{}'")
    spelled = [form.format(right) for form in forms]
    return Case(right=[*spelled, right.upper(), [right]], wrong=[*wrong, "d", 1])


PARTS = {  # by the number of the notebook
    "03": {
        "a later cut": letters("b", "a", "c"),
        "what to ask first": letters("c", "a", "b"),
        "learning in silence": letters("a", "b", "c"),
    },
    "06": {
        "the factor of the total": Case(right=[2], wrong=[50, 25, 0.51, NAN]),
        "rounding at random": letters("c", "a", "b"),
        "better by a shared residual": letters("b", "a", "c"),
    },
    "09": {
        "seconds on a link": Case(right=[10.1], wrong=[0.1, 5.1, 5, 10, 101, NAN]),
        "a thousand telephones": letters("b", "a", "c"),
        "what 8 bits hide": letters("a", "b", "c"),
    },
    "12": {
        "only an update": letters("c", "a", "b"),
        "what stands beside a factor": letters("b", "a", "c"),
        "both ends at home": letters("b", "a", "c"),
        "the longer message": Case(right=[2.5], wrong=[0.4, 0.156, 10, 2, NAN]),
    },
}
CASES = {name: case for part in PARTS.values() for name, case in part.items()}


def test_checks(capsys: Printed) -> None:
    assert_checks(quiz, CASES, capsys)


@pytest.mark.parametrize("number", PARTS)
def test_the_notebook_asks_each_question_once_and_offers_the_letters(number: str) -> None:
    (path,) = NOTEBOOKS.glob(f"{number}_*.ipynb")
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    texts = ["".join(cell["source"]) for cell in cells]
    (code,) = [text for text in texts if re.search(r"^ *ask\(", text, re.MULTILINE)]
    asked = re.findall(r'^ *ask\("(.+?)", None\)', code, re.MULTILINE)
    assert asked == list(PARTS[number])
    (prose,) = [text for text in texts if "**Question 1.**" in text]
    for count, case in enumerate(PARTS[number].values(), 1):
        question = prose.split(f"**Question {count}.**")[1].split("**Question")[0]
        assert ("\n- a)" in question) == isinstance(case.right[0], str)
