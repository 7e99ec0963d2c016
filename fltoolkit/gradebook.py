"""What comes out of grading: gradebook, feedback per student, summary, and columns for an LMS.

All that students wrote is escaped here and printed as text. Hidden checks, their inputs and what
was expected do not appear in any feedback. Not here: grading itself (grading.py).
"""

import csv
import html
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from fltoolkit.assignment import Master, Task, kind_of, release, text_of
from fltoolkit.grading import Result

__all__ = ["LMS", "add_manual", "feedback", "fill_lms", "histogram", "rows", "write"]

# the column that names a student, in the files that these systems export and import
LMS = {
    "canvas": ("SIS Login ID", "ID", "SIS User ID", "Student"),
    "moodle": ("Email address", "Username", "ID number"),
}
_STYLE = """<meta charset="utf-8"><style>
body{font:16px/1.5 system-ui,sans-serif;max-width:48em;margin:2em auto;padding:0 1em}
pre{background:#f4f4f4;padding:.6em;overflow-x:auto;white-space:pre-wrap}
table{border-collapse:collapse}td,th{padding:.2em .8em;border-bottom:1px solid #ccc;text-align:left}
.bar{background:#0072b2;display:inline-block;height:.8em}</style>"""


def rows(master: Master, results: Iterable[Result]) -> list[dict[str, Any]]:
    """The gradebook: student, points per task, total, maximum, status, notes, seconds, memory.

    A question that nobody has graded yet is an empty cell, and its points are in ``maximum``.
    """
    maximum = sum(task.points for task in master.tasks)
    table = []
    for result in results:
        row: dict[str, Any] = {"student": result.student}
        row |= {task.id: result.points.get(task.id, "") for task in master.tasks}
        row |= {"total": result.total, "maximum": maximum, "status": result.status}
        row["notes"] = "; ".join(result.notes)
        row |= {"seconds": result.seconds, "memory_MB": round(result.memory / 1e6)}
        table.append(row)
    return table


def write(master: Master, results: Sequence[Result], out: str | Path) -> None:
    """Write gradebook.csv and .json, feedback/, summary.html and the sheet for hand grading."""
    out = Path(out)
    (out / "feedback").mkdir(parents=True, exist_ok=True)
    results = add_manual(master, results, out / "by_hand.csv")
    table = rows(master, results)
    (out / "gradebook.json").write_text(json.dumps(table, indent=1), encoding="utf-8")
    _write_csv(out / "gradebook.csv", table)
    for result in results:
        page, notebook = feedback(master, result)
        path = out / "feedback" / f"{result.student}.html"
        path.write_text(page, encoding="utf-8", errors="replace")  # as in text_of
        path = out / "feedback" / f"{result.student}.ipynb"
        path.write_text(json.dumps(notebook, indent=1), encoding="utf-8")
    (out / "summary.html").write_text(_summary(master, results), encoding="utf-8")


def _write_csv(path: Path, table: Sequence[dict[str, Any]]) -> None:
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(table[0]) if table else ["student"])
        writer.writeheader()
        writer.writerows({k: _plain(v) for k, v in row.items()} for row in table)


def _plain(value: Any) -> Any:
    """Text that a spreadsheet does not take for a formula."""
    return f"'{value}" if isinstance(value, str) and value[:1] in "=+-@\t\r" and value else value


def add_manual(master: Master, results: Iterable[Result], path: Path) -> list[Result]:
    """Add the points that a person gave to open questions, from the sheet at ``path``.

    The sheet is made if it is not there, one row a student, one empty column a question. What is
    filled in is never overwritten. Raises ValueError for points outside 0 and the question's.
    """
    results, questions = list(results), [task for task in master.tasks if task.manual]
    if not questions:
        return results
    sheet: dict[str, dict[str, str]] = {}
    if path.exists():
        with open(path, newline="", encoding="utf-8-sig") as file:
            sheet = {row["student"]: row for row in csv.DictReader(file)}
    for result in results:
        row = sheet.setdefault(result.student, {"student": result.student})
        for task in questions:
            if not (given := (row.setdefault(task.id, "") or "").strip()):
                continue
            try:
                points = float(given)
            except ValueError:
                points = -1.0
            if not 0 <= points <= task.points:
                raise ValueError(
                    f"{path}: {given!r} points for {result.student} in {task.id!r}; "
                    f"a number from 0 to {task.points:g}"
                )
            result.points[task.id] = points
        result.total = sum(result.points.values())
    _write_csv(
        path,
        [
            {k: row.get(k, "") for k in ("student", *(t.id for t in questions))}
            for row in sheet.values()
        ],
    )
    return results


# ------------------------------------------------------------------------------- feedback


