"""The course's assignments: releases without solutions, full marks, exact prices of mistakes.

Here the assembled notebooks are run in this process, cell by cell, which is quick; test_grading.py
runs them where students' answers run. test_gradebook.py has names, tables and pages.
"""

import builtins
import copy
import json
import keyword
import re
import subprocess
import sys
import zipfile

import pytest
import warm_kernels
from playing import FOLDER, NUMBERS, PATHS, lost, master_of, outputs, play, solutions
from wrong_answers import IN_ANOTHER_TYPE, WRONG

from fltoolkit_grading import cli, gradebook, grading
from fltoolkit_grading.grading import Grade
from fltoolkit_grading.master import (
    AssignmentError,
    Master,
    assemble,
    check_notebook,
    collect,
    kind_of,
    load_master,
    own_numbers,
    release,
    text_of,
)
from fltoolkit_grading.reading import names_defined, num_parts, read_submission, suspicious
from fltoolkit_grading.worker import same_output

each_assignment = pytest.mark.parametrize("number", NUMBERS)


def content(master, said):
    """True if every open check has run and is content."""
    opens = [said[name] for name in master.ids("check")]
    return all(isinstance(text, str) and ": not " not in text for text in opens)


# ------------------------------------------------------------------------ points and prices
@each_assignment
def test_the_right_answer_has_all_points_and_none_has_none(number):
    master = master_of(number)
    for seed in (0, 1, 2**40 + 7):
        assert lost(master, solutions(master), seed) == set()
    hidden = master.ids("hidden")
    for nothing in ({c["id"]: c["source"] for c in release(master)["cells"]}, {}):
        assert lost(master, nothing, 3) == set(hidden)
    one, two = (outputs(master, None, seed) for seed in (1, 2))
    assert not [n for n in hidden if not one[n].strip() or same_output(one[n], two[n])]


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
    assert not content(master, play(assemble(master, answers, 5))), "no open check noticed"


@pytest.mark.later
@pytest.mark.parametrize(("answer", "below"), IN_ANOTHER_TYPE)
def test_a_right_value_in_another_type_is_right(answer, below):
    master = master_of(int(answer[1]))
    answers = solutions(master)
    answers[answer] += f"\n\n{below}"
    assert lost(master, answers, 5) == set()
    assert content(master, play(assemble(master, answers, 5)))


def words(sources):
    return {word for source in sources for word in re.findall(r"[A-Za-z_]\w*", source)}


@each_assignment
@pytest.mark.parametrize("graded", [True, False], ids=["graded", "in ones own notebook"])
def test_a_helper_may_have_any_name_of_a_master(number, graded):
    """In one's own notebook, where all cells share one namespace, any but what the open cells
    define at their top level.
    """
    master = master_of(number)
    answers = solutions(master)
    cells = [cell for n in NUMBERS for cell in master_of(n).cells]
    names = words(text_of(c) for c in cells if kind_of(c) in ("check", "hidden"))
    names -= words(answers.values()) | {*keyword.kwlist, *dir(builtins)}
    names |= {"check_cell", "_check_cell", "fltoolkit"}  # what the grader runs
    if not graded:
        opens = [text_of(cell) for cell in master.cells if kind_of(cell) == "check"]
        names -= set().union(*map(names_defined, opens))
    assert {"batches", "seen", "got"} <= names
    helpers = "".join(f"def {name}(*_): return 'mine'\n" for name in sorted(names))
    inside = rf"\g<0>\1    assert all(globals()[n]() == 'mine' for n in {sorted(names)!r})\n"
    for name, source in answers.items():
        answers[name] = helpers + re.sub(r"^( *)def \w+\(.*\):\n", inside, source, flags=re.M)
        assert "'mine'" in answers[name]
        helpers = ""  # in the first answer
    if graded:
        assert lost(master, answers, 5) == set()
        notebook = assemble(master, answers, 5)
    else:
        code = [cell for cell in release(master)["cells"] if cell["cell_type"] == "code"]
        for cell in code:
            cell["source"] = answers.get(cell["id"], re.sub("%pip.*", "pass", cell["source"]))
        notebook = {"cells": code}
    said = play(notebook)
    assert content(master, said)
    assert any(": right" in str(text) for text in said.values())


