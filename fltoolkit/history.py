"""Records of a training run: what a protocol yields, and where the records are kept."""

import functools
import inspect
import json
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ParamSpec, TypedDict, TypeVar, overload

__all__ = ["CHECKED", "History", "Record", "checked_at_call", "evaluated", "to_come"]

Scalar = int | float | str | bool
Record = Mapping[str, Any]
"""One row of a run: a flat dict of plain numbers and strings, so that it is JSON as it stands.

A protocol names its keys, in the types below: a type checker takes ``record["nbytes"] / 1e6`` and
not ``record["bytes"]``. A record with more keys is a new one: ``{**record, "lr": 0.1}``."""

P = ParamSpec("P")
R = TypeVar("R", bound=Record)
K = TypeVar("K")


class Totals(TypedDict):
    """The bytes that were sent so far."""

    nbytes: int
    nbytes_up: int
    nbytes_down: int


class Scores(TypedDict):
    """What `evaluate` measures; of a plain module only the accuracy."""

    accuracy: float
    test_loss: float


class _Sometimes(TypedDict, total=False):  # only some records hold these
    accuracy: float  # and the next one by `evaluated`
    test_loss: float
    threshold: float  # of a gate
    checked_loss: float  # at the end of a gate's period
    share_sent: float  # with `mean_of_senders`


class StepRecord(Totals, _Sometimes):
    """What every training yields."""

    step: int
    loss: float


class RoundRecord(StepRecord):
    """A round, or a step in it."""

    round: int


class TurnRecord(RoundRecord):
    """A step of clients that take turns."""

    client: str


class UploadingRecord(StepRecord):
    """A step of `train_uploading`."""

    state: str
    local_steps: int


class AsyncRecord(StepRecord):
    """A step of `train_async`."""

    epoch: int
    state: str
    stale: float


class AsyncTurnRecord(TurnRecord):
    """A step of `train_async_relay`."""

    state: str
    stale: float


class FedAvgRecord(RoundRecord):
    """A round of `fedavg`; it has no ``loss`` where this process knows none."""

    num_arrived: int
    num_late: int
    num_stale: int
    num_failed: int
    seconds: float


CHECKED: Any = {}
"""What a protocol yields when its arguments are checked, an empty record: see `checked_at_call`."""


def checked_at_call(protocol: Callable[P, Iterator[R]]) -> Callable[P, Iterator[R]]:
    """Decorate a protocol, a generator of records, so that it checks its arguments when called.

    Python runs no line of a generator before the first record is asked for. A decorated protocol
    runs up to ``yield CHECKED`` when it is called; what follows waits for that.

    >>> @checked_at_call
    ... def protocol(num_steps):
    ...     if num_steps < 1:
    ...         raise ValueError(f"num_steps={num_steps}: must be at least 1")
    ...     yield CHECKED
    ...     yield {"step": num_steps}
    >>> protocol(0)
    Traceback (most recent call last):
    ValueError: num_steps=0: must be at least 1
    """

    @functools.wraps(protocol)
    def checked(*args: P.args, **kwargs: P.kwargs) -> Iterator[R]:
        given = _by_name(protocol, args, kwargs)
        if "channel" in given and not hasattr(given["channel"], "send"):
            raise TypeError(f"channel={given['channel']!r}: give Channel(), or one with codecs")
        records = protocol(*args, **kwargs)
        if next(records) != CHECKED:
            raise TypeError(f"{protocol.__name__} has no `yield CHECKED` after its checks")
        return records

    return checked


def naming_its_words(kind: type[K]) -> type[K]:
    """Decorate a class so that it answers a word that it does not know with those that it takes."""
    init = kind.__init__

    @functools.wraps(init)
    def checked(self: K, *args: Any, **kwargs: Any) -> None:
        _by_name(kind, args, kwargs)
        init(self, *args, **kwargs)

    kind.__init__ = checked  # type: ignore[method-assign, assignment]
    return kind


def _by_name(called: Callable[..., Any], args: Any, kwargs: Any) -> dict[str, Any]:
    """The arguments of a call by their names."""
    signature = inspect.signature(called)
    try:
        return signature.bind(*args, **kwargs).arguments
    except TypeError as error:
        takes = ", ".join(signature.parameters)
        words = f"{called.__name__}: {error}. It takes {takes}"
        raise TypeError(f"{words}. docs/coming_from.md has words of other systems") from None


def to_come(name: str, count: int | range) -> range:
    """The numbers of the rounds or steps that a protocol trains, from 0 on.

    Protocols take a number, or a range to go on with a run of which some are already done.

    >>> to_come("rounds", 20), to_come("rounds", range(5, 20))
    (range(0, 20), range(5, 20))
    """
    numbers = count if isinstance(count, range) else range(count)
    if not numbers or numbers.start < 0 or numbers.step != 1:
        raise ValueError(
            f"{name}={count} leaves nothing to train: give the number of all, or "
            "range(number already done, number of all)"
        )
    return numbers


