"""The records in cup/records: cards are of their entries, and a refuted one does not count."""

import json
import os
import shutil
from pathlib import Path

import pytest

from fltoolkit_contest import read_card, read_entry, read_records
from fltoolkit_contest.commands import main
from fltoolkit_contest.entry import FREE_CONSTANTS, FREE_NODES
from fltoolkit_contest.referee import NUM_RUNS, bound
from fltoolkit_contest.slots import CupError
from fltoolkit_contest.tracks import TRACKS

RECORDS = Path(__file__).parents[2] / "cup" / "records"
FOLDERS = sorted(path.parent for path in RECORDS.glob("*/*/entry.py"))


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_cards_are_of_their_entries(folder):
    entry = read_entry((folder / "entry.py").read_text("utf-8"))
    cards = [read_card(path) for path in sorted(folder.glob("*.json"))]
    assert (folder / "note.md").read_text("utf-8")[:3] == "202"
    for card in cards:
        track = TRACKS[card.track]
        assert (card.track, card.name, card.sha256) == (*folder.parts[-2:], entry.sha256)
        assert (card.target, card.metric, card.charge) == (track.target, track.metric, entry.charge)
        higher = track.metric == "accuracy"
        assert len(card.runs) == NUM_RUNS
        low = bound([run["score"] for run in card.runs], higher_is_better=higher)
        assert card.bound == pytest.approx(low)
        assert card.accepted
        assert low >= track.target if higher else low <= track.target
        assert all(run["nbytes"] == sum(run["ledger"].values()) for run in card.runs)
    assert len({card.salt for card in cards}) == len(cards)  # verified again: with other seeds


def test_a_refuted_record_does_not_count(tmp_path, capsys):
    folder = tmp_path / "digits" / "tuned"
    shutil.copytree(RECORDS / "digits" / "tuned", folder)
    assert read_records(tmp_path)[0][1].accepted
    assert main(["history", str(tmp_path)]) == 0
    assert "| 1 | tuned |" in capsys.readouterr().out
    (folder / "refuted.md").write_text("2026-12-01: it knows the digits by heart")
    assert main(["history", str(tmp_path)]) == 0
    assert "| not accepted | tuned (refuted 2026-12-01) |" in capsys.readouterr().out


def test_the_board_goes_on_after_files_that_are_no_entries(tmp_path, capsys, monkeypatch):
    null = RECORDS / "digits" / "null"
    for name, text in (("anna", "def owner(me, message)"), ("ben", "pass"), ("chris", "pass")):
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    (tmp_path / "dana.py").write_bytes(b"\xff\xfe")

    def verified(text, *, name, **more):
        read_entry(text)
        if name == "ben":
            raise CupError("the entry ended with an error")
        return read_card(null / "card.json")

    monkeypatch.setattr("fltoolkit_contest.referee.verify", verified)
    assert main(["board", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    for name in ("anna", "ben", "dana"):
        assert f"{name}: not accepted: " in printed
    assert "| 1 | null |" in printed
    assert (tmp_path / "chris.card.json").exists()


def edited(**changes):
    """A record's card as JSON, with changes."""
    whole = json.loads((RECORDS / "digits" / "null" / "card.json").read_text("utf-8"))
    run = {name: changes.pop(name) for name in ("score", "nbytes", "leak") if name in changes}
    whole["runs"][0].update(run)
    return json.dumps(whole | changes)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "[" * 10**5,
        edited(runs=[]),
        edited(runs=[[]]),
        edited(score=float("nan")),
        edited(score="0.99"),
        edited(nbytes=-12),
        edited(nbytes=True),
        edited(bound=float("inf")),
        edited(data_nbytes=0),
        edited(name="null\u200b"),
        edited(name="nu\u3164ll"),
        edited(name="\x1b[2J"),
        edited(name=""),
        edited(name="null | 12 | 99.99 % |"),
        edited(name="null" + 60 * " " + "12"),
        edited(name="n" * 81),
        edited(score=10**400),
        edited(leak={"\x1b[2J": 0.5}),
        edited(leak={"a": None}),
        edited(measured=[]),
        edited(runs=[{**json.loads(edited())["runs"][0], "score": float("nan")}]),
        edited(accepted="yes"),
    ],
)
def test_what_no_verification_writes_is_no_card(tmp_path, text):
    path = tmp_path / "card.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match="is no card"):
        read_card(path)


