"""What a reader has done so far: guesses, passed checks and the bill, kept beside the notebooks.

The file ``course_progress.json`` is written completely or not at all. A damaged file is renamed,
and a sentence says so. Nothing is written if no notebook of the course is in the working folder, or
if the notebooks run to save their outputs. Not here: the card of one notebook (notebook.py).
"""

import contextlib
import html
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from itertools import compress
from pathlib import Path
from typing import Any

FILE = "course_progress.json"


@dataclass(frozen=True)
class Guess:
    """One answered `predict`: guess and measured value in words, and the factor between them."""

    guessed: str  # "" if the guess was skipped
    measured: str
    off: str = ""
    factor: float | None = None  # at least 1; None if there is no such factor


@dataclass(frozen=True)
class Item:
    """One line of the bill: a training, the bytes that it sent, and how well it did."""

    what: str
    nbytes: int
    score: str  # with its unit or name
    times: float  # how many times the data: bytes sent, over those of the samples without loss
    why: str = ""  # what this line teaches


@dataclass
class Done:
    """What was done in one notebook: the first guess of each question, which checks have passed,
    and its lines of the bill.
    """

    guesses: dict[str, Guess] = field(default_factory=dict)
    checks: dict[str, bool] = field(default_factory=dict)
    bill: list[Item] = field(default_factory=list)

    @property
    def made(self) -> list[Guess]:
        """The guesses that were made, without those that were skipped."""
        return [guess for guess in self.guesses.values() if guess.guessed]

    @property
    def passed(self) -> list[str]:
        """The checks that have passed."""
        return [name for name, passed in self.checks.items() if passed]


_unfinished: dict[str, str] = {}  # how far each training of this session came that has not ended


def came(doing: str, done: int, total: int | None) -> None:
    """Note how far a training has come; if it never comes to its end, `cut_short` says so."""
    _unfinished.pop(doing, None)
    if done < (total or 0):
        _unfinished[doing] = f"{doing}, {done:,} of {total:,}"


def cut_short() -> str:
    """Which trainings of this session were stopped before their end; "" if none was."""
    return f"Stopped early: {'; '.join(_unfinished.values())}." if _unfinished else ""


def saved_edition() -> bool:
    """Whether the notebooks run to save their outputs: then nobody guesses, and nothing is kept."""
    return os.environ.get("FLTOOLKIT_EDITION") == "saved"


def course_folder() -> Path | None:
    """The working folder if it holds notebooks of the course; None otherwise."""
    here = Path.cwd()
    return here if not saved_edition() and any(here.glob("[01][0-9]_*.ipynb")) else None


def read_done(folder: Path | None) -> dict[str, Done]:
    """What was done in each notebook, by its number."""
    path = folder / FILE if folder else None
    if path is None or not path.exists():
        return {}
    try:
        return done_in(path.read_text(encoding="utf-8"))
    except OSError:
        return {}
    except (ValueError, TypeError, AttributeError):  # no JSON, or not what `remember` writes
        damaged = path.with_suffix(".damaged.json")
        with contextlib.suppress(OSError):
            path.replace(damaged)
            print(f"{path} is damaged, so nothing counts as done; it is kept as {damaged.name}.")
        return {}


def done_in(text: str) -> dict[str, Done]:
    """What was done in each notebook, from the text of the file.

    Raises ValueError, TypeError or AttributeError for a text that `remember` did not write.
    """
    return {number: _done(**part) for number, part in json.loads(text).items()}


def _done(guesses: dict[str, Any], checks: dict[str, bool], bill: list[Any]) -> Done:
    made = {question: Guess(**guess) for question, guess in guesses.items()}
    return Done(made, checks, [Item(**item) for item in bill])


def remember(folder: Path | None, number: str, done: Done) -> None:
    """Write one notebook's part of the file, and leave the others as they are."""
    if folder is None:
        return
    content = {**read_done(folder), number: done}
    text = json.dumps({key: asdict(value) for key, value in sorted(content.items())}, indent=1)
    unfinished = folder / f"{FILE}.{os.getpid()}"
    try:
        unfinished.write_text(text, encoding="utf-8")
        unfinished.replace(folder / FILE)
    except OSError:  # e.g. a read-only folder: the card still shows what was done in this session
        with contextlib.suppress(OSError):
            unfinished.unlink()


@dataclass(frozen=True)
class Table:
    """A table of words, shown as HTML in a notebook and as text elsewhere."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    after: Sequence[str] = ()

    def _filled(self) -> list[list[str]]:
        """Head and rows without the columns that are empty in all rows; [] without rows."""
        used = [any(cells) for cells in zip(*self.rows, strict=True)]
        return [[*compress(line, used)] for line in (self.head, *self.rows)] if self.rows else []

    def __repr__(self) -> str:
        lines = [line for line in self._filled() if any(line)]  # a head may have no words
        widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
        body = [
            "  " + "  ".join(f"{word:<{width}}" for word, width in zip(line, widths, strict=True))
            for line in lines
        ]
        return "\n".join(line.rstrip() for line in [self.title, *body, *self.after])

    def _repr_html_(self) -> str:
        def row(words: Iterable[str], tag: str) -> str:
            cells = (f'<{tag} style="text-align:left">{html.escape(w)}</{tag}>' for w in words)
            return f"<tr>{''.join(cells)}</tr>"

        lines = self._filled()
        body = "".join(row(words, "td") for words in lines[1:])
        table = f"<table>{row(lines[0], 'th')}{body}</table>" if lines else ""
        after = "".join(f"<p>{html.escape(line)}</p>" for line in self.after)
        return f"<p><b>{html.escape(self.title)}</b></p>{table}{after}"
