"""Where results are kept: one SQLite file, safe with several processes and after a crash.

SQLite and not DuckDB, because several processes write: DuckDB lets one process at a time open a
file for writing. Write-ahead logging (WAL) lets readers read meanwhile; it needs a local disk.

Here: a row an experiment, a row a record, and claims: who is at work on what.
"""

import json
import os
import socket
import sqlite3
import time
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from fltoolkit.history import History
from fltoolkit.research.experiment import Experiment

__all__ = ["Result", "Store", "StoreError"]

_APPLICATION = 0x666C746B  # "fltk" in the file's header: this is one of ours
_VERSION = 1
_TABLES = """
CREATE TABLE experiment (
    key TEXT PRIMARY KEY,      -- Experiment.key: what the settings hash to
    settings TEXT NOT NULL,    -- Experiment.to_json()
    error TEXT NOT NULL,       -- '' for a run that finished
    seconds REAL NOT NULL,     -- that the run took
    finished REAL NOT NULL     -- when, in seconds since 1970
) STRICT;
CREATE TABLE record (
    key TEXT NOT NULL REFERENCES experiment ON DELETE CASCADE,
    number INTEGER NOT NULL,   -- from 0
    record TEXT NOT NULL,      -- JSON
    PRIMARY KEY (key, number)
) STRICT, WITHOUT ROWID;
CREATE TABLE claim (
    key TEXT PRIMARY KEY,      -- somebody runs this experiment
    host TEXT NOT NULL,
    pid INTEGER NOT NULL,
    until REAL NOT NULL        -- and has given notice up to here, in seconds since 1970
) STRICT;
"""
LEASE = 120.0  # seconds for which a claim is good


class StoreError(ValueError):
    """A file that is no store, is damaged, or was made by a newer version."""


class Result(NamedTuple):
    """One finished experiment."""

    experiment: Experiment
    history: History  # empty where it failed
    error: str  # "" where it did not
    seconds: float


