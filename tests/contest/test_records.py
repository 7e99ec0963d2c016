"""The records in cup/records: cards are of their entries, and a refuted one does not count."""

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from fltoolkit_contest import read_card, read_entry, read_records
from fltoolkit_contest.card import NUM_RUNS
from fltoolkit_contest.commands import main
from fltoolkit_contest.slots import CupError
from fltoolkit_contest.tracks import TRACKS

RECORDS = Path(__file__).parents[2] / "cup" / "records"
FOLDERS = sorted(path.parent for path in RECORDS.glob("*/*/entry.py"))


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_cards_are_of_their_entries(folder):
    entry = read_entry((folder / "entry.py").read_text("utf-8"))
    paths = sorted(folder.glob("*.json"))
    cards = [read_card(path) for path in paths]
    assert (folder / "note.md").read_text("utf-8")[:3] == "202"
    for path, card in zip(paths, cards, strict=True):
        track = TRACKS[card.track]
        assert (card.track, card.name, card.sha256) == (*folder.parts[-2:], entry.sha256)
        target = 0.95 if path.stem == "known_writers" else track.target  # digits, before strangers
        assert (card.target, card.metric, card.charge) == (target, track.metric, entry.charge)
        assert len(card.runs) == NUM_RUNS
        assert card.accepted or (folder / "refuted.md").exists()
    assert len({card.salt for card in cards}) == len(cards)  # verified again: with other seeds


def test_a_refuted_record_does_not_count(tmp_path, capsys):
    folder = tmp_path / "digits" / "predicted"
    shutil.copytree(RECORDS / "digits" / "predicted", folder)
    assert read_records(tmp_path)[0].accepted
    assert main(["history", str(tmp_path)]) == 0
    assert "| 1 | predicted |" in capsys.readouterr().out
    (folder / "refuted.md").write_bytes(b"2026-12-01\x1b[2J: it knows the digits by h\xffart")
    assert main(["history", str(tmp_path)]) == 0
    assert "| not accepted | predicted (refuted 2026-12-01) |" in capsys.readouterr().out


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
        edited(score=float("nan")),
        edited(score="0.99"),
        edited(nbytes=-12),
        edited(bound=float("inf")),
        edited(data_nbytes=0),
        edited(name="null\u200b"),
        edited(name="\x1b[2J"),
        edited(name="null | 12 | 99.99 % |"),
        edited(name="n" * 81),
        edited(score=10**400),
        edited(leak={"\x1b[2J": 0.5}),
        edited(measured=[]),
        edited(accepted="yes"),
        edited(accepted=False),
        edited(target=0.999),
        edited(bound=0.999),
        edited(nbytes=5),
        edited(nbytes=0.25),
    ],
)
def test_what_no_verification_writes_is_no_card(tmp_path, text):
    path = tmp_path / "card.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match="is no card"):
        read_card(path)


def test_a_line_for_each_entry_whatever_it_is(tmp_path, capsys, monkeypatch):
    """And through no link that was handed in anything is written."""
    handed_in, kept = tmp_path / "handed_in", tmp_path / "marks.csv"
    kept.write_text("ana,1")
    texts = {
        "deep": "x = " + "(" * 900 + ")" * 900,
        "long": "x = " + "-" * 5000 + "1",
        "wrong": "def owner(me, message)",
        "refused": "pass",
        "odd": "pass",
        "good": "pass",
        "robbed": "pass",
    }
    (handed_in / "ana").mkdir(parents=True)
    for name, text in (texts | {"ana/entry": "pass", "ana/other": "pass"}).items():
        (handed_in / f"{name}.py").write_text(text)
    (handed_in / "bytes.py").write_bytes(b"\xff\xfe")
    (handed_in / "good.py").write_bytes(b"\xef\xbb\xbfpass")  # as an editor of Windows may save it
    (handed_in / "folder.py").mkdir()
    (handed_in / "robbed.card.json").mkdir()  # by somebody else
    os.mkfifo(handed_in / "pipe.py")
    (handed_in / "ana" / "entry.card.json").symlink_to(kept)

    def verified(text, *, name, **more):
        read_entry(text)
        if name == "odd":
            raise AttributeError("a forged answer\n\x1b[2J" + 70 * " " + "| 1 | odd | 0 |")
        if name == "refused":
            raise CupError("the entry ended with an error")
        return replace(read_card(RECORDS / "digits" / "null" / "card.json"), name=name)

    monkeypatch.setattr("fltoolkit_contest.referee.verify", verified)
    assert main(["board", str(handed_in)]) == 0
    printed = capsys.readouterr().out
    lines = dict(line.split(": ", 1) for line in printed.splitlines() if ": " in line[:9])
    assert "verified, and its card not written" in lines.pop("robbed")
    texts.pop("robbed")
    accepted = {name for name, said in lines.items() if said == "verified"}
    assert accepted == {"ana", "good"}  # other.py is no entry
    assert {*lines} == {*texts, "ana", "bytes"}
    assert all("not accepted: " in lines[name] for name in {*lines} - accepted)
    assert r"a forged answer\n\x1b[2J \x7c 1 \x7c odd" in printed
    assert "\x1b" not in printed
    assert all(f"| {name} |" in printed for name in ("ana", "good", "robbed"))
    assert kept.read_text() == "ana,1"
    for path in (handed_in / "good.card.json", handed_in / "ana" / "entry.card.json"):
        assert read_card(path).name in accepted
