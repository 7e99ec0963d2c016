"""The results of grading: gradebook, feedback for each student, summary, and a column for an LMS.

LMS means learning management system, such as Canvas or Moodle. Everything that students wrote is
escaped here and shown as text. Hidden checks, their inputs and the expected outputs do not appear
in any feedback. Not here: grading itself (grading.py).
"""

import csv
import difflib
import html
import io
import json
import math
import zipfile
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from fltoolkit_grading.grading import Grade, write_whole
from fltoolkit_grading.master import OWN, Exercise, Master, kind_of, release
from fltoolkit_grading.names import COLUMNS, names_in, platform, whose

_FORMULA = "=+-@\t\r"  # a formula in a spreadsheet begins with one of these
_FOR_STUDENTS = (  # notes that begin like this are for the student, others for the instructor
    *("missing cell", "duplicate id", "cells of their own", "answer too long", "not answered"),
    *("edited check", "changed by hand", "late:", "a syntax error"),
)
_RULES = """Each check gives all of its points or none, unless parts of it are named below. If you
think that points are wrong, tell your instructor the name of the task and why: a person can change
them, and write the reason here."""
LATE = "late"
"""Written in place of a task: points that are taken off the total, a number below 0."""
_TIMES = ("handed in", "Last modified (submission)")  # the column of times, here and in Moodle
_STYLE = """<meta charset="utf-8"><style>
body{font:16px/1.5 system-ui,sans-serif;max-width:48em;margin:2em auto;padding:0 1em}
pre{background:#f4f4f4;padding:.6em;overflow-x:auto}pre,td{white-space:pre-wrap}
table{border-collapse:collapse}td{padding:.2em .8em;border-bottom:1px solid #ccc}</style>"""


def write(master: Master, results: Sequence[Grade], out: str | Path) -> list[str]:
    """Write gradebook.csv and .json, feedback/ and its zip, summary.html, and by_hand.csv.

    A row of the gradebook holds the student, the points of each task and those for lateness, total,
    maximum, status, notes, seconds, memory, and the name of the file. A question that has not been
    graded yet is an empty cell; its points are part of ``maximum``. Returns a sentence on each name
    in by_hand.csv, changed.csv or late.csv without a submission.

    >>> import tempfile
    >>> out = Path(tempfile.mkdtemp())
    >>> write(Master("demo", {"cells": []}, ""), [Grade("ana")], out)
    []
    >>> sorted(path.name for path in out.iterdir())
    ['feedback', 'feedback.zip', 'gradebook.csv', 'gradebook.json', 'summary.html']
    """
    out = Path(out)
    (out / "feedback").mkdir(parents=True, exist_ok=True)
    unknown = add_manual(master, results, out / "by_hand.csv")
    unknown += take_off_late(master, results, out)
    unknown += overrule(master, results, out / "changed.csv")
    tasks = {task.id: task.points for task in master.tasks}
    table = [
        {"student": r.student, **{name: r.points.get(name, "") for name in tasks}, LATE: r.late}
        | {"total": r.total, "maximum": master.points, "status": r.status}
        | {"notes": "; ".join(r.notes), "seconds": r.seconds, "memory_MB": round(r.memory / 1e6)}
        | {"handed_in": "".join(c if c.isprintable() else "?" for c in r.handed_in)}
        for r in results
    ]
    _write_csv(out / "gradebook.csv", [*(table[0] if table else ["student"])], map(_quoted, table))
    write_whole(out / "gradebook.json", json.dumps(table, indent=1))
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as pages:
        for result in results:
            page, name = feedback(master, result), f"{result.student}.html"
            write_whole(out / "feedback" / name, page)
            back = _handed_back(result)
            pages.writestr(zipfile.ZipInfo(name if back in pages.namelist() else back), page)
    write_whole(out / "feedback.zip", archive.getvalue())
    write_whole(out / "summary.html", _summary(master, results))
    return unknown


