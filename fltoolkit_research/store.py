"""Results are lines of JSON in one file: what is there is not run again, and nothing is lost.

Each line is a row with a ``key``. Rows are only ever added, each by one write, so several processes
may use a file at the same time, and a crash or a full disk can damage one line at most. Of rows
with the same key the last one counts. Here: reading and adding rows, and `Store`, whose rows are
results of experiments. All files in experiments/results are read by `read_rows`.
"""

import json
import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import fltoolkit
from fltoolkit.history import History
from fltoolkit_research.experiment import Experiment

Row = dict[str, Any]


def read_rows(path: str | os.PathLike[str]) -> dict[str, Row]:
    """The rows of a file by key; without a file, none.

    Lines that are no rows, such as one that was cut off when a disk was full, are left out with one
    warning. Raises ValueError if the file holds such lines only.
    """
    rows: dict[str, Row] = {}
    wrong: list[str] = []
    if not Path(path).exists():
        return rows
    with open(path, encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, 1):
            try:
                row = json.loads(line) if line.strip() else None
                if row is not None:
                    rows[str(row["key"])] = row
            except (ValueError, TypeError, KeyError, RecursionError) as error:
                wrong.append(f"line {number}: {type(error).__name__}: {error}"[:200])
    if wrong and not rows:
        raise ValueError(f"{path} is no file of results, which are lines of JSON ({wrong[0]})")
    if wrong:
        words = f"{path}: {len(wrong)} lines cannot be read and are left out, first {wrong[0]}"
        warnings.warn(words, stacklevel=2)
    return rows


def add_row(path: str | os.PathLike[str], row: Mapping[str, Any]) -> None:
    """Add one row, by a single write; after a line that was cut off, a new line begins."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "ab+", buffering=0) as file:
        line = json.dumps(row).encode() + b"\n"
        if file.seek(0, os.SEEK_END):
            file.seek(-1, os.SEEK_END)
            line = line if file.read(1) == b"\n" else b"\n" + line
        written = file.write(line)
        os.fsync(file.fileno())
    if written != len(line):
        raise OSError(f"{path}: only a part of a row could be written. Is the disk full?")


class Result(NamedTuple):
    """One finished experiment.

    >>> from fltoolkit import History
    >>> result = Result(Experiment(name="8 bits"), History([{"accuracy": 0.9}]), "", seconds=2.5)
    >>> result.experiment.title, result.history[-1]
    ('8 bits', {'accuracy': 0.9})
    """

    experiment: Experiment
    history: History  # empty if the run failed
    error: str  # the traceback of a run that failed, otherwise ""
    seconds: float  # the time the run took
    code: str = ""  # the version of fltoolkit that ran it; "" outside a store


class Store:
    """A file of results, found by the content of their experiments, so that none need run twice.

    A result belongs to an experiment's key and to the version of fltoolkit that made it. To another
    version it is not there: the experiment runs again, and both results are kept. Within a version,
    and for code of your own, the file cannot know what you have changed: use a new file then.

    Args:
        path: of the file, for example ``methods.jsonl``; `add` makes it.
        modules: modules of your own in which the names of stored experiments are looked up.

    >>> from fltoolkit import History
    >>> import tempfile
    >>> store = Store(Path(tempfile.mkdtemp()) / "results.jsonl")
    >>> experiment = Experiment(seed=3)
    >>> store.add(Result(experiment, History([{"step": 1, "accuracy": 0.9}]), "", 1.5))
    >>> experiment.key in store, store.results()[0].history[-1]
    (True, {'step': 1, 'accuracy': 0.9})
    """

    def __init__(self, path: str | os.PathLike[str], modules: Sequence[ModuleType] = ()):
        self.path, self.modules = Path(path), tuple(modules)

    def __contains__(self, key: object) -> bool:
        """True if the experiment with this key has finished or failed, with this version."""
        return _here(key) in self.rows()

    def __len__(self) -> int:
        return len(self.rows())

    def rows(self) -> dict[str, Row]:
        """The rows that are results of experiments; the key of each ends with ``@version``."""
        return {key: row for key, row in read_rows(self.path).items() if "settings" in row}

    def of(self, experiments: Iterable[Experiment]) -> dict[str, Result]:
        """The results of these experiments that this version has, by key; their names are these."""
        rows = self.rows()
        return {e.key: _result(e, rows[_here(e.key)]) for e in experiments if _here(e.key) in rows}

    def results(self) -> list[Result]:
        """Finished and failed experiments of all versions, in the order in which they were begun.

        An experiment that cannot be read is left out with a warning, for example if its codec is
        defined in a module that was not given.
        """
        found, unread = [], []
        for key, row in self.rows().items():
            try:
                experiment = Experiment.from_dict(row["settings"], self.modules)
                found.append(_result(experiment, row))
            except (TypeError, ValueError, KeyError) as mistake:
                unread.append(f"{key.partition('@')[0]}: {mistake}")
        if unread:
            count = len(found) + len(unread)
            words = f"{self.path}: {len(unread)} of {count} experiments are left out. {unread[0]}"
            warnings.warn(words, stacklevel=2)
        return found

    def add(self, result: Result) -> None:
        """Store a result; it replaces one of the same experiment and version."""
        e, _, error, seconds, code = result
        head = {"key": _here(e.key, code), "settings": e.to_dict(), "seconds": seconds}
        add_row(self.path, {**head, "error": error, "records": [*map(dict, result.history)]})


def _here(key: object, code: str = "") -> str:
    """The key of a row: of the experiment, and the version that ran it."""
    return f"{key}@{code or fltoolkit.__version__}"


def _result(experiment: Experiment, row: Row) -> Result:
    code = row["key"].partition("@")[2]
    return Result(experiment, History(row["records"]), row["error"], row["seconds"], code)
