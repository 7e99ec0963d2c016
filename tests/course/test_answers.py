"""The answers of each notebook: right in several spellings, wrong as readers are wrong.

The tables are `CASES` in the files test_nbNN.py; what else such a file tests is its notebook's own.
"""

from importlib import import_module
from pathlib import Path

import pytest
from course.answers import Printed, assert_checks

from fltoolkit_course.syllabus import NOTEBOOKS

NAMES = [p.stem.removeprefix("test_") for p in sorted(Path(__file__).parent.glob("test_nb*.py"))]


@pytest.mark.parametrize("name", NAMES)
def test_checks_accept_and_refuse_what_they_should(name: str, capsys: Printed) -> None:
    notebook = import_module(f"fltoolkit_course.{name}").notebook
    assert_checks(notebook, import_module(f"course.test_{name}").CASES, capsys)


def test_each_notebook_with_checks_has_a_table() -> None:
    tested = {import_module(f"fltoolkit_course.{name}").notebook.number for name in NAMES}
    assert tested == {notebook.number for notebook in NOTEBOOKS if notebook.answers}