def feedback(master: Master, result: Result) -> tuple[str, dict[str, Any]]:
    """One student's page (HTML) and notebook: answers, what the open checks said, points, hints."""
    tasks = {task.id: task for task in master.tasks}
    head = f"{result.student}: {result.total:g} points"
    lines = [f"Status: {result.status}.", *(f"Note: {note}." for note in result.notes)]
    cells = [_markdown(f"# {head}\n\n" + "\n".join(f"- {_inert(line)}" for line in lines))]
    page = [f"<title>{html.escape(head)}</title>{_STYLE}<h1>{html.escape(head)}</h1>"]
    page += [f"<p>{html.escape(line)}</p>" for line in lines]
    for cell in release(master)["cells"]:
        name, kind = cell["id"], kind_of(cell)
        answer = result.answers.get(name, "")
        if kind == "answer":
            cells.append(_code(answer, result.said.get(name, "")))
            page.append(f"<h3>{html.escape(name)}</h3><pre>{html.escape(answer)}</pre>")
        elif kind == "check" and cell["cell_type"] == "code":
            cells.append(_code(text_of(cell), result.said.get(name, "")))
        if kind in ("answer", "check") and (said := result.said.get(name)):
            page.append(f"<p>{html.escape(name)} said:</p><pre>{html.escape(said)}</pre>")
        if name in tasks:
            verdict = _verdict(tasks[name], result)
            if kind == "question":
                cells.append(_code(f"# {name}", answer))
                page.append(f"<h3>{html.escape(name)}</h3><pre>{html.escape(answer)}</pre>")
            cells.append(_markdown(f"**{verdict}**"))
            page.append(f"<p><b>{html.escape(verdict)}</b></p>")
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number:02d}"
    metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    notebook = {"nbformat": 4, "nbformat_minor": 5, "metadata": metadata, "cells": cells}
    return "\n".join(page), notebook


def _verdict(task: Task, result: Result) -> str:
    points = result.points.get(task.id)
    if points is None:
        return f"{task.title}: graded by hand, up to {task.points:g} points"
    missed = f" {task.hint}" if points < task.points and task.hint else ""
    said = result.said.get(task.id, "")
    error = f" It stopped with {said}." if said and points < task.points else ""
    return f"{task.title}: {points:g} of {task.points:g} points.{error}{missed}"


def _inert(text: str) -> str:
    """Text in Markdown that stays text: no HTML, no links."""
    return html.escape(text).replace("[", "\\[").replace("`", "\\`")


def _markdown(source: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "metadata": {}, "source": source}


def _code(source: str, text: str) -> dict[str, Any]:
    outputs = [{"output_type": "stream", "name": "stdout", "text": text}] if text else []
    return {
        "cell_type": "code", "metadata": {}, "source": source,
        "outputs": outputs, "execution_count": None,
    }  # fmt: skip


# -------------------------------------------------------------------------------- summary


def histogram(values: Iterable[float], maximum: float) -> list[tuple[str, int]]:
    """How many students have how many points: none, under half, over half, all.

    >>> histogram([0, 4, 4, 3], 4)
    [('0', 1), ('2 and more', 1), ('4', 2)]
    """
    half = maximum / 2
    names = ["0", f"under {half:g}", f"{half:g} and more", f"{maximum:g}"]
    places = [0 if v <= 0 else 3 if v >= maximum else 1 if v < half else 2 for v in values]
    counts = Counter(places)
    return [(names[place], counts[place]) for place in range(4) if counts[place] or place in (0, 3)]


def _summary(master: Master, results: Sequence[Result]) -> str:
    """All tasks as bars, and everybody whose run or file was odd."""
    body = [f"<title>{html.escape(master.name)}</title>{_STYLE}<h1>{html.escape(master.name)}</h1>"]
    totals = [result.total for result in results]
    mean = sum(totals) / len(totals) if totals else 0.0
    body.append(f"<p>{len(results)} submissions, mean {mean:.1f} points.</p>")
    columns = [
        (t.title, t.points, [r.points[t.id] for r in results if t.id in r.points])
        for t in master.tasks
    ]
    columns.insert(0, ("Total", sum(task.points for task in master.tasks), totals))
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
    body.append("<h3>Worth a look</h3><table>")
    for result in results:
        if result.status != "graded" or result.notes:
            words = html.escape("; ".join([result.status, *result.notes]))
            body.append(f"<tr><td>{html.escape(result.student)}</td><td>{words}</td></tr>")
    return "\n".join([*body, "</table>"])


# ------------------------------------------------------------------------------------- LMS


def fill_lms(
    roster: str | Path,
    results: Iterable[Result],
    out: str | Path,
    *,
    system: str,
    column: str,
    key: str | None = None,
) -> tuple[list[str], list[str]]:
    """Fill one column of the file that the LMS exported, for import into the same LMS.

    Args:
        roster: the exported CSV. Its other columns and its order stay as they are.
        results: from `grade`, with the names of files as students; compared with the key column.
        out: where to write.
        system: ``"canvas"`` or ``"moodle"``.
        column: the header of the column for the total; added if it is not there.
        key: the header of the column that names a student; by default the first of
            `LMS` that the file has.

    Returns students of the roster without a result, and results without a line in the roster.
    """
    if system not in LMS:
        raise ValueError(f"system={system!r}: one of {', '.join(LMS)}")
    with open(roster, newline="", encoding="utf-8-sig") as file:
        reader = csv.DictReader(file)
        header, lines = list(reader.fieldnames or []), list(reader)
    key = key or next((name for name in LMS[system] if name in header), None)
    if key not in header:
        raise ValueError(f"{roster}: no column {key or LMS[system]}; it has {header}. Give --key")
    totals = {result.student.lower(): result.total for result in results}
    unused, empty = set(totals), []
    for line in lines:
        name = (line[key] or "").strip()
        who = next((n for n in (name.lower(), name.lower().split("@")[0]) if n in totals), None)
        if who is not None:
            line[column] = f"{totals[who]:g}"
            unused.discard(who)
        elif name and "points possible" not in str(line[header[0]]).lower():
            empty.append(name)
    header += [column] * (column not in header)
    with open(out, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, header, restval="", extrasaction="ignore")
        writer.writeheader()
        writer.writerows(lines)
    return empty, sorted(unused)
