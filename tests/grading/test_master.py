"""The course's assignments: releases without solutions, full marks, exact prices of mistakes.

Here the assembled notebooks are run in this process, cell by cell, which is quick; test_grading.py
runs them where students' answers run.
"""

import copy
import html
import json
import os
import re
import subprocess
import sys
import threading
import zipfile
from datetime import datetime

import pytest
import torch
from playing import FOLDER, NUMBERS, PATHS, lost, master_of, outputs, play, solutions
from wrong_answers import IN_ANOTHER_TYPE, WRONG

from fltoolkit_course import fingerprint
from fltoolkit_grading import cli as assignment_cli
from fltoolkit_grading import gradebook, grading
from fltoolkit_grading import master as assignment
from fltoolkit_grading.gradebook import add_manual
from fltoolkit_grading.grading import Grade, find_submissions
from fltoolkit_grading.looks import alike, suspicious
from fltoolkit_grading.master import (
    AssignmentError,
    assemble,
    collect,
    kind_of,
    load_master,
    own_numbers,
    text_of,
)
from fltoolkit_grading.names import handed_in_as, match, name_notes
from fltoolkit_grading.reading import num_parts, read_submission
from fltoolkit_grading.worker import same_output


def release_of(number):
    """A release with the right answers in it."""
    notebook, right = assignment.release(master_of(number)), solutions(master_of(number))
    for cell in notebook["cells"]:
        cell["source"] = right.get(cell["id"], cell["source"])
    return notebook


def test_there_are_eight():
    assert NUMBERS == [1, 2, 3, 4, 5, 6, 7, 8]


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("seed", [0, 1, 2**40 + 7])
def test_the_right_answer_has_full_marks(number, seed):
    master = master_of(number)
    assert lost(master, solutions(master), seed) == set()


@pytest.mark.parametrize("number", NUMBERS)
def test_no_answer_has_no_points(number):
    master = master_of(number)
    stubs = {c["id"]: c["source"] for c in assignment.release(master)["cells"]}
    assert lost(master, stubs, 3) == set(master.ids("hidden"))
    assert lost(master, {}, 3) == set(master.ids("hidden"))


@pytest.mark.parametrize("number", NUMBERS)
def test_another_seed_prints_something_else(number):
    master = master_of(number)
    one, two = (outputs(master, None, seed) for seed in (1, 2))
    for name in master.ids("hidden"):
        assert one[name].strip()
        assert not same_output(one[name], two[name])


@pytest.mark.later
@pytest.mark.parametrize("wrong", WRONG, ids=lambda w: f"{w.assignment}: {w.name}")
def test_what_a_mistake_costs(wrong):
    master = master_of(wrong.assignment)
    answers = solutions(master)
    if isinstance(wrong.source, tuple):
        old, new = wrong.source
        assert answers[wrong.answer].count(old) >= 1
        answers[wrong.answer] = answers[wrong.answer].replace(old, new)
    else:
        answers[wrong.answer] = wrong.source
    for seed in (5, 6):
        assert lost(master, answers, seed) == wrong.lost
    said = play(assemble(master, answers, 5))
    opens = [said[name] for name in master.ids("check")]
    assert any(isinstance(x, Exception) or ": not " in x for x in opens), "no open check noticed"


@pytest.mark.later
@pytest.mark.parametrize(("answer", "below"), IN_ANOTHER_TYPE)
def test_a_right_value_in_another_type_is_right(answer, below):
    master = master_of(int(answer[1]))
    answers = solutions(master)
    answers[answer] += f"\n\n{below}"
    assert lost(master, answers, 5) == set()
    said = play(assemble(master, answers, 5))
    wrong = [
        x for x in map(said.get, master.ids("check")) if not isinstance(x, str) or ": not " in x
    ]
    assert not wrong


@pytest.mark.parametrize("number", NUMBERS)
def test_release(number):
    master = master_of(number)
    text = json.dumps(assignment.release(master))
    for mark in ("SOLUTION", "HIDDEN TESTS", "Marking guide"):
        assert mark not in text
    released = {cell["id"]: cell for cell in assignment.release(master)["cells"]}
    assert list(released) == [cell["id"] for cell in master.cells]
    for name in master.ids("answer"):
        assert "NotImplementedError" in released[name]["source"]
        body = solutions(master)[name].split("### BEGIN SOLUTION")[1].split("### END")[0]
        for line in filter(str.strip, body.splitlines()):
            assert line.strip() not in released[name]["source"]
    assert sum(task.points for task in master.tasks) == 12
    assert all(task.hint for task in master.tasks if not task.manual)


@pytest.mark.parametrize("number", NUMBERS)
def test_each_student_may_have_numbers_of_their_own(number):
    """In the release and when it is graded; every open check is content with the solution."""
    master = master_of(number)
    for numbers in (None, own_numbers("Ana Arm"), own_numbers("7254321")):
        notebook = assignment.release(master, numbers=numbers)
        seed = f"SEED = {1 if numbers is None else numbers} "
        assert seed in "".join(text_of(cell) for cell in notebook["cells"])
        found = collect(master, notebook)
        assert found.numbers == numbers
        assert not [note for note in found.notes if "not answered" not in note]
        said = play(assemble(master, None, 1, numbers=numbers))
        opens = "".join(said[name] for name in master.ids("check"))
        assert ": right" in opens
        assert "not yet" not in opens


def test_numbers_in_a_file_are_not_trusted():
    master = master_of(1)
    for bad in ("1; import os", -1, 10**9, True, [1]):
        notebook = assignment.release(master, numbers=5)
        notebook["metadata"]["fltoolkit"]["numbers"] = bad
        assert collect(master, notebook).numbers is None


def test_numbers_are_drawn_from_the_name(tmp_path, monkeypatch, capsys):
    assert own_numbers("Jürgen Groß") == own_numbers("juergen gross".replace("ue", "u"))
    assert own_numbers("ana") != own_numbers("ben")
    with pytest.raises(AssignmentError, match="a letter or a digit"):
        own_numbers(" - ")
    monkeypatch.chdir(FOLDER.parents[1])
    names = tmp_path / "names.txt"
    names.write_text("Ana Arm\n\nBen/Kim\n", encoding="utf-8")
    release = ["release", "8", "--students", str(names), "--out", str(tmp_path / "to")]
    assert assignment_cli.main(release) == 0
    written = sorted(path.relative_to(tmp_path / "to") for path in tmp_path.glob("to/*/*"))
    assert [path.parts[0] for path in written] == ["Ana Arm", "Ben_Kim"]
    assert f"numbers {own_numbers('Ana Arm')}" in capsys.readouterr().out
    names.write_text("Ana Arm\nana-arm\n", encoding="utf-8")
    assert assignment_cli.main(release) == 2
    assert "would get the same numbers" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["ana arm", "Ana_Arm_1234", "Ana Arm~0042", "Ana Arm~3f2a"])
def test_the_numbers_of_a_name_are_known_by_what_a_file_may_be_called(name):
    assert own_numbers("Ana Arm") in grading._numbers_of(name)
    assert own_numbers("Ben Kim") not in grading._numbers_of(name)


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.name)
def test_master_is_in_order(path):
    nbformat = pytest.importorskip("nbformat")
    content = json.loads(path.read_text(encoding="utf-8"))
    nbformat.validate(nbformat.from_dict(content))
    code = [cell for cell in content["cells"] if cell["cell_type"] == "code"]
    assert any(cell["outputs"] for cell in code)
    assert not any(o["output_type"] == "error" for cell in code for o in cell["outputs"])
    for cell in content["cells"]:
        if kind_of(cell) in ("answer", "check", "hidden"):
            assert cell["id"].startswith(f"a{path.name[0]}-")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda cells: cells[4].update(id="a1-title"), "id of its own"),
        (lambda cells: cells[4]["metadata"].pop("nbgrader"), "holds a solution but is no answer"),
        (lambda cells: cells[4].update(source="pass"), "no ### BEGIN SOLUTION"),
        (lambda cells: cells[6]["metadata"]["nbgrader"].update(points=0), "points=0"),
        (lambda cells: cells[6].update(source="print(1)"), "depends on SEED"),
        (
            lambda cells: cells[6].update(
                source="### BEGIN HIDDEN TESTS\nprint(1)  # SEED\n### END HIDDEN TESTS"
            ),
            "depends on SEED",
        ),
        (lambda cells: cells[6]["metadata"]["nbgrader"].update(grade_id="x"), "grade_id"),
    ],
)
def test_a_bad_master_is_refused(change, problem, tmp_path):
    notebook = copy.deepcopy(master_of(1).notebook)
    kinds = [kind_of(cell) for cell in notebook["cells"]]
    cells = {4: kinds.index("answer"), 6: kinds.index("hidden")}
    change({k: notebook["cells"][v] for k, v in cells.items()})
    (tmp_path / "m.ipynb").write_text(json.dumps(notebook))
    with pytest.raises(AssignmentError, match=problem):
        load_master(tmp_path / "m.ipynb")