def _handed_back(result: Grade) -> str:
    """The name of a feedback page under which the LMS knows whose it is."""
    match platform(result.handed_in):
        case ("moodle", name, number, _):
            return f"{name}_{number}_assignsubmission_file_/feedback.html"
        case ("canvas", *_):
            return f"{result.handed_in}.html"
    return f"{result.student}.html"


# ---------------------------------------------------------------------------------- tables


def _write_csv(
    path: Path, header: Sequence[str], table: Iterable[dict[str, Any]], delimiter: str = ","
) -> None:
    """Write a table as it is; `_quoted` makes text safe that a spreadsheet would compute."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, header, restval="", delimiter=delimiter)
    writer.writeheader()
    writer.writerows(table)
    write_whole(path, text.getvalue())


def _quoted(row: dict[str, Any]) -> dict[str, Any]:
    """A row in which text that a spreadsheet would read as a formula begins with a quote."""
    formulas = {k for k, v in row.items() if isinstance(v, str) and v and v[0] in _FORMULA}
    return {k: f"'{v}" if k in formulas else v for k, v in row.items()}


def _read_csv(path: Path, *columns: str) -> tuple[list[str], list[dict[str, str]], str]:
    """Header, rows and delimiter of a CSV file; raises ValueError if one of these is missing."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not UTF-8; in Excel save it as 'CSV UTF-8'") from error
    delimiter = max(",;\t", key=text.partition("\n")[0].count)
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter, restval="")
    header, lines = list(reader.fieldnames or []), list(reader)
    if not {*columns} <= {*header} or len(set(header)) < len(header):
        raise ValueError(f"{path}: its header is {header}; it needs {columns}, each name only once")
    if longer := [line for line in lines if None in line]:
        raise ValueError(f"{path}: a line has more cells than the header: {[*longer[0].values()]}")
    return header, lines, delimiter


def _unquoted(value: str) -> str:
    return value[1:] if value[:1] == "'" and value[1:2] in _FORMULA and value[1:] else value


def _found(
    path: Path, names: Iterable[str], results: Iterable[Grade]
) -> tuple[dict[str, Grade], list[str]]:
    """The result of each name in a file, and a sentence on each name that has none."""
    names, there = list(dict.fromkeys(names)), {r.student: r for r in results}
    lines = [{"student": _unquoted(name)} for name in names]
    found = whose(path.name, lines, {who: r.handed_in for who, r in there.items()})
    known = {who.lower(): who for who in there}
    lost = []
    for number, name in enumerate(names):
        if number not in found and name:
            near = difflib.get_close_matches(name.lower().replace(" ", "_"), known, 1)
            hint = f"; did you mean {known[near[0]]!r}?" if near else ""
            lost.append(f"{path.name}: {name!r} has no submission, or another line{hint}")
    return {names[n]: there[who] for n, who in found.items()}, lost


def _points(given: str, most: float, where: str) -> float:
    """The number in a cell; raises ValueError for what is no number from 0 to ``most``."""
    try:
        points = float(given.replace(",", "."))
    except ValueError:
        points = -1.0
    if not 0 <= points <= most:
        raise ValueError(f"{where}: {given!r}; write a number from 0 to {most:g}")
    return points


def add_manual(master: Master, results: Sequence[Grade], path: Path) -> list[str]:
    """Add the points that a person gave to open questions, from the sheet at ``path``.

    If the sheet does not exist it is made, with one row for each student and one empty column for
    each question. Filled cells are never overwritten, and additional columns are kept. Raises
    ValueError for points below 0 or above the question's points, and for two rows of one name.
    Returns a sentence on each name that has points and no submission.
    """
    questions = [task for task in master.tasks if task.manual]
    if not questions:
        return []
    new: tuple[list[str], list[dict[str, str]], str] = (["student"], [], ",")
    header, lines, delimiter = _read_csv(path, "student") if path.exists() else new
    header += [task.id for task in questions if task.id not in header]
    sheet: dict[str, dict[str, str]] = {}
    for line in lines:
        name = _unquoted(line["student"])
        if name in sheet:
            raise ValueError(f"{path}: {name!r} has two rows; delete one of them")
        if any(line.values()):
            sheet[name] = line | {"student": name}
    marked = [name for name, row in sheet.items() if any(row.get(t.id) for t in questions)]
    found, unknown = _found(path, marked, results)
    for name, result in found.items():
        for task in questions:
            if given := (sheet[name].get(task.id) or "").strip():
                where = f"{path}: {task.id} of {name}"
                result.points[task.id] = _points(given, task.points, where)
    have = {result.student for result in found.values()}
    for result in results:
        if result.student not in have:
            sheet.setdefault(result.student, {"student": result.student})
    _write_csv(path, header, map(_quoted, sheet.values()), delimiter)
    return unknown


