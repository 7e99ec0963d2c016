"""The command line of course assignments: ``fltoolkit assignment release | check | grade | lms``.

Also ``python -m fltoolkit.assignments.cli``. Everything it does is a function of master.py,
grading.py and gradebook.py.
"""

import argparse
import functools
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from fltoolkit.assignments import gradebook, grading
from fltoolkit.assignments import master as assignment
from fltoolkit.assignments.sandbox import Limits, fences

__all__ = ["main"]

FLOW = """examples: the instructor's flow:
  fltoolkit assignment release 1 --out 1_student.ipynb     hand this file out
  fltoolkit assignment grade SUBMISSIONS/ --assignment 1 --out GRADES --jobs 2
      SUBMISSIONS holds ana.ipynb, ben.ipynb, ... or ana/anything.ipynb, ...
      GRADES gets gradebook.csv and .json, summary.html, feedback/ana.html, by_hand.csv
  ... fill the open questions' points into GRADES/by_hand.csv and say grade again ...
  fltoolkit assignment lms canvas EXPORTED.csv --from GRADES --column "A 1" --out IMPORT.csv
and the student's:
  fltoolkit assignment check 1_student.ipynb               before handing in
An assignment is a number (notebooks/assignments/1_*.ipynb) or a path. More: docs/instructors.md"""


