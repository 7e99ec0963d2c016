"""Reads what a student wrote, in time that grows only linearly with its length.

This runs in the grader's own process, which has no time limit. So no regular expression here
matches across lines, and a text is parsed only if it has not too many parts.
"""

import ast
import dis
import io
import json
import re
import stat
import unicodedata
import zipfile
import zlib
from pathlib import Path
from typing import Any

MAX_BYTES = 64 << 20  # a larger submission is not read
MAX_PARTS = 2_000_000  # values in its JSON; each takes 32 to 232 bytes in memory
MAX_OBJECTS = 500_000  # objects and lists among them
MAX_ENTRIES = 10_000  # files in a zip
_DROPPING = re.compile(r"(^|/)(\.[^/]|__MACOSX)")  # hidden files, and what a Mac adds
_ZIP = b"PK\x03\x04"


def read_submission(path: Path) -> tuple[dict[str, Any] | None, str]:
    """The notebook in a file and an empty text; or None and the reason why it cannot be read."""
    try:
        about = path.lstat()
        if stat.S_ISDIR(about.st_mode):
            return None, "a folder with no notebook"
        if not stat.S_ISREG(about.st_mode):
            return None, "not a file (a link or device)"
        if about.st_size > MAX_BYTES:
            size = f"{about.st_size / 1e6:.0f} MB, at most {MAX_BYTES / 1e6:.0f}"
            return None, f"too large: {size}"
        content = path.read_bytes()
        if content.startswith(_ZIP):
            content = _newest_in_zip(content)
        objects = content.count(b"{") + content.count(b"[")
        for parts, most in ((num_parts(content), MAX_PARTS), (objects, MAX_OBJECTS)):
            if parts > most:
                return None, f"too many parts: {parts:,}, at most {most:,}; clear all outputs"
        notebook = json.loads(content)
    except zipfile.BadZipFile as error:
        return None, f"a zip that cannot be opened ({error})"
    except OSError as error:
        return None, f"cannot be read ({error.strerror})"
    except (ValueError, RecursionError, MemoryError):
        return None, "not a notebook: not JSON"
    if not isinstance(notebook, dict) or not isinstance(notebook.get("cells"), list):
        if isinstance(notebook, dict) and isinstance(notebook.get("worksheets"), list):
            return None, "wrong nbformat: 3 or older; open it in Jupyter and save it again"
        return None, "not a notebook: no cells"
    if notebook.get("nbformat") != 4:
        return None, f"wrong nbformat: {notebook.get('nbformat')!r:.20}, should be 4"
    return notebook, ""


def _newest_in_zip(content: bytes) -> bytes:
    """The newest notebook of a zip, unpacked in memory. Raises BadZipFile with the reason."""
    if content.count(b"PK\x01\x02") > MAX_ENTRIES:
        raise zipfile.BadZipFile(f"more than {MAX_ENTRIES:,} files")
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        found = [info for info in archive.infolist() if info.filename.lower().endswith(".ipynb")]
        found = [info for info in found if not _DROPPING.search(info.filename)]
        if not found:
            raise zipfile.BadZipFile("no notebook in it")
        newest = max(found, key=lambda info: (info.date_time, info.filename))
        if newest.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise zipfile.BadZipFile("its method has no bound of memory: zip it as usual")
        try:
            with archive.open(newest) as file:
                text = file.read(MAX_BYTES + 1)
        except (RuntimeError, NotImplementedError, zlib.error, EOFError, OSError) as error:
            raise zipfile.BadZipFile(f"{newest.filename[:50]!r}: {error}") from error
    if len(text) > MAX_BYTES:
        raise zipfile.BadZipFile(f"unpacked larger than {MAX_BYTES / 1e6:.0f} MB")
    return text


def num_parts(content: bytes) -> int:
    """The approximate number of values in a JSON text, found by counting without parsing."""
    text = content
    if b"\\" in text:
        text = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    strings = text.count(b'"') // 2
    if strings > 1_000_000:
        return strings
    outside = b" ".join(text.split(b'"')[::2])
    return strings + sum(outside.count(mark) for mark in (b",", b"[", b"{", b":"))


def without_magic(source: str) -> str:
    """A cell with ``pass`` in place of each line that only IPython can read."""
    return re.sub(r"^([ \t]*)[%!].*", r"\1pass", source, flags=re.MULTILINE)


def names_defined(source: str, *, imports: bool = True) -> set[str]:
    """The names that a cell of the master defines at its top level.

    >>> source = "import os\\nclass Gate: pass\\na, b = [x for x in (1, 2)]\\n%time f()"
    >>> source += "\\nprint([*{y: {z for z in y} for y in [(1,)]}])"
    >>> sorted(names_defined(source)), sorted(names_defined(source, imports=False))
    (['Gate', 'a', 'b', 'os'], ['Gate', 'a', 'b'])
    """
    source = without_magic(source)
    steps = dis.get_instructions(compile(source, "<master>", "exec"))
    stored = {step.argval for step in steps if step.opname in ("STORE_NAME", "STORE_GLOBAL")}
    if imports:
        return stored
    lines = [n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Import | ast.ImportFrom)]
    return stored - {(a.asname or a.name).split(".")[0] for line in lines for a in line.names}


_LOOKS = {
    "the end of the process": r"os\s*\.\s*_exit|os\s*\.\s*abort|os\s*\.\s*kill|sys\s*\.\s*exit",
    "IPython's inside": r"get_ipython|input_transformers|user_ns|\bIn\s*\[|\bOut\s*\[",
    "built-in functions": r"\bbuiltins\b|__builtins__|\bprint\s*=|sys\s*\.\s*(stdout|displayhook)",
    "comparison methods": r"__eq__|__ne__|__bool__",
    "frames and objects of others": r"_getframe|\binspect\b|\bgc\s*\.|sys\s*\.\s*modules|/proc/",
    "C functions": r"\bctypes\b",
    "processes": r"\bsubprocess\b|os\s*\.\s*(fork|system|popen|spawn)|multiprocessing",
    "network": r"(?m)\bsocket\b|urllib|requests\b|^(?![ \t]*[%!]pip\b).*https?://",
    "pickle": r"\bpickle\b|\bdill\b|__reduce__",
}


def suspicious(source: str) -> list[str]:
    """Kinds of suspicious code in an answer, which a person should read; points do not change.

    Python reads a letter of another style, such as one of full width, as the plain letter; so
    does this function.

    >>> suspicious("import os; os._exit(0)"), suspicious("import os; ｏｓ._𝑒𝑥𝑖𝑡(0)")
    (['the end of the process'], ['the end of the process'])
    """
    # normalizing the whole text would take time with the square of a run of combining marks
    other = {ord(c): unicodedata.normalize("NFKC", c) for c in {*source} if not c.isascii()}
    source = source.translate(other)
    return [kind for kind, pattern in _LOOKS.items() if re.search(pattern, source)]
