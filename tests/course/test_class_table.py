"""Progress that a class has handed in, the patients of notebook 02b, and stored models."""

import csv

import numpy as np
import pytest

from fltoolkit_course import class_table
from fltoolkit_course.done import FILE, Done, Guess, remember
from fltoolkit_course.patients import patients
from fltoolkit_course.stored import stored_model
from fltoolkit_course.syllabus import NOTEBOOKS


def test_who_finished_and_guessed_what(tmp_path):
    first, second = NOTEBOOKS[:2]
    guesses = {name: Guess("=1+1", "640") for name in first.guesses}
    for who in ("Ana Arm_1234_assignsubmission_file_", "ben"):
        (tmp_path / who).mkdir()
        remember(tmp_path / who, first.number, Done(guesses, dict.fromkeys(first.answers, True)))
    remember(tmp_path / "ben", second.number, Done({"x": Guess("7", "8")}))
    (tmp_path / "cem_LATE_90017_552301_course_progress.json").write_text("{}")
    (tmp_path / "dan.json").write_text("[1")
    (tmp_path / "eve.json").write_text('{"00": 3}')
    (tmp_path / "fay.json").write_text(" " * (2 << 20))
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.json")}
    out = tmp_path / "class.csv"
    assert class_table.main([str(tmp_path), "--out", str(out)]) == 0
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*.json")}
    with open(out, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    told = {(row["student"], row["notebook"].split()[0]): row["finished"] for row in rows}
    assert told == {
        ("Ana Arm", first.number): "yes",
        ("ben", first.number): "yes",
        ("ben", second.number): "no",
        ("cem", "nothing"): "",
        ("dan", "cannot"): "",
        ("eve", "cannot"): "",
        ("fay", "cannot"): "",
    }
    assert next(r for r in rows if r["finished"] == "no")["guessed (measured)"] == "x: 7 (8)"
    assert (tmp_path / "ben" / FILE).exists()


def test_a_text_that_a_spreadsheet_would_run_stays_a_text(tmp_path):
    remember(tmp_path, NOTEBOOKS[0].number, Done({"=cmd": Guess("1", "2")}))
    class_table.main([str(tmp_path), "--out", str(tmp_path / "o.csv")])
    assert ",'=cmd: 1 (2)" in (tmp_path / "o.csv").read_text()


def test_a_folder_without_files_is_said(tmp_path, capsys):
    with pytest.raises(SystemExit):
        class_table.main([str(tmp_path)])
    assert "each student hands in course_progress.json" in capsys.readouterr().err


def test_each_column_has_one_owner():
    people = patients()
    owned = [column for columns in people.columns.values() for column in columns]
    assert sorted(owned) == [*range(30)] == [*range(people.x.shape[1])]
    assert len(people.x) == len(people.y) == 569
    assert int(people.y.sum()) == 212


def test_they_are_those_of_scikit_learn():
    datasets = pytest.importorskip("sklearn.datasets", reason="needs pip install scikit-learn")
    copy, source = patients(), datasets.load_breast_cancer()
    assert copy.names == source.feature_names.tolist()
    assert np.array_equal(copy.x.numpy(), source.data.astype(np.float32))
    assert np.array_equal(copy.y.numpy(), 1 - source.target)


def test_a_worker_alone_sent_nothing_and_learned_less() -> None:
    alone, together = stored_model("Muon, alone"), stored_model("Muon, every step, float32")
    assert alone.nbytes == alone.times_text == 0
    assert together.nats < alone.nats - 0.2
    assert together.times_text > 100
