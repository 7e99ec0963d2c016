"""Names: of students that look alike, and of helper functions that a master uses, too.

And the seed of a hand-in. Everything runs in this process.
"""

import copy
import json
import re
import symtable

import pytest
from playing import NUMBERS, lost, master_of, play, solutions

from fltoolkit_grading import gradebook, grading
from fltoolkit_grading import master as assignment
from fltoolkit_grading.grading import Grade, find_submissions
from fltoolkit_grading.master import AssignmentError, assemble, kind_of, load_master, text_of
from fltoolkit_grading.names import look_alikes, name_notes
from fltoolkit_grading.reading import names_defined

# ------------------------------------------------------------------ a helper's name and a master's


def names_in(source):
    """The names that a cell assigns anywhere, and those that its code takes from outside."""
    source = re.sub(r"^( *)%.*", r"\1pass", source, flags=re.MULTILINE)
    todo, assigned, taken = [symtable.symtable(source, "cell", "exec")], set(), set()
    while todo:
        table = todo.pop()
        todo += table.get_children()
        top = table.get_type() == "module"
        for name in table.get_symbols():
            if name.is_assigned() or name.is_imported():
                assigned.add(name.get_name())
            if name.is_referenced() and (top or name.is_global()):
                taken.add(name.get_name())
    return assigned, taken


def cells_of(master, *kinds):
    return [text_of(c) for c in master.cells if c["cell_type"] == "code" and kind_of(c) in kinds]


def with_helpers(number, spared=()):
    """The right answers, with a helper of each name that any cell of any master uses for itself."""
    master = master_of(number)
    answers = solutions(master)
    names = {"check_cell", "_check_cell", "fltoolkit"}  # what the grader runs
    for source in (text for n in NUMBERS for text in cells_of(master_of(n), "check", "hidden")):
        names |= {name for name in names_in(source)[0] if not name.startswith("__")}
    for source in answers.values():  # what the answers themselves need
        names -= names_defined(source) | names_in(source)[1]
    names -= set(spared)
    helpers = "".join(f"def {name}(*_): return 'mine'\n" for name in sorted(names))
    test = f"assert all(globals()[n]() == 'mine' for n in {sorted(names)!r})"
    for name, source in answers.items():
        source = re.sub(
            r"^( *)def \w+\(.*\):\n", rf"\g<0>\1    {test}\n", source, flags=re.MULTILINE
        )
        assert test in source
        answers[name] = helpers + source
        helpers = ""  # in the first answer
    return answers, names


def test_the_names_of_masters_are_found():
    names = with_helpers(1)[1]
    assert {"batches", "g", "package", "check", "SEED", "seen", "gate", "a1_open_crosses"} <= names


@pytest.mark.parametrize("number", NUMBERS)
def test_a_helper_may_have_any_name_of_a_master(number):
    master, (answers, _) = master_of(number), with_helpers(number)
    assert lost(master, answers, 5) == set()
    said = play(assemble(master, answers, 5))
    for name in master.ids("check"):
        assert isinstance(said[name], str), (name, said[name])
        assert ": not " not in said[name]


@pytest.mark.parametrize("number", NUMBERS)
def test_in_ones_own_notebook_too(number):
    """There all cells share one namespace; only what the checks themselves need is the master's."""
    master = master_of(number)
    needed = set().union(*(names_in(source)[1] for source in cells_of(master, "check")))
    answers, names = with_helpers(number, spared=needed)
    assert {"batches", "seen", "g", "model", "got"} <= names
    cells = [c for c in assignment.release(master)["cells"] if c["cell_type"] == "code"]
    for cell in cells:
        cell["source"] = answers.get(cell["id"], re.sub("%pip.*", "pass", cell["source"]))
    said = play({"cells": cells})
    assert not [text for text in said.values() if not isinstance(text, str) or ": not " in text]
    assert any(": right" in text for text in said.values())


def test_a_cell_below_an_answer_keeps_its_names_to_itself(tmp_path):
    """And no cell defines what an answer is to define, since it would be checked instead."""
    notebook = copy.deepcopy(master_of(1).notebook)
    cells = {cell["id"]: cell for cell in notebook["cells"]}
    old = {name: text_of(cell) for name, cell in cells.items()}
    changes = {
        "a1-open-epoch-bill": (
            "batches = 1\n",
            r"defines batches, and .* function a1_open_epoch_bill\(\)",
        ),
        "a1-example-bytes": ("import math\n", "defines math"),
        "a1-step-weights": (
            "split_step = print\n",
            "defines split_step, which an answer is to define",
        ),
        "a1-setup": (
            "def epoch_bill(): pass\n",
            "defines epoch_bill, which an answer is to define",
        ),
        "a1-epoch-bill-check": ("SEED ==\n", "a cell is not Python"),
    }
    for name, (line, words) in changes.items():
        cells[name]["source"] = line + old[name]
        (tmp_path / "m.ipynb").write_text(json.dumps(notebook))
        with pytest.raises(AssignmentError, match=words):
            load_master(tmp_path / "m.ipynb")
        cells[name]["source"] = old[name]
    (tmp_path / "m.ipynb").write_text(json.dumps(notebook))
    load_master(tmp_path / "m.ipynb")


# ---------------------------------------------------------------------- the seed of a hand-in