def small_master(check, open_check="print('yes: right')"):
    """A master with one function to write, ``double``, and this hidden check for three points."""
    about = {"schema_version": 3, "locked": False, "grade": False, "solution": False}
    sources = {
        "answer": "def double(x):\n    ### BEGIN SOLUTION\n    return 2 * x\n    ### END SOLUTION",
        "open": open_check,
        "hidden": f"### BEGIN HIDDEN TESTS\n{check}\n### END HIDDEN TESTS",
    }
    cells = [
        {"id": name, "cell_type": "code", "source": source, "outputs": [], "execution_count": None}
        | {"metadata": {"nbgrader": about | {"grade_id": name}}}
        for name, source in sources.items()
    ]
    cells[0]["metadata"]["nbgrader"]["solution"] = True
    cells[2]["metadata"]["nbgrader"] |= {"grade": True, "points": 3}
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("check", "said", "cheap"),
    [
        ("print(double(SEED))", "", True),
        ("print(SEED)", "gives its points to the untouched release", True),
        ("print(1)\nlen(range(SEED))", "prints the same with every SEED", True),
        ("double(SEED)\nprint(SEED)", "gives its points to functions that return None", False),
        ("print(double(SEED), id(double))", "fails the master's own answers", False),
    ],
)
def test_a_master_is_tried_before_anybody_gets_it(check, said, cheap, tmp_path, capsys):
    path, out = tmp_path / "m.ipynb", tmp_path / "student.ipynb"
    path.write_text(json.dumps(small_master(check)))
    assert assignment_cli.main(["test", str(path)]) == bool(said)
    assert said in capsys.readouterr().out
    refused = bool(said) and cheap
    assert assignment_cli.main(["release", str(path), "--out", str(out)]) == 2 * refused
    assert out.exists() is not refused
    if refused:
        (tmp_path / "in").mkdir()
        untouched = json.dumps(assignment.release(load_master(path)))
        (tmp_path / "in" / "ana.ipynb").write_text(untouched)
        grade = ["grade", str(tmp_path / "in"), "--assignment", str(path), "--no-fence"]
        assert assignment_cli.main([*grade, "--out", str(tmp_path / "out")]) == 2


def test_a_step_of_a_hidden_check_has_points_of_its_own(tmp_path, monkeypatch):
    """One kind of number is right, the other one stops; then the whole answer is no Python."""
    monkeypatch.setattr(grading, "PATIENCE", 50)
    check = "n = SEED\n### 1 point: text\nprint(double(str(n)))\n"
    check += "### 2 points: numbers\nprint(double(n))"
    notebook, path = small_master(check), tmp_path / "m.ipynb"
    path.write_text(json.dumps(notebook))
    master = load_master(path)
    limits = grading.Limits(fenced=False)
    expected = grading.expected_outputs(master, [5], limits=limits)[5]
    answers = (
        "def double(x):\n    return x + str(x)",
        "def double(x):\n    return x + (0 - -x)",
        "def (",
    )
    told = {}
    for answer, points in zip(answers, (1, 2, 0), strict=True):
        mine = assignment.release(master)
        mine["cells"][0]["source"] = answer
        (tmp_path / "ana.ipynb").write_text(json.dumps(mine))
        result = grading.grade_one(
            "ana", tmp_path / "ana.ipynb", master, 5, expected, limits=limits
        )
        assert result.points == {"hidden": points}
        told[points] = gradebook.feedback(master, result)
    assert "1 of 3 points. It stopped with TypeError. Not right: numbers." in told[1]
    assert "Not right: text." in told[2]
    assert f"a syntax error in answer: graded with Python {sys.version.split()[0]}" in told[0]
    notebook["cells"][2]["metadata"]["nbgrader"]["points"] = 4
    path.write_text(json.dumps(notebook))
    with pytest.raises(AssignmentError, match="its steps have other points"):
        load_master(path)


def test_collect_takes_nothing_but_answers():
    master = master_of(1)
    notebook = assignment.release(master)
    found = collect(master, notebook)
    assert set(found.answers) == set(master.ids("answer", "question"))
    step = {"id": "a1-split-step", "cell_type": "code", "source": [1, 2], "metadata": {"tags": 4}}
    for odd in (
        {"cells": [1, None, {}, {"id": 3}, {"id": "a1-privacy", "metadata": 1}]},
        {"cells": [], "metadata": {"kernelspec": 3}},
        {"cells": [step]},
    ):
        said = collect(master, odd)
        assert "lost the ids" in said.problem or "missing cell" in str(said.notes)


def test_notes_say_a_thing_once():
    notebook = assignment.release(master_of(1))
    notebook["cells"] += [{"cell_type": "code", "id": "a1-split-step", "source": ""}] * 300
    notes = collect(master_of(1), notebook).notes
    assert notes.count("duplicate id: a1-split-step") == 1
    assert not any("of their own" in note for note in notes)


def test_long_names_leave_room_for_what_is_appended(tmp_path):
    for name in ("a" * 252, "b" + "é" * 120):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.ipynb").write_text("")
    assert [len(name.encode()) for name in find_submissions(tmp_path)] == [200, 199]