@each_assignment
def test_what_an_answer_leaves_behind_costs_no_other(number):
    """Names of the master's and of Python's, torch's defaults, and prints in every function."""
    master = master_of(number)
    answers = solutions(master)
    first, *later = answers
    names = (
        "check fingerprint some_tree some_losses some_values two_halves struct zlib SEED package"
    )
    answers[first] += (
        "".join(f"\n{name} = 0" for name in ("sum", "len", "range", "sorted", *names.split()))
        + "\nimport torch\ntorch.set_default_dtype(torch.float64)\ntorch.set_grad_enabled(False)"
        + "\nimport sys, io, random\nsys.stdout = io.StringIO()\nrandom.seed(1)"
    )
    for name in later:
        undo = "for _n in ('sum', 'len', 'range', 'sorted', 'struct', 'zlib'): globals().pop(_n, 0)"
        imports = "import struct, torch, zlib\ntorch.set_grad_enabled(True)"
        imports += "\ntorch.set_default_dtype(torch.float32)"
        answers[name] = f"{undo}\n{imports}\n{answers[name]}"
    for name in answers:
        answers[name] = re.sub(
            r'^( +)(def \w+\(.*\):|"""[^\n]*""")$',
            lambda m: f"{m[0]}\n{m[1]}{'    ' * m[2].startswith('def')}print('debug', end=' ')",
            answers[name],
            flags=re.MULTILINE,
        )
        assert "print('debug'" in answers[name]
    own = {check for check in master.ids("hidden") if check.startswith(first)}
    assert lost(master, answers, 5) <= own
    order = [cell["id"] for cell in assemble(master, None, 3)["cells"]]
    shown = [order.index(name) for name in master.ids("answer", "check") if name in order]
    assert max(shown) < min(order.index(name) for name in master.ids("hidden"))


def test_a_later_answer_does_not_change_what_an_earlier_check_sees():
    """Checks run last, with the names of their own place."""
    master = master_of(1)
    answers = solutions(master)
    answers["a1-affordable-steps"] += "\ndef split_step(*_):\n    return 0, 0, 0\nepoch_bill = None"
    assert lost(master, answers, 5) == set()


@pytest.fixture
def warm(monkeypatch):
    """Kernels of `check_notebook` begin with torch imported, as those of notebooks do."""
    monkeypatch.setenv("JUPYTER_PATH", warm_kernels.folder())


@pytest.mark.slow
def test_a_helper_in_a_cell_of_their_own_costs_no_points(tmp_path, warm):
    """Wherever the cell stands; what it calls is not run, and it defines no answer."""
    master = master_of(1)
    answers = solutions(master)
    helper = "import math as m\nN = 2**0\nprint(affordable_steps(1, 1, 1))\n"
    helper += "def size(*shape):\n    return len(flt.pack({'h': torch.zeros(*shape)}))\n"
    helper += "epoch_bill = affordable_steps = None\nSEED = 9\nclass Late(Unknown): pass\n!pip list"
    answers["a1-affordable-steps"] = (
        "def affordable_steps(budget, batch_size, cut):\n"
        "    return m.floor(budget // (2 * N * size(batch_size, cut)))"
    )
    notebook = release(master)
    for cell in notebook["cells"]:
        cell["source"] = answers.get(cell["id"], cell["source"])
    cell = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
    notebook["cells"] += [
        cell | {"id": f"own{n}", "source": x} for n, x in enumerate(["]", helper])
    ]
    found = collect(master, notebook)
    assert "cells of their own: only imports" in str(found.notes)
    assert lost(master, found.answers, 5) == set()
    said = play(assemble(master, found.answers, 5))
    left_out = [
        "line 6 was not run: epoch_bill = affordable_steps = None",
        "line 7 was not run: SEED = 9",
        "line 8 stopped with NameError: name 'Unknown' is not defined",
        "line 9 was not run: !pip list",
    ]
    assert said["own cell 2"].splitlines() == left_out
    result = Grade("ana", answers=found.answers, output=said | {"own cell 1": ""})
    page = gradebook.feedback(master, result)
    assert "def size(*shape)" in page
    assert "NameError" in page
    (tmp_path / "mine.ipynb").write_text(json.dumps(notebook))
    problems = check_notebook(tmp_path / "mine.ipynb")
    assert f"own cell 2: {left_out[3]} (put it into an answer that needs it)" in problems
    assert "'own cell 1' stops with SyntaxError" in str(problems)
    assert not [p for p in problems if "own" not in p and "question" not in p]


