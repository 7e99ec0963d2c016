"""The command line of assignments: ``fltoolkit assignment COMMAND``.

The commands call functions of master.py, grading.py and gradebook.py. There is no ``python -m`` for
them: Python would first import from the current folder, which may be one of submissions.
"""

import argparse
import functools
import json
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from fltoolkit_grading import fence, gradebook, grading
from fltoolkit_grading import master as assignment

FLOW = """examples: the instructor runs, in this order:
  fltoolkit assignment test 1                              a master of your own: is it in order?
  fltoolkit assignment release 1 --out 1_student.ipynb     give this file to the students
  fltoolkit assignment release 1 --students NAMES --out TO  or one for each, with own numbers
  fltoolkit assignment grade SUBMISSIONS/ --assignment 1 --out GRADES --jobs 2
      SUBMISSIONS holds ana.ipynb, ben.ipynb, ... or ana/anything.ipynb, ...
      GRADES gets gradebook.csv, summary.html, feedback/ana.html, by_hand.csv
  ... write the points of open questions into GRADES/by_hand.csv and run grade again, with
      --roster EXPORTED.csv --column "A 1"                 for GRADES/import.csv, for Canvas, Moodle
and a student runs:
  fltoolkit assignment check 1_student.ipynb               before handing in
An assignment is a number (notebooks/assignments/1_*.ipynb) or a path. More: docs/instructors.md"""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="fltoolkit assignment",
        description="Release, check and grade the course's assignments.",
        epilog=FLOW,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    number = "number, or path of a master notebook"

    test = commands.add_parser("test", help="run a master and its untouched release")
    test.add_argument("assignment", help=number)
    test.set_defaults(run=_test)

    make = commands.add_parser("release", help="make the students' notebook from a master")
    make.add_argument("assignment", help=number)
    make.add_argument("--out", type=Path, help="default: the master's name in this folder")
    about = "a name or an ID in each line: OUT becomes a folder with a notebook for each, with "
    about += "numbers of their own in the open checks"
    make.add_argument("--students", type=Path, metavar="FILE", help=about)
    make.set_defaults(run=_release)

    check = commands.add_parser("check", help="run your own notebook's open checks")
    check.add_argument("notebook", type=Path)
    check.set_defaults(run=_check)

    grade = commands.add_parser("grade", help="grade a folder of submissions")
    grade.add_argument("submissions", type=Path, help="NAME.ipynb or NAME/*.ipynb in it")
    grade.add_argument("--assignment", required=True, help=number)
    grade.add_argument("--out", type=Path, required=True, help="folder for all results")
    grade.add_argument("--jobs", type=int, default=1, help="number of submissions at a time (1)")
    usual = grading.Limits
    about = f"processor time for one cell ({usual.cell_seconds:g})"
    grade.add_argument("--cell-seconds", type=float, default=usual.cell_seconds, help=about)
    about = f"the same for all answers, and for all hidden checks ({usual.total_seconds:g})"
    grade.add_argument("--total-seconds", type=float, default=usual.total_seconds, help=about)
    about = "a table exported by Canvas or Moodle, in which OUT/import.csv gets the totals"
    grade.add_argument("--roster", type=Path, metavar="EXPORTED.csv", help=about)
    grade.add_argument("--column", help="header of the column of totals in that table")
    grade.set_defaults(run=_grade)
    return parser


def _test(args: argparse.Namespace) -> int:
    master = assignment.load_master(args.assignment)
    found = grading.faults(master, limits=grading.Limits(fenced=not fence.missing()))
    for fault in found:
        print("-", fault)
    if not found:
        print("The master gets all points, with two seeds; its untouched release gets none.")
    return int(bool(found))


def _release(args: argparse.Namespace) -> int:
    master = assignment.load_master(args.assignment)
    try:  # a master is your own code: it needs no fence
        found = grading.faults(master, limits=grading.Limits(fenced=False), whole=False)
    except (ImportError, OSError) as error:
        print(f"the master was not tried before its release: {error}")
    else:
        if found:
            raise assignment.AssignmentError(f"master {master.name}: {'; '.join(found)}")
    out = args.out or Path(f"{master.name}.ipynb")
    if out.exists() and (out.resolve().parent / out.name) == Path(args.assignment).resolve():
        raise assignment.AssignmentError(f"{out} is the master: give another --out")
    if Path("notebooks/assignments") in (out, out.parent, *out.parents):
        raise assignment.AssignmentError(f"{out}: this folder is for masters; give another --out")
    points = sum(task.points for task in master.tasks)
    about = f"{len(master.ids('answer'))} answers, {points:g} points. The file holds no solutions."
    if args.students is None:
        _write(out, assignment.release(master))
        print(f"{out}: {about}")
        return 0
    out = args.out or Path(master.name)
    for name in _names_in(args.students):
        folder = out / re.sub(r"[^\w .@+-]", "_", name)
        folder.mkdir(parents=True, exist_ok=True)
        numbers = assignment.own_numbers(name)
        path = folder / f"{master.name}.ipynb"
        _write(path, assignment.release(master, numbers=numbers))
        print(f"{path}: numbers {numbers}")
    print(f"each: {about}")
    return 0