def _fill(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(dest="command", required=True)
    make = commands.add_parser("release", help="make the students' notebook from a master")
    make.add_argument("assignment", help="number, or path of a master notebook")
    make.add_argument("--out", type=Path, help="default: the master's name in this folder")
    make.set_defaults(run=_release)

    check = commands.add_parser(
        "check", help="run your own notebook's open checks before handing in"
    )
    check.add_argument("notebook", type=Path)
    check.set_defaults(run=_check)

    limits = Limits()
    grade = commands.add_parser("grade", help="grade a folder of submissions")
    grade.add_argument("submissions", type=Path, help="NAME.ipynb or NAME/*.ipynb in it")
    grade.add_argument("--assignment", required=True, help="number, or path of a master notebook")
    grade.add_argument("--out", type=Path, required=True, help="folder for all results")
    grade.add_argument("--jobs", type=int, default=1, help="so many at a time (1)")
    grade.add_argument(
        "--regrade", metavar="STUDENT", nargs="+", default=[], help="these only, again"
    )
    grade.add_argument(
        "--seed", type=int, help="the secret seed (default: drawn once, kept in OUT)"
    )
    grade.add_argument(
        "--cell-seconds", type=float, default=limits.cell_seconds, help="of processor time (20)"
    )
    grade.add_argument(
        "--total-seconds",
        type=float,
        default=limits.total_seconds,
        help="for one student, on the clock (300)",
    )
    grade.add_argument(
        "--memory", type=float, default=limits.memory / 2**30, help="GiB per process (4)"
    )
    grade.add_argument(
        "--no-bubblewrap", action="store_true", help="not even where it is installed"
    )
    grade.set_defaults(run=_grade)

    lms = commands.add_parser("lms", help="put the totals into a file exported by Canvas or Moodle")
    lms.add_argument("system", choices=gradebook.LMS)
    lms.add_argument("roster", type=Path, help="the exported CSV")
    lms.add_argument("--from", dest="grades", type=Path, required=True, help="--out of grade")
    lms.add_argument("--column", required=True, help="header of the column to fill")
    lms.add_argument("--key", help="header of the column that holds the names of the files")
    lms.add_argument("--out", type=Path, required=True)
    lms.set_defaults(run=_lms)


def _release(args: argparse.Namespace) -> int:
    master = assignment.load_master(args.assignment)
    out = args.out or Path(f"{master.name}.ipynb")
    if out.exists() and (out.resolve().parent / out.name) == Path(args.assignment).resolve():
        raise assignment.AssignmentError(f"{out} is the master: give another --out")
    text = json.dumps(assignment.release(master), indent=1, ensure_ascii=False) + "\n"
    if Path("notebooks/assignments") in (out.parent, *out.parents):
        raise assignment.AssignmentError(f"{out}: masters live there; give another --out")
    out.write_text(text, encoding="utf-8")
    points = sum(task.points for task in master.tasks)
    print(
        f"{out}: {len(master.ids('answer'))} answers, {points:g} points. Solutions are taken out."
    )
    return 0


def _check(args: argparse.Namespace) -> int:
    problems = assignment.check(args.notebook)
    for problem in problems:
        print("-", problem)
    if not problems:
        print(
            "Nothing is missing and no open check complains. Hidden checks run when it is graded."
        )
    return int(bool(problems))


def _grade(args: argparse.Namespace) -> int:
    limits = Limits(
        cell_seconds=args.cell_seconds,
        total_seconds=args.total_seconds,
        memory=int(args.memory * 2**30),
    )
    master = assignment.load_master(args.assignment)
    for name, what in fences(not args.no_bubblewrap).items():
        print(f"  {'!' if what.startswith('no') else ' '} {name}: {what}")
    results = grading.grade(
        args.submissions,
        master,
        args.out,
        jobs=args.jobs,
        limits=limits,
        seed=args.seed,
        only=args.regrade,
        bubblewrap=not args.no_bubblewrap,
        progress=functools.partial(_bar, seconds=limits.total_seconds, jobs=args.jobs),
    )
    unknown = gradebook.write(master, results, args.out)
    points = {task.id: task.points for task in master.tasks}
    for result in results:
        maximum = sum(points[name] for name in result.points)
        note = f"  {'; '.join(result.notes)}" if result.notes else ""
        print(f"{result.student:20s}{result.total:6g} of {maximum:g}  {result.status}{note}")
    print(f"wrote {args.out}/gradebook.csv, summary.html, feedback/")
    if any(task.manual for task in master.tasks):
        print(f"open questions: fill {args.out}/by_hand.csv and run this again")
    if unknown:
        print(f"! points in {args.out}/by_hand.csv, but no submission:", ", ".join(unknown))
    return 0


def _bar(
    results: Iterable[grading.Result], total: int, seconds: float, jobs: int
) -> Iterator[grading.Result]:
    """What is graded now, how long it takes at the worst, and a progress bar on a terminal."""
    from tqdm import tqdm

    if total:
        worst = -(-total // jobs) * seconds / 60
        print(
            f"at the worst, if everybody takes all of {seconds:g} s, this is {worst:.0f} minutes; "
            "--total-seconds sets another limit for each student, --jobs grades more at a time"
        )

    print(f"grading {total}; what was graded before is kept, also with its limits (see --regrade)")
    yield from tqdm(results, total=total, unit="submission", disable=not sys.stderr.isatty())


def _lms(args: argparse.Namespace) -> int:
    path = args.grades / "gradebook.json"
    if not path.exists():
        raise assignment.AssignmentError(
            f"{path}: not there; run `grade --out {args.grades}` first"
        )
    table = json.loads(path.read_text(encoding="utf-8"))
    results = [
        grading.Result(
            row["student"],
            total=row["total"],
            status=row["status"],
            handed_in=row.get("handed_in", ""),
        )
        for row in table
    ]
    graded = [row for row in table if not row["status"].startswith(grading.AGAIN)]
    again = [row["student"] for row in table if row["status"].startswith(grading.AGAIN)]
    known = {"student", "total", "maximum", "status", "notes", "seconds", "memory_MB", "handed_in"}
    waiting = {}
    for name in [name for name in (table[0] if table else ()) if name not in known]:
        if count := sum(row[name] == "" and _wrote(row, name) for row in graded):
            waiting[name] = count
    for name, count in waiting.items():
        print(
            f"! the open question {name!r} is not marked yet for {count} of {len(graded)}: their "
            f"totals lack its points. Fill {args.grades}/by_hand.csv, say grade again, then lms"
        )
    if again:
        print("! not graded, and left out here (say grade again):", ", ".join(again))
    empty, unused = gradebook.fill_lms(
        args.roster, results, args.out, system=args.system, column=args.column, key=args.key
    )
    print(f"wrote {args.out}")
    if empty:
        print("no submission graded:", ", ".join(empty))
    if unused:
        print("! graded, but not in the roster:", ", ".join(unused))
    return int(bool(unused or waiting or again))


def _wrote(row: dict[str, Any], question: str) -> bool:
    """Whether this student answered this question at all."""
    nothing = (f"not answered: {question}", f"missing cell: {question}")
    return not set(nothing) & set(row["notes"].split("; ")) and row["memory_MB"] > 0


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; mistakes of the user become one line, not a traceback."""
    parser = argparse.ArgumentParser(
        prog="fltoolkit assignment",
        description="Release, check and grade the course's assignments.",
        epilog=FLOW,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _fill(parser)
    args = parser.parse_args(argv)
    try:
        return int(args.run(args))
    except (assignment.AssignmentError, OSError, ValueError, ImportError) as error:
        print(f"fltoolkit assignment: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped; what is graded is kept: say the same again to go on", file=sys.stderr)
        return 130


if __name__ == "__main__":
    raise SystemExit(main())
