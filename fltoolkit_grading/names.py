"""Finds the student of each file, and the student of each line of a table.

No student gets another student's name: names that only look alike are never treated as equal.
"""

import contextlib
import hashlib
import os
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fltoolkit_grading.master import AssignmentError

_NOTEBOOK = re.compile(r"\.ipynb(\.\w+)?$", re.IGNORECASE)  # browsers append .txt or .json
_ARCHIVE = re.compile(r"\.zip$", re.IGNORECASE)
_PLATFORM = re.compile(  # one pattern, so that what a student wrote, the end, is never read first
    r"([^/]{1,150}?)(?:_(\d{1,12})_assignsubmission_(?:file|onlinetext)(?:_.*)?"
    r"|(?:_LATE)?_(\d{2,15})_(\d{2,15})_.+)$"
)
_DROPPINGS = (".", "__MACOSX")  # hidden files, and what a Mac puts into archives
_BLANK = "\u115f\u1160\u2800"  # letters without ink, which Unicode does not count as controls


def find_submissions(folder: str | Path) -> dict[str, Path]:
    """Students' files by name: ``NAME.ipynb``, or nbgrader's ``NAME/**/*.ipynb``.

    Moodle's ``NAME_1234_assignsubmission_file_`` and Canvas's ``name_1234_56789_file.ipynb`` become
    NAME_1234. Of several of one student the last notebook counts, or else a file before Moodle's
    online text; of several notebooks in a folder the newest; with a note. A zip stands for the
    newest notebook in it. No student who handed in is left out: a folder with no notebook or a
    picture is listed too, and gets a status that says why it cannot be read. Names that differ only
    in case or style, or in what the name of a file cannot hold, all get an addition.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> for name in ("ana.ipynb", "Ben.ipynb", "carla.zip", "dan.ipynb", "DAN.pdf"):
    ...     _ = (folder / name).write_text("")
    >>> list(find_submissions(folder))
    ['Ben', 'DAN~ad3b', 'ana', 'carla', 'dan~dfa2']
    """
    folder = Path(folder)
    if not folder.is_dir():
        zipped = ": it is a file, unpack it first and give the folder" if folder.is_file() else ""
        raise AssignmentError(f"{folder}: no such folder of submissions{zipped}")
    handed_in: list[tuple[str, str, Path]] = []  # the name, what stands in the folder, the file
    best: dict[str, tuple[Any, str, Path]] = {}  # of each student that a platform names: rank first
    for path in sorted(folder.iterdir()):
        entry, name = path.name, _name_of(path)
        if entry.startswith(_DROPPINGS):
            continue
        readable = _NOTEBOOK.search(entry) is not None
        if path.is_dir() and not path.is_symlink():
            inside = _notebooks_in(path) or _notebooks_in(path, _ARCHIVE)
            readable, path = bool(inside), max(inside, key=time_of, default=path)
        if found := platform(name):
            who = "_".join(found[1:3])
            rank = (readable, "_assignsubmission_online" not in name, found[3], time_of(path))
            best[who] = max(best.get(who, (rank, entry, path)), (rank, entry, path))
        else:
            handed_in.append((name, entry, path))
    handed_in += [(who, entry, path) for who, (_, entry, path) in best.items()]
    if not handed_in:
        raise AssignmentError(f"{folder}: no submissions; expected NAME.ipynb or NAME/*.ipynb")
    alike = Counter(_shape(name) for name, _, _ in handed_in)
    students: dict[str, Path] = {}
    for name, entry, path in handed_in:
        student = _safe(name)
        if alike[_shape(name)] > 1:  # the mark does not depend on what others hand in later
            student += "~" + hashlib.sha256(os.fsencode(entry)).hexdigest()[:4]
        while student in students:
            student += "+"
        students[student] = path
    return dict(sorted(students.items()))


