"""Choices by data set, progress bars, and trouble in one line instead of a traceback."""

from types import SimpleNamespace
from typing import Any

import pytest
from course.answers import Printed
from IPython.core.interactiveshell import InteractiveShell

from fltoolkit_course import running
from fltoolkit_course.done import _unfinished
from fltoolkit_course.running import InWords, by_dataset, need, progress_bar, show_errors_in_words


def test_by_dataset() -> None:
    assert by_dataset("digits", digits=1, mnist=2) == 1
    assert by_dataset("fashion_mnist", digits=1, mnist=2) == 2
    assert by_dataset("fashion_mnist", digits=1, mnist=2, fashion_mnist=3) == 3
    with pytest.raises(InWords, match='Write "digits" or "mnist" or "fashion_mnist"'):
        by_dataset("minst", digits=1, mnist=2)


def test_need() -> None:
    assert need([1]) == [1]
    with pytest.raises(InWords, match="before its first evaluation"):
        need([])
    with pytest.raises(InWords):
        need({})


def test_in_a_notebook_the_bar_is_one_output_which_is_empty_at_the_end(
    monkeypatch: pytest.MonkeyPatch, capsys: Printed
) -> None:
    shown: list[str] = []

    def update(data: dict[str, Any], raw: bool) -> None:
        shown.append(data["text/plain"])

    monkeypatch.setattr("IPython.display.display", lambda *_, **__: SimpleNamespace(update=update))
    monkeypatch.setattr(running, "shell", lambda: SimpleNamespace(kernel=True))
    assert list(progress_bar("ab", "training")) == ["a", "b"]
    assert shown[0].startswith("training")
    assert shown[-1] == ""
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ("raise KeyboardInterrupt", "Stopped."),
        ("by_dataset('minst', digits=1)", "'minst'"),
        ("7\nscores[-1]", "name 'scores' is not defined (line 2 of its cell)"),
        ("def f():\n  return by_datasets\nf()", "'by_datasets' is not defined (line 2 of"),
        (
            "for _ in progress_bar('ab', 'training'):\n  {}['b']",
            "Line 2 of this cell finds no 'b'. Stopped early: training, 0 of 2.",
        ),
    ],
)
def test_one_line_stands_for_the_traceback(cell: str, words: str, capsys: Printed) -> None:
    shell = InteractiveShell.instance()
    try:
        show_errors_in_words()
        shell.push({"by_dataset": by_dataset, "progress_bar": progress_bar})
        result = shell.run_cell(cell)
        shell.run_cell("1 / 0")
    finally:
        InteractiveShell.clear_instance()
        _unfinished.clear()
    assert not result.success
    printed = capsys.readouterr().out
    line, rest = printed.split("\n", 1)
    assert words in line
    assert ("Run the cells above first" in line) == ("name" in line)
    assert rest.count("Traceback") == 1  # other errors are shown as always
    assert "ZeroDivisionError" in rest


@pytest.mark.parametrize("defect", ["nowhere", "{}[0]"])
def test_a_defect_of_a_package_keeps_its_traceback(defect: str, capsys: Printed) -> None:
    shell = InteractiveShell.instance()
    try:
        show_errors_in_words()
        broken: dict[str, Any] = {"__name__": "package"}
        exec(f"def broken(): return {defect}", broken)
        shell.push({"broken": broken["broken"]})
        shell.run_cell("broken()")
    finally:
        InteractiveShell.clear_instance()
    assert "Traceback" in capsys.readouterr().out
