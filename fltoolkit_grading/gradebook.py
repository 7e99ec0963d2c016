"""The results of grading: gradebook, feedback for each student, summary, and columns for an LMS.

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
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from fltoolkit_grading.grading import AGAIN, UNFENCED, UNREAD, Grade, write_whole
from fltoolkit_grading.looks import alike
from fltoolkit_grading.master import OWN, Exercise, Master, kind_of, release
from fltoolkit_grading.names import match, platform

# the column that names a student, in the files that these systems export and import
LMS = {
    "canvas": ("SIS Login ID", "ID", "SIS User ID", "Student"),
    "moodle": ("Email address", "Username", "ID number", "Identifier", "Full name"),
}
_FORMULA = "=+-@\t\r"  # a formula in a spreadsheet begins with one of these
_FOR_STUDENTS = (  # notes that begin like this are for the student, others for the instructor
    "missing cell",
    "duplicate id",
    "a split answer",
    "cells of their own",
    "answer too long",
    "not answered",
    "wrong kernel",
    "edited check",
    "changed by hand",
    "late:",
    "a syntax error",
    UNFENCED,
)
LATE = "late"
"""Written in place of a task: points that are taken off the total, a number below 0."""
TIMES = ("handed in", "Last modified (submission)")  # the column of times, here and in Moodle
_STYLE = """<meta charset="utf-8"><style>
body{font:16px/1.5 system-ui,sans-serif;max-width:48em;margin:2em auto;padding:0 1em}
pre{background:#f4f4f4;padding:.6em;overflow-x:auto;white-space:pre-wrap}
table{border-collapse:collapse}td,th{padding:.2em .8em;border-bottom:1px solid #ccc;text-align:left}
.bar{background:#0072b2;display:inline-block;height:.8em}</style>"""


def rows(master: Master, results: Iterable[Grade]) -> list[dict[str, Any]]:
    """The rows of the gradebook, one for each student.

    A row holds the student, the points of each task and those for lateness, total, maximum,
    status, notes, seconds, memory, and the name of the file. A question that has not been graded
    yet is an empty cell; its points are part of ``maximum``.

    >>> row = rows(Master("demo", {"cells": []}, ""), [Grade("ana", total=3.0)])[0]
    >>> row["student"], row["total"], row["status"]
    ('ana', 3.0, 'graded')
    """
    maximum = sum(task.points for task in master.tasks)
    table = []
    for result in results:
        row: dict[str, Any] = {"student": result.student}
        row |= {task.id: result.points.get(task.id, "") for task in master.tasks}
        row |= {
            LATE: result.late,
            "total": result.total,
            "maximum": maximum,
            "status": result.status,
        }
        row["notes"] = "; ".join(result.notes)
        row |= {"seconds": result.seconds, "memory_MB": round(result.memory / 1e6)}
        row["handed_in"] = result.handed_in
        table.append(row)
    return table


def write(master: Master, results: Sequence[Grade], out: str | Path) -> list[str]:
    """Write gradebook.csv and .json, feedback/ and its zip, summary.html, and by_hand.csv.

    Returns a sentence on each name in that sheet, changed.csv or late.csv without a submission.

    >>> import tempfile
    >>> out = Path(tempfile.mkdtemp())
    >>> write(Master("demo", {"cells": []}, ""), [Grade("ana", total=3.0)], out)
    []
    >>> sorted(path.name for path in out.iterdir())
    ['feedback', 'feedback.zip', 'gradebook.csv', 'gradebook.json', 'summary.html']
    """
    out = Path(out)
    (out / "feedback").mkdir(parents=True, exist_ok=True)
    unknown = add_manual(master, results, out / "by_hand.csv")
    unknown += take_off_late(master, results, out)
    unknown += overrule(master, results, out / "changed.csv")
    table = rows(master, results)
    write_whole(out / "gradebook.json", json.dumps(table, indent=1))
    _write_csv(out / "gradebook.csv", list(table[0]) if table else ["student"], table)
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as pages:
        for result in results:
            page = feedback(master, result)
            write_whole(out / "feedback" / f"{result.student}.html", page)
            name = _handed_back(result)
            name = f"{result.student}.html" if name in pages.namelist() else name
            pages.writestr(zipfile.ZipInfo(name), page)
    write_whole(out / "feedback.zip", archive.getvalue())
    write_whole(out / "summary.html", _summary(master, results))
    return unknown


def _handed_back(result: Grade) -> str:
    """The name of a feedback page under which the LMS knows whose it is."""
    found = platform(result.handed_in)
    if found is None:
        return f"{result.student}.html"
    system, name, number, _ = found
    if system == "moodle":
        return f"{name}_{number}_assignsubmission_file_/feedback.html"
    return f"{result.handed_in}.html"


def _write_csv(
    path: Path, header: Sequence[str], table: Iterable[dict[str, Any]], delimiter: str = ","
) -> None:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, header, restval="", delimiter=delimiter)
    writer.writeheader()
    writer.writerows({k: _plain(v) for k, v in row.items()} for row in table)
    write_whole(path, text.getvalue())


def _read_csv(path: str | Path, column: str = "") -> tuple[list[str], list[dict[str, str]], str]:
    """Header, rows and delimiter of a CSV file; raises ValueError if ``column`` is missing."""
    try:
        text = Path(path).read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not UTF-8; in Excel save it as 'CSV UTF-8'") from error
    delimiter = max(",;\t", key=text.partition("\n")[0].count)
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter, restval="")
    header, lines = list(reader.fieldnames or []), list(reader)
    if column not in ("", *header) or len(set(header)) < len(header):
        raise ValueError(
            f"{path}: its header is {header}; it needs {column!r}, and each name only once"
        )
    for line in lines:
        if None in line:
            raise ValueError(
                f"{path}: this line has more cells than the header: {list(line.values())}"
            )
    return header, lines, delimiter


def _plain(value: Any) -> Any:
    """Text that a spreadsheet does not read as a formula."""
    return f"'{value}" if isinstance(value, str) and value[:1] in _FORMULA and value else value


def _unplain(value: str) -> str:
    return value[1:] if value[:1] == "'" and value[1:2] in _FORMULA and value[1:] else value


def add_manual(master: Master, results: Iterable[Grade], path: Path) -> list[str]:
    """Add the points that a person gave to open questions, from the sheet at ``path``.

    If the sheet does not exist it is made, with one row for each student and one empty column for
    each question. Filled cells are never overwritten, and additional columns are kept. Raises
    ValueError for points below 0 or above the question's points, and for two rows of one student
    that differ. Returns a sentence on each name that has points and no submission.
    """
    questions = [task for task in master.tasks if task.manual]
    if not questions:
        return []
    header, sheet, delimiter = _read_sheet(path)
    header += [task.id for task in questions if task.id not in header]
    whose, unknown = _found(path, list(sheet), results := list(results))
    own: dict[str, list[dict[str, str]]] = {}  # a row by file name, one by full name
    for name, who in whose.items():
        own.setdefault(who, []).append(sheet[name])
    for result in results:
        if result.student not in own:
            own[result.student] = [sheet.setdefault(result.student, {"student": result.student})]
        for task in questions:
            found = {(row.setdefault(task.id, "") or "").strip() for row in own[result.student]}
            if len(found := found - {""}) > 1:
                both = " and ".join(repr(row["student"]) for row in own[result.student])
                raise ValueError(f"{path}: {both} are one student with different points")
            for given in found:
                where = f"{path}: {given!r} points for {result.student}"
                result.points[task.id] = _points(given, task, where)
        result.total = sum(result.points.values())
    _write_csv(path, header, sheet.values(), delimiter)
    return [unknown[n] for n in unknown if any(sheet[n].get(t.id) for t in questions)]


def _found(
    path: Path, names: Sequence[str], results: Iterable[Grade]
) -> tuple[dict[str, str], dict[str, str]]:
    """The student of each name in a file, found as in `fill_lms`; and a sentence on each other."""
    made = {r.student: platform(r.handed_in) or ("", r.handed_in) for r in results}
    found = {name: name for name in names if name in made}
    lines = {n: [s, s.split("@")[0]] for n, s in enumerate(names) if s not in found}
    whose, _ = match(lines, {who: [who, about[1]] for who, about in made.items()})
    found |= {names[n]: who for who, n in whose.items()}
    known = {text.lower(): who for who, about in made.items() for text in (who, about[1])}
    lost = {}
    for name in sorted(set(names) - {*found, ""}):
        near = difflib.get_close_matches(name.lower(), known, 1)
        hint = f"; did you mean {known[near[0]]!r}?" if near else ""
        lost[name] = f"{path.name}: {name!r} has no submission{hint}"
    return found, lost


def overrule(master: Master, results: Iterable[Grade], path: Path) -> list[str]:
    """Replace points by those that a person decided, from the file at ``path``, if there is one.

    Each line has a ``student``, a ``task`` (its id in the gradebook), the ``points`` and a
    ``reason``, which the student's feedback shows. With the task "late" the points, below 0, are
    taken off the total in place of what late.csv takes. The file is only read. Raises ValueError
    for a line that cannot be right. Returns a sentence on each name without a submission.
    """
    if not path.exists():
        return []
    tasks, there = {task.id: task for task in master.tasks}, {r.student: r for r in results}
    tasks[LATE] = Exercise(LATE, 1e9, True, LATE, "")
    lines = [
        {k: _unplain(v).strip() for k, v in row.items()} for row in _read_csv(path, "student")[1]
    ]
    names = list(dict.fromkeys(line["student"] for line in lines))
    whose, unknown = _found(path, names, there.values())
    for line in lines:
        who, name, given, reason = (
            line.get(k, "") for k in ("student", "task", "points", "reason")
        )
        where = f"{path}: {given!r} points for {who}"
        if any(line.values()) and (name not in tasks or not reason):
            raise ValueError(
                f"{where}, task {name!r}, reason {reason!r}: each line needs a task, one of "
                f"{', '.join(tasks)}, and a reason, which the student will read"
            )
        if (who := whose.get(who, "")) not in there:
            continue
        if name == LATE:
            there[who].late = -_points(given.removeprefix("-"), tasks[LATE], where)
            there[who].notes[:] = [n for n in there[who].notes if not n.startswith("late:")]
        else:
            there[who].points[name] = _points(given, tasks[name], where)
        there[who].notes.append(f"changed by hand: {tasks[name].title}, {given} points ({reason})")
        there[who].total = _total(there[who])
    return list(unknown.values())


def _total(result: Grade) -> float:
    """All points, without those for lateness; never below 0."""
    return max(sum(result.points.values()) + result.late, 0.0)


def take_off_late(master: Master, results: Iterable[Grade], out: Path) -> list[str]:
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
    header, lines, _ = _read_csv(path, "student")
    if lost := {"due", "per day", "grace minutes"}.difference(header):
        raise ValueError(f"{path}: no column {', '.join(sorted(lost))}; its header is {header}")
    rules = {line["student"].strip(): {k: v.strip() for k, v in line.items()} for line in lines}
    if not (everybody := rules.pop("", {})).get("due"):
        raise ValueError(f"{path}: the deadline is in a line without a student; there is none")
    known = _times(out / "times.csv", results := list(results))
    whose, unknown = _found(path, list(rules), results)
    rules = {who: rules[name] for name, who in whose.items()}
    for result in results:
        if result.status.startswith((AGAIN, UNREAD)):
            continue
        own = {k: v for k, v in rules.get(result.student, {}).items() if v}
        due, rate, grace = _rule(everybody | own, master, path)
        made, came = platform(result.handed_in), known.get(result.student)
        if came is None and made is None:
            came = datetime.fromtimestamp(result.saved)
        if came is None:
            if made and (made[0] == "moodle" or "_LATE_" in result.handed_in):
                result.notes.append("worth a look: when it came is not known, write it: times.csv")
        elif came > due + grace:
            days = math.ceil((came - due) / timedelta(days=1))
            most = sum(task.points for task in master.tasks)
            result.late = -min(days * rate, most)
            when = f"{came:%Y-%m-%d %H:%M}, due {due:%Y-%m-%d %H:%M}"
            result.notes.append(f"late: {when}, days begun: {days}, {result.late:g} points")
            result.total = _total(result)
    return list(unknown.values())


def _rule(line: dict[str, str], master: Master, path: Path) -> tuple[datetime, float, timedelta]:
    """The deadline, the points that each day costs, and the grace of a line."""
    each, most = line["per day"], sum(task.points for task in master.tasks)
    scale = most / 100 if each.endswith("%") else 1.0
    try:
        rate, grace = (
            float(x.replace(",", ".")) for x in (each.rstrip("% "), line["grace minutes"] or "0")
        )
    except ValueError:
        rate = grace = -1.0
    if not (0 <= rate * scale <= most and 0 <= grace < 1e6):
        raise ValueError(
            f"{path}: per day={each!r}, grace minutes={line['grace minutes']!r}: write points such "
            f"as 1.5, or 10%, at most {most:g} points, and a number of minutes"
        )
    return _moment(line["due"], path), rate * scale, timedelta(minutes=grace)


def _times(path: Path, results: Sequence[Grade]) -> dict[str, datetime]:
    """When each student has handed in, from a platform's table or one of the instructor's."""
    if not path.exists():
        return {}
    header, lines, _ = _read_csv(path)
    column = next((name for name in TIMES if name in header), None)
    names = ("student", *LMS["moodle"], *LMS["canvas"])
    key = next((name for name in names if name in header), None)
    if column is None or key is None:
        raise ValueError(f"{path}: its header is {header}; it needs one of {names} and of {TIMES}")
    handed = {result.student: result.handed_in for result in results}
    system = "moodle" if "Identifier" in header else "canvas"
    whose = _whose(path, lines, handed, key, system)
    said = {who: lines[number][column].strip() for number, who in whose.items()}
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


def _read_sheet(path: Path) -> tuple[list[str], dict[str, dict[str, str]], str]:
    """Header, rows by student, and delimiter of the sheet; those of a new one if there is none."""
    if not path.exists():
        return ["student"], {}, ","
    header, lines, delimiter = _read_csv(path, "student")
    sheet: dict[str, dict[str, str]] = {}
    for line in lines:
        row = {name: _unplain(cell) for name, cell in line.items()}
        if row["student"] in sheet:
            raise ValueError(f"{path}: {row['student']!r} has two rows; delete one of them")
        if any(row.values()):
            sheet[row["student"]] = row
    return header, sheet, delimiter


def _points(given: str, task: Exercise, where: str) -> float:
    """The number in a cell; raises ValueError for what is no number from 0 to the exercise's."""
    try:
        points = float(given.replace(",", "."))
    except ValueError:
        points = -1.0
    if not 0 <= points <= task.points:
        raise ValueError(f"{where} in {task.id!r}; write a number from 0 to {task.points:g}")
    return points


# ------------------------------------------------------------------------------- feedback


def feedback(master: Master, result: Grade) -> str:
    """One student's page in HTML: answers, output of open checks, points, hints.

    >>> page = feedback(Master("demo", {"cells": []}, ""), Grade("<b>ana"))
    >>> "<h1>&lt;b&gt;ana: 0 of 0 points</h1>" in page  # HTML in a name is shown as text
    True
    """
    tasks = {task.id: task for task in master.tasks}
    graded = not result.status.startswith((AGAIN, UNREAD))
    most = sum(task.points for task in master.tasks)
    points = f"{result.total:g} of {most:g} points" if graded or result.total else "not graded"
    head = html.escape(f"{result.student}: {points}")
    lines = [f"Status: {result.status.split(' (code')[0]}."]  # the student may choose the code
    lines += [f"Note: {note}." for note in result.notes if note.startswith(_FOR_STUDENTS)]
    page = [f"<title>{head}</title>{_STYLE}<h1>{head}</h1>"]
    page += [f"<p>{html.escape(line)}</p>" for line in lines]
    cells = [(name, "answer") for name in result.answers if name.startswith(OWN)]
    cells += [(cell["id"], kind_of(cell)) for cell in release(master)["cells"]]
    for name, kind in cells if graded else ():
        if kind in ("answer", "question"):
            answer = html.escape(result.answers.get(name, ""))
            page.append(f"<h3>{html.escape(name)}</h3><pre>{answer}</pre>")
        if kind in ("answer", "check") and (output := result.output.get(name)):
            page.append(f"<p>{html.escape(name)} printed:</p><pre>{html.escape(output)}</pre>")
        if name in tasks:
            page.append(f"<p><b>{html.escape(_verdict(tasks[name], result))}</b></p>")
    return "\n".join(page)


def _verdict(task: Exercise, result: Grade) -> str:
    points = result.points.get(task.id)
    if points is None:
        return f"{task.title}: graded by hand, up to {task.points:g} points"
    output = result.output.get(task.id, "")
    # these two come from an answer that is missing, so there is nothing to give a hint on
    hint = "" if output in ("NameError", "NotImplementedError") else task.hint
    missed = f" {hint}" if points < task.points and hint else ""
    error = f" It stopped with {output}." if output and points < task.points else ""
    if points < task.points and (steps := result.missed.get(task.id)):
        missed = f" Not right: {'; '.join(steps)}.{missed}"
    return f"{task.title}: {points:g} of {task.points:g} points.{error}{missed}"


# -------------------------------------------------------------------------------- summary


def histogram(values: Iterable[float], maximum: float) -> list[tuple[str, int]]:
    """The number of students with no points, with fewer than half, with half or more, with all.

    >>> histogram([0, 4, 4, 3], 4)
    [('0', 1), ('2 and more', 1), ('4', 2)]
    """
    half = maximum / 2
    names = ["0", f"under {half:g}", f"{half:g} and more", f"{maximum:g}"]
    places = [0 if v <= 0 else 3 if v >= maximum else 1 if v < half else 2 for v in values]
    counts = Counter(places)
    return [(names[place], counts[place]) for place in range(4) if counts[place] or place in (0, 3)]


def _summary(master: Master, results: Sequence[Grade]) -> str:
    """The summary page: bars for all tasks, and the students whose run or file was unusual."""
    body = [f"<title>{html.escape(master.name)}</title>{_STYLE}<h1>{html.escape(master.name)}</h1>"]
    totals = [result.total for result in results]
    mean = sum(totals) / len(totals) if totals else 0.0
    body.append(f"<p>{len(results)} submissions, mean {mean:.1f} points.</p>")
    columns = [("Total", sum(task.points for task in master.tasks), totals)]
    for task in master.tasks:
        given = [result.points[task.id] for result in results if task.id in result.points]
        columns.append((task.title, task.points, given))
    for title, points, values in columns:
        body.append(f"<h3>{html.escape(title)} ({points:g} points)</h3>")
        if not values:
            body.append("<p>Not graded yet: see by_hand.csv.</p>")
            continue
        body.append("<table>")
        for label, count in histogram(values, points):
            width = 20 * count / len(values)
            bar = f'<span class="bar" style="width:{width:.1f}em"></span> {count}'
            body.append(f"<tr><td>{label} points</td><td>{bar}</td></tr>")
        body.append("</table>")
    # how a platform names a file is no reason to look at it
    why = {r.student: [n for n in r.notes if not n.startswith("handed in as ")] for r in results}
    looks = [r for r in results if r.status != "graded" or why[r.student]]
    body.append("<h3>Worth a look</h3>")
    body.append(_table((r.student, "; ".join([r.status, *why[r.student]])) for r in looks))
    if pairs := alike(master, {result.student: result.answers for result in results}):
        body.append(
            "<h3>Answers that are alike</h3><p>These answers have more words in the same order "
            "than the task explains. There can be good reasons: two students who may work "
            "together, a book, a public solution. Read both answers before you speak to anybody. "
            "Points do not change.</p>"
        )
        body.append(_table((*names, f"{100 * share:.0f} %") for *names, share in pairs[:50]))
    return "\n".join(body)


def _table(lines: Iterable[Sequence[str]]) -> str:
    cells = ("".join(f"<td>{html.escape(text)}</td>" for text in line) for line in lines)
    return f"<table>{''.join(f'<tr>{line}</tr>' for line in cells)}</table>"


# ------------------------------------------------------------------------------------- LMS


def fill_lms(
    roster: str | Path,
    results: Iterable[Grade],
    out: str | Path,
    *,
    system: str,
    column: str,
    key: str | None = None,
) -> tuple[list[str], list[str]]:
    """Fill one column of the file that the LMS exported, for import into the same LMS.

    Args:
        roster: the exported CSV. Its other columns and its order do not change.
        results: from `grade`. A student's name is that of the file; it is compared with the key
            column, with full names, and with the LMS's numbers. Results that must be graded again
            are left out, and so are files that cannot be read.
        out: the file to write.
        system: ``"canvas"`` or ``"moodle"``.
        column: the header of the column for the total; added if no header begins with it.
        key: the header of the column that names a student; by default the first of
            `LMS` that the file has.

    Returns students of the roster without a result, and results without a line in the roster.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "roster.csv").write_text("Student,SIS Login ID,A 1\\nAna,ana,\\nBen,ben,\\n")
    >>> out = folder / "import.csv"
    >>> ana = Grade("ana", total=3.0)
    >>> fill_lms(folder / "roster.csv", [ana], out, system="canvas", column="A 1")
    (['ben'], [])
    >>> out.read_text().split()
    ['Student,SIS', 'Login', 'ID,A', '1', 'Ana,ana,3', 'Ben,ben,']
    """
    if system not in LMS:
        raise ValueError(f"system={system!r}: choose one of {', '.join(LMS)}")
    header, lines, delimiter = _read_csv(roster)
    key = key or next((name for name in LMS[system] if name in header), None)
    if key not in header:
        raise ValueError(f"{roster}: no column {key or LMS[system]}; it has {header}. Give --key")
    if column not in header and (like := [name for name in header if name.startswith(column)]):
        raise ValueError(
            f"{roster}: there is no column {column!r}; give the whole header, one of {like}"
        )
    totals = {r.student: r.total for r in results if not r.status.startswith((AGAIN, UNREAD))}
    handed = {r.student: r.handed_in for r in results if r.student in totals}
    whose, empty = _whose(roster, lines, handed, key, system), []
    for number, line in enumerate(lines):
        name = (line[key] or "").strip()
        if number in whose:
            line[column] = f"{totals[whose[number]]:g}"
        elif name and "points possible" not in str(line[header[0]]).lower():
            empty.append(name)
    header += [column] * (column not in header)
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, header, restval="", delimiter=delimiter)
    writer.writeheader()
    writer.writerows(lines)
    write_whole(Path(out), text.getvalue())
    return empty, sorted(set(totals) - set(whose.values()))


