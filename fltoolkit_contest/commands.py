"""``fltoolkit cup``: rehearse, verify, check and show entries, and the board of a class."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fltoolkit_contest.card import Card

EXAMPLES = """examples:
  fltoolkit cup rehearse my_entry.py --track digits --league open
  fltoolkit cup verify my_entry.py --track digits --league open --out card.json
  fltoolkit cup verify my_entry.py --card card.json       check a card again
  fltoolkit cup board handed_in                           entries: NAME.py or NAME/entry.py
  fltoolkit cup history cup/records                       the board of the records
The rules and a first entry: docs/cup.md"""


def main(arguments: Sequence[str]) -> int:
    """Run one of the commands; returns the exit status, 1 if an entry was not accepted.

    >>> main(["tracks"])
    digits (open, sums, split): accuracy of at least 90 %
    ...
    0
    """
    parser = argparse.ArgumentParser(
        prog="fltoolkit cup",
        description="The megabyte cup: who reaches the target with the fewest bytes?",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    tracks = commands.add_parser("tracks", help="the tracks, their leagues and targets")
    tracks.set_defaults(run=_tracks)
    practise = commands.add_parser("rehearse", help="runs in this process, without a fence")
    check = commands.add_parser("verify", help="five runs behind the fence, and the card")
    for each, runs in ((practise, 1), (check, 5)):
        each.add_argument("entry", type=Path)
        each.add_argument("--track", help="see `fltoolkit cup tracks`")
        each.add_argument("--league")
        each.add_argument("--runs", type=int, default=runs, help=f"default: {runs}")
    practise.set_defaults(run=_rehearse)
    check.add_argument("--card", type=Path, help="a card that is to be checked again")
    check.add_argument("--out", type=Path, help="write the card (.json)")
    check.set_defaults(run=_verify)
    table = commands.add_parser("board", help="verify a folder of entries, and print the board")
    table.add_argument("folder", type=Path)
    table.add_argument("--track", default="digits")
    table.add_argument("--league", default="open")
    table.set_defaults(run=_board)
    history = commands.add_parser("history", help="print the board of the records")
    history.add_argument("folder", type=Path, help="cup/records")
    history.set_defaults(run=_history)
    args = parser.parse_args(arguments)
    status: int = args.run(args)
    return status


def _tracks(args: argparse.Namespace) -> int:
    from fltoolkit_contest.tracks import LEAGUES, TRACKS

    for track in TRACKS.values():
        print(f"{track.name} ({', '.join(track.leagues)}): {track.wanted}\n    {track.about}")
    for name, about in LEAGUES.items():
        print(f"league {name}: {about}")
    return 0


def _rehearse(args: argparse.Namespace) -> int:
    from fltoolkit_contest.card import NUM_RUNS, bound
    from fltoolkit_contest.referee import rehearse
    from fltoolkit_contest.tracks import chosen

    (track, league), scores = _where(args), []
    text, task = args.entry.read_text(encoding="utf-8"), chosen(track, league)[0]
    metric = task.metric
    for number in range(args.runs):
        for record in rehearse(text, track=track, league=league, number=number):
            value = f"{metric} {record[metric]:.4f}   " if metric in record else ""
            print(f"exchange {record['exchange']}   {value}{record['nbytes']:,} bytes", flush=True)
        scores.append(record[metric])
    if args.runs == NUM_RUNS:  # what `verify` would decide by
        least = bound(scores, higher_is_better=metric == "accuracy")
        mean = sum(scores) / len(scores)
        print(f"mean {mean:.4f}, bound {least:.4f}; wanted: {task.wanted}")
    return 0


def _where(args: argparse.Namespace) -> tuple[str, str]:
    if not (args.track and args.league):
        raise ValueError(
            "name the task: --track TRACK --league LEAGUE (see `fltoolkit cup tracks`)"
        )
    return args.track, args.league


def _verify(args: argparse.Namespace) -> int:
    from fltoolkit_contest.card import printable, read_card
    from fltoolkit_contest.referee import verify
    from fltoolkit_contest.slots import CupError

    old = read_card(args.card) if args.card else None
    track, league = (old.track, old.league) if old else _where(args)
    num_runs = len(old.runs) if old else args.runs
    text, name = args.entry.read_text(encoding="utf-8"), args.entry.stem
    name = args.entry.parent.resolve().name if name == "entry" else name
    try:
        more = {"track": track, "league": league, "name": name}
        card = verify(text, **more, salt=old.salt if old else None, num_runs=num_runs)
    except CupError as error:
        print(printable(f"{args.entry}: not accepted: {error}"), file=sys.stderr)
        return 1
    print(card)
    if args.out:
        card.write(args.out)
    if old:
        return _compared(old, card)
    return 0 if card.accepted else 1


def _compared(old: "Card", new: "Card") -> int:
    from fltoolkit_contest.card import about_machine

    if old.result() == new.result():
        print("the card is confirmed: every number is the same")
        return 0
    if old.sha256 != new.sha256:
        print("the card is of another file: the hashes differ", file=sys.stderr)
        return 1
    here = {key: old.measured.get(key) == new.measured[key] for key in new.measured}
    different = [key for key in about_machine() if not here[key]]
    why = f" ({', '.join(different)} differ)" if different else ""
    alike = old.accepted == new.accepted and abs(old.nbytes - new.nbytes) <= 0.01 * new.nbytes
    told = [
        f"{card.nbytes:,} bytes, {'' if card.accepted else 'not '}accepted" for card in (old, new)
    ]
    print(f"the numbers differ from the card{why}: {'; '.join(told)}")
    return 0 if different and alike else 1


def _board(args: argparse.Namespace) -> int:
    from fltoolkit_contest.card import board, printable
    from fltoolkit_contest.entry import LONGEST
    from fltoolkit_contest.referee import verify
    from fltoolkit_contest.tracks import chosen

    chosen(args.track, args.league)
    cards = []
    for path in sorted([*args.folder.glob("*.py"), *args.folder.glob("*/entry.py")]):
        name = printable(path.stem if path.parent == args.folder else path.parent.name, 80)
        if not path.is_file():  # a pipe or a device could be read without an end
            continue
        try:
            with path.open(encoding="utf-8") as file:
                text = file.read(LONGEST + 1)
            more = {"track": args.track, "league": args.league, "name": name}
            cards.append(verify(text, **more, report=lambda line: None))
            output = path.with_suffix(".card.json")
            output.unlink(missing_ok=True)  # one that was handed in could be a link elsewhere
            cards[-1].write(output)
            print(f"{name}: verified", flush=True)
        except Exception as error:  # whatever it is, the others go on
            done = cards and cards[-1].name == name  # a folder can have the name of the card
            what = "verified, and its card not written" if done else "not accepted"
            print(f"{name}: {what}: {printable(str(error))}", flush=True)
    if not cards:
        raise ValueError(f"{args.folder} holds no entry that could be verified: NAME.py")
    print("\n" + board(cards))
    return 0


def _history(args: argparse.Namespace) -> int:
    from fltoolkit_contest.card import board, read_records

    found = read_records(args.folder)
    if not found:
        raise ValueError(f"{args.folder} holds no records: TRACK/NAME/card.json and note.md")
    print(board(found))
    return 0
