"""A private variant of an assignment, made as docs/instructors.md says: other rule, same idea."""

import json

import pytest
from playing import PATHS, lost, master_of, play, solutions

from fltoolkit_grading import cli
from fltoolkit_grading.master import assemble, load_master

# assignment 8, with the lowest bit first: three places in the text, the solutions, the open checks
CHANGES = {
    "each with its highest bit first": "each with its lowest bit first",
    '\\"{code:0{bits}b}\\" for code': '\\"{code:0{bits}b}\\"[::-1] for code',
    "int(text[i * bits : (i + 1) * bits], 2)": "int(text[i * bits : (i + 1) * bits][::-1], 2)",
    "[18, 63]": "[132, 207]",
    "[167, 128]": "[179, 128]",
}


@pytest.fixture
def variant(tmp_path):
    text = PATHS[7].read_text(encoding="utf-8")
    for old, new in CHANGES.items():
        assert old in text, old
        text = text.replace(old, new)
    path = tmp_path / "8_lowest_bit_first.ipynb"
    path.write_text(text, encoding="utf-8")
    return path


def test_the_public_solution_loses_the_tasks_that_were_changed(variant):
    master = load_master(variant)
    assert lost(master, solutions(master), 5) == set()
    changed = {"a8-pack-check", "a8-pack-end", "a8-unpack-check"}
    assert lost(master, solutions(master_of(8)), 5) == changed
    said = play(assemble(master, None, 5))
    assert not [name for name in master.ids("check") if ": not " in str(said[name])]


@pytest.mark.slow
def test_the_variant_is_in_order_and_is_released(variant, tmp_path, capsys):
    assert cli.main(["test", str(variant)]) == 0
    assert "gets all points, with two seeds" in capsys.readouterr().out
    out = tmp_path / "8_student.ipynb"
    assert cli.main(["release", str(variant), "--out", str(out)]) == 0
    about = json.loads(out.read_text(encoding="utf-8"))["metadata"]["fltoolkit"]
    assert about["assignment"] == variant.stem
