"""Run an iterator of records in a thread of its own: start, pause, step, stop.

While it runs, other cells of the notebook can run, too. There are no widgets here: the buttons of
panel.py call these methods, and a script or a test can call them as well.
"""

import atexit
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from typing import Literal

from fltoolkit.history import History, Record

Status = Literal["ready", "running", "paused", "stopped", "finished", "failed"]
_ENDED = ("stopped", "finished", "failed")


class Runner:
    """Takes records from an iterator and puts them into a `History`, as many as it is asked to.

    Everything that touches the iterator happens in one thread: making records, closing it, and the
    actions that were given to `between`. So nothing is trained between two records, and an action
    sees and changes exactly the model that the last record describes.

    A stop, a pause and an error leave ``history`` with all records made so far. A stop and a pause
    take effect when the record in progress is done. If the iterator never makes its next record,
    nothing can stop it, but `wait` with a timeout returns.

    Args:
        records: any iterable of records, e.g. ``train_split(...)``. It is used up once.
        on_change: called with the runner after each record, each action and each change of
            ``status``, in the thread that runs the iterator. Keep it short.
        seconds_per_record: the least time from one record to the next after `start`, so that
            people can watch. It may be changed at any time.

    >>> runner = Runner({"step": step, "loss": 1 / step} for step in (1, 2, 3))
    >>> runner.start()
    >>> runner.wait(), runner.status, runner.history.column("step")
    (True, 'finished', [1, 2, 3])
    """

    def __init__(
        self,
        records: Iterable[Record],
        *,
        on_change: Callable[["Runner"], None] | None = None,
        seconds_per_record: float = 0.0,
    ):
        self.history = History()
        self.status: Status = "ready"
        self.error: BaseException | None = None
        self.seconds_per_record = seconds_per_record
        self._records: Iterable[Record] | None = records
        self._iterator: Iterator[Record] | None = None
        self._on_change = on_change
        self._changed = threading.Condition()  # guards what follows
        self._thread: threading.Thread | None = None
        self._allowed: float = 0  # how many records may be made before the next pause
        self._stopping = False
        self._notified: Status = "ready"  # the status at the last call of on_change
        self._settled = True  # no record is being made, and on_change was called since
        self._actions: list[Callable[[], object]] = []
        self._last = float("-inf")  # when the last record was begun

    # ------------------------------------------------------------------ from any thread

    def start(self) -> None:
        """Begin, or go on after a pause. While it runs this changes nothing.

        Raises RuntimeError when the run is over: its iterator is used up, make a new `Runner`.
        """
        self._go(float("inf"))

    def step(self, count: int = 1) -> None:
        """Make ``count`` more records, then pause."""
        if count < 1:
            raise ValueError(f"count={count}: make 1 record or more")
        self._go(count)

    def pause(self) -> None:
        """Pause when the record in progress is done; `start` or `step` goes on.

        Before the start it does nothing.
        """
        with self._changed:
            self._allowed = 0
            self._changed.notify_all()

    def stop(self) -> None:
        """End the run: the iterator is closed, ``history`` stays. Before the start, do nothing."""
        with self._changed:
            if self.status == "ready" or self.status in _ENDED:
                return
            self._stopping = True
            self._settled = self._settled and self._thread is None
            self._changed.notify_all()
        self._attend()

    def between(self, action: Callable[[], object]) -> bool:
        """Call ``action()`` before the next record is begun; False if the run is over.

        In a pause it is called at once. Before the start it is kept, and called before the first
        record. If it raises an error, the run has failed.
        """
        with self._changed:
            if self.over:
                return False
            self._actions.append(action)
            self._settled = self._settled and self._thread is None
            self._changed.notify_all()
        self._attend()
        return True

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until no record is being made: before the start, in a pause, or when it is over.

        Returns False if ``timeout`` (seconds) came first.
        """
        if threading.current_thread() is self._thread:
            raise RuntimeError("the runner's own thread (on_change, an action) cannot wait for it")
        with self._changed:
            return self._changed.wait_for(lambda: self._settled, timeout)

    @property
    def over(self) -> bool:
        """Whether no more records will come after the one in progress."""
        return self._stopping or self.status in _ENDED

    @property
    def message(self) -> str:
        """The error in one line, "" without one."""
        return f"{type(self.error).__name__}: {self.error}" if self.error else ""

    @property
    def traceback(self) -> str:
        """The error as Python shows it, with the lines that led to it; "" without one."""
        return "".join(traceback.format_exception(self.error)) if self.error else ""

    # ------------------------------------------------------------------ in one thread

    def run(self, count: int | None = None) -> History:
        """Make ``count`` records (None: all) here and now, without a thread; returns ``history``.

        It is for scripts and tests: it returns when the records are made, raises the errors of the
        iterator, and can be called again to go on. It returns early if ``on_change`` calls `pause`.
        """
        if self._thread is not None:
            raise RuntimeError("this runner has a thread already: go on with start() and wait()")
        with self._changed:
            self._allow(float("inf") if count is None else count)
        self._work(stay=False)
        if self.error is not None:
            raise self.error
        return self.history

    def _go(self, count: float) -> None:
        with self._changed:
            self._allow(count)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._work, args=(True,), name="fltoolkit-runner", daemon=True
                )
                atexit.register(self._leave)
                self._thread.start()
            self._changed.notify_all()

    def _allow(self, count: float) -> None:
        if self.over:
            raise RuntimeError(
                f"this run is over ({self.status}) and its iterator used up: make a new one"
            )
        self._allowed, self._settled, self.status = count, False, "running"

    def _attend(self) -> None:
        """Between two calls of `run` no thread works: then the caller's thread does what was asked.

        This is so for `stop` and `between`.
        """
        if self._thread is None and self._settled and self.status == "paused":
            self._work(stay=False)

    def _work(self, stay: bool) -> None:
        """Make records until the end. In a pause, wait for the next call if ``stay``, or return."""
        try:
            if self._iterator is None and self._records is not None:
                self._iterator, self._records = iter(self._records), None
            self._notify()
            while self._may_go_on(stay):
                assert self._iterator is not None
                self._last = time.monotonic()
                if (record := next(self._iterator, None)) is None:
                    return self._end("finished")
                self.history.append(record)
                self._notify()
            if self._stopping:
                self._end("stopped")
        except KeyboardInterrupt:
            self._end("stopped")
            raise
        except BaseException as error:
            self.error = error
            self._end("failed")

    def _may_go_on(self, stay: bool) -> bool:
        """Call the actions that wait; then True if the next record is due, and False to return."""
        while True:
            with self._changed:
                actions, self._actions = self._actions, []
                if not actions:
                    if self._stopping:
                        return False
                    if self._allowed > 0 and self._notified == "running":
                        if (early := self._seconds_early()) <= 0:
                            self._allowed -= 1
                            return True
                        self._changed.wait(early)
                        continue
                    if not self._allowed and self.status == "paused" and self._settled:
                        if not stay:
                            return False
                        self._changed.wait()
                        continue
                    self.status = "running" if self._allowed else "paused"
            for action in actions:
                action()
            self._notify()
            with self._changed:
                if self.status == "paused" and not self._actions and not self._allowed:
                    self._settled = True
                    self._changed.notify_all()

    def _seconds_early(self) -> float:
        if self._thread is None or self._allowed < float("inf"):
            return 0  # `run` and `step` do not wait: the pace is for `start` only
        return self._last + self.seconds_per_record - time.monotonic()

    def _end(self, status: Status) -> None:
        """Close the iterator, set the status, and let `wait` return."""
        try:
            close = getattr(self._iterator, "close", None)
            if close is not None:
                close()
        except BaseException as error:
            self.error, status = self.error or error, "failed"
        self._iterator = None
        with self._changed:
            self.status = status
        try:
            self._notify()
        except BaseException as error:
            self.error, self.status = self.error or error, "failed"
        with self._changed:
            self._actions.clear()
            self._settled = True
            self._changed.notify_all()
        atexit.unregister(self._leave)

    def _leave(self) -> None:
        """Called when Python ends: it would crash if the thread were still computing in torch."""
        self.stop()
        self.wait(timeout=5)

    def _notify(self) -> None:
        self._notified = self.status
        if self._on_change is not None:
            self._on_change(self)

    def __repr__(self) -> str:
        return f"<Runner {self.status}: {len(self.history)} records>"