def overrule(master: Master, results: Iterable[Grade], path: Path) -> list[str]:
    """Replace points by those that a person decided, from the file at ``path``, if there is one.

    Each line has a ``student``, a ``task`` (its id in the gradebook), the ``points`` and a
    ``reason``, which the student's feedback shows. With the task "late" the points, below 0, are
    taken off the total in place of what late.csv takes. The file is only read. Raises ValueError
    for a line that cannot be right. Returns a sentence on each name without a submission.
    """
    if not path.exists():
        return []
    tasks = {task.id: task for task in master.tasks}
    tasks[LATE] = Exercise(LATE, 1e9, True, LATE, "")
    lines = [
        {k: v.strip() for k, v in line.items()}
        for line in _read_csv(path, "student", "task", "points", "reason")[1]
        if any(line.values())
    ]
    found, unknown = _found(path, (line["student"] for line in lines), results)
    for line in lines:
        who, name, given, reason = (line[k] for k in ("student", "task", "points", "reason"))
        where = f"{path}: {name!r} of {who}"
        if name not in tasks or not reason:
            raise ValueError(
                f"{where}, reason {reason!r}: each line needs a task, one of {', '.join(tasks)}, "
                "and a reason, which the student will read"
            )
        if (result := found.get(who)) is None:
            continue
        if name == LATE:
            result.late = -_points(given.removeprefix("-"), tasks[LATE].points, where)
            result.notes[:] = [note for note in result.notes if not note.startswith("late:")]
        else:
            result.points[name] = _points(given, tasks[name].points, where)
        result.notes.append(f"changed by hand: {tasks[name].title}, {given} points ({reason})")
    return unknown


def take_off_late(master: Master, results: Sequence[Grade], out: Path) -> list[str]:
    """Take points off what was handed in after the deadline in ``out/late.csv``, if it is there.

    The line without a ``student`` is for everybody: ``due`` (2026-10-05 23:59), what is taken off
    ``per day`` begun (1.5 points, or 10% of all points), and ``grace minutes`` that cost nothing. A
    line with a student replaces what is filled in it. The time is that in ``out/times.csv``, and
    otherwise that of the file, unless a platform named it: then the file has the time of the
    download. Raises ValueError for what cannot be read. Returns a sentence on each name without a
    submission.
    """
    if not (path := out / "late.csv").exists():
        return []
    lines = _read_csv(path, "student", "due", "per day", "grace minutes")[1]
    rules = {line["student"].strip(): {k: v.strip() for k, v in line.items()} for line in lines}
    if not (everybody := rules.pop("", {})).get("due"):
        raise ValueError(f"{path}: the deadline is in a line without a student; there is none")
    known = _times(out / "times.csv", results)
    found, unknown = _found(path, rules, results)
    own = {result.student: rules[name] for name, result in found.items()}
    for result in results:
        if not result.graded:
            continue
        rule = everybody | {k: v for k, v in own.get(result.student, {}).items() if v}
        each, grace = rule["per day"], _points(rule["grace minutes"] or "0", 1e6, f"{path}: grace")
        rate = _points(each.rstrip("% "), 100 if "%" in each else master.points, f"{path}: per day")
        rate *= master.points / 100 if "%" in each else 1
        due, came = _moment(rule["due"], path), known.get(result.student)
        made = platform(result.handed_in)
        if came is None and made is None:
            came = datetime.fromtimestamp(min(max(result.saved, 0), 2**32))  # no year 30000
        if came is None:
            if made and (made[0] == "moodle" or "_LATE_" in result.handed_in):
                result.notes.append("worth a look: when it came is not known, write it: times.csv")
        elif came > due + timedelta(minutes=grace):
            days = math.ceil((came - due) / timedelta(days=1))
            result.late = -min(days * rate, master.points)
            when = f"{came:%Y-%m-%d %H:%M}, due {due:%Y-%m-%d %H:%M}"
            result.notes.append(f"late: {when}, days begun: {days}, {result.late:g} points")
    return unknown


