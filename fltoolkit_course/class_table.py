"""``python -m fltoolkit_course.class_table FOLDER``: what a class has done, as a table.

Students hand in the file ``course_progress.json`` that stands beside their notebooks; nothing is
sent by itself. The files are only read. Not here: marks, which are fltoolkit_grading's.
"""

import argparse
import csv
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from fltoolkit_course.done import Done, done_in
from fltoolkit_course.syllabus import NOTEBOOKS

HEAD = ("student", "notebook", "finished", "guesses", "checks", "guessed (measured)")
_PLATFORM = re.compile(r"(_LATE)?_\d+_(assignsubmission_file.*|\d{2,}_.*)$")
_MOST = 1 << 20  # bytes of a file; a whole course takes some 20 kB


def class_table(folder: str | Path) -> list[tuple[str, ...]]:
    """A row, with the columns of `HEAD`, for each student and each notebook that was begun.

    Args:
        folder: holds ``ana.json``, or ``ana/course_progress.json``, or what Moodle's or Canvas's
            download made of these names.

    A student whose file cannot be read, or who has begun nothing, has one row that says so. Raises
    FileNotFoundError if there is no file at all.
    """
    folder = Path(folder)
    paths = sorted(path for path in folder.rglob("*.json") if path.name[0] != ".")
    if not paths:
        raise FileNotFoundError(
            f"{folder}: no .json file; each student hands in course_progress.json, which stands "
            "beside the notebooks"
        )
    return [row for path in paths for row in _rows_of(path, folder)]


def _rows_of(path: Path, folder: Path) -> Iterator[tuple[str, ...]]:
    student = path.relative_to(folder).parts[0].removesuffix(".json")
    student = _PLATFORM.sub("", student)
    try:
        if path.stat().st_size > _MOST:
            raise ValueError(f"larger than {_MOST:,} bytes")
        kept = done_in(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        yield (student, "cannot be read: ask for the file again", "", "", "", "")
        return
    begun = 0
    for notebook in NOTEBOOKS:
        done = kept.get(notebook.number, Done())
        if not done.guesses and not done.checks:
            continue
        begun += 1
        guesses, checks = notebook.counts(done)
        wanted = len(notebook.guesses), len(notebook.answers)
        said = "; ".join(f"{k}: {g.guessed} ({g.measured})" for k, g in done.guesses.items())
        finished = "yes" if (guesses, checks) == wanted else "no"
        counts = (f"{guesses} of {wanted[0]}", f"{checks} of {wanted[1]}")
        yield (student, f"{notebook.number} {notebook.title}", finished, *counts, said)
    if not begun:
        yield (student, "nothing begun", "", "", "", "")


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the table as a CSV file."""
    parser = argparse.ArgumentParser(
        prog="python -m fltoolkit_course.class_table",
        description="Make one table of the course_progress.json files that students handed in.",
    )
    parser.add_argument("folder", type=Path, help="ana.json, ben/course_progress.json, ...")
    parser.add_argument("--out", type=Path, default=Path("class.csv"), help="default: class.csv")
    args = parser.parse_args(arguments)
    try:
        rows = class_table(args.folder)
    except OSError as error:
        parser.exit(2, f"{error}\n")
    with open(args.out, "w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(HEAD)
        # a spreadsheet would run a text that begins like a formula
        table.writerows(
            [f"'{x}" if x.startswith(tuple("=+-@\t\r")) else x for x in row] for row in rows
        )
    print(f"wrote {args.out}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