# ------------------------------------------------------------------------ masters and releases
@each_assignment
def test_release(number):
    """Nothing of the solutions is in it, and each student may have numbers of their own."""
    master = master_of(number)
    text = json.dumps(release(master))
    for mark in ("SOLUTION", "HIDDEN TESTS", "Marking guide"):
        assert mark not in text
    released = {cell["id"]: cell for cell in release(master)["cells"]}
    assert list(released) == [cell["id"] for cell in master.cells]
    for name in master.ids("answer"):
        assert "NotImplementedError" in released[name]["source"]
        body = solutions(master)[name].split("### BEGIN SOLUTION")[1].split("### END")[0]
        for line in filter(str.strip, body.splitlines()):
            assert line.strip() not in released[name]["source"]
    assert master.points == 12
    assert all(task.hint for task in master.tasks if not task.manual)
    for numbers in (None, own_numbers("Ana Arm")):
        notebook = release(master, numbers=numbers)
        seed = f"SEED = {1 if numbers is None else numbers} "
        assert seed in "".join(text_of(cell) for cell in notebook["cells"])
        found = collect(master, notebook)
        assert found.numbers == numbers
        assert not [note for note in found.notes if "not answered" not in note]
        said = play(assemble(master, None, 1, numbers=numbers))
        assert content(master, said)
        assert ": right" in "".join(said[name] for name in master.ids("check"))
    for bad in ("1; import os", -1, 10**9, True, [1]):
        notebook["metadata"]["fltoolkit"]["numbers"] = bad
        assert collect(master, notebook).numbers is None


def test_numbers_are_drawn_from_the_name(tmp_path, monkeypatch, capsys):
    assert own_numbers("Jürgen Groß") == own_numbers("jurgen gross") != own_numbers("ben")
    for name in ("ana arm", "Ana_Arm_1234", "Ana Arm~3f2a", "armana_90017"):  # as files are called
        assert own_numbers("Ana Arm") in grading._numbers_of(name)
        assert own_numbers("Ben Kim") not in grading._numbers_of(name)
    with pytest.raises(AssignmentError, match="a letter or a digit"):
        own_numbers(" - ")
    monkeypatch.chdir(FOLDER.parents[1])
    monkeypatch.setattr(grading, "faults", lambda *_, **__: [])  # another test has these
    names = tmp_path / "names.txt"
    names.write_text("Ana Arm\n\nBen/Kim\n", encoding="utf-8")
    make = ["release", "8", "--students", str(names), "--out", str(tmp_path / "to")]
    assert cli.main(make) == 0
    written = sorted(path.relative_to(tmp_path / "to") for path in tmp_path.glob("to/*/*"))
    assert [path.parts[0] for path in written] == ["Ana Arm", "Ben_Kim"]
    assert f"numbers {own_numbers('Ana Arm')}" in capsys.readouterr().out
    names.write_text("Ana Arm\nana-arm\n", encoding="utf-8")
    assert cli.main(make) == 2
    assert "would get the same numbers" in capsys.readouterr().err


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.name)
def test_master_is_in_order(path):
    nbformat = pytest.importorskip("nbformat")
    book = json.loads(path.read_text(encoding="utf-8"))
    nbformat.validate(nbformat.from_dict(book))
    code = [cell for cell in book["cells"] if cell["cell_type"] == "code"]
    assert any(cell["outputs"] for cell in code)
    assert not any(o["output_type"] == "error" for cell in code for o in cell["outputs"])
    for cell in book["cells"]:
        if kind_of(cell) in ("answer", "check", "hidden"):
            assert cell["id"].startswith(f"a{path.name[0]}-")


def hidden(cells):
    return cells["a1-epoch-bill-check"]["metadata"]["nbgrader"]


def put_above(name, line):
    """A change: a line above a cell of assignment 1."""
    return lambda cells: cells[name].update(source=line + "\n" + text_of(cells[name]))


