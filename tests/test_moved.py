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


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("from fltoolkit.codecs import RandTopK", "from fltoolkit_research.codecs import RandTopK"),
        ("from fltoolkit import interval_averaging", "from fltoolkit.federated import interval_"),
        (
            "from fltoolkit import SLModel",
            "coming_from.md has the words of PyTorch, TFF, SecretFlow",
        ),
        (
            "from fltoolkit.federated import EncodedSumFactory",
            r"no fltoolkit\.federated\.Enc.*coming_",
        ),
        ("import fltoolkit.frameworks.torch", r"no fltoolkit\.frameworks\. .*coming_from"),
    ],
)
def test_a_name_that_is_not_here_is_answered_with_where_it_is(line, words):
    with pytest.raises(ModuleNotFoundError, match=words):
        exec(line)


def test_what_is_nowhere_is_no_attribute_and_no_other_package_is_asked():
    assert not hasattr(import_module("fltoolkit"), "nowhere")
    assert not hasattr(import_module("fltoolkit"), "labs")  # it stands in another package
    with pytest.raises(ModuleNotFoundError, match=r"^No module named 'nowhere'"):
        import_module("nowhere.leakage")
    with pytest.raises(ImportError, match="cannot import name '_private'"):
        exec("from fltoolkit import _private")
