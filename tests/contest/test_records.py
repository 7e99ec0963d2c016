"""The records in cup/records: cards are of their entries, and a refuted one does not count."""

import shutil
from pathlib import Path

import pytest

from fltoolkit_contest import read_card, read_entry, read_records
from fltoolkit_contest.commands import main
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