NO_SEED = "### BEGIN HIDDEN TESTS\nprint(1)  # SEED\n### END HIDDEN TESTS"


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda cells: cells["a1-split-step"].update(id="a1-title"), "id of its own"),
        (lambda cells: cells["a1-split-step"]["metadata"].clear(), "a solution but is no answer"),
        (lambda cells: cells["a1-split-step"].update(source="pass"), "no ### BEGIN SOLUTION"),
        (lambda cells: hidden(cells).update(points=0), "points=0"),
        (lambda cells: hidden(cells).update(grade_id="x"), "grade_id"),
        (lambda cells: cells["a1-epoch-bill-check"].update(source=NO_SEED), "depends on SEED"),
        # a cell below an answer keeps its names to itself, and none defines an answer
        (put_above("a1-open-epoch-bill", "batches = 1"), r"batches, .* a1_open_epoch_bill\(\)"),
        (put_above("a1-example-bytes", "import math"), "defines math"),
        (put_above("a1-step-weights", "split_step = 1"), "split_step, which an answer is to"),
        (put_above("a1-setup", "def epoch_bill(): pass"), "epoch_bill, which an answer is to"),
        (put_above("a1-epoch-bill-check", "SEED =="), "a cell is not Python"),
    ],
)
def test_a_bad_master_is_refused(change, problem, tmp_path):
    notebook = copy.deepcopy(master_of(1).notebook)
    change({cell["id"]: cell for cell in notebook["cells"]})
    (tmp_path / "m.ipynb").write_text(json.dumps(notebook))
    with pytest.raises(AssignmentError, match=problem):
        load_master(tmp_path / "m.ipynb")


def small_master(*checks, points=3):
    """A master with one function to write, ``double``, and these hidden checks."""
    about = {"schema_version": 3, "locked": False, "grade": False, "solution": False}
    sources = {
        "answer": "def double(x):\n    ### BEGIN SOLUTION\n    return 2 * x\n    ### END SOLUTION",
        "open": "print('yes: right')",
    }
    for number, check in enumerate(checks):
        sources[f"hidden{number}"] = f"### BEGIN HIDDEN TESTS\n{check}\n### END HIDDEN TESTS"
    cells = [
        {"id": name, "cell_type": "code", "source": source, "outputs": [], "execution_count": None}
        | {"metadata": {"nbgrader": about | {"grade_id": name}}}
        for name, source in sources.items()
    ]
    cells[0]["metadata"]["nbgrader"]["solution"] = True
    for cell in cells[2:]:
        cell["metadata"]["nbgrader"] |= {"grade": True, "points": points}
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells})


TRIED = (  # hidden checks, and what is said of each
    ("print(double(SEED))", ""),
    ("print(SEED)", "gives its points to the untouched release"),
    ("print(1)\nlen(range(SEED))", "or a step of it, prints the same with every SEED"),
    (
        "### 2 points: a\nprint(double(SEED))\n### 1 point: b\nprint(double(1))",
        "or a step of it, prints the same with every SEED",
    ),
    ("double(SEED)\nprint(SEED)", "gives its points to functions that return None"),
    ("print(double(SEED), id(double))", "fails the master's own answers"),
)


@pytest.mark.slow
def test_a_master_is_tried_before_anybody_gets_it(tmp_path, capsys):
    path, out = tmp_path / "m.ipynb", tmp_path / "student.ipynb"
    checks, told = zip(*TRIED, strict=True)
    path.write_text(small_master(*checks))
    assert cli.main(["test", str(path)]) == 1
    said = capsys.readouterr().out
    for number, words in enumerate(told):
        assert (re.search(f"'hidden{number}',? {words}", said) is not None) == bool(words), said
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "ana.ipynb").write_text(json.dumps(release(load_master(path))))
    about = ["--assignment", str(path), "--out", str(tmp_path / "out")]
    for command, found in (
        (["release", str(path), "--out", str(out)], {"1", "2", "3"}),
        (["grade", str(tmp_path / "in"), *about], {"1", "2"}),  # one seed: no such step is seen
    ):
        assert cli.main(command) == 2
        assert {*re.findall(r"'hidden(\d)'", capsys.readouterr().err)} == found
    assert not out.exists()
    path.write_text(small_master(checks[0], *checks[4:]))  # what only the command `test` tries
    assert cli.main(["release", str(path), "--out", str(out)]) == 0
    assert out.exists()
    path.write_text(small_master(checks[0]))
    assert cli.main(["test", str(path)]) == 0


