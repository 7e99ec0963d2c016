"""The command line of assignments: ``fltoolkit assignment COMMAND``.

``python -m fltoolkit_grading.cli`` is the same. The commands call functions of master.py,
grading.py and gradebook.py.
"""

import argparse
import functools
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
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
      GRADES gets gradebook.csv and .json, summary.html, feedback/ana.html, by_hand.csv
  ... write the points of open questions into GRADES/by_hand.csv and run grade again ...
  fltoolkit assignment lms canvas EXPORTED.csv --from GRADES --column "A 1" --out IMPORT.csv
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

    test = commands.add_parser("test", help="run a master, its untouched release, wrong answers")
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
    about = "grade only these again"
    grade.add_argument("--regrade", metavar="STUDENT", nargs="+", default=[], help=about)
    about = "processor time for one cell (20)"
    grade.add_argument(
        "--cell-seconds", type=float, default=grading.Limits.cell_seconds, help=about
    )
    about = "processor time for all answers of one student, and for all hidden checks (100)"
    grade.add_argument(
        "--total-seconds", type=float, default=grading.Limits.total_seconds, help=about
    )
    about = "without bubblewrap: only for notebooks that you have written yourself"
    grade.add_argument("--no-fence", action="store_true", help=about)
    grade.set_defaults(run=_grade)

    lms = commands.add_parser("lms", help="put the totals into a file exported by Canvas or Moodle")
    lms.add_argument("system", choices=gradebook.LMS)
    lms.add_argument("roster", type=Path, help="the exported CSV")
    about = "the folder given to grade --out"
    lms.add_argument("--from", dest="grades", type=Path, required=True, help=about)
    lms.add_argument("--column", required=True, help="header of the column to fill")
    lms.add_argument("--key", help="header of the column that holds the names of the files")
    lms.add_argument("--out", type=Path, required=True)
    lms.set_defaults(run=_lms)
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
    limits = grading.Limits(
        cell_seconds=args.cell_seconds,
        total_seconds=args.total_seconds,
        fenced=not args.no_fence,
    )
    master = assignment.load_master(args.assignment)
    say = functools.partial(print, "[no fence]") if args.no_fence else print
    if args.no_fence:
        say("these notebooks can do all that you can: grade only what you have written yourself")
    results = grading.grade(
        args.submissions,
        master,
        args.out,
        jobs=args.jobs,
        limits=limits,
        only=args.regrade,
        progress=functools.partial(_bar, seconds=limits.longest, jobs=args.jobs, say=say),
    )
    unknown = gradebook.write(master, results, args.out)
    points = {task.id: task.points for task in master.tasks}
    for result in results:
        maximum = sum(points[name] for name in result.points)
        told = [note for note in result.notes if not note.startswith("handed in as ")]
        note = f"  {'; '.join(told)}" if told else ""
        say(f"{result.student:20s}{result.total:6g} of {maximum:g}  {result.status}{note}")
    say(f"wrote {args.out}/gradebook.csv, summary.html, feedback/")
    if any(task.manual for task in master.tasks):
        say(f"open questions: write points into {args.out}/by_hand.csv and run this again")
    for sentence in unknown:
        say("!", sentence)
    return int(bool(unknown))


def _bar(
    results: Iterable[grading.Grade],
    total: int,
    seconds: float,
    jobs: int,
    say: Callable[..., None],
) -> Iterator[grading.Grade]:
    """Print how many submissions are graded, and the longest time; count them on a terminal."""
    if total:
        worst = -(-total // jobs) * seconds / 60
        say(
            f"if every submission sleeps for the whole {seconds:g} s, this takes {worst:.0f} "
            "minutes; --total-seconds sets another limit, --jobs grades more at a time"
        )
    say(f"grading {total}; earlier results are kept, even if limits changed (see --regrade)")
    for number, result in enumerate(results, 1):
        if sys.stderr.isatty():
            end = "\n" if number == total else ""
            print(f"\r{number} of {total} graded", end=end, file=sys.stderr, flush=True)
        yield result


def _lms(args: argparse.Namespace) -> int:
    path = args.grades / "gradebook.json"
    if not path.exists():
        raise assignment.AssignmentError(
            f"{path}: no such file; run `grade --out {args.grades}` first"
        )
    table = json.loads(path.read_text(encoding="utf-8"))
    results = [
        grading.Grade(
            row["student"],
            total=row["total"],
            status=row["status"],
            handed_in=row.get("handed_in", ""),
        )
        for row in table
    ]
    again, unread = (
        [row["student"] for row in table if row["status"].startswith(why)]
        for why in (grading.AGAIN, grading.UNREAD)
    )
    graded = [row for row in table if row["student"] not in (*again, *unread)]
    known = {"student", gradebook.LATE, "total", "maximum", "status", "notes", "seconds"}
    known |= {"memory_MB", "handed_in"}
    waiting = {}
    for name in [name for name in (table[0] if table else ()) if name not in known]:
        if count := sum(row[name] == "" and _wrote(row, name) for row in graded):
            waiting[name] = count
    for name, count in waiting.items():
        print(
            f"! the open question {name!r} is not marked yet for {count} of {len(graded)}: their "
            f"totals lack its points. Write them into {args.grades}/by_hand.csv, run grade again, "
            "then lms"
        )
    if again:
        print("! not graded, and left out here (run grade again):", ", ".join(again))
    if unread:
        print("! cannot be read, and left out here (ask for the file):", ", ".join(unread))
    empty, unused = gradebook.fill_lms(
        args.roster, results, args.out, system=args.system, column=args.column, key=args.key
    )
    print(f"wrote {args.out}")
    if empty:
        print("no submission graded:", ", ".join(empty))
    if unused:
        print("! graded, but not in the roster:", ", ".join(unused))
    return int(bool(unused or waiting or again or unread))


def _wrote(row: dict[str, Any], question: str) -> bool:
    """True if this student has answered this question."""
    nothing = (f"not answered: {question}", f"missing cell: {question}")
    return not set(nothing) & set(row["notes"].split("; ")) and row["memory_MB"] > 0


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


if __name__ == "__main__":
    raise SystemExit(main())
