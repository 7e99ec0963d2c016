"""Verify the records of the cup that differ from another commit, with new seeds: for pull requests.

    python tools/verify_records.py origin/main

A record is a folder cup/records/TRACK/NAME with entry.py, card.json and note.md. Exit status 1 if
one of them is not accepted, or lacks a file. The card says the league. A folder with refuted.md is
no record any more.
"""

import subprocess
import sys
from pathlib import Path

from fltoolkit_contest import read_card, read_entry, verify
from fltoolkit_contest.slots import CupError

ROOT = Path(__file__).parents[1]
FILES = ("entry.py", "card.json", "note.md")


def changed(base: str) -> list[Path]:
    """The folders of records in which something differs from ``base``."""
    command = ["git", "diff", "--name-only", f"{base}...HEAD", "--", "cup/records/*/*/*"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return sorted({(ROOT / name).parent for name in names.splitlines()})


def problem(folder: Path) -> str:
    """Verify one record; what is wrong with it, or an empty text."""
    if missing := [name for name in FILES if not (folder / name).exists()]:
        return f"{folder.name} has no {', '.join(missing)}"
    card, text = read_card(folder / "card.json"), (folder / "entry.py").read_text("utf-8")
    if card.track != folder.parent.name:
        return f"{folder.name}: the card is of the track {card.track}, not {folder.parent.name}"
    if read_entry(text).sha256 != card.sha256:
        return f"{folder.name}: the card is of another file; verify again"
    more = {"track": card.track, "league": card.league, "name": folder.name}
    new = verify(text, **more, report=lambda line: print(line, file=sys.stderr, flush=True))
    print(f"```\n{new}\n```", flush=True)
    return "" if new.accepted else f"{folder.name}: not accepted"


def main(base: str) -> int:
    problems = []
    for folder in changed(base):
        if not folder.exists():  # the pull request takes it away
            continue
        if (refuted := folder / "refuted.md").exists():
            print(f"{folder.name} is refuted: {refuted.read_text('utf-8')}")
            continue
        try:
            problems.append(problem(folder))
        except (CupError, ValueError) as error:
            problems.append(f"{folder.name}: {error}")
    print("\n".join(filter(None, problems)) or "all entries of this change are accepted")
    return 1 if any(problems) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