def _whose(
    roster: str | Path,
    lines: Sequence[dict[str, str]],
    handed: dict[str, str],
    key: str,
    system: str,
) -> dict[int, str]:
    """The student of each line: by the LMS's number, by the key column, or by the full name."""
    made = {who: found for who, name in handed.items() if (found := platform(name))}
    ids = {number: who for who, (of, _, number, _) in made.items() if of == system}
    numbered = "ID" if system == "canvas" else "Identifier"
    whose: dict[int, str] = {}
    columns: dict[int, list[str]] = {}
    for number, line in enumerate(lines):
        identifier = (line.get(numbered) or "").strip().split()[-1:]
        if identifier and (who := ids.get(identifier[0])) is not None:
            whose[number] = who
            continue
        name = (line[key] or "").strip()
        first, last = line.get("First name"), line.get("Last name") or line.get("Surname")
        whole = [line.get("Full name") or "", f"{first} {last}" if first and last else ""]
        columns[number] = [name, name.split("@")[0], *whole]
    names = {
        who: [who, made[who][1] if who in made else name]
        for who, name in handed.items()
        if who not in whose.values()
    }
    matched, several = match(columns, names)
    for who, numbers in several.items():
        first, second = (lines[n][key] for n in sorted(numbers)[:2])
        raise ValueError(
            f"{roster}: {first!r} and {second!r} both fit the submission {who!r}; name "
            f"the file after the whole {key!r} and grade again, or give another --key"
        )
    return whose | {number: who for who, number in matched.items()}