def _name_of(path: Path) -> str:
    """The name that a student or the LMS gave to a file, or to the folder around it."""
    name = path.name.encode(errors="replace").decode()  # what an unpacked zip holds may be no text
    name = unicodedata.normalize("NFC", name)  # a Mac writes ë as two characters
    if found := _NOTEBOOK.search(name):
        return name[: found.start()]
    return name if path.is_dir() else Path(name).stem


def _notebooks_in(
    folder: Path, ending: re.Pattern[str] = _NOTEBOOK, depth: int = 20, most: int = 10_000
) -> list[Path]:
    """The notebooks in a folder that a student has made; at most ``most`` entries are read."""
    found: list[Path] = []
    todo = [(str(folder), depth)]
    while todo:
        place, left = todo.pop()
        with contextlib.suppress(OSError), os.scandir(place) as entries:
            for entry in entries:
                most -= 1
                if most < 0:
                    return found
                if entry.name.startswith(_DROPPINGS):
                    continue
                if ending.search(entry.name):
                    found.append(Path(entry.path))
                is_folder = entry.is_dir(follow_symlinks=False)
                if is_folder and left > 1:
                    todo.append((entry.path, left - 1))
    return found


def time_of(path: Path) -> tuple[float, str]:
    """When a file was changed, and its name if two were changed at once."""
    try:
        return path.lstat().st_mtime, path.name
    except OSError:
        return -1.0, path.name


def platform(name: str) -> tuple[str, str, str, int] | None:
    """What the name that an LMS gave to a file says: system, student's name, number, attachment.

    >>> platform("Ana Arm_1234_assignsubmission_file_"), platform("armana_LATE_1234_56789_a-2")
    (('moodle', 'Ana Arm', '1234', 0), ('canvas', 'armana', '1234', 56789))
    """
    if (found := _PLATFORM.match(name)) is None:
        return None
    moodle = ("moodle", found[1], found[2], 0)
    return moodle if found[2] else ("canvas", found[1], found[3], int(found[4]))


def handed_in_as(folder: Path, path: Path) -> str:
    """The name that a student or the LMS gave to the file, or to the folder around it."""
    return _name_of(folder / path.relative_to(folder).parts[0])


def name_notes(folder: str | Path, found: Mapping[str, Path]) -> dict[str, list[str]]:
    """What the instructor should know about each name; ``found`` is from `find_submissions`."""
    folder = Path(folder)
    made = {path.name: platform(_name_of(path)) or ("",) for path in folder.iterdir()}
    entries = {who: folder / path.relative_to(folder).parts[0] for who, path in found.items()}
    shapes = {who: _shape(_name_of(entry)) for who, entry in entries.items()}
    notes: dict[str, list[str]] = {}
    for student, entry in entries.items():
        told, own = notes.setdefault(student, []), made.get(entry.name, ("",))
        if found[student] != entry and len(_notebooks_in(entry)) > 1:
            told.append(f"several notebooks: graded the newest, {found[student].name!r}")
        others = sorted(name for name, of in made.items() if of[:3] == own[:3] and any(of))
        if len(others) > 1:
            left = ", ".join(repr(name) for name in others if name != entry.name)
            count = f"{len(others)} files from {own[0].title()}"
            told.append(f"{count}: graded {entry.name!r}, and not {left}")
        if _name_of(entry) != student:
            told.append(f"handed in as {entry.name!r}")
        for other, shape in shapes.items():
            if shape == shapes[student] and other != student:
                name = entries[other].name
                told.append(f"the name looks the same as {name!r}: ask who handed it in")
    return notes


def _shape(name: str) -> str:
    """The same for names that differ only in case, in style, or in characters without ink."""
    name = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())
    inked = [c for c in name if c.isprintable() and c not in _BLANK]
    inked = [c for c in inked if unicodedata.category(c)[0] != "M" or unicodedata.combining(c)]
    return _safe("".join(inked))


