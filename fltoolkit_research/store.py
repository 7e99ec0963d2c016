"""Results are lines of JSON in one file: what is there is not run again, and nothing is lost.

Each line is a row with a ``key``. Rows are only ever added, each by one write, so several processes
may use a file at the same time, and a crash can damage one line at most. Of rows with the same key
the last one counts. Here: rows, and `Store`, whose rows are results of experiments.
"""

import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import fltoolkit
from fltoolkit.history import History, add_line, read_lines
from fltoolkit_research.experiment import Experiment

Row = dict[str, Any]


def read_rows(path: str | os.PathLike[str]) -> dict[str, Row]:
    """The rows of a file by key, see `fltoolkit.history.read_lines`; without a file, none."""
    rows = read_lines(path) if Path(path).exists() else []
    if without := [row for row in rows if not isinstance(row.get("key"), str)]:
        words = f"{path}: {len(without)} rows have no key and are left out: {str(without[0])[:80]}"
        warnings.warn(words, stacklevel=2)
    return {row["key"]: row for row in rows if isinstance(row.get("key"), str)}


def add_row(path: str | os.PathLike[str], row: Mapping[str, Any]) -> None:
    """Add one row to a file, which is made if it is not there."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    add_line(path, row, sync=True)


class Result(NamedTuple):
    """One finished experiment."""

    experiment: Experiment
    history: History  # empty if the run failed
    error: str = ""  # the traceback of a run that failed
    seconds: float = 0.0  # the time the run took
    code: str = ""  # the version of fltoolkit that ran it; "" outside a store


class Store:
    """A file of results, found by the content of their experiments, so that none need run twice.

    A result belongs to an experiment's key and to the version of fltoolkit that made it. To another
    version it is not there: the experiment runs again, and both results are kept. Within a version,
    and for code of your own, the file cannot know what you have changed: use a new file then.

    Args:
        path: of the file, for example ``methods.jsonl``; `add` makes it.
        modules: modules of your own in which the names of stored experiments are looked up.
    """

    def __init__(self, path: str | os.PathLike[str], modules: Sequence[ModuleType] = ()):
        self.path, self.modules = Path(path), tuple(modules)

    def __len__(self) -> int:
        return len(self.rows())

    def rows(self) -> dict[str, Row]:
        """The rows that are results of experiments; the key of each ends with ``@version``."""
        rows = {key: row for key, row in read_rows(self.path).items() if "settings" in row}
        if wrong := [key for key, row in rows.items() if not _is_result(row)]:
            words = f"{self.path}: {len(wrong)} rows are no results, left out: {wrong[0][:40]}"
            warnings.warn(words, stacklevel=2)
        return {key: row for key, row in rows.items() if key not in wrong}

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


def _is_result(row: Row) -> bool:
    """Whether a row has all that a result has."""
    records = row.get("records")
    return (
        isinstance(row.get("settings"), dict)
        and isinstance(row.get("error"), str)
        and isinstance(row.get("seconds"), int | float)
        and isinstance(records, list)
        and all(isinstance(record, dict) for record in records)
    )


def _here(key: object, code: str = "") -> str:
    """The key of a row: of the experiment, and the version that ran it."""
    return f"{key}@{code or fltoolkit.__version__}"


def _result(experiment: Experiment, row: Row) -> Result:
    code = row["key"].partition("@")[2]
    return Result(experiment, History(row["records"]), row["error"], row["seconds"], code)