class History:
    """The records of a run, in order; optionally also in a file to which each record is added.

    With a ``path``, the records that are already in that file are read first, and each `append`
    writes one line at once: an interrupted run keeps everything up to its last record.
    ``pandas.DataFrame(list(history))`` makes a table.

    >>> history = History([{"step": 1, "loss": 2.0}, {"step": 2, "loss": 1.5, "accuracy": 0.8}])
    >>> history.column("loss")
    [2.0, 1.5]
    >>> history.having("accuracy")[-1]["step"]
    2
    """

    def __init__(self, records: Iterable[Record] = (), path: str | os.PathLike[str] | None = None):
        self._records: list[dict[str, Any]] = []
        self._path = path
        if path is not None and os.path.exists(path):
            self._records = read_lines(path)
        for record in records:
            self.append(record)

    def append(self, record: Record) -> None:
        """Add one record. Raises TypeError for a value that is not a plain number or string."""
        for key, value in record.items():
            if not isinstance(key, str) or not isinstance(value, Scalar):
                raise TypeError(
                    f"record entry {key!r} is a {type(value).__name__}: records hold int, float, "
                    "bool and str only. For a one-element tensor or array call .item() first."
                )
        if self._path is not None:
            add_line(self._path, record)
        self._records.append(dict(record))

    def follow(self, records: Iterable[R]) -> Iterator[R]:
        """Append each record and pass it on: ``for record in history.follow(train_split(...))``."""
        for record in records:
            self.append(record)
            yield record

    def rewind(self, step: int) -> None:
        """Remove the records after ``step``, also from the file: before a saved run goes on."""
        self._records = [record for record in self._records if int(record.get("step", 0)) <= step]
        if self._path is not None:
            self.save(self._path)

    def column(self, key: str) -> list[Scalar]:
        """All values of ``key``, in order. Raises KeyError if a record has none: see `having`."""
        missing = sum(key not in record for record in self._records)
        if missing:
            known = sorted({key for record in self._records for key in record})
            raise KeyError(
                f"{missing} of {len(self)} records have no {key!r}; the keys are {known}. "
                f"history.having({key!r}) keeps the records that have it."
            )
        return [record[key] for record in self._records]

    def having(self, *keys: str) -> "History":
        """The records that hold all of ``keys``."""
        return History(record for record in self._records if all(key in record for key in keys))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all records as JSON lines; an existing file is replaced in one step."""
        temporary = f"{os.fspath(path)}.tmp"
        with open(temporary, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(record) + "\n" for record in self._records)
        os.replace(temporary, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "History":
        """Read JSON lines; see `read_lines` for those that cannot be read."""
        return cls(read_lines(path))

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self._records)

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> "History": ...
    def __getitem__(self, index: int | slice) -> "dict[str, Any] | History":
        if isinstance(index, slice):
            return History(self._records[index])
        return self._records[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, History) and self._records == other._records

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        last = f", last {self._records[-1]}" if self._records else ""
        return f"<History of {len(self)} records{last}>"


@overload
def evaluated(
    records: Iterable[R], evaluate: Callable[[], Scores], *, every: int
) -> Iterator[R]: ...
@overload
def evaluated(
    records: Iterable[Record], evaluate: Callable[[], Record], *, every: int
) -> Iterator[dict[str, Any]]: ...
def evaluated(
    records: Iterable[Any], evaluate: Callable[[], Record], *, every: int
) -> Iterator[Any]:
    """Add the record of ``evaluate()`` to every ``every``-th record, e.g. ``every=len(batches)``.

    If the records have a "step", this number is used, so a resumed run is evaluated at the same
    steps. Training does nothing between two records, so the evaluation sees exactly the model that
    the record describes.

    >>> records = [{"step": step} for step in (1, 2, 3)]
    >>> list(evaluated(records, lambda: {"accuracy": 0.9}, every=2))
    [{'step': 1}, {'step': 2, 'accuracy': 0.9}, {'step': 3}]
    """
    if every < 1:
        raise ValueError(f"every={every}: evaluate every 1 or more records")
    for count, record in enumerate(records, 1):
        yield record if int(record.get("step", count)) % every else {**record, **evaluate()}


def read_lines(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """The JSON objects of a file, one in each line.

    Lines that hold none, such as one that was cut off when a disk was full, are left out with one
    warning. Raises ValueError if the file holds such lines only.
    """
    line = ""
    rows: list[dict[str, Any]] = []
    wrong: list[str] = []
    with open(path, encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, 1):
            try:
                row = json.loads(line) if line.strip() else None
                if not isinstance(row, dict | None):
                    raise ValueError("it is no JSON object")
                rows += [] if row is None else [row]
            except (ValueError, RecursionError) as error:
                wrong.append(f"line {number} ({line[:40].strip()!r}): {error}")
    if wrong and not rows and line.endswith("\n"):
        raise ValueError(f"{path} holds no lines of JSON: {wrong[0]}")
    if wrong:
        words = f"{path}: {len(wrong)} lines cannot be read and are left out, first {wrong[0]}"
        warnings.warn(words, stacklevel=3)
    return rows


def add_line(path: str | os.PathLike[str], row: Mapping[str, Any], *, sync: bool = False) -> None:
    """Add one JSON object, by a single write; after a line that was cut off a new one begins.

    With ``sync`` it is on the disk when this returns, which takes some milliseconds. Raises OSError
    if only a part could be written.
    """
    with open(path, "ab+", buffering=0) as file:
        line = json.dumps(row).encode() + b"\n"
        if file.seek(0, os.SEEK_END):
            file.seek(-1, os.SEEK_END)
            line = line if file.read(1) == b"\n" else b"\n" + line
        if file.write(line) != len(line):
            raise OSError(f"{path}: only a part of a row could be written. Is the disk full?")
        if sync:
            os.fsync(file.fileno())