def test_everybody_is_found_under_a_name(tmp_path):
    files = (
        "ben k.ipynb",
        "ben_k.ipynb",
        "Kim.IPYNB",
        "lea.ipynb.txt",
        "lea.doc",
        "Zoe\u0308.ipynb",
    )
    for name in (*files, "max.zip", ".DS_Store"):
        (tmp_path / name).write_text("")
    droppings = ("uli/.ipynb_checkpoints/x.ipynb", "uli/__MACOSX/._x.ipynb", "uli/._x.ipynb")
    for name in ("two/a.ipynb", "two/b.ipynb", "uli/x.IPYNB", *droppings, "__MACOSX/._x.ipynb"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    found = {
        name: str(path.relative_to(tmp_path)) for name, path in find_submissions(tmp_path).items()
    }
    assert found == {
        "Kim": "Kim.IPYNB",
        "Zoë": "Zoe\u0308.ipynb",
        "ben_k": "ben_k.ipynb",
        "ben_k_2": "ben k.ipynb",
        "lea": "lea.ipynb.txt",
        "lea_2": "lea.doc",
        "max": "max.zip",
        "two": "two/b.ipynb",  # the newest, or else the last by name
        "uli": "uli/x.IPYNB",
    }
    os.utime(tmp_path / "two" / "b.ipynb", (1, 1))
    assert find_submissions(tmp_path)["two"].name == "a.ipynb"
    notes = name_notes(tmp_path, find_submissions(tmp_path))["two"]
    assert notes == ["several notebooks: graded the newest, 'a.ipynb'"]


def test_another_assignment_is_called_so():
    said = collect(master_of(1), assignment.release(master_of(2)))
    assert said.problem == "another assignment: '2_abc_gate', not '1_splitnn_by_hand'"
    assert not said.notes


@pytest.fixture
def graded(tmp_path, monkeypatch):
    """`grade` of five submissions, without processes; ``each`` says what comes of a student."""
    (tmp_path / "in").mkdir()
    for name in "abcde":
        (tmp_path / "in" / f"{name} x.ipynb").write_text("")
    monkeypatch.setattr(grading, "_check_tools", lambda fenced: None)
    monkeypatch.setattr(grading, "expected_outputs", lambda _, seeds, **__: dict.fromkeys(seeds))
    monkeypatch.setattr(grading, "_undeserved", lambda *_: [])

    def graded(each, out="out", **how):
        monkeypatch.setattr(grading, "grade_one", lambda student, *_, **__: each(student))
        return grading.grade(tmp_path / "in", master_of(1), tmp_path / out, **how)

    return graded


def test_a_stopped_run_begins_nothing_new_and_keeps_what_it_did(graded, tmp_path, monkeypatch):
    done, stopped, shutdown = [], threading.Event(), grading.ThreadPoolExecutor.shutdown

    def each(student):
        done.append(student)
        assert len(done) == 1 or stopped.wait(600)
        return Grade(student)

    def stop(results, total):
        yield next(results)
        raise KeyboardInterrupt

    def told(pool, **how):
        shutdown(pool, wait=False, **how)
        stopped.set()
        shutdown(pool)

    monkeypatch.setattr(grading.ThreadPoolExecutor, "shutdown", told)
    with pytest.raises(KeyboardInterrupt):
        graded(each, progress=stop)
    assert len(done) <= 2, "one was done, and one may have begun"
    assert {path.stem for path in (tmp_path / "out" / "results").iterdir()} == set(done)
    assert len(graded(each)) == len(done) == 5


def test_another_name_than_the_files_is_noted(graded):
    for _ in range(2):  # also when it is kept
        assert graded(Grade)[0].notes == ["handed in as 'a x.ipynb'"]


def test_a_name_that_a_platform_gave_is_no_reason_to_look(tmp_path):
    notes = {who: [f"handed in as '{who}_assignsubmission_file_'"] for who in ("Ana_1", "Ben_2")}
    notes["Ben_2"] += ["worth a look: network"]
    results = [Grade(who, notes=said) for who, said in notes.items()]
    gradebook.write(master_of(1), results, tmp_path)
    looks = (tmp_path / "summary.html").read_text().split("Worth a look")[1]
    assert "Ben_2</td><td>graded; worth a look: network<" in looks
    assert "Ana_1" not in looks
    assert "handed in as 'Ana_1" in (tmp_path / "gradebook.csv").read_text()


def test_grades_are_no_submission(graded):
    for out in ("in/grades", "in"):
        with pytest.raises(AssignmentError, match="give an --out outside it"):
            graded(Grade, out=out)


def test_what_breaks_the_grader_is_one_students_status(graded):
    """And it is tried again the next time, it alone."""
    broken, tried = True, []

    def each(student):
        tried.append(student)
        if student == "a_x" and broken:
            raise RecursionError("too deep")
        return Grade(student, total=1.0)

    first, *others = graded(each)
    assert first.status == "not graded, run grade again: RecursionError: too deep"
    assert sum(first.points.values()) == first.total == 0
    assert [result.total for result in others] == [1] * 4
    broken, tried = False, []
    assert [result.total for result in graded(each)] == [1] * 5
    assert tried == ["a_x"]


@pytest.mark.slow
def test_check_reads_a_file_of_colab(tmp_path, capfd):
    """Without ids, with random ones in the metadata; and a cell without a type is left out."""
    notebook = assignment.release(master_of(5))
    cells = [{**cell} for cell in notebook["cells"]]
    for number, cell in enumerate(cells):
        cell.pop("id")
        cell["metadata"] = {**cell["metadata"], "id": f"x{number}"}
    strange = [{"source": "1 / 0"}, None, *cells]
    path = tmp_path / "colab.ipynb"
    path.write_text(json.dumps({**notebook, "nbformat_minor": 0, "cells": strange}))
    said = assignment.check_notebook(path)
    assert "answer 'a5-top-k' is not written yet" in said
    assert not [line for line in said if "missing" in line or "own" in line]
    assert capfd.readouterr().err == ""


@pytest.mark.slow
def test_check_tells_a_student_what_is_missing(tmp_path):
    master = master_of(5)
    notebook = assignment.release(master)
    cells = {cell["id"]: cell for cell in notebook["cells"]}
    cells["a5-top-k"]["source"] = "def top_k(x, k):\n    return x.abs()"
    del notebook["cells"][notebook["cells"].index(cells["a5-cheaper"])]
    half = {"cell_type": "code", "id": "new", "source": "    # and the rest", "metadata": {}}
    half |= {"outputs": [], "execution_count": None}
    notebook["cells"].insert(notebook["cells"].index(cells["a5-top-k"]) + 1, half)
    nbformat = pytest.importorskip("nbformat")
    setup = next(cell for name, cell in cells.items() if name.endswith("setup"))
    setup["source"] = "import math\n" + setup["source"]
    nbformat.write(nbformat.from_dict(notebook), tmp_path / "mine.ipynb")  # as Jupyter saves it
    said = "\n".join(assignment.check_notebook(tmp_path / "mine.ipynb"))
    assert f"cell '{setup['id']}' was changed, and is graded as it was released" in said
    assert "'a5-cheaper' is missing" in said
    assert "'a5-memory' is not written yet" in said
    assert "The sign is lost" in said
    assert "question 'a5-why' is not answered" in said
    assert "is answer 'a5-top-k' split?" in said
    assert said.count(" split? ") == 1


def test_command_line(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(FOLDER.parents[1])
    out = tmp_path / "student.ipynb"
    assert assignment_cli.main(["release", "4", "--out", str(out)]) == 0
    assert "12 points" in capsys.readouterr().out
    assert "SOLUTION" not in out.read_text()
    assert assignment_cli.main(["release", "9"]) == 2
    assert "0 files fit" in capsys.readouterr().err
    grade = ["grade", str(tmp_path / "no"), "--assignment", "1", "--out", str(tmp_path)]
    assert assignment_cli.main([*grade, "--no-fence"]) == 2
    assert "no such folder" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        assignment_cli.main(["--help"])
    assert "by_hand.csv" in capsys.readouterr().out


@pytest.fixture
def fill(tmp_path):
    """Fills a roster that is given as text; missing, unused, and the text that was written."""

    def fill(text, results, column="A 1", **how):
        roster, out = tmp_path / "roster.csv", tmp_path / "out.csv"
        roster.write_text(text, encoding="utf-8")
        how = {"system": "canvas", "column": column, **how}
        return (*gradebook.fill_lms(roster, results, out, **how), out.read_text(encoding="utf-8"))

    return fill


def test_lms_columns(fill):
    results = [Grade("ana", total=9.5), Grade("zoe", total=1)]
    missing, unused, text = fill(
        "Student,ID,SIS User ID,SIS Login ID,Section,A 1 (77)\n"
        '    Points Possible,,,,,12\n"Arm, Ana",1,s1,ana,S,\n"Bee, Ben",2,s2,ben,S,\n',
        results,
        "A 1 (77)",
    )
    assert (missing, unused) == (["ben"], ["zoe"])
    assert '"Arm, Ana",1,s1,ana,S,9.5' in text
    assert "Points Possible,,,,,12" in text
    moodle = "First name,Email address\nAna,ana@x.org\n"
    missing, unused, text = fill(moodle, results[:1], system="moodle")
    assert missing == unused == []
    assert "Ana,ana@x.org,9.5" in text
    with pytest.raises(ValueError, match="--key"):
        fill(moodle, results, system="moodle", key="Id")


def test_points_by_hand_and_no_formulas(tmp_path):
    master = master_of(1)
    result = Grade("=cmd", {"a1-step-weights": 3.0}, total=3.0, status="graded")
    gradebook.write(master, [result], tmp_path)
    sheet = tmp_path / "by_hand.csv"
    assert sheet.read_text().splitlines() == ["student,a1-privacy", "'=cmd,"]
    assert "'=cmd" in (tmp_path / "gradebook.csv").read_text()
    sheet.write_text("student,a1-privacy\n'=cmd,nan\n")
    with pytest.raises(ValueError, match="from 0 to 1"):
        gradebook.write(master, [result], tmp_path)
    sheet.write_text("student,a1-privacy\n'=cmd,1\n")
    for _ in range(2):
        result = Grade("=cmd", {"a1-step-weights": 3.0})
        assert gradebook.write(master, [result], tmp_path) == []
        assert result.total == 4
    assert sheet.read_text().splitlines() == ["student,a1-privacy", "'=cmd,1"]


def test_a_person_may_change_points_and_the_student_reads_why(tmp_path):
    def graded(lines):
        (tmp_path / "changed.csv").write_text(f"student,task,points,reason\n{lines}\n")
        results = [
            Grade("ana", {"a1-step-weights": 0.0, "a1-epoch-bill-check": 3.0}, total=3.0),
            Grade("ben", {"a1-step-weights": 1.0}, total=1.0),
        ]
        return results, gradebook.write(master_of(1), results, tmp_path)

    said = 'ana,a1-step-weights,"2,5",too strict\nana,late,-2,two days late\nben,late,5,lost'
    said += "\nzoe,late,-1,?"
    for _ in range(2):  # grading again changes nothing
        (ana, ben), unknown = graded(said)
        assert (ana.total, ben.total, unknown) == (
            3.5,
            0.0,
            ["changed.csv: 'zoe' has no submission"],
        )
        assert ana.points["a1-step-weights"] == 2.5
    page = (tmp_path / "feedback" / "ana.html").read_text()
    assert "2,5 points (too strict)" in page
    assert "-2 points (two days late)" in page
    assert '"total": 3.5' in (tmp_path / "gradebook.json").read_text()
    assert (tmp_path / "changed.csv").read_text().splitlines()[1:] == said.splitlines()
    for wrong, words in (
        ("ana,a1-step,3,why", "one of a1-step-messages"),
        ("ana,a1-step-weights,3,", "a reason, which the student will read"),
        ("ana,a1-step-weights,30,why", "from 0 to 3"),
        ("ana,late,nan,why", "write a number"),
    ):
        with pytest.raises(ValueError, match=words):
            graded(wrong)


def test_lateness_takes_points_by_a_rule_and_a_person_may_overrule_it(tmp_path):
    """Times come from the platform's table, else from a file that no platform has named."""
    moodle = "{}_{}_assignsubmission_file_"
    names = {
        "ana": ("ana", "2026-10-05 23:59", 0),  # at the deadline
        "ben": ("ben", "2026-10-06 00:09", 0),  # within the grace
        "cem": ("cem", "2026-10-06 00:10", -1.2),
        "dan": ("dan", "2026-10-08 00:00", -3.6),  # the third day has begun
        "eve": ("eve", "2026-10-08 00:00", 0),  # has more time
        "fay": ("fay", "2026-12-08 00:00", -3.0),  # never below 0 points in all
        "gil": ("gil", "2026-10-08 00:00", -1),  # a person has decided
        "Hal_7": (moodle.format("Hal", 7), "2030-01-01 00:00", -2.4),  # its table counts
        "Ian_8": (moodle.format("Ian", 8), "2030-01-01 00:00", 0),  # not in the table: unknown
        "jo_90": ("jo_90_12_a", "2030-01-01 00:00", 0),  # Canvas does not say that it is late
        "ko_91": ("ko_LATE_91_23_a", "2030-01-01 00:00", 0),
        "lea": ("lea", "2030-01-01 00:00", 0),  # cannot be read
    }

    def graded():
        results = [
            Grade(who, {"a1-step-weights": 3.0}, 3.0, handed_in=file, saved=seconds(when))
            for who, (file, when, _) in names.items()
        ]
        results[-1].status = f"{grading.UNREAD}: not JSON"
        return {r.student: r for r in results}, gradebook.write(master_of(1), results, tmp_path)

    def seconds(text):
        return datetime.fromisoformat(text).timestamp()

    assert not any(result.late for result in graded()[0].values())  # no rule
    late = "student,due,per day,grace minutes\n,2026-10-05 23:59,10%,10\n"
    (tmp_path / "late.csv").write_text(f"{late}eve,2026-10-12 23:59,,\nzoe,,1,\n")
    (tmp_path / "changed.csv").write_text("student,task,points,reason\ngil,late,-1,a train\n")
    (tmp_path / "times.csv").write_text(
        "Identifier,Full name,Grade,Last modified (submission)\n"
        'Participant 7,Hal,,"Wednesday, 7 October 2026, 1:05 AM"\nParticipant 8,Ian,,-\n'
    )
    for _ in range(2):
        found, unknown = graded()
        assert unknown == ["late.csv: 'zoe' has no submission"]
        for who, (_, _, points) in names.items():
            taken = found[who].total - 3
            assert taken == pytest.approx(max(points, -3)), who
        unclear = [who for who in found if "when it came is not known" in str(found[who].notes)]
        assert unclear == ["Ian_8", "ko_91"]
    pages = {who: (tmp_path / "feedback" / f"{who}.html").read_text() for who in names}
    said = "late: 2026-10-08 00:00, due 2026-10-05 23:59, days begun: 3, -3.6 points"
    assert said in pages["dan"]
    assert found["fay"].late == -12  # not more than all points
    assert "a train" in pages["gil"]
    assert "days begun" not in pages["gil"] + pages["eve"] + pages["ben"]
    row = json.loads((tmp_path / "gradebook.json").read_text())[3]
    assert (row["student"], row["late"], row["total"]) == ("dan", pytest.approx(-3.6), 0)
    for wrong, words in (
        ("student,due\n", "no column grace minutes, per day"),
        ("student,due,per day,grace minutes\nana,2026-10-05 23:59,1,\n", "without a student"),
        ("student,due,per day,grace minutes\n,2026-10-05,1,\n", "write it as 2026-10-05 23:59"),
        ("student,due,per day,grace minutes\n,2026-10-05 23:59,ten,\n", "points such as 1.5"),
        ("student,due,per day,grace minutes\n,2026-10-05 23:59,1,-3\n", "number of minutes"),
    ):
        (tmp_path / "late.csv").write_text(wrong)
        with pytest.raises(ValueError, match=words):
            graded()
    (tmp_path / "late.csv").write_text(late)
    (tmp_path / "times.csv").write_text("student,when\nana,2026-10-05 23:59\n")
    with pytest.raises(ValueError, match="needs one of"):
        graded()


@pytest.mark.parametrize(
    ("sheet", "total", "after"),
    [
        ("student,comment,a1-privacy\nana,good,0.5\n", 0.5, "ana,good,0.5"),
        ("student;a1-privacy\nana;0,5\nben;1\n", 0.5, "ben;1"),  # Excel in many countries
        ("\ufeffstudent,a1-privacy\nana,0.5\n,\n", 0.5, "ana,0.5"),
        ("student,comment\nana,good\n", 0, "ana,good,"),
        ("student,a1-privacy\nann,1\n", 0, "ann,1"),  # nobody here: it is reported, and kept
        ("student,a1-privacy\nana,\nAna@x.org,1\n", 1, "Ana@x.org,1"),
    ],
)
def test_a_sheet_keeps_what_a_person_wrote(tmp_path, sheet, total, after):
    path, result = tmp_path / "by_hand.csv", Grade("ana")
    path.write_text(sheet, encoding="utf-8")
    unknown = gradebook.write(master_of(1), [result], tmp_path)
    assert result.total == total
    assert after in path.read_text().splitlines()
    assert len(unknown) == ("ben" in sheet) + ("ann" in sheet)


def test_a_person_may_write_a_full_name(tmp_path, monkeypatch, capsys):
    """Names are found as for a platform; who is not is named with the file and the nearest name."""
    moodle, canvas = "Lena Lutz_1213_assignsubmission_file_", "durrdavid_90017_55_a"

    def graded(*_, **__):
        return [
            Grade(
                "Lena_Lutz_1213",
                {"a1-step-weights": 1.0},
                1.0,
                "graded",
                [f"handed in as {moodle!r}"],
                handed_in=moodle,
            ),
            Grade("durrdavid_90017", {"a1-step-weights": 3.0}, 3.0, handed_in=canvas),
        ]

    monkeypatch.setattr(grading, "grade", graded)
    monkeypatch.chdir(FOLDER.parents[1])
    grade = ["grade", str(tmp_path), "--assignment", "1", "--out", str(tmp_path)]
    assert assignment_cli.main(grade) == 0
    sheet = tmp_path / "by_hand.csv"
    sheet.write_text(sheet.read_text() + "Lena Lutz,1\n")
    changed = "student,task,points,reason\nlena lutz,a1-step-weights,2,right\n"
    (tmp_path / "changed.csv").write_text(f"{changed}lea lotz,a1-step-weights,2,right\n")
    late = "student,due,per day,grace minutes\n,2999-10-05 23:59,1,\n"
    (tmp_path / "late.csv").write_text(f"{late}durrdavid,2026-10-05 23:59,,\n")
    times = "student,handed in\ndurrdavid,2026-10-06 23:00\nLena Lutz,2026-10-06 23:00\n"
    (tmp_path / "times.csv").write_text(times)
    assert assignment_cli.main(grade) == 1
    said = capsys.readouterr().out
    assert "handed in as" not in said
    assert "! changed.csv: 'lea lotz' has no submission; did you mean 'Lena_Lutz_1213'?" in said
    rows = json.loads((tmp_path / "gradebook.json").read_text())
    found = [(row["a1-step-weights"], row["late"], row["total"]) for row in rows]
    assert found == [(2, 0, 3), (3, -1, 2)]
    sheet.write_text(sheet.read_text().replace("1213,", "1213,0.5"))
    assert assignment_cli.main(grade) == 2
    assert "are one student with different points" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("student,a1-privacy\nZoë,1\n".encode("latin-1"), "CSV UTF-8"),
        (b"name,a1-privacy\nana,1\n", "needs 'student'"),
        (b"student,a1-privacy,a1-privacy\nana,1,0\n", "each name only once"),
        (b"student,a1-privacy\nana,1\nana,0\n", "has two rows"),
        (b"student,a1-privacy\nana,1,well, nearly\n", "more cells"),
    ],
)
def test_a_sheet_that_cannot_be_read_is_left_alone(tmp_path, content, said):
    path = tmp_path / "by_hand.csv"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=said):
        gradebook.write(master_of(1), [Grade("ana")], tmp_path)
    assert path.read_bytes() == content