@pytest.fixture
def seeds(tmp_path, monkeypatch):
    """Grades the files of a folder without processes; gives the seed of each student."""
    monkeypatch.setattr(grading, "_check_tools", lambda fenced: None)
    monkeypatch.setattr(grading, "_undeserved", lambda *_: [])
    monkeypatch.setattr(
        grading, "expected_outputs", lambda _, seeds, **__: {seed: {"of": seed} for seed in seeds}
    )
    (tmp_path / "in").mkdir()

    def seeds(files, out="out", secret=7):
        for name, text in files.items():
            (tmp_path / "in" / f"{name}.ipynb").write_text(text)
        found = {}

        def each(student, path, master, seed, expected, **_):
            assert expected == {"of": seed}  # of the master's own solution, with this seed
            found[student] = seed
            return Grade(student)

        monkeypatch.setattr(grading, "grade_one", each)
        (tmp_path / out).mkdir(exist_ok=True)
        (tmp_path / out / "seed.json").write_text(json.dumps({master_of(1).name: secret}))
        results = grading.grade(tmp_path / "in", master_of(1), tmp_path / out)
        return found, results

    return seeds


def test_what_a_hand_in_shows_about_its_seed_is_of_no_use_for_the_next_one(seeds):
    """Another file has another seed; the same file has the same one, so that a grading can be
    repeated; and nobody can compute one without the secret.
    """
    first, results = seeds({"ana": "one", "ben": "two", "cleo": "one"})
    assert first["ana"] == first["cleo"] != first["ben"]
    assert {result.student: int(result.key, 16) for result in results} == first
    assert seeds({})[0] == {}  # the results are kept
    assert seeds({"ana": "three"})[0]["ana"] not in first.values()
    assert seeds({"ana": "one"})[0] == {"ana": first["ana"]}
    assert seeds({}, out="again")[0] == first
    others, _ = seeds({}, out="others", secret=8)
    assert not set(others.values()) & set(first.values())


def test_no_note_in_the_feedback_is_about_the_run_of_a_hidden_check():
    """A note such as 'flood of output' is a bit that the student's code can choose."""
    kinds = ("flood of output, dropped", "the time was up", "MemoryError", "SystemExit")
    notes = [f"{kind}: a1-step-weights" for kind in kinds]
    pages = [gradebook.feedback(master_of(1), Grade("ana", notes=given)) for given in (notes, [])]
    assert pages[0] == pages[1]


# ---------------------------------------------------------------------- students' names

SAME = (
    "ana ɑnɑ; ana ᴀna; lana Iana; lana 1ana; bob b0b; BOB b0b; Ana ana; ana аna; ana ａｎａ; "
    "ana 𝒶𝓃𝒶; Hanna НANNA; Zoe Ζoe; Ben Βen; ben Βen; Ivan Іvan; Ivan іvan; ivan ıvan; Ivan lvan; "
    "Olga O1ga; Olga 0lga; CHAN ᏟΗΑΝ; bob ʙᴏʙ; Paul Ρaul; paul раul; max ᴍᴀx; kim кim; Lana ⅼana; "
    "ana a\u200bna; ana an\u202ea; ana ana\ufe0f; ana ana\u3164; ana ana\u00ad; ana an\u034fa"
)
NEARLY = "Kern Kem; vvill will; André Andre; Müller Muller; Zoë Zoe; ben be\u0301n"
DIFFERENT = (
    "Ian Lan; Ali All; Kai Kal; Lena Lea; Clara Dara; Sara 5ara; Łukasz Lukasz; Weiß Weiss; "
    "Mila Milla; s100 s101; Mia Mla; Ann Anna; 李明 李朋; Иван Ivan; 김 박"
)


@pytest.mark.parametrize(
    ("pairs", "same", "nearly"),
    [(SAME, True, True), (NEARLY, False, True), (DIFFERENT, False, False)],
    ids=["same", "nearly", "different"],
)
def test_which_names_look_alike(pairs, same, nearly):
    for pair in pairs.split("; "):
        first, second = pair.split(" ")
        for close, found in ((False, same), (True, nearly)):
            others = look_alikes([first, second], nearly=close)
            assert others == {first: [second] * found, second: [first] * found}, ascii(pair)


def test_only_names_that_look_the_same_are_changed(tmp_path):
    """Names that two people may have are kept, and the instructor gets a hint about each."""
    for name in ("lana", "Iana", "Kern", "Kem", "André", "Andre", "Ian", "Lan", "eve", "eve\u200b"):
        (tmp_path / f"{name}.ipynb").write_text("")
    found = find_submissions(tmp_path)
    notes = name_notes(tmp_path, found)
    assert {name for name in found if "~" in name} == {n for n in found if n[1:5] == "ana~"}
    assert {"Kern", "Kem", "André", "Andre", "Ian", "Lan", "eve", "eve_"} <= set(found)
    assert notes["Kern"] == ["worth a look: the name looks nearly the same as 'Kem'"]
    assert notes["Andre"] == ["worth a look: the name looks nearly the same as 'André'"]
    assert notes["Ian"] == notes["Lan"] == []
    (lana,) = (name for name in found if name.startswith("lana~"))
    assert notes[lana][1:] == ["the name looks the same as 'Iana': ask who handed it in"]
    assert notes["eve"] == ["the name looks the same as 'eve\\u200b': ask who handed it in"]
    assert notes["eve_"][0] == "handed in as 'eve\\u200b.ipynb'"
