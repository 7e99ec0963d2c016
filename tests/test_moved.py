"""Names that moved: an old import names the new place."""

from importlib import import_module

import pytest


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("fltoolkit.course", "fltoolkit_course"),
        ("fltoolkit.labs", "fltoolkit_course.labs"),
        ("fltoolkit.research", "fltoolkit_research"),
        ("fltoolkit.leakage", "fltoolkit_research.leakage"),
        ("fltoolkit.finetuning", "fltoolkit_research.finetuning"),
        ("fltoolkit.engines", "fltoolkit_engines"),
        ("fltoolkit.assignments", "fltoolkit_grading"),
        ("fltoolkit.fence", "fltoolkit_grading.fence"),
        ("fltoolkit.cup", "fltoolkit_contest"),
        ("fltoolkit.codecs.difference", "fltoolkit_research.codecs.difference"),
        ("fltoolkit.plots.live", "fltoolkit_course.plots.live"),
    ],
)
def test_an_old_import_names_the_new_place(old, new):
    for line in (f"import {old}", f"from {old} import name"):
        with pytest.raises(ModuleNotFoundError, match=f"^{old} is {new} now"):
            exec(line)
    package, _, name = old.rpartition(".")
    with pytest.raises(ModuleNotFoundError, match=f"^{old} is {new} now"):
        exec(f"from {package} import {name}")


def test_what_is_nowhere_is_named_as_always():
    for name in ("fltoolkit.nowhere", "fltoolkit.codecs.nowhere", "nowhere.leakage"):
        with pytest.raises(ModuleNotFoundError, match=r"^No module named"):
            import_module(name)
    assert not hasattr(import_module("fltoolkit"), "nowhere")