def test_one_folder_of_grades_for_one_assignment(tmp_path):
    seed = grading._keep_seed(tmp_path / "seed.json", "1_one")
    assert grading._keep_seed(tmp_path / "seed.json", "1_one") == seed
    with pytest.raises(AssignmentError, match="holds the grades of 1_one"):
        grading._keep_seed(tmp_path / "seed.json", "2_two")


def test_lms_names_and_columns_that_are_not_clear(fill):
    roster, column = "Email address;A 1 (77)\nana@x.org;\nana@y.org;\n", "A 1 (77)"
    with pytest.raises(ValueError, match=r"'ana@x\.org' and 'ana@y\.org' both fit"):
        fill(roster, [Grade("ana", total=9)], column, system="moodle")
    results = [Grade("ana@x.org", total=9)]
    missing, unused, text = fill(roster, results, column, system="moodle")
    assert (missing, unused) == (["ana@y.org"], [])
    assert text.splitlines()[1:] == ["ana@x.org;9", "ana@y.org;"]
    with pytest.raises(ValueError, match=r"give the whole header, one of \['A 1 \(77\)'\]"):
        fill(roster, results, system="moodle")


def test_a_roster_line_is_found_whatever_the_others_have_handed_in():
    roster = {1: ["Ana Müller"], 2: ["Ben Ito"]}
    for name in ("ana_mueller", "ana muller"):
        assert match(roster, {name: [name]}) == ({name: 1}, {})