def _write(path: Path, notebook: dict[str, Any]) -> None:
    text = json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
    path.write_text(text, encoding="utf-8")


def _names_in(path: Path) -> list[str]:
    """The names in a file, one in each line. Raises AssignmentError for two with one number."""
    lines = path.read_text(encoding="utf-8-sig").splitlines()
    names = [line.strip() for line in lines if line.strip()]
    if not names:
        raise assignment.AssignmentError(f"{path}: no names; write one in each line")
    first: dict[int, str] = {}
    for name in names:
        other = first.setdefault(assignment.own_numbers(name), name)
        if other is not name:
            raise assignment.AssignmentError(
                f"{path}: {other!r} and {name!r} would get the same numbers: write an ID instead"
            )
    return names


def _check(args: argparse.Namespace) -> int:
    problems = assignment.check_notebook(args.notebook)
    for problem in problems:
        print("-", problem)
    if not problems:
        print(
            "Nothing is missing, and all open checks pass. Hidden checks run when the instructor "
            "grades the notebook."
        )
    return int(bool(problems))


def _grade(args: argparse.Namespace) -> int:
    if (args.roster is None) != (args.column is None):
        raise ValueError("give --roster EXPORTED.csv and --column HEADER together")
    limits = grading.Limits(cell_seconds=args.cell_seconds, total_seconds=args.total_seconds)
    master = assignment.load_master(args.assignment)
    bar = functools.partial(_bar, seconds=limits.longest / max(args.jobs, 1))
    about = {"jobs": args.jobs, "limits": limits, "progress": bar}
    results = grading.grade(args.submissions, master, args.out, **about)
    problems = gradebook.write(master, results, args.out)
    points = {task.id: task.points for task in master.tasks}
    for result in results:
        maximum = sum(points[name] for name in result.points)
        told = [note for note in result.notes if not note.startswith("handed in as ")]
        note = f"  {'; '.join(told)}" if told else ""
        print(f"{result.student:20s}{result.total:6g} of {maximum:g}  {result.status}{note}")
    print(f"wrote {args.out}/gradebook.csv, summary.html, feedback/")
    waiting = []
    for name in (task.id for task in master.tasks if task.manual):
        nothing = {f"not answered: {name}", f"missing cell: {name}"}
        unmarked = [r for r in results if r.graded and name not in r.points]
        if count := sum(not nothing & {*result.notes} for result in unmarked):
            waiting.append(f"the open question {name!r} is not marked yet for {count} students")
    if args.roster:
        path = args.out / "import.csv"
        empty, unused = gradebook.fill_lms(args.roster, results, path, column=args.column)
        print(f"wrote {path}")
        if empty:
            print("no submission graded:", ", ".join(empty))
        problems += [f"graded, but not in the roster: {who}" for who in unused]
        problems += waiting
        problems += [f"left out: {r.student}: {r.status}" for r in results if not r.graded]
    elif waiting:
        print(*waiting, sep="\n")
    if waiting:
        print(f"write the points into {args.out}/by_hand.csv and run this again")
    for sentence in problems:
        print("!", sentence)
    return int(bool(problems))


def _bar(results: Iterable[grading.Grade], total: int, seconds: float) -> Iterator[grading.Grade]:
    """Print how many submissions are graded, and the longest time; count them on a terminal."""
    if total:
        worst = total * seconds / 60
        print(
            f"if every submission sleeps as long as it may, this takes {worst:.0f} minutes; "
            "--total-seconds sets another limit, --jobs grades more at a time"
        )
    print(f"grading {total}; earlier results are kept, even if limits changed")
    for number, result in enumerate(results, 1):
        if sys.stderr.isatty():
            end = "\n" if number == total else ""
            print(f"\r{number} of {total} graded", end=end, file=sys.stderr, flush=True)
        yield result


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; a mistake of the user gives one line and no traceback.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "1_student.ipynb"
    >>> _ = path.write_text("This is no notebook.")
    >>> main(["check", str(path)])  # prints what is wrong; the exit status is 1
    - ...1_student.ipynb: not a notebook: not JSON
    1
    """
    args = _parser().parse_args(argv)
    try:
        return int(args.run(args))
    except (assignment.AssignmentError, OSError, ValueError, ImportError) as error:
        print(f"fltoolkit assignment: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped; results are kept: run the same command to continue", file=sys.stderr)
        return 130
