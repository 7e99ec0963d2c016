"""Finds the student of each file, and the line of the roster for each student.

No student gets another student's name: names that only look alike are never treated as equal.
"""

import contextlib
import hashlib
import os
import re
import unicodedata
from collections.abc import Iterable, Mapping
from pathlib import Path

from fltoolkit.assignments.master import AssignmentError

__all__ = ["find_submissions", "handed_in_as", "match", "moodle", "skeleton"]

_NOTEBOOK = re.compile(r"\.ipynb(\.\w+)?$", re.IGNORECASE)  # browsers append .txt or .json
_MOODLE = re.compile(r"([^/]{1,150}?)_(\d{1,12})_assignsubmission_(?:file|onlinetext)(?:_.*)?$")
# letters of other alphabets that look like Latin ones
_ALIKE = str.maketrans(  # applied to lower case
    "авгезикмнорстухіјѕһԁɡαβεζηικμνορτυχℓı",
    "abreзukmhopctyxijshdgabezhikmnoptyxli",
)


def find_submissions(folder: str | Path) -> dict[str, Path]:
    """Students' files by name: ``NAME.ipynb``, or nbgrader's ``NAME/**/*.ipynb``.

    Moodle's ``NAME_1234_assignsubmission_file_`` becomes NAME_1234. Nothing that was handed in is
    left out: a folder with no notebook or with several, an archive or a picture is listed too, and
    gets a status that says why it cannot be read. If two files could have the same name, a notebook
    has priority, then a name that needs no change. If two names differ only in case or in letters
    that look alike, both get an addition.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> for name in ("ana.ipynb", "Ben.ipynb", "carla.zip"):
    ...     _ = (folder / name).write_text("")
    >>> list(find_submissions(folder))
    ['Ben', 'ana', 'carla']
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise AssignmentError(f"{folder}: no such folder of submissions")
    handed_in = []
    for path in folder.iterdir():
        if path.name.startswith("."):
            continue
        name = unicodedata.normalize("NFC", path.name)  # a Mac writes ë as two characters
        notebook = _NOTEBOOK.search(name)
        if path.is_dir() and not path.is_symlink():
            inside = _notebooks_in(path)
            other = len(inside) != 1
            path = path if other else inside[0]
        else:
            other = notebook is None
            name = name[: notebook.start()] if notebook else Path(name).stem
        if found := moodle(name):
            handed_in.append((other, False, "_".join(found), path))
        else:
            handed_in.append((other, _safe(name) != name, name, path))
    if not handed_in:
        raise AssignmentError(f"{folder}: no submissions; expected NAME.ipynb or NAME/*.ipynb")
    alike: dict[str, set[str]] = {}
    for other, changed, name, _ in handed_in:
        if not other and not changed:
            alike.setdefault(skeleton(name), set()).add(name)
    taken: dict[str, Path] = {}
    for other, changed, name, path in sorted(handed_in):
        if not other and not changed and len(alike[skeleton(name)]) > 1:
            mark = hashlib.sha256(name.encode(errors="replace")).hexdigest()[:4]
            name = f"{name}~{mark}"  # does not depend on what others hand in later
        taken[_unique(_safe(name), taken)] = path
    return dict(sorted(taken.items()))


def _notebooks_in(folder: Path, depth: int = 20, most: int = 10_000) -> list[Path]:
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
                if _NOTEBOOK.search(entry.name):
                    found.append(Path(entry.path))
                is_folder = entry.is_dir(follow_symlinks=False)
                if is_folder and left > 1 and entry.name != ".ipynb_checkpoints":
                    todo.append((entry.path, left - 1))
    return found


def moodle(name: str) -> tuple[str, str] | None:
    """The student's name and Moodle's number, from the name of a file or folder that Moodle made.

    >>> moodle("Zoë Müller_1234_assignsubmission_file_"), moodle("zoe")
    (('Zoë Müller', '1234'), None)
    """
    found = _MOODLE.match(name)
    return (found[1], found[2]) if found else None


def handed_in_as(folder: str | Path, path: Path) -> str:
    """The name that a student or the LMS gave to the file, or to the folder around it.

    >>> folder = Path("submissions")
    >>> [handed_in_as(folder, folder / path) for path in ("Ana Lima.ipynb", "ben/1.ipynb")]
    ['Ana Lima', 'ben']
    """
    name = unicodedata.normalize("NFC", path.relative_to(folder).parts[0])
    found = _NOTEBOOK.search(name)
    return name[: found.start()] if found else name


def skeleton(name: str) -> str:
    """A form of the name that is equal for names that look the same or differ in case only.

    >>> skeleton("Ana") == skeleton("аna")  # the second one begins with a Cyrillic letter
    True
    """
    text = unicodedata.normalize("NFKD", name).casefold().translate(_ALIKE)
    return "".join(c for c in text if not unicodedata.combining(c) and c.isprintable())


def _safe(name: str) -> str:
    """A student's name as the name of a file; with any ending it has fewer than 255 bytes."""
    name = re.sub(r"[^\w.@+~-]", "_", name).lstrip(".") or "_"
    return name.encode()[:200].decode(errors="ignore")