def _times(path: Path, results: Iterable[Grade]) -> dict[str, datetime]:
    """When each student has handed in, from a platform's table or one of the instructor's."""
    if not path.exists():
        return {}
    header, lines, _ = _read_csv(path)
    column = next((name for name in _TIMES if name in header), None)
    if column is None or not {*COLUMNS} & {*header}:
        raise ValueError(
            f"{path}: its header is {header}; it needs one of {COLUMNS} and of {_TIMES}"
        )
    found = whose(path.name, lines, {r.student: r.handed_in for r in results})
    said = {who: lines[number][column].strip() for number, who in found.items()}
    return {who: _moment(text, path) for who, text in said.items() if text not in ("", "-")}


def _moment(text: str, path: Path) -> datetime:
    """A time as ISO 8601 or as Moodle writes it in English, as the time of this machine."""
    for form in ("%A, %d %B %Y, %I:%M %p", "%d %B %Y, %I:%M %p", "iso"):
        try:
            found = datetime.strptime(text, form) if form != "iso" else datetime.fromisoformat(text)
        except ValueError:
            continue
        if ":" in text:
            return found.astimezone().replace(tzinfo=None) if found.tzinfo else found
    raise ValueError(f"{path}: the time {text!r} cannot be read: write it as 2026-10-05 23:59")


def fill_lms(
    roster: str | Path, results: Iterable[Grade], out: str | Path, *, column: str
) -> tuple[list[str], list[str]]:
    """Fill one column of the file that the LMS exported, for import into the same LMS.

    Args:
        roster: the exported CSV. Its other columns and its order do not change.
        results: from `grade`. A student is found by the LMS's number, by a name in one of the
            columns of `names.COLUMNS`, or by first and last name. Who could not be graded is left
            out: the cell stays as it is.
        out: the file to write.
        column: the header of the column for the total; added if no header begins with it.

    Returns students of the roster without a result, and results without a line in the roster.
    """
    header, lines, delimiter = _read_csv(Path(roster))
    if not {*COLUMNS} & {*header}:
        raise ValueError(f"{roster}: its header is {header}; it needs one of {COLUMNS}")
    if column not in header and (like := [name for name in header if name.startswith(column)]):
        raise ValueError(
            f"{roster}: there is no column {column!r}; give the whole header, one of {like}"
        )
    graded = {result.student: result for result in results if result.graded}
    found = whose(str(roster), lines, {who: r.handed_in for who, r in graded.items()})
    empty = []
    for number, line in enumerate(lines):
        if number in found:
            line[column] = f"{graded[found[number]].total:g}"
        elif (names := names_in(line)) and "points possible" not in line[header[0]].lower():
            empty.append(names[0])
    header += [column] * (column not in header)
    _write_csv(Path(out), header, lines, delimiter)
    return empty, sorted({*graded} - {*found.values()})


# ----------------------------------------------------------------------------------- pages


