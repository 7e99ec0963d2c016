"""Results are kept in one SQLite file, which several processes may write and a crash cannot break.

The format is SQLite and not DuckDB, because several processes write: DuckDB lets only one process
at a time open a file for writing. Write-ahead logging (WAL) lets others read while one process
writes; it needs a local disk.

The file has one row for each experiment and version of the code, one for each record, and one for
each claim; a claim says which process runs which experiment. Results of other code are kept, and
never taken for results of this code; see `code_version`.
"""

import hashlib
import json
import os
import socket
import sqlite3
import time
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import fltoolkit
from fltoolkit.history import History
from fltoolkit_research.experiment import Experiment

_APPLICATION = 0x666C746B  # "fltk" in the file's header marks a store of this package
_VERSION = 1
_TABLES = """
CREATE TABLE experiment (
    key TEXT PRIMARY KEY,      -- Experiment.key, @, `code_version` (before 0.2: the key alone)
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
# rooms and files that no run uses: what they say changes no result
_ROOMS = {"plots", "cup", "labs", "panels", "course", "assignments", "commands", "cli", "engines"}
_NOT_IN_RUNS = _ROOMS | {"analysis", "intervals", "tables", "search", "store", "sweeps"}


@lru_cache
def code_version() -> str:
    """The package's version, and 8 hexadecimal digits of the sources that a run may use.

    The digits change with every edit of these files, since no program can tell which edits change
    results. Code of your own is not in them: give it a name, or an argument, that you change.

    >>> code_version().startswith("0.")
    True
    """
    package, digest = Path(fltoolkit.__file__).parent, hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package).with_suffix("").parts
        if _NOT_IN_RUNS.isdisjoint(parts):
            digest.update("/".join(parts).encode() + b"\0" + path.read_bytes().replace(b"\r", b""))
    return f"{fltoolkit.__version__}+{digest.hexdigest()[:8]}"


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
    code: str = (
        ""  # the `code_version` that ran it; "" for results of before 0.2, or outside a store
    )


class Store:
    """A file of results, found by the content of their experiments, so that none need run twice.

    A result belongs to the `code_version` that made it. To other code it is not there: it runs the
    experiment again, and both results are kept. With ``any_code`` results of other code count, too.

    A result is written in one transaction, which is on disk when `add` returns. If the process is
    killed, only the run in progress is lost. Any number of processes on one machine may use a
    store at the same time; each thread needs a Store object of its own. A file that is no store, is
    damaged, or was made by a newer version raises ValueError.

    >>> from fltoolkit import History
    >>> import tempfile
    >>> store = Store(Path(tempfile.mkdtemp()) / "results.db")
    >>> experiment = Experiment(seed=3)
    >>> store.add(Result(experiment, History([{"step": 1, "accuracy": 0.9}]), "", 1.5))
    >>> experiment.key in store, store.results()[0].history[-1]
    (True, {'step': 1, 'accuracy': 0.9})
    """

    def __init__(self, path: str | os.PathLike[str], *, any_code: bool = False):
        self.path = Path(path)
        self.any_code = any_code
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._explained():
            self._db = sqlite3.connect(self.path, timeout=60, isolation_level=None)
            try:
                self._open()
            except BaseException:
                self._db.close()
                raise

    def _open(self) -> None:
        with self._transaction("DEFERRED"):  # one consistent look: others may be making the file
            version = self._one("PRAGMA user_version")
            application = self._one("PRAGMA application_id")
            tables = self._one("SELECT count(*) FROM sqlite_master")
        if application == 0 and tables == 0:
            self._write_ahead()
            with self._transaction():
                if self._one("PRAGMA user_version") == 0:  # no other process has made the tables
                    for statement in filter(str.strip, _TABLES.split(";")):
                        self._db.execute(statement)
                    self._db.execute(f"PRAGMA application_id = {_APPLICATION}")
                    self._db.execute(f"PRAGMA user_version = {_VERSION}")
        elif application != _APPLICATION:
            raise ValueError(
                f"{self.path} is an SQLite file of another program: give the name of another file"
            )
        elif version > _VERSION:
            raise ValueError(
                f"{self.path} was made by a newer fltoolkit (format {version}, this one reads "
                f"{_VERSION}): update with pip install -U fltoolkit, or name another file"
            )
        elif (found := self._one("PRAGMA quick_check(1)")) != "ok":
            raise sqlite3.DatabaseError(found)
        self._db.execute("PRAGMA synchronous = FULL")
        self._db.execute("PRAGMA foreign_keys = ON")

    def _write_ahead(self) -> None:
        """Turn on WAL. Try again while others do the same, since SQLite does not wait here."""
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
        """True if the experiment with this key has finished or failed, with this code."""
        with self._explained():
            return self._found(str(key)) is not None

    def __len__(self) -> int:
        with self._explained():
            return self._one("SELECT count(*) FROM experiment")

    def results(self, keys: Iterable[str] | None = None) -> list[Result]:
        """Finished and failed experiments of all code, in the order of their end.

        With ``keys``, those of this code with these keys, in this order; with ``any_code`` of other
        code where this code has none. ``keys`` that are not there are left out. An experiment that
        cannot be read is left out with a warning, for example if its codec was not allowed
        (`fltoolkit_research.allow`).
        """
        wanted = None if keys is None else list(keys)
        with self._explained():
            rows = self._db.execute(
                "SELECT key, settings, error, seconds FROM experiment ORDER BY finished, key"
            ).fetchall()
            if wanted is not None:
                wanted = [row for key in wanted if (row := self._found(key))]
            records: dict[str, list[str]] = {key: [] for key, *_ in rows}
            for key, record in self._db.execute("SELECT key, record FROM record ORDER BY number"):
                records.setdefault(key, []).append(record)
        found, unread = {}, []
        for key, settings, error, seconds in rows:
            if wanted is None or key in wanted:
                try:
                    experiment = Experiment.from_json(settings)
                except (TypeError, ValueError) as mistake:
                    unread.append(f"{key.partition('@')[0]}: {mistake}")
                else:
                    history = History(map(json.loads, records[key]))
                    code = key.partition("@")[2]
                    found[key] = Result(experiment, history, error, seconds, code)
        if unread:
            words = (
                f"{self.path}: {len(unread)} of {len(rows)} experiments are left out. {unread[0]}"
            )
            warnings.warn(words, stacklevel=2)
        order = found if wanted is None else wanted
        return [found[key] for key in order if key in found]

    # ----------------------------------------------------------------------------------- changing

    def add(self, result: Result) -> None:
        """Store a result; it replaces one of the same experiment and code, and ends its claim."""
        key = f"{result.experiment.key}@{result.code or code_version()}"
        row = (key, result.experiment.to_json(), result.error, result.seconds, time.time())
        lines = [(key, n, json.dumps(record)) for n, record in enumerate(result.history)]
        with self._explained(), self._transaction():
            self._db.execute("DELETE FROM experiment WHERE key = ?", (key,))
            self._db.execute("INSERT INTO experiment VALUES (?, ?, ?, ?, ?)", row)
            self._db.executemany("INSERT INTO record VALUES (?, ?, ?)", lines)
            self._db.execute("DELETE FROM claim WHERE key = ?", (_here(result.experiment.key),))

    def rename(self, experiments: Iterable[Experiment]) -> None:
        """Give stored experiments their present names: the name is not part of the key."""
        rows = [(e.to_json(), e.key, f"{e.key}@%") for e in experiments]
        statement = "UPDATE experiment SET settings = ? WHERE key = ? OR key LIKE ?"
        with self._explained(), self._transaction():
            self._db.executemany(statement, rows)

    def forget_failures(self, keys: Iterable[str]) -> None:
        """Remove the results with these keys that ended in an error, so that they may run again."""
        statement = "DELETE FROM experiment WHERE key = ? AND error != ''"
        with self._explained(), self._transaction():
            self._db.executemany(statement, [(self._found(key),) for key in keys])

    def claim(self, key: str) -> bool:
        """Say that this process runs an experiment; False if another one does, or it has been run.

        A claim is valid for `LEASE` seconds: call `renew` before they are over. A claim of a
        process on this machine that no longer runs is not valid.
        """
        host, pid, now = socket.gethostname(), os.getpid(), time.time()
        with self._explained(), self._transaction():
            if self._found(key):
                return False
            key = _here(key)
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
        """End the claims on these experiments, so that others may run them."""
        with self._explained(), self._transaction():
            self._db.executemany("DELETE FROM claim WHERE key = ?", [(_here(key),) for key in keys])

    def close(self) -> None:
        """Close the file. Everything that was added has been saved."""
        self._db.close()

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ------------------------------------------------------------------------------------ helpers

    def _found(self, key: str) -> str | None:
        """The key of an experiment's row for this code, or with ``any_code`` of the latest."""
        rows = self._db.execute(
            "SELECT key FROM experiment WHERE key = ? OR key LIKE ? ORDER BY finished DESC",
            (key, f"{key}@%"),
        ).fetchall()
        there = [row for (row,) in rows if self.any_code or row.endswith(f"@{code_version()}")]
        return _here(key) if _here(key) in there else next(iter(there), None)

    def _one(self, statement: str, *values: object) -> Any:
        return self._db.execute(statement, values).fetchone()[0]

    @contextmanager
    def _transaction(self, kind: str = "IMMEDIATE") -> Iterator[None]:
        """All statements take effect, or none. Waits up to a minute for others that are writing."""
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
            raise ValueError(
                f"{self.path} is damaged or no store ({words}). Nothing was changed. Move it away "
                "to begin a new one; `sqlite3 FILE .recover` may save what is in it"
            ) from error


def _here(key: str) -> str:
    """The key of an experiment that this code runs."""
    return f"{key}@{code_version()}"


def _runs(pid: int) -> bool:
    """Whether a process with this number runs on this machine."""
    if os.name == "nt":  # there os.kill would end the process; wait until its claim is over
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