def _unique(name: str, taken: Iterable[str]) -> str:
    """The name; with a number if the name is taken."""
    lower = {skeleton(other) for other in taken}
    names = [name, *(f"{name}_{number}" for number in range(2, 1000))]
    return next(candidate for candidate in names if skeleton(candidate) not in lower)


# ------------------------------------------------------------------------------- the roster

_GERMAN = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss"})


def _forms(name: str) -> list[str]:
    """Ways to write a name: the exact one comes first, the loosest one last."""
    name = unicodedata.normalize("NFC", name).strip()
    low = re.sub(r"[\s_]+", " ", name.casefold()).strip()
    copy = re.sub(r" ?\(\d{1,3}\)$", "", low)  # a browser's second download: kim (1)
    forms = [name, low, copy]
    for text in (low, copy):
        plain = "".join(
            c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c)
        )
        forms += [text.translate(_GERMAN), plain]
    return list(dict.fromkeys(forms))


def match(
    lines: Mapping[int, list[str]], handed: Mapping[str, list[str]]
) -> tuple[dict[str, int], dict[str, set[int]]]:
    """The line of the roster for each submission; ``lines`` and ``handed`` give possible names.

    Exact names are tried first, then looser forms. A line that fits several submissions is given to
    none of them. The second result holds the submissions that fit several lines, and these lines.

    >>> match({1: ["Ana Lima"], 2: ["Ben"]}, {"ana_lima": ["ana_lima"], "ben": ["ben"]})
    ({'ana_lima': 1, 'ben': 2}, {})
    """
    pairs: dict[str, set[int]] = {}
    found: dict[str, int] = {}
    everybody = [name for names in (*lines.values(), *handed.values()) for name in names]
    most = max((len(_forms(name)) for name in everybody), default=0)
    for level in range(most):
        here: dict[str, set[int]] = {}
        there: dict[str, set[str]] = {}
        for number, names in lines.items():
            if number not in found.values():
                for form in {f for n in names if n for f in _forms(n)[: level + 1]}:
                    here.setdefault(form, set()).add(number)
        for student, names in handed.items():
            if student not in found:
                for form in {f for n in names if n for f in _forms(n)[: level + 1]}:
                    there.setdefault(form, set()).add(student)
        pairs = {}
        for form, students in there.items():
            for student in students:
                pairs.setdefault(student, set()).update(here.get(form, ()))
        wanted = [number for numbers in pairs.values() for number in numbers]
        for student, numbers in pairs.items():
            if len(numbers) == 1 and wanted.count(number := next(iter(numbers))) == 1:
                found[student] = number
    return found, {who: rows for who, rows in pairs.items() if len(rows) > 1}