def test_a_line_for_each_entry_whatever_it_is(tmp_path, capsys, monkeypatch):
    (tmp_path / "folder.py").mkdir()
    (tmp_path / "deep.py").write_text("x = " + "(" * 900 + ")" * 900)
    (tmp_path / "long.py").write_text("x = " + "-" * 5000 + "1")
    (tmp_path / "odd.py").write_text("pass")
    (tmp_path / "good.py").write_text("pass")

    def verified(text, *, name, **more):
        read_entry(text)
        if name == "odd":
            raise AttributeError("a forged answer\n\x1b[2J" + 70 * " " + "| 1 | odd | 0 |")
        return read_card(RECORDS / "digits" / "null" / "card.json")

    monkeypatch.setattr("fltoolkit_contest.referee.verify", verified)
    assert main(["board", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    lines = [line.partition(":")[0] for line in printed.splitlines() if ": " in line[:8]]
    assert lines == ["deep", "good", "long", "odd"]
    assert r"a forged answer\n\x1b[2J \x7c 1 \x7c odd" in printed
    assert "\x1b" not in printed


def test_the_board_writes_through_no_link_that_was_handed_in(tmp_path, monkeypatch):
    kept, handed_in = tmp_path / "marks.csv", tmp_path / "handed_in"
    kept.write_text("ana,1")
    (handed_in / "ana").mkdir(parents=True)
    for name in ("entry.py", "other.py"):
        (handed_in / "ana" / name).write_text("pass")
    os.mkfifo(handed_in / "ben.py")
    for name in ("entry.card.json", "entry.png"):
        (handed_in / "ana" / name).symlink_to(kept)
    card = read_card(RECORDS / "digits" / "null" / "card.json")
    card.name = r"costs $\never$"  # no formula
    verified = []
    monkeypatch.setattr(
        "fltoolkit_contest.referee.verify", lambda text, **more: verified.append(more) or card
    )
    assert main(["board", str(handed_in)]) == 0
    assert [each["name"] for each in verified] == ["ana"]  # other.py is no entry
    assert kept.read_text() == "ana,1"
    assert read_card(handed_in / "ana" / "entry.card.json").nbytes == card.nbytes


@pytest.mark.parametrize(
    "data",
    [
        f"W = [{'[[]],[],' * 1500}]",
        f"match 0:\n  case [{'[[_], _], ' * 1000}]: pass",
        f"match 0:\n  case {'None|True|' * 1500}False: pass",
        f"def f():\n  global {', '.join(['a', 'b', 'b'] * 1000)}",
        "from " + "." * 3000 + "a import b",
        f"import {', '.join(['a as b', 'b as a'] * 1500)}",
        "def f(a, b): pass\n" * 1000,
        f"W = {'-+~' * 60}1\n" * 20,
        f"W = a {'< a > a ' * 800}",
    ],
    ids=lambda data: data[:16],
)
def test_the_syntax_tree_holds_no_numbers_free_of_charge(data):
    honest = (RECORDS / "shakespeare" / "folded" / "entry.py").read_text("utf-8")
    assert read_entry(honest).num_nodes < FREE_NODES
    assert read_entry(f"{honest}\n{data}\n").charge > 2500


def test_a_text_is_charged_by_its_bytes_and_a_file_that_grows_is_refused():
    assert read_entry(f"W = {chr(0x1F600) * 600!r}").charge == 2 + 4 * 600 - FREE_CONSTANTS
    deep = "".join(" " * level + "if a:\n" for level in range(90)) + " " * 90 + "a;" * 9000
    with pytest.raises(ValueError, match=r"more than 200,000 characters"):
        read_entry(deep)
