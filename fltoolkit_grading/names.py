"""Finds the student of each file, and the line of the roster for each student.

No student gets another student's name: names that only look alike are never treated as equal.
"""

import contextlib
import hashlib
import os
import re
import unicodedata
from collections.abc import Container, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from fltoolkit_grading.master import AssignmentError

Key = TypeVar("Key")  # what names belong to: a student, or a line of the roster
_NOTEBOOK = re.compile(r"\.ipynb(\.\w+)?$", re.IGNORECASE)  # browsers append .txt or .json
_ARCHIVE = re.compile(r"\.zip$", re.IGNORECASE)
_MOODLE = re.compile(r"([^/]{1,150}?)_(\d{1,12})_assignsubmission_(?:file|onlinetext)(?:_.*)?$")
_CANVAS = re.compile(r"([^/]{1,150}?)(?:_LATE)?_(\d{2,15})_(\d{2,15})_.+$")
_DROPPINGS = (".", "__MACOSX")  # hidden files, and what a Mac puts into archives
_BLANK = "\u115f\u1160\u2800"  # letters without ink, which Unicode does not count as controls


def find_submissions(folder: str | Path) -> dict[str, Path]:
    """Students' files by name: ``NAME.ipynb``, or nbgrader's ``NAME/**/*.ipynb``.

    Moodle's ``NAME_1234_assignsubmission_file_`` and Canvas's ``name_1234_56789_file.ipynb`` become
    NAME_1234. Of several of one student the last notebook counts, or else a file before Moodle's
    online text; of several notebooks in a folder the newest; with a note. A zip stands for the
    newest notebook in it. No student who handed in is left out: a folder with no notebook or a
    picture is listed too, and gets a status that says why it cannot be read. If two files could
    have the same name, a notebook has priority, then a name that needs no change. If two names
    differ only in case or in letters that look alike, both get an addition.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> for name in ("ana.ipynb", "Ben.ipynb", "carla.zip"):
    ...     _ = (folder / name).write_text("")
    >>> list(find_submissions(folder))
    ['Ben', 'ana', 'carla']
    """
    folder = Path(folder)
    if not folder.is_dir():
        zipped = ": it is a file, unpack it first and give the folder" if folder.is_file() else ""
        raise AssignmentError(f"{folder}: no such folder of submissions{zipped}")
    handed_in: list[tuple[bool, bool, str, Path]] = []
    best: dict[str, tuple[Any, Path]] = {}  # of each student that a platform names: rank, path
    for path in folder.iterdir():
        if path.name.startswith(_DROPPINGS):
            continue
        name = unicodedata.normalize("NFC", path.name)  # a Mac writes ë as two characters
        notebook = _NOTEBOOK.search(name)
        if path.is_dir() and not path.is_symlink():
            inside = _notebooks_in(path) or _notebooks_in(path, _ARCHIVE)
            other = not inside
            path = path if other else max(inside, key=time_of)
        else:
            other = notebook is None
            name = name[: notebook.start()] if notebook else Path(name).stem
        if found := platform(name):
            who = "_".join(found[1:3])
            rank = (not other, "_assignsubmission_online" not in name, found[3], time_of(path))
            best[who] = max(best.get(who, (rank, path)), (rank, path))
        else:
            handed_in.append((other, _safe(name) != name, name, path))
    handed_in += [(not rank[0], False, who, path) for who, (rank, path) in best.items()]
    if not handed_in:
        raise AssignmentError(f"{folder}: no submissions; expected NAME.ipynb or NAME/*.ipynb")
    alike = look_alikes(name for other, changed, name, _ in handed_in if not other and not changed)
    taken: dict[str, Path] = {}
    for other, changed, name, path in sorted(handed_in):
        if not other and not changed and alike[name]:
            mark = hashlib.sha256(name.encode(errors="replace")).hexdigest()[:4]
            name = f"{name}~{mark}"  # does not depend on what others hand in later
        taken[_unique(_safe(name), taken)] = path
    return dict(sorted(taken.items()))


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
    if found := _MOODLE.match(name):
        return "moodle", found[1], found[2], 0
    found = _CANVAS.match(name)
    return ("canvas", found[1], found[2], int(found[3])) if found else None


def handed_in_as(folder: str | Path, path: Path) -> str:
    """The name that a student or the LMS gave to the file, or to the folder around it."""
    name = unicodedata.normalize("NFC", path.relative_to(folder).parts[0])
    found = _NOTEBOOK.search(name)
    return name[: found.start()] if found else name


def name_notes(folder: str | Path, found: Mapping[str, Path]) -> dict[str, list[str]]:
    """What the instructor should know about each name; ``found`` is from `find_submissions`."""
    folder = Path(folder)
    names = {student: handed_in_as(folder, path) for student, path in found.items()}
    same, nearly = look_alikes(names.values()), look_alikes(names.values(), nearly=True)
    made = {path.name: platform(path.name) for path in folder.iterdir()}
    notes: dict[str, list[str]] = {}
    for student, name in names.items():
        notes[student] = []
        entry = folder / found[student].relative_to(folder).parts[0]
        if entry.is_dir() and found[student] != entry and len(_notebooks_in(entry)) > 1:
            notes[student].append(f"several notebooks: graded the newest, {found[student].name!r}")
        own = made[entry.name] or ("",)
        same_person = sorted(n for n, of in made.items() if of and of[:3] == own[:3])
        if len(same_person) > 1:
            left = ", ".join(repr(name) for name in same_person if name != entry.name)
            count = f"{len(same_person)} files from {own[0].title()}"
            notes[student].append(f"{count}: graded {entry.name!r}, and not {left}")
        if name != student:
            notes[student].append(f"handed in as {entry.name!r}")
        for other in same[name]:
            notes[student].append(f"the name looks the same as {other!r}: ask who handed it in")
        for other in sorted({*nearly[name]} - {*same[name]}):
            notes[student].append(f"worth a look: the name looks nearly the same as {other!r}")
    return notes