def _safe(name: str) -> str:
    """A student's name as the name of a file; with any ending it has fewer than 255 bytes."""
    name = re.sub(r"[^\w.@+~-]", "_", name).lstrip(".") or "_"
    return name.encode()[:200].decode(errors="ignore")


# ---------------------------------------------------------------------------------- tables

COLUMNS = (  # what may name a student in a table of the instructor's, of Canvas or of Moodle
    *("student", "SIS Login ID", "SIS User ID", "ID", "Student"),
    *("Email address", "Username", "ID number", "Identifier", "Full name"),
)
_GERMAN = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss"})


def names_in(line: Mapping[str, str]) -> list[str]:
    """The names and numbers of a student in a line of a table; the one to show comes first."""
    names = [(line.get(column) or "").strip() for column in COLUMNS]
    names += [name.split("@")[0] for name in names]
    last = line.get("Last name") or line.get("Surname")
    names += [f"{line['First name']} {last}"] if line.get("First name") and last else []
    return [name for name in names if name]


def whose(
    where: str, lines: Sequence[Mapping[str, str]], handed: Mapping[str, str]
) -> dict[int, str]:
    """The student of each line, by the line's number; ``handed`` has the name of each one's file.

    A line is found by the student's own name, then by the number that the LMS gave, then by any
    other name: exact names first, then those in another case, then looser forms. A line that fits
    several students is given to none of them. Raises ValueError if one student fits several lines.

    >>> lines = [{"Full name": "Ana Lima"}, {"SIS Login ID": "ben"}, {"ID": "77"}]
    >>> whose("a.csv", lines, {"ana_lima": "ana_lima", "ben": "ben", "cy_77": "cy_77_12_a"})
    {2: 'cy_77', 1: 'ben', 0: 'ana_lima'}
    """
    made = {who: platform(file) for who, file in handed.items()}
    ids = {found[2]: who for who, found in made.items() if found}
    numbers = [(line.get("ID") or line.get("Identifier") or "").split()[-1:] for line in lines]
    found = {n: line["student"] for n, line in enumerate(lines) if line.get("student") in handed}
    found |= {n: ids[each[0]] for n, each in enumerate(numbers) if each and each[0] in ids}
    theirs = {
        who: [who, of[1] if (of := made[who]) else file]
        for who, file in handed.items()
        if who not in found.values()
    }
    named = {n: names_in(line) for n, line in enumerate(lines)}
    fits: dict[str, list[int]] = {}
    for looseness in range(3):
        free = {n: _forms(names, looseness) for n, names in named.items() if n not in found}
        mine = {w: _forms(n, looseness) for w, n in theirs.items() if w not in found.values()}
        fits = {who: [n for n in free if free[n] & forms] for who, forms in mine.items()}
        wanted = Counter(n for some in fits.values() for n in some)
        found |= {some[0]: w for w, some in fits.items() if len(some) == 1 == wanted[some[0]]}
    for who, some in fits.items():
        if len(some) > 1:
            first, second = (named[n][0] for n in some[:2])
            raise ValueError(
                f"{where}: {first!r} and {second!r} both fit the submission {who!r}; name the "
                "file after the whole name, and grade again"
            )
    return found


def _forms(names: Sequence[str], looseness: int) -> set[str]:
    """Ways to write these names: as they are, in another case, or without what files lose."""
    forms = {unicodedata.normalize("NFC", name).strip() for name in names}
    if looseness > 0:
        forms = {re.sub(r"[\s_]+", " ", form.casefold()).strip() for form in forms}
    if looseness > 1:
        forms |= {re.sub(r" ?\(\d{1,3}\)$", "", form) for form in forms}  # a browser's kim (1)
        forms |= {form.translate(_GERMAN) for form in forms}
        marked = {unicodedata.normalize("NFKD", form) for form in forms}
        forms |= {"".join(c for c in form if not unicodedata.combining(c)) for form in marked}
    return forms