class Store:
    """Results by the content of their experiments: an experiment that is here need not run again.

    A result is written whole, in one transaction that is on disk when `add` returns: killing the
    process loses the run in progress and nothing else. Any number of processes on one machine may
    use a store at the same time; one object is for one thread.

    >>> import tempfile
    >>> store = Store(Path(tempfile.mkdtemp()) / "results.db")
    >>> experiment = Experiment(seed=3)
    >>> store.add(Result(experiment, History([{"step": 1, "accuracy": 0.9}]), "", 1.5))
    >>> experiment.key in store, store.results()[0].history[-1]
    (True, {'step': 1, 'accuracy': 0.9})
    """

    def __init__(self, path: str | os.PathLike[str]):
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._explained():
            self._db = sqlite3.connect(self.path, timeout=60, isolation_level=None)
            try:
                self._open()
            except BaseException:
                self._db.close()
                raise

    def _open(self) -> None:
        with self._transaction("DEFERRED"):  # one look: others may be making it right now
            version = self._one("PRAGMA user_version")
            application = self._one("PRAGMA application_id")
            tables = self._one("SELECT count(*) FROM sqlite_master")
        if application == 0 and tables == 0:
            self._write_ahead()
            with self._transaction():
                if self._one("PRAGMA user_version") == 0:  # nobody else was faster
                    for statement in filter(str.strip, _TABLES.split(";")):
                        self._db.execute(statement)
                    self._db.execute(f"PRAGMA application_id = {_APPLICATION}")
                    self._db.execute(f"PRAGMA user_version = {_VERSION}")
        elif application != _APPLICATION:
            raise StoreError(f"{self.path} is an SQLite file of another program: name another one")
        elif version > _VERSION:
            raise StoreError(
                f"{self.path} was made by a newer fltoolkit (format {version}, this one reads "
                f"{_VERSION}): update with pip install -U fltoolkit, or name another file"
            )
        elif (found := self._one("PRAGMA quick_check(1)")) != "ok":
            raise sqlite3.DatabaseError(found)
        self._db.execute("PRAGMA synchronous = FULL")
        self._db.execute("PRAGMA foreign_keys = ON")

    def _write_ahead(self) -> None:
        """Turn on WAL. SQLite does not wait here for others that do the same: ask again."""
        until = time.monotonic() + 60
        while True:
            try:
                self._db.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > until:
                    raise
                time.sleep(0.01)

    # ------------------------------------------------------------------------------ what is there

    def __contains__(self, key: object) -> bool:
        """Whether this experiment has finished, or failed."""
        with self._explained():
            return self._one("SELECT count(*) FROM experiment WHERE key = ?", key) > 0

    def __len__(self) -> int:
        with self._explained():
            return self._one("SELECT count(*) FROM experiment")

    def failed(self) -> set[str]:
        """The keys of those that ended in an error."""
        with self._explained():
            rows = self._db.execute("SELECT key FROM experiment WHERE error != ''").fetchall()
        return {key for (key,) in rows}

    def results(self, keys: Iterable[str] | None = None) -> list[Result]:
        """Finished and failed experiments, in the order of their end; or those with these keys.

        ``keys`` that are not in the store are left out. An experiment that cannot be read is left
        out with a warning, for example if its codec was not allowed (`fltoolkit.research.allow`).
        """
        wanted = None if keys is None else list(keys)
        with self._explained():
            rows = self._db.execute(
                "SELECT key, settings, error, seconds FROM experiment ORDER BY finished, key"
            ).fetchall()
            records: dict[str, list[str]] = {key: [] for key, *_ in rows}
            for key, record in self._db.execute("SELECT key, record FROM record ORDER BY number"):
                records.setdefault(key, []).append(record)
        found, unread = {}, []
        for key, settings, error, seconds in rows:
            if wanted is None or key in wanted:
                try:
                    experiment = Experiment.from_json(settings)
                except (TypeError, ValueError) as mistake:
                    unread.append(f"{key}: {mistake}")
                else:
                    history = History(map(json.loads, records[key]))
                    found[key] = Result(experiment, history, error, seconds)
        if unread:
            words = (
                f"{self.path}: {len(unread)} of {len(rows)} experiments are left out. {unread[0]}"
            )
            warnings.warn(words, stacklevel=2)
        order = found if wanted is None else wanted
        return [found[key] for key in order if key in found]

    # ----------------------------------------------------------------------------------- changing

    def add(self, result: Result) -> None:
        """Keep a result, in place of an earlier one of the same experiment; its claim ends."""
        key = result.experiment.key
        row = (key, result.experiment.to_json(), result.error, result.seconds, time.time())
        lines = [(key, n, json.dumps(record)) for n, record in enumerate(result.history)]
        with self._explained(), self._transaction():
            self._db.execute("DELETE FROM experiment WHERE key = ?", (key,))
            self._db.execute("INSERT INTO experiment VALUES (?, ?, ?, ?, ?)", row)
            self._db.executemany("INSERT INTO record VALUES (?, ?, ?)", lines)
            self._db.execute("DELETE FROM claim WHERE key = ?", (key,))

    def rename(self, experiments: Iterable[Experiment]) -> None:
        """Give stored experiments their present names: the name is not part of the key."""
        rows = [(e.to_json(), e.key) for e in experiments]
        with self._explained(), self._transaction():
            self._db.executemany("UPDATE experiment SET settings = ? WHERE key = ?", rows)

    def forget_failures(self, keys: Iterable[str]) -> None:
        """Remove those of these experiments that ended in an error, so that they may run again."""
        statement = "DELETE FROM experiment WHERE key = ? AND error != ''"
        with self._explained(), self._transaction():
            self._db.executemany(statement, [(key,) for key in keys])

    def claim(self, key: str) -> bool:
        """Say that this process runs an experiment; False if another one does, or it has been run.

        A claim is valid for `LEASE` seconds: call `renew` before they are over. A claim of a
        process on this machine that no longer runs is not valid.
        """
        host, pid, now = socket.gethostname(), os.getpid(), time.time()
        with self._explained(), self._transaction():
            if self._one("SELECT count(*) FROM experiment WHERE key = ?", key):
                return False
            row = self._db.execute("SELECT host, pid, until FROM claim WHERE key = ?", (key,))
            for theirs, other, until in row.fetchall():
                alive = theirs != host or _runs(other)
                if (theirs, other) != (host, pid) and until > now and alive:
                    return False
            values = (key, host, pid, now + LEASE)
            self._db.execute("INSERT OR REPLACE INTO claim VALUES (?, ?, ?, ?)", values)
        return True

    def renew(self) -> None:
        """Make all claims of this process valid for another `LEASE` seconds."""
        who = (time.time() + LEASE, socket.gethostname(), os.getpid())
        with self._explained(), self._transaction():
            self._db.execute("UPDATE claim SET until = ? WHERE host = ? AND pid = ?", who)

    def release(self, keys: Iterable[str]) -> None:
        """Give claims back."""
        with self._explained(), self._transaction():
            self._db.executemany("DELETE FROM claim WHERE key = ?", [(key,) for key in keys])

    def close(self) -> None:
        """Close the file; what was added is in it."""
        self._db.close()

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ------------------------------------------------------------------------------------ helpers

    def _one(self, statement: str, *values: object) -> Any:
        return self._db.execute(statement, values).fetchone()[0]

    @contextmanager
    def _transaction(self, kind: str = "IMMEDIATE") -> Iterator[None]:
        """All of it or nothing; waits up to a minute for other processes that are writing."""
        self._db.execute(f"BEGIN {kind}")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """SQLite's errors in words, with the file's name."""
        try:
            yield
        except sqlite3.OperationalError as error:
            raise OSError(
                f"{self.path}: {error}. Can this folder be written, and is its disk local and not "
                "full? Close other programs that hold the file"
            ) from error
        except sqlite3.DatabaseError as error:
            words = " ".join(str(error).replace("*", "").split())
            raise StoreError(
                f"{self.path} is damaged or no store ({words}). Nothing was changed. Move it away "
                "to begin a new one; `sqlite3 FILE .recover` may save what is in it"
            ) from error


def _runs(pid: int) -> bool:
    """Whether a process with this number runs on this machine."""
    if os.name == "nt":  # os.kill would end it there; its claim runs out instead
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