def test_a_step_has_points_of_its_own_and_a_line_that_was_not_run_is_named(tmp_path, monkeypatch):
    """One kind of number is right, the other one stops; then the whole answer is no Python; then
    it is right, by a line of a cell of their own. Graded without a fence.
    """
    monkeypatch.setattr(grading, "PATIENCE", 50)
    check = "n = SEED\n### 1 point: text\nprint(double(str(n)))\n"
    check += "### 2 points: numbers\nprint(double(n))"
    (tmp_path / "m.ipynb").write_text(small_master(check))
    master, limits = load_master(tmp_path / "m.ipynb"), grading.Limits(fenced=False)
    expected = grading.expected_outputs(master, [5], limits=limits)[5]
    source = "class Size:\n    pass\nmessage = Size()  # 2; 3\nprint('a test')\nreturn\nfactor = 2"
    forged = "class Loud:\n    print('line 1 was not run: \\x1b[31m')"
    named = "cells of their own: line 3 was not run: message = Size()  # 2, 3"
    for answer, points, words, *own in (
        ("def double(x):\n    return x + str(x)", 1, "TypeError. Not right: numbers."),
        ("def double(x):\n    return x + (0 - -x)", 2, "Not right: text."),
        ("def (", 0, f"a syntax error in answer: not run (Python {sys.version.split()[0]})"),
        ("def double(x):\n    return factor * x", 3, f"Note: {named}.", source, forged),
    ):
        mine = release(master)
        mine["cells"][0]["source"] = answer
        mine["cells"] += [
            {"id": f"own{k}", "cell_type": "code", "source": x, "metadata": {}, "outputs": []}
            for k, x in enumerate(own)
        ]
        (tmp_path / "ana.ipynb").write_text(json.dumps(mine))
        about = ("ana", tmp_path / "ana.ipynb", master, 5, expected)
        result = grading.grade_one(*about, limits=limits)
        assert result.points == {"hidden0": points}
        page = gradebook.feedback(master, result)
        assert words in page
        assert ("1 of 3 points. It stopped with " in page) == (points == 1)
    assert [n for n in result.notes if "not run:" in n] == [named]
    (tmp_path / "m.ipynb").write_text(small_master(check, points=4))
    with pytest.raises(AssignmentError, match="its steps have other points"):
        load_master(tmp_path / "m.ipynb")


def test_the_line_that_installs_the_package_is_no_reason_to_look():
    address = "https://github.com/fltoolkit/fltoolkit/archive/main.zip"
    assert suspicious(f"x = 1\n  %pip install -q '{address}'\n!pip install {address}") == []
    assert suspicious(f"x = 1\n!curl {address}") == ["network"]


