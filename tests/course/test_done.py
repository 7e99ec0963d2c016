"""What is kept of a reader's progress: whole or not at all, and damage is no reason to fail."""

from pathlib import Path

import pytest
from course.answers import Printed

from fltoolkit_course.done import FILE, Done, Guess, course_folder, read_done, remember
from fltoolkit_course.done import Table as TableOfWords

GUESS = Guess("10 B", "20 B", "2 times too small.", 2.0)


def test_what_is_kept_is_read_again_and_notebooks_do_not_touch_each_other(tmp_path: Path) -> None:
    first, second = Done({"How many?": GUESS}, {"size": True}), Done({}, {"bits": False})
    remember(tmp_path, "01", first)
    remember(tmp_path, "02", second)
    assert read_done(tmp_path) == {"01": first, "02": second}
    assert [path.name for path in tmp_path.iterdir()] == [FILE]


@pytest.mark.parametrize("damage", ["", "{", "[1]", '{"01": 3}', '{"01": {"guesses": [1]}}'])
def test_a_damaged_file_is_set_aside(tmp_path: Path, damage: str, capsys: Printed) -> None:
    (tmp_path / FILE).write_text(damage)
    assert read_done(tmp_path) == {}
    assert "kept as course_progress.damaged.json" in capsys.readouterr().out
    assert (tmp_path / "course_progress.damaged.json").read_text() == damage
    remember(tmp_path, "01", Done({}, {"size": True}))
    assert read_done(tmp_path)["01"].passed == ["size"]


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / FILE).mkdir()
    remember(tmp_path, "01", Done({}, {"size": True}))
    assert [path.name for path in tmp_path.iterdir()] == [FILE]


def test_only_a_folder_of_the_course_keeps_progress(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert course_folder() == folder
    (folder / "00_start_here.ipynb").unlink()
    assert course_folder() is None
    (folder / "01_vanilla_splitnn.ipynb").touch()
    assert course_folder() == folder
    monkeypatch.setenv("FLTOOLKIT_EDITION", "saved")
    assert course_folder() is None


def test_a_table_escapes_what_it_shows() -> None:
    table = TableOfWords("<b>", ["a<", "b", "empty"], [["<i>", "1", ""]], ["& so on"])
    page = table._repr_html_()
    assert "<i>" not in page
    assert "&lt;i&gt;" in page
    assert "&amp; so on" in page
    assert "empty" not in page, "a column without any entry is left out"
    assert repr(table).splitlines() == ["<b>", "  a<   b", "  <i>  1", "& so on"]
