"""Names that moved: an old import names the new place, and the page says what is true."""

import re
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "moved.md").read_text(encoding="utf-8")
ROWS = [line.strip("| ").split(" | ") for line in PAGE.splitlines() if line.startswith("| `")]


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


def test_the_table_is_true():
    """Each name of the left column is gone from its old room, and is where the right one says."""
    replications = "\n".join(
        file.read_text(encoding="utf-8") for file in ROOT.glob("experiments/replications/*.py")
    )
    num = 0
    for before, now in ROWS:
        rooms = [import_module(room) for room in re.findall(r"`(fltoolkit_[\w.]+)`", now)]
        for old, names in re.findall(r"`(\w+)`: ([^;|]+)", before):
            for name in re.findall(r"`(\w+)`", names):
                num += 1
                if (ROOT / "fltoolkit" / old).is_dir():
                    assert not hasattr(import_module(f"fltoolkit.{old}"), name), name
                made = re.search(rf"^(class|def) {name}\b|^{name} =", replications, re.MULTILINE)
                assert hasattr(rooms[0], name) if rooms else made, f"{name} is not in {now}"
    assert num == 78