def test_command_line(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(FOLDER.parents[1])
    monkeypatch.setattr(grading, "faults", lambda *_, **__: [])
    out = tmp_path / "student.ipynb"
    assert cli.main(["release", "4", "--out", str(out)]) == 0
    assert "12 points" in capsys.readouterr().out
    assert "SOLUTION" not in out.read_text()
    assert cli.main(["release", "9"]) == 2
    assert "0 files fit" in (said := capsys.readouterr().err)
    assert "cloned repository" in said
    grade = ["grade", str(tmp_path / "no"), "--assignment", "1", "--out", str(tmp_path)]
    assert cli.main(grade) == 2
    assert "no such folder" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    assert "by_hand.csv" in capsys.readouterr().out


# ------------------------------------------------------------------------ what a student hands in
@pytest.mark.parametrize("odd", [None, 3, "x", [], [None, 1], {}, {"a": [1]}, True])
@pytest.mark.parametrize("key", ["source", "metadata", "outputs", "cell_type", "id"])
def test_an_odd_cell_costs_nobody_the_other_answers(key, odd):
    """Whatever stands in a check's cell, the answers beside it are read."""
    master = master_of(1)
    notebook = release(master)
    for cell in notebook["cells"]:
        if kind_of(cell) in ("check", "hidden"):
            cell[key] = odd
        elif kind_of(cell) == "answer":
            cell["source"] = "right = 1"
    answers = collect(master, notebook).answers
    assert {*answers} == {*master.ids("answer", "question")}
    assert [answers.get(name) for name in master.ids("answer")] == ["right = 1"] * 3
    for odd_book in ({"metadata": odd}, {"metadata": {"kernelspec": odd, "fltoolkit": odd}}):
        assert collect(master, {**notebook, **odd_book}).answers == answers


def test_what_a_file_lacks_is_said_once():
    master = master_of(1)
    step = {"id": "a1-split-step", "cell_type": "code", "source": [1, 2], "metadata": {"tags": 4}}
    strange = [1, None, {}, {"id": 3}, {"id": "a1-privacy", "metadata": 1}]
    for cells, words in ((strange, "missing cell"), ([], "lost the ids"), ([step], "missing cell")):
        said = collect(master, {"cells": cells})
        assert words in said.problem + str(said.notes)
    said = collect(master, release(master_of(2)))
    assert said.problem == "another assignment: '2_abc_gate', not '1_splitnn_by_hand'"
    assert not said.notes
    notebook = release(master)
    notebook["cells"] += [{"cell_type": "code", "id": "a1-split-step", "source": ""}] * 300
    notes = collect(master, notebook).notes
    assert notes.count("duplicate id: a1-split-step") == 1
    assert not any("of their own" in note for note in notes)


@pytest.mark.parametrize(
    "form",
    [
        lambda text: json.dumps(json.loads(text.replace("\\n", "\\r\\n"))),  # as Windows does
        lambda text: json.dumps(json.loads(text) | {"cells": json.loads(text)["cells"][::-1]}),
        lambda text: f"\ufeff{text}",
        lambda text: text.encode("utf-16"),
    ],
)
def test_however_an_editor_has_saved_it_the_answers_are_read(form, tmp_path):
    master, path = master_of(1), tmp_path / "a.ipynb"
    notebook, right = release(master), solutions(master)
    for cell in notebook["cells"]:
        cell["source"] = right.get(cell["id"], cell["source"])
    content = form(json.dumps(notebook))
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    found = collect(master, read_submission(path)[0])
    assert lost(master, found.answers, 5) == set()
    assert not [note for note in found.notes if "not answered" not in note]


def test_a_check_that_changed_after_the_release_accuses_nobody():
    """A file shows by a hash that its checks are as they were released; an edited one does not."""
    master = master_of(1)
    before = release(master)
    changed = copy.deepcopy(master.notebook)
    for cell in changed["cells"]:
        if kind_of(cell) == "hidden":
            cell["metadata"]["nbgrader"]["points"] += 1
        elif kind_of(cell) == "check":
            cell["source"] = text_of(cell) + "\n# clearer now"
    now = Master(master.name, changed, "")
    assert not [note for note in collect(now, before).notes if "edited check" in note]
    cells = {cell["id"]: cell for cell in before["cells"]}
    for name in ("a1-setup", "a1-open-epoch-bill"):
        cells[name]["source"] += "\nimport math"
    setup, later = (n for n in collect(now, before).notes if n.startswith("edited check"))
    assert setup.startswith("edited check, put back: a1-setup (changes above the first answer are")
    assert later == "edited check, put back: a1-open-epoch-bill"
    page = gradebook.feedback(master, Grade("ana", notes=[setup]))
    assert "an import belongs into the answer" in page


@pytest.mark.slow
def test_check_tells_a_student_what_is_missing(tmp_path, capfd, warm):
    nbformat = pytest.importorskip("nbformat")
    master = master_of(5)
    notebook = release(master)
    cells = {cell["id"]: cell for cell in notebook["cells"]}
    cells["a5-top-k"]["source"] = "def top_k(x, k):\n    return x.abs()"
    del notebook["cells"][notebook["cells"].index(cells["a5-cheaper"])]
    setup = next(cell for name, cell in cells.items() if name.endswith("setup"))
    setup["source"] = "import math\n" + setup["source"]
    nbformat.write(nbformat.from_dict(notebook), tmp_path / "mine.ipynb")  # as Jupyter saves it
    wanted = [
        f"cell '{setup['id']}' was changed, and is graded as it was released",
        "'a5-cheaper' is missing",
        "'a5-memory' is not written yet",
        "The sign is lost",
        "question 'a5-why' is not answered",
    ]
    # Colab keeps ids in the metadata alone; and a cell without a type is left out
    cells = [{**cell, "metadata": {**cell["metadata"], "id": "x"}} for cell in notebook["cells"]]
    for cell in cells:
        del cell["id"]
    strange = [{"source": "1 / 0"}, None, *cells]
    about = {**notebook, "nbformat_minor": 0, "cells": strange}
    (tmp_path / "colab.ipynb").write_text(json.dumps(about))
    for name in ("mine", "colab"):
        said = "\n".join(check_notebook(tmp_path / f"{name}.ipynb"))
        assert not [words for words in wanted if words not in said], said
        assert "own" not in said.replace("unknown", "")
        assert said.count("is missing") == 1
    assert capfd.readouterr().err == ""


@pytest.mark.slow
def test_reading_takes_time_that_grows_with_the_length():
    """In the grader's own process nothing else stops it: this takes seconds of computing or fails.

    The timeout ends a hang; on a busy machine a minute of computing takes several.
    """
    code = (
        "import time\n"
        "from fltoolkit_grading.master import load_master, release, collect, assemble\n"
        "from fltoolkit_grading.reading import suspicious\n"
        f"m = load_master({str(PATHS[0])!r})\n"
        "for text in ('#\\n' * 95_000, '# \\t' * 60_000, 'os ' * 60_000, 'os .' * 45_000,\n"
        "             '### BEGIN SOLUTION' * 10_000, '1' * 190_000, '(' * 190_000,\n"
        "             '\\f#' * 90_000, '\u0301\u0323' * 95_000):\n"
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
    assert "too many parts" in read_submission(path)[1]
    assert num_parts(content) >= parts
    commas = ["0.1, " * 1000, 'a "quoted" \\ one, ' * 1000]  # in a text they are no parts
    assert num_parts(json.dumps(commas).encode()) < 10


def zipped(path, files, locked=False, method=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for number, (name, text) in enumerate(files.items()):
            info = zipfile.ZipInfo(name, (2026, 1, 1 + number % 28, 0, 0, 0))
            archive.writestr(info, text, method)
            info.flag_bits |= locked
    return path


def test_the_newest_notebook_of_a_zip_is_read(tmp_path):
    old, new = (json.dumps({"cells": [], "nbformat": 4, "metadata": {"n": n}}) for n in (1, 2))
    files = {"a/old.ipynb": old, "./new.ipynb": new, "__MACOSX/a/._new.ipynb": "x", "z.txt": "y"}
    notebook, _ = read_submission(zipped(tmp_path / "ben.zip", files))
    assert notebook["metadata"] == {"n": 2}


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda p: p.write_bytes(b""), "not a notebook: not JSON"),
        (lambda p: p.write_bytes(b"[" * 200_000), "not a notebook: not JSON"),
        (lambda p: p.write_text('{"nbformat": 3, "worksheets": [{"cells": []}]}'), "3 or older"),
        (lambda p: p.write_text(r'{"cells": [], "nbformat": "\nben 11"}'), r"format: '\nben"),
        (lambda p: zipped(p, {"notes.txt": "x"}), "no notebook in it"),
        (lambda p: zipped(p, {f"{k}.txt": "" for k in range(10_001)}), "more than 10,000 files"),
        (lambda p: zipped(p, {"a.ipynb": " " * (65 << 20)}), "unpacked larger than 67 MB"),
        (lambda p: zipped(p, {"a.ipynb": "{}"}, method=zipfile.ZIP_BZIP2), "no bound of memory"),
        (lambda p: zipped(p, {"a.ipynb": "{}"}, method=zipfile.ZIP_LZMA), "no bound of memory"),
        (lambda p: p.write_bytes(b"PK\x03\x04 no zip"), "a zip that cannot be opened"),
        (lambda p: p.write_bytes(zipped(p, {"a.ipynb": "{}" * 99}).read_bytes()[:-30]), "cannot"),
        (lambda p: zipped(p, {"../../a.ipynb": "{}"}), "no notebook in it"),
        (lambda p: zipped(p, {"\x1b[2Jkim  11.ipynb": "{}"}, locked=True), r"('\x1b[2Jkim"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_and_nothing_is_unpacked(tmp_path, make, said):
    path = tmp_path / "kim.zip"
    make(path)
    notebook, problem = read_submission(path)
    assert notebook is None
    assert said in problem
    assert list(tmp_path.iterdir()) == [path]