# ------------------------------------------------------------------ reading, names and fairness


def test_a_number_is_a_number_however_it_is_wrapped():
    np = pytest.importorskip("numpy")
    wrapped = [torch.tensor(0.5), np.float32(0.5), np.float64(0.5)]
    assert {fingerprint(value) for value in wrapped} == {fingerprint(0.5)}
    assert fingerprint([torch.tensor(3), np.int64(3)]) == fingerprint([3, 3])


@pytest.mark.slow
def test_reading_takes_time_that_grows_with_the_length():
    """In the grader's own process nothing else stops it: this takes seconds of computing or fails.

    The timeout ends a hang; on a busy machine a minute of computing takes several.
    """
    code = (
        "import time\n"
        "from fltoolkit_grading.master import load_master, release, collect, assemble\n"
        "from fltoolkit_grading.looks import suspicious, alike\n"
        f"m = load_master({str(PATHS[0])!r})\n"
        "for text in ('#\\n' * 95_000, '# \\t' * 60_000, 'os ' * 60_000, 'os .' * 45_000,\n"
        "             '### BEGIN SOLUTION' * 10_000, '1' * 190_000, '(' * 190_000,\n"
        "             '\\f#' * 90_000):\n"
        "    book = release(m)\n"
        "    for cell in book['cells']:\n"
        "        if cell['id'] in m.ids('answer', 'question'): cell['source'] = text\n"
        "    s = collect(m, book)\n"
        "    assemble(m, s.answers, 3)\n"
        "    [suspicious(a) for a in s.answers.values()]\n"
        "assert time.process_time() < 60, time.process_time()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=900)


@pytest.mark.parametrize(
    ("content", "parts"),
    [(b"1," * 3_000_000, 3_000_000), (b'"a",' * 2_000_000, 2_000_000), (b"[" * 600_000, 600_000)],
    ids=["numbers", "texts", "lists"],
)
def test_what_would_fill_memory_is_counted_before_it_is_parsed(tmp_path, content, parts):
    path = tmp_path / "a.ipynb"
    path.write_bytes(b'{"cells": [' + content)
    assert "too many parts" in assignment.read_submission(path)[1]
    assert num_parts(content) >= parts


def test_commas_in_a_text_are_no_parts():
    assert num_parts(json.dumps(["0.1, " * 1000, 'a "quoted" \\ one, ' * 1000]).encode()) < 10


@pytest.mark.parametrize("odd", [None, 3, "x", [], [None, 1], {}, {"a": [1]}, True])
@pytest.mark.parametrize("key", ["source", "metadata", "outputs", "cell_type", "id"])
def test_an_odd_cell_costs_nobody_the_other_answers(key, odd):
    """Whatever stands in a check's cell, the answers beside it are read."""
    master = master_of(1)
    notebook = assignment.release(master)
    for cell in notebook["cells"]:
        if kind_of(cell) in ("check", "hidden"):
            cell[key] = odd
        elif kind_of(cell) == "answer":
            cell["source"] = "right = 1"
    answers = collect(master, notebook).answers
    assert [answers.get(name) for name in master.ids("answer")] == ["right = 1"] * 3
    for odd_book in ({"metadata": odd}, {"metadata": {"kernelspec": odd, "fltoolkit": odd}}):
        assert collect(master, {**notebook, **odd_book}).answers == answers


def test_windows_lines_and_another_name_for_the_kernel_are_no_cheating():
    master = master_of(1)
    notebook = assignment.release(master)
    for cell in notebook["cells"]:
        cell["source"] = cell["source"].replace("\n", "\r\n")
    for kernel in ({"name": ".venv (3.11)", "language": "python"}, {"name": "course"}):
        notebook["metadata"]["kernelspec"] = kernel
        notes = collect(master, notebook).notes
        assert not [note for note in notes if note.startswith(("edited", "wrong kernel"))]
    notebook["metadata"]["kernelspec"] = {"name": "xr", "language": "R"}
    assert "wrong kernel" in "; ".join(collect(master, notebook).notes)


@pytest.mark.parametrize(
    "form",
    [
        lambda text: b"\xef\xbb\xbf" + text.encode(),
        lambda text: text.encode("utf-16"),
        lambda text: json.dumps({**json.loads(text), "cells": json.loads(text)["cells"][::-1]}),
    ],
    ids=["marked UTF-8", "UTF-16", "cells reordered"],
)
def test_however_an_editor_has_saved_it_the_answers_are_read(form, tmp_path):
    master, path, content = master_of(1), tmp_path / "a.ipynb", form(json.dumps(release_of(1)))
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    found = collect(master, read_submission(path)[0])
    assert lost(master, found.answers, 5) == set()
    assert not [note for note in found.notes if "not answered" not in note]


@pytest.mark.parametrize("content", [b"", b"%PDF-1.7", b"PK"])
def test_what_is_no_notebook_is_said(content, tmp_path):
    (tmp_path / "a.ipynb").write_bytes(content)
    assert read_submission(tmp_path / "a.ipynb") == (None, "not a notebook: not JSON")


@pytest.mark.parametrize("copied", [True, False], ids=["metadata copied", "a new cell"])
def test_a_split_answer_is_named(copied):
    master = master_of(1)
    notebook = assignment.release(master)
    place = [cell["id"] for cell in notebook["cells"]].index("a1-split-step")
    metadata = notebook["cells"][place]["metadata"] if copied else {}
    half = {"cell_type": "code", "id": "new", "source": "    return 1", "metadata": metadata}
    notebook["cells"].insert(place + 1, half)
    notes = collect(master, notebook).notes
    assert "a split answer? Code in a second cell after a1-split-step is not run" in notes


def test_nobody_takes_anothers_name(tmp_path, fill):
    for name in ("Ana", "ana", "\u0430na", "ben", "b\u0435n"):
        (tmp_path / f"{name}.ipynb").write_text(name)
    found = find_submissions(tmp_path)
    assert len(found) == 5
    assert "ana" not in {name.lower() for name in found}
    assert "ben" not in found
    (tmp_path / "ANA.ipynb").write_text("later")
    later = find_submissions(tmp_path)
    assert set(found.items()) <= set(later.items())  # who came first keeps the name
    results = [Grade(name, total=9, handed_in=path.stem) for name, path in found.items()]
    missing, *_ = fill("Student,SIS Login ID\nA,ana\nB,ben\n", results)
    assert missing == []
    exact = {r.handed_in: r.total for r in results}
    assert {"ana", "ben"} <= set(exact)


def test_what_canvas_and_moodle_give_out_finds_its_way_back(tmp_path):
    """From the names in a download to the column and the zip that are given back."""
    handed_in = {
        "canvas": {
            "armana_90017_552301_1_splitnn-2.ipynb": 1,
            "beeben_LATE_90018_552302_1_splitnn.ipynb": 2,
            "clarkcem_90019_552310_1_splitnn.ipynb": 3,
            "clarkcem_90019_552309_1_splitnn.ipynb": 0,  # an older attachment
            "clarkcem_90019_552311_notes.pdf": 0,
        },
        "moodle": {
            "Ana Arm_1234_assignsubmission_file_/1_splitnn.ipynb": 1,
            "Ben Bee_1235_assignsubmission_file_1_splitnn.ipynb": 2,
            "Ben Bee_1236_assignsubmission_file_1_splitnn.ipynb": 3,  # another of this name
        },
    }
    rosters = {
        "canvas": "Student,ID,SIS User ID,SIS Login ID,Section,A 1 (77)\n"
        '    Points Possible,,,,,12\n"Arm, Ana",90017,s1,a@x.org,S,\n'
        '"Bee, Ben",90018,s2,b@x.org,S,\n"Clark, Cem",90019,s3,c@x.org,S,\n',
        "moodle": "Identifier,Full name,Email address,Status,Grade,Maximum Grade\n"
        "Participant 1234,Ana Arm,a@x.org,Submitted for grading,,12.00\n"
        "Participant 1235,Ben Bee,b@x.org,Submitted for grading,,12.00\n"
        "Participant 1236,Ben Bee,c@x.org,Submitted for grading,,12.00\n",
    }
    back = {
        "canvas": [
            "armana_90017_552301_1_splitnn-2.html",
            "beeben_LATE_90018_552302_1_splitnn.html",
            "clarkcem_90019_552310_1_splitnn.html",
        ],
        "moodle": [
            "Ana Arm_1234_assignsubmission_file_/feedback.html",
            "Ben Bee_1235_assignsubmission_file_/feedback.html",
            "Ben Bee_1236_assignsubmission_file_/feedback.html",
        ],
    }
    for system, names in handed_in.items():
        inside, out = tmp_path / system / "in", tmp_path / system / "out"
        for name, points in names.items():
            (inside / name).parent.mkdir(parents=True, exist_ok=True)
            (inside / name).write_text(str(points))
        found = find_submissions(inside)
        results = [
            Grade(who, {"a1-step-weights": int(text)}, int(text), handed_in=name)
            for who, text, name in (
                (who, path.read_text(), handed_in_as(inside, path)) for who, path in found.items()
            )
        ]
        gradebook.write(master_of(1), results, out)
        with zipfile.ZipFile(out / "feedback.zip") as archive:
            assert archive.namelist() == back[system]
            assert f"{results[0].student}: 1 of 12 points" in archive.read(back[system][0]).decode()
        roster, column = tmp_path / "roster.csv", {"canvas": "A 1 (77)", "moodle": "Grade"}[system]
        roster.write_text(rosters[system])
        about = {"system": system, "column": column}
        assert gradebook.fill_lms(roster, results, tmp_path / "import.csv", **about) == ([], [])
        lines = (tmp_path / "import.csv").read_text().splitlines()[-len(results) :]
        given = [line.removesuffix(",12.00").rsplit(",", 1)[1] for line in lines]
        assert given == [f"{number}" for number in range(1, len(results) + 1)]
    assert own_numbers("Ana Arm") in grading._numbers_of("armana_90017")
    canvas = tmp_path / "canvas" / "in"
    notes = name_notes(canvas, find_submissions(canvas))
    assert "3 files from Canvas: graded 'clarkcem_90019_552310_1_splitnn.ipynb'" in str(notes)


def test_an_online_text_of_moodle_is_no_second_student(tmp_path):
    """Nor are two files without folders; who wrote only an online text is not lost."""
    files = (
        "Ben Berg_1202_assignsubmission_file_/1.ipynb",
        "Ben Berg_1202_assignsubmission_onlinetext_/onlinetext.html",
        "Cem Can_1203_assignsubmission_onlinetext_/onlinetext.html",
        "Dan Dur_1204_assignsubmission_file_1.ipynb",
        "Dan Dur_1204_assignsubmission_file_notes.pdf",
    )
    inside, out = tmp_path / "in", tmp_path / "out"
    for name in files:
        (inside / name).parent.mkdir(parents=True, exist_ok=True)
        (inside / name).write_text("")
    found = find_submissions(inside)
    assert {who: path.name for who, path in found.items()} == {
        "Ben_Berg_1202": "1.ipynb",
        "Cem_Can_1203": "Cem Can_1203_assignsubmission_onlinetext_",
        "Dan_Dur_1204": files[3],
    }
    ben = name_notes(inside, found)["Ben_Berg_1202"]
    text = "'Ben Berg_1202_assignsubmission_onlinetext_'"
    assert f"2 files from Moodle: graded {ben[1][13:]}, and not {text}" == ben[0]
    out.mkdir()
    (out / "times.csv").write_text(
        'Identifier,Last modified (submission)\nParticipant 1202,"7 October 2026, 1:05 AM"\n'
    )
    late = "student,due,per day,grace minutes\n,2026-10-05 23:59,1,\n"
    (out / "late.csv").write_text(late)
    results = [Grade(who, handed_in=handed_in_as(inside, path)) for who, path in found.items()]
    gradebook.write(master_of(1), results, out)
    assert results[0].late == -2
    (out / "late.csv").unlink()
    results.append(Grade("twin", handed_in=results[0].handed_in))
    gradebook.write(master_of(1), results, out)
    with zipfile.ZipFile(out / "feedback.zip") as archive:
        names = archive.namelist()
    assert len(names) == len(set(names)) == 4


def test_two_downloads_of_one_name_fit_nobody(fill):
    results = [Grade(f"kim_{n}", total=n, handed_in=f"kim ({n})") for n in (1, 2)]
    missing, unused, _ = fill("Student,SIS Login ID\nK,kim\n", results)
    assert (missing, unused) == (["kim"], ["kim_1", "kim_2"])


def test_what_waits_for_a_mark_is_told_before_totals_go_out(tmp_path, capsys):
    master = master_of(1)
    results = [
        Grade("ana", {"a1-step-weights": 11.0}, memory=1_000_000),
        Grade("ben", status=f"{grading.AGAIN}: the kernel did not start", memory=1_000_000),
        Grade("cem", status=f"{grading.UNREAD}: not JSON"),
    ]
    gradebook.write(master, results, tmp_path)
    roster = tmp_path / "r.csv"
    roster.write_text("Student,SIS Login ID\nA,ana\nB,ben\nC,cem\n")
    command = ["lms", "canvas", str(roster), "--from", str(tmp_path), "--column", "A 1"]
    assert assignment_cli.main([*command, "--out", str(tmp_path / "o.csv")]) == 1
    said = capsys.readouterr().out
    assert "'a1-privacy' is not marked yet for 1 of 1" in said
    assert "left out here (run grade again): ben" in said
    assert "cannot be read, and left out here (ask for the file): cem" in said
    assert (tmp_path / "o.csv").read_text().splitlines()[1:] == ["A,ana,11", "B,ben,", "C,cem,"]


def test_feedback_is_inert_and_says_nothing_that_is_for_the_instructor():
    evil = "<script>alert(1)</script>"
    notes = ["worth a look: network", f"missing cell: {evil}", "handed in as 'x'"]
    status = "the kernel ended (code 77)"
    told = {
        "answers": {"a1-split-step": evil},
        "output": {"a1-split-step": evil, "a1-step-weights": evil},
    }
    result = Grade("ana", {"a1-step-weights": 0.0}, status=status, notes=notes, **told)
    page = gradebook.feedback(master_of(1), result)
    assert "missing cell" in page
    assert "the kernel ended" in page
    for word in ("worth a look", "handed in", "77", "<script>"):
        assert word not in page


def test_feedback_gives_no_hint_where_there_is_no_answer():
    task = master_of(1).tasks[0]
    for output, hinted in (("NameError", False), ("NotImplementedError", False), ("", True)):
        page = gradebook.feedback(
            master_of(1), Grade("ana", {task.id: 0}, 9, output={task.id: output})
        )
        assert (task.hint in html.unescape(page)) is hinted
        assert page.startswith("<title>ana: 9 of 12 points</title>")
    nothing = Grade("ana", {task.id: 0}, status=f"{grading.UNREAD}: a folder with no notebook")
    page = gradebook.feedback(master_of(1), nothing)
    assert "<h1>ana: not graded</h1>" in page
    assert "a folder with no notebook" in page
    assert task.title not in page


def test_who_imports_in_the_set_up_cell_learns_where_to():
    notebook = assignment.release(master_of(1))
    cells = {cell["id"]: cell for cell in notebook["cells"]}
    for name in ("a1-setup", "a1-open-epoch-bill"):
        cells[name]["source"] += "\nimport math"
    setup, later = (
        n for n in collect(master_of(1), notebook).notes if n.startswith("edited check")
    )
    assert setup.startswith("edited check, put back: a1-setup (changes above the first answer are")
    assert later == "edited check, put back: a1-open-epoch-bill"
    page = gradebook.feedback(master_of(1), Grade("ana", notes=[setup]))
    assert "an import belongs into the answer" in page


def test_answers_that_are_alike_are_pointed_out_with_care(tmp_path):
    master = master_of(1)
    right = solutions(master)["a1-split-step"]
    own = "\n".join(f"    value_{k} = bottom(x) * {k} + top(y) - lr ** {k}" for k in range(9))
    copied = "# my own work\n" + own.replace("    ", "\t")
    answers = {"ana": own, "ben": copied, "cleo": right, "dan": right, "eve": "pass"}
    results = [Grade(who, answers={"a1-split-step": text}) for who, text in answers.items()]
    assert [pair[:3] for pair in alike(master, {r.student: r.answers for r in results})] == [
        ("ana", "ben", "a1-split-step")
    ]
    gradebook.write(master, results, tmp_path)
    summary = (tmp_path / "summary.html").read_text()
    assert "Read both answers before you speak to anybody" in summary
    assert "ben" not in (tmp_path / "feedback" / "ana.html").read_text()


def test_a_helper_in_a_cell_of_their_own_costs_no_points(tmp_path):
    """Wherever the cell stands; what it calls is not run, and it defines no answer."""
    master = master_of(1)
    answers = solutions(master)
    helper = "import math as m\nN = 2**0\nprint(affordable_steps(1, 1, 1))\n"
    helper += "def size(*shape):\n    return len(flt.pack({'h': torch.zeros(*shape)}))\n"
    helper += "epoch_bill = affordable_steps = None\nSEED = 9\nclass Late(Unknown): pass"
    answers["a1-affordable-steps"] = (
        "def affordable_steps(budget, batch_size, cut):\n"
        "    return m.floor(budget // (2 * N * size(batch_size, cut)))"
    )
    notebook = assignment.release(master)
    for cell in notebook["cells"]:
        cell["source"] = answers.get(cell["id"], cell["source"])
    cell = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
    notebook["cells"] += [
        cell | {"id": f"mine{n}", "source": x} for n, x in enumerate(["]", helper])
    ]
    found = collect(master, notebook)
    assert "cells of their own: only imports" in str(found.notes)
    assert lost(master, found.answers, 5) == set()
    said = play(assemble(master, found.answers, 5))
    assert said["own cell 2"].splitlines() == [
        "line 6 was not run: epoch_bill = affordable_steps = None",
        "line 7 was not run: SEED = 9",
        "line 8 stopped with NameError: name 'Unknown' is not defined",
    ]
    page = gradebook.feedback(
        master, Grade("ana", answers=found.answers, output=said | {"own cell 1": ""})
    )
    assert "def size(*shape)" in page
    assert "NameError" in page
    (tmp_path / "mine.ipynb").write_text(json.dumps(notebook))
    problems = assignment.check_notebook(tmp_path / "mine.ipynb")
    assert not [p for p in problems if "own" not in p and "question" not in p]


def test_a_line_of_their_own_that_was_not_run_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(grading, "PATIENCE", 50)
    (tmp_path / "m.ipynb").write_text(json.dumps(small_master("print(double(SEED))")))
    master, limits = load_master(tmp_path / "m.ipynb"), grading.Limits(fenced=False)
    expected = grading.expected_outputs(master, [5], limits=limits)[5]
    mine = assignment.release(master)
    mine["cells"][0]["source"] = "def double(x):\n    return factor * x"
    source = "class Size:\n    pass\nmessage = Size()  # 2; 3\nprint('a test')\nreturn\nfactor = 2"
    forged = "class Loud:\n    print('line 1 was not run: \\x1b[31m')"
    mine["cells"] += [
        {"id": f"own{k}", "cell_type": "code", "source": x, "metadata": {}, "outputs": []}
        for k, x in enumerate((source, forged))
    ]
    (tmp_path / "ana.ipynb").write_text(json.dumps(mine))
    result = grading.grade_one("ana", tmp_path / "ana.ipynb", master, 5, expected, limits=limits)
    assert result.points == {"hidden": 3}
    named = "cells of their own: line 3 was not run: message = Size()  # 2, 3"
    assert [n for n in result.notes if "not run:" in n] == [named]
    assert f"Note: {named}." in gradebook.feedback(master, result)


def test_nothing_is_shown_that_was_printed_after_a_hidden_check():
    """In the order in which the cells run, all that the feedback shows comes first."""
    for number in NUMBERS:
        master = master_of(number)
        order = [cell["id"] for cell in assemble(master, None, 3)["cells"]]
        hidden = [order.index(name) for name in master.ids("hidden")]
        shown = [order.index(name) for name in master.ids("answer", "check") if name in order]
        assert max(shown) < min(hidden)


def test_a_later_answer_does_not_change_what_an_earlier_check_sees():
    """Checks run last, with the names of their own place."""
    master = master_of(1)
    answers = solutions(master)
    answers["a1-affordable-steps"] += "\ndef split_step(*_):\n    return 0, 0, 0\nepoch_bill = None"
    assert lost(master, answers, 5) == set()


@pytest.mark.parametrize("number", NUMBERS)
def test_what_an_answer_leaves_behind_costs_no_other(number):
    """Names of the master's and of Python's, torch's defaults, and prints in every function."""
    master = master_of(number)
    answers = solutions(master)
    first, *_ = answers
    names = (
        "check fingerprint some_tree some_losses some_values two_halves struct zlib SEED package"
    )
    answers[first] += (
        "".join(f"\n{name} = 0" for name in ("sum", "len", "range", "sorted", *names.split()))
        + "\nimport torch\ntorch.set_default_dtype(torch.float64)\ntorch.set_grad_enabled(False)"
        + "\nimport sys, io, random\nsys.stdout = io.StringIO()\nrandom.seed(1)"
    )
    for later in list(answers)[1:]:
        undo = "for _n in ('sum', 'len', 'range', 'sorted', 'struct', 'zlib'): globals().pop(_n, 0)"
        imports = "import struct, torch, zlib\ntorch.set_grad_enabled(True)"
        answers[later] = (
            f"{undo}\n{imports}\ntorch.set_default_dtype(torch.float32)\n{answers[later]}"
        )
    for name in answers:
        answers[name] = re.sub(
            r'^( +)(def \w+\(.*\):|"""[^\n]*""")$',
            lambda m: f"{m[0]}\n{m[1]}{'    ' * m[2].startswith('def')}print('debug', end=' ')",
            answers[name],
            flags=re.MULTILINE,
        )
        assert "print('debug'" in answers[name]
    assert lost(master, answers, 5) <= {
        check for check in master.ids("hidden") if check.startswith(first)
    }


def test_points_by_hand_survive_a_full_disk_and_are_not_written_without_need(tmp_path):
    """The sheet is the only copy: it is written beside itself, and replaced when it is whole."""
    resource = pytest.importorskip("resource")
    master, path = master_of(1), tmp_path / "by_hand.csv"
    results = [Grade(f"student {k}") for k in range(2000)]
    add_manual(master, results, path)
    content, about = path.read_bytes(), path.stat()
    add_manual(master, [Grade(f"student {k}") for k in range(2000)], path)
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (about.st_ino, about.st_mtime_ns)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            add_manual(master, [Grade("new")], path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert path.read_bytes() == content
    assert [each.name for each in tmp_path.iterdir()] == ["by_hand.csv"]
    path.chmod(0o640)
    add_manual(master, [Grade("new")], path)
    assert path.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("content", ["", "[]", '{"1_splitnn_by_hand": "x"}', "{"])
def test_a_seed_that_cannot_be_read_is_named_with_what_to_do(tmp_path, content):
    (tmp_path / "seed.json").write_text(content)
    with pytest.raises(AssignmentError, match=r"seed\.json cannot be read: .* bring back a copy"):
        grading._keep_seed(tmp_path / "seed.json", "1_splitnn_by_hand")


def test_normalizing_takes_time_that_grows_with_the_length_alone():
    """A run of alternating combining marks: normalized as a whole it would take minutes."""
    long = "x = 1 " + "\u0301\u0323" * 500_000
    assert suspicious(long + "\nimport os; ｏｓ._𝑒𝑥𝑖𝑡(0)") == ["the end of the process"]


def test_a_check_that_changed_after_the_release_accuses_nobody():
    """A file shows by a hash that its checks are as they were released; an edited one does not."""
    master = master_of(1)
    before = assignment.release(master)
    changed = copy.deepcopy(master.notebook)
    for cell in changed["cells"]:
        if kind_of(cell) == "hidden":
            cell["metadata"]["nbgrader"]["points"] += 1
        elif kind_of(cell) == "check":
            cell["source"] = text_of(cell) + "\n# clearer now"
    now = assignment.Master(master.name, changed, "")
    assert not [note for note in collect(now, before).notes if "edited check" in note]
    check = [cell for cell in before["cells"] if kind_of(cell) == "check"][-1]
    check["source"] = "print('right')"
    assert [n for n in collect(now, before).notes if "edited" in n] == [
        f"edited check, put back: {check['id']}"
    ]


def test_a_file_without_any_id_has_no_points_and_is_asked_for():
    notebook = assignment.release(master_of(1))
    for cell in notebook["cells"]:
        cell["id"], cell["metadata"] = "", {}
    del notebook["metadata"]["fltoolkit"]
    assert "has lost the ids of all cells" in collect(master_of(1), notebook).problem


def zipped(path, files, compression=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", compression) as archive:
        for number, (name, text) in enumerate(files.items()):
            info = zipfile.ZipInfo(name, (2026, 1, 1 + number % 28, 0, 0, 0))
            archive.writestr(info, text, compression)
    return path


def test_the_newest_notebook_of_a_zip_is_read(tmp_path):
    notebook = {"cells": [], "nbformat": 4}
    old, new = (json.dumps({**notebook, "metadata": {"n": n}}) for n in (1, 2))
    files = {"a/old.ipynb": old, "./new.ipynb": new, "__MACOSX/a/._new.ipynb": "x", "z.txt": "y"}
    ann = tmp_path / "ann_12_assignsubmission_file_"
    ann.mkdir()
    zipped(ann / "work.zip", files)
    zipped(tmp_path / "ben.zip", files)
    found = find_submissions(tmp_path)
    assert list(found) == ["ann_12", "ben"]
    for path in found.values():
        assert read_submission(path)[0]["metadata"] == {"n": 2}


def test_a_zip_of_all_submissions_is_to_be_unpacked_first(tmp_path):
    path = zipped(tmp_path / "all.zip", {"Ana Arm_1234_assignsubmission_file_/a.ipynb": "{}"})
    with pytest.raises(AssignmentError, match=r"all\.zip: no such folder .* unpack it first"):
        find_submissions(path)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda p: zipped(p, {"notes.txt": "x"}), "no notebook in it"),
        (lambda p: zipped(p, {f"{k}.txt": "" for k in range(10_001)}), "more than 10,000 files"),
        (lambda p: zipped(p, {"a.ipynb": " " * (65 << 20)}), "unpacked larger than 67 MB"),
        (lambda p: p.write_bytes(b"PK\x03\x04 no zip"), "a zip that cannot be opened"),
        (lambda p: p.write_bytes(zipped(p, {"a.ipynb": "{}" * 99}).read_bytes()[:-30]), "cannot"),
        (lambda p: zipped(p, {"../../a.ipynb": "{}"}), "no notebook in it"),
    ],
)
def test_what_is_wrong_with_a_zip_is_said_and_nothing_is_unpacked(tmp_path, make, said):
    path = tmp_path / "kim.zip"
    make(path)
    notebook, problem = read_submission(path)
    assert notebook is None
    assert said in problem
    assert list(tmp_path.iterdir()) == [path]
