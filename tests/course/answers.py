from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from fltoolkit_course.notebook import Notebook

Printed = pytest.CaptureFixture[str]


NAN = float("nan")


@dataclass
class Case:
    """Answers to one check: right ones in several spellings, and mistakes that readers make."""

    right: Sequence[Any]
    wrong: Sequence[Any]
    facts: Mapping[str, Any] = field(default_factory=dict)


def assert_checks(notebook: Notebook, cases: Mapping[str, Case], capsys: Printed) -> None:
    """Each check of the notebook accepts and refuses what it should, and each hint is given."""
    assert set(cases) == set(notebook.answers)
    for name, case in cases.items():
        assert case.right, name
        for answer in case.right:
            assert notebook.check(name, answer, **case.facts) is True, (name, answer)
        capsys.readouterr()
        for answer in case.wrong:
            assert notebook.check(name, answer, **case.facts) is False, (name, answer)
        said = capsys.readouterr().out
        for _, message in notebook.answers[name](**case.facts).hints:
            assert message in said, f"{name}: no wrong answer of the table gets {message!r}"