def feedback(master: Master, result: Grade) -> str:
    """One student's page in HTML: answers, output of open checks, points, hints.

    >>> page = feedback(Master("demo", {"cells": []}, ""), Grade("<b>ana"))
    >>> "<h1>&lt;b&gt;ana: 0 of 0 points</h1>" in page  # HTML in a name is shown as text
    True
    """
    tasks = {task.id: task for task in master.tasks}
    points = f"{result.total:g} of {master.points:g} points"
    head = f"{result.student}: {points if result.graded or result.total else 'not graded'}"
    lines = [f"Status: {result.status.split(' (code')[0]}."]  # the student may choose the code
    lines += [f"Note: {note}." for note in result.notes if note.startswith(_FOR_STUDENTS)]
    page = [_head(head), *(f"<p>{html.escape(line)}</p>" for line in [*lines, _RULES])]
    cells = [(name, "answer") for name in result.answers if name.startswith(OWN)]
    cells += [(cell["id"], kind_of(cell)) for cell in release(master)["cells"]]
    for name, kind in cells if result.graded else ():
        if kind in ("answer", "question"):
            answer = html.escape(result.answers.get(name, ""))
            page.append(f"<h3>{html.escape(name)}</h3><pre>{answer}</pre>")
        if kind in ("answer", "check") and (output := result.output.get(name)):
            page.append(f"<p>{html.escape(name)} printed:</p><pre>{html.escape(output)}</pre>")
        if name in tasks:
            page.append(f"<p><b>{html.escape(_verdict(tasks[name], result))}</b></p>")
    return "\n".join(page)


def _head(title: str) -> str:
    title = html.escape(title)
    return f"<title>{title}</title>{_STYLE}<h1>{title}</h1>"


def _verdict(task: Exercise, result: Grade) -> str:
    points = result.points.get(task.id)
    if points is None:
        return f"{task.title}: not marked yet; a person gives its points, at most {task.points:g}"
    said = f"{task.title}: {points:g} of {task.points:g} points."
    if points == task.points:
        return said
    if output := result.output.get(task.id, ""):
        said += f" It stopped with {output}."
    if steps := result.missed.get(task.id):
        said += f" Not right: {'; '.join(steps)}."
    # these two come from an answer that is missing, so there is nothing to give a hint on
    return said if output in ("NameError", "NotImplementedError") else f"{said} {task.hint}".strip()


def _summary(master: Master, results: Sequence[Grade]) -> str:
    """How many have how much of each task, whose run or file was unusual, and texts to mark."""
    table = [["", "points", "mean", "0", "less than half", "half or more", "all"]]
    columns = [("Total", master.points, [result.total for result in results])]
    for task in master.tasks:
        given = [result.points[task.id] for result in results if task.id in result.points]
        columns.append((task.title, task.points, given))
    for title, most, given in columns:
        places = [0 if v <= 0 else 3 if v >= most else 1 if v < most / 2 else 2 for v in given]
        mean = f"{sum(given) / len(given):.1f}" if given else "see by_hand.csv"
        table.append([title, f"{most:g}", mean, *(str(places.count(k)) for k in range(4))])
    # how a platform names a file is no reason to look at it
    why = {r.student: [n for n in r.notes if not n.startswith("handed in as ")] for r in results}
    looks = [r for r in results if r.status != "graded" or why[r.student]]
    body = [_head(master.name), f"<p>{len(results)} submissions</p>", _table(table)]
    parts = {"Worth a look": [(r.student, "; ".join([r.status, *why[r.student]])) for r in looks]}
    for task in (task for task in master.tasks if task.manual):
        who = [r for r in results if f"not answered: {task.id}" not in r.notes]
        texts = [(r.student, r.answers[task.id]) for r in who if task.id in r.answers]
        parts[f"{task.title}: {task.id}"] = texts
    body += [f"<h3>{html.escape(about)}</h3>{_table(lines)}" for about, lines in parts.items()]
    return "\n".join(body)


def _table(lines: Iterable[Sequence[str]]) -> str:
    cells = ("".join(f"<td>{html.escape(text)}</td>" for text in line) for line in lines)
    return f"<table>{''.join(f'<tr>{line}</tr>' for line in cells)}</table>"