def look_alikes(names: Iterable[str], *, nearly: bool = False) -> dict[str, list[str]]:
    """For each name the other names that look the same on a screen, or differ in case only.

    Unicode's list of confusable characters (UTS 39) says which letters look the same; small
    capitals are added, and characters without ink are left out. ``nearly`` also takes names as
    equal that differ in accents, or in rn and m, or in vv and w. Two people may have such names.
    Needs the package confusable-homoglyphs.

    >>> look_alikes(["Iana", "lana", "b0b", "Bob", "Ian", "Lan"])
    {'Iana': ['lana'], 'lana': ['Iana'], 'b0b': ['Bob'], 'Bob': ['b0b'], 'Ian': [], 'Lan': []}
    >>> look_alikes(["Kern", "Kem"]), look_alikes(["Kern", "Kem"], nearly=True)
    ({'Kern': [], 'Kem': []}, {'Kern': ['Kem'], 'Kem': ['Kern']})
    """
    names = list(dict.fromkeys(names))
    groups: dict[tuple[int, str], set[str]] = {}
    for name in names:
        for number, shape in enumerate(_shapes(name, nearly)):
            groups.setdefault((number, shape), set()).add(name)
    found: dict[str, set[str]] = {name: set() for name in names}
    for group in groups.values():
        for name in group:
            found[name] |= group - {name}
    return {name: sorted(others) for name, others in found.items()}


def _shapes(name: str, nearly: bool) -> tuple[str, str]:
    """Two forms of a name; names that look alike share one of them.

    Upper and lower case are equal in the first form only. I, l and 1 are equal in the second form
    only, so Ian and Lan are different names.
    """
    classes, text = _classes(), ""
    for c in unicodedata.normalize("NFKD", name).strip():
        mark = unicodedata.category(c).startswith("M")  # an accent, or a mark without ink
        inked = unicodedata.combining(c) and not nearly if mark else c not in _BLANK
        if inked and c.isprintable():
            text += c
    exact = "".join(classes.get(c, c) for c in text)
    folded = "".join(c if like == "1" else like for c, like in zip(text, exact, strict=True))
    folded = "".join(classes.get(c, c) for c in folded.lower()).replace("0", "o")
    if nearly:
        folded, exact = (x.replace("rn", "m").replace("vv", "w") for x in (folded, exact))
    return folded, exact


@cache
def _classes() -> dict[str, str]:
    """For each character that has look-alikes one of them, an ASCII character if there is one."""
    try:
        from confusable_homoglyphs.confusables import confusables_data
    except ImportError as error:
        raise ImportError('grading needs: pip install "fltoolkit[grading]"') from error
    found: dict[str, str] = {}
    groups = [
        {c for c in (char, *(other["c"] for other in others)) if len(c) == 1}
        for char, others in confusables_data.items()
    ]
    for group in sorted(groups, key=len):  # the largest group of a character is its whole class
        found |= dict.fromkeys(group, min(map(_small_capital, group), default=""))
    return found


def _small_capital(char: str) -> str:
    """The lower-case letter of a small capital, and any other character as it is."""
    before, _, letter = unicodedata.name(char, "").partition("LETTER SMALL CAPITAL ")
    return letter.lower() if before == "LATIN " and len(letter) == 1 else char


def _safe(name: str) -> str:
    """A student's name as the name of a file; with any ending it has fewer than 255 bytes."""
    name = re.sub(r"[^\w.@+~-]", "_", name).lstrip(".") or "_"
    return name.encode()[:200].decode(errors="ignore")


def _unique(name: str, taken: Iterable[str]) -> str:
    """The name; with a number if the name is taken."""
    lower = {_shapes(other, nearly=False)[0] for other in taken}
    names = [name, *(f"{name}_{number}" for number in range(2, 1000))]
    return next(n for n in names if _shapes(n, nearly=False)[0] not in lower)


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


def _by_form(
    named: Mapping[Key, list[str]], taken: Container[Key], level: int
) -> dict[str, set[Key]]:
    """For each way to write a name, up to this looseness, the keys that have it."""
    found: dict[str, set[Key]] = {}
    for key, names in named.items():
        if key not in taken:
            for form in {form for name in names if name for form in _forms(name)[: level + 1]}:
                found.setdefault(form, set()).add(key)
    return found


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
        here, there = _by_form(lines, found.values(), level), _by_form(handed, found, level)
        pairs = {}
        for form, students in there.items():
            for student in students:
                pairs.setdefault(student, set()).update(here.get(form, ()))
        wanted = [number for numbers in pairs.values() for number in numbers]
        for student, numbers in pairs.items():
            if len(numbers) == 1 and wanted.count(number := next(iter(numbers))) == 1:
                found[student] = number
    return found, {who: rows for who, rows in pairs.items() if len(rows) > 1}
