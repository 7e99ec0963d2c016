"""Run an iterator of records in a thread of its own: start, pause, step, stop.

While it runs, other cells of the notebook can run, too. There are no widgets here: the buttons of
panel.py call these methods, and a script or a test can call them as well.
"""

import atexit
import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Literal

import torch

from fltoolkit.history import History, Record

Status = Literal["ready", "running", "paused", "stopped", "finished", "failed"]


class Runner:
    """Takes records from an iterator and puts them into a `History`, as many as it is asked to.

    Everything that touches the iterator happens in one thread at a time: making records, closing
    it, and the actions that were given to `between`. So nothing is trained between two records, and
    an action sees and changes exactly the model that the last record describes.

    A stop, a pause and an error leave ``history`` with all records made so far. A stop and a pause
    take effect when the record in progress is done. If the iterator never makes its next record,
    nothing can stop it, but `wait` with a timeout returns.

    Args:
        records: any iterable of records, e.g. ``train_split(...)``. It is used up once.
        on_change: called with the runner after each record, each action and each change of
            ``status``, in the thread that runs the iterator. Keep it short.
        seconds_per_record: the least time from one record to the next after `start`, so that
            people can watch.

    >>> runner = Runner({"step": step, "loss": 1 / step} for step in (1, 2, 3))
    >>> runner.start()
    >>> runner.wait(), runner.status, runner.history.column("step")
    (True, 'finished', [1, 2, 3])
    """

    def __init__(
        self,
        records: Iterable[Record],
        *,
        on_change: Callable[["Runner"], object] = lambda runner: None,
        seconds_per_record: float = 0.0,
    ):
        self.history = History()
        self.status: Status = "ready"
        self.error: BaseException | None = None
        self._records, self._on_change = records, on_change
        self._iterator: Iterator[Record] | None = None
        self._changed = threading.Condition()  # guards what follows
        self._worker: threading.Thread | None = None  # who makes records now
        self._allowed: float = 0  # how many records may be made before the next pause
        self._stopping = False
        self._actions: list[Callable[[], object]] = []
        self._seconds_per_record, self._paced = seconds_per_record, False
        self._begun = -math.inf  # when the last record was begun

    # ------------------------------------------------------------------ from any thread

    def start(self) -> None:
        """Begin, or go on after a pause. While it runs this changes nothing.

        Raises RuntimeError when the run is over: its iterator is used up, make a new `Runner`.
        """
        self._go(math.inf, paced=True)

    def step(self, count: int = 1) -> None:
        """Make ``count`` more records, then pause."""
        if count < 1:
            raise ValueError(f"count={count}: make 1 record or more")
        self._go(count)

    def run(self, count: int | None = None) -> History:
        """Make ``count`` records (None: all) here and now, without a thread; returns ``history``.

        It is for scripts and tests: it returns when the records are made, raises the errors of the
        iterator, and can be called again to go on. It returns early if ``on_change`` calls `pause`.
        """
        self._go(math.inf if count is None else count, here=True)
        if self.error is not None:
            raise self.error
        return self.history

    def pause(self) -> None:
        """Pause when the record in progress is done; `start` or `step` goes on.

        Before the start it does nothing.
        """
        with self._changed:
            self._allowed = 0
            self._changed.notify_all()

    def stop(self) -> None:
        """End the run: the iterator is closed, ``history`` stays. Before the start, do nothing."""
        if self.status != "ready" and not self.over:
            self._stopping = True
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
        self._attend()
        return True

    def pace(self, seconds_per_record: float) -> None:
        """Change the least time from one record to the next, also while it waits for it."""
        with self._changed:
            self._seconds_per_record = seconds_per_record
            self._changed.notify_all()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until no record is being made: before the start, in a pause, or when it is over.

        Returns False if ``timeout`` (seconds) came first.
        """
        if threading.current_thread() is self._worker:
            raise RuntimeError("the runner's own thread (on_change, an action) cannot wait for it")
        with self._changed:
            return self._changed.wait_for(lambda: self._worker is None, timeout)

    @property
    def over(self) -> bool:
        """Whether no more records will come after the one in progress."""
        return self._stopping or self.status in ("stopped", "finished", "failed")

    @property
    def message(self) -> str:
        """The error in one line, "" without one."""
        return f"{type(self.error).__name__}: {self.error}" if self.error else ""

    def __repr__(self) -> str:
        return f"<Runner {self.status}: {len(self.history)} records>"

    # ------------------------------------------------------------------ who works

    def _go(self, count: float, *, paced: bool = False, here: bool = False) -> None:
        """Allow ``count`` records; whoever works already makes them, else a thread, or this one."""
        with self._changed:
            if self.over:
                raise RuntimeError(
                    f"this run is over ({self.status}) and its iterator used up: make a new one"
                )
            if here and self._worker is not None:
                raise RuntimeError("a thread makes records already: pause() and wait() first")
            self._allowed, self._paced, self.status = count, paced, "running"
            self._changed.notify_all()
            if here:
                self._worker = threading.current_thread()
            elif self._worker is None:
                self._start_thread()
        if here:
            self._work()

    def _start_thread(self) -> None:
        self._worker = threading.Thread(target=self._work, name="fltoolkit-runner", daemon=True)
        atexit.register(self._leave)
        self._worker.start()

    def _attend(self) -> None:
        """Have done what was asked. In a pause nobody works, so this thread does it at once."""
        with self._changed:
            self._changed.notify_all()
            if self._worker is not None or self.status != "paused":
                return
            self._worker = threading.current_thread()
        self._work(records=False)

    def _rest(self) -> None:
        with self._changed:
            self._worker = None
            self._changed.notify_all()
        atexit.unregister(self._leave)

    def _leave(self) -> None:
        """Called when Python ends: it would crash if the thread were still computing in torch."""
        self.stop()
        self.wait(timeout=5)

    # ------------------------------------------------------------------ in the working thread

    def _work(self, records: bool = True) -> None:
        """Call the actions that wait and, if ``records``, make the records that are allowed."""
        torch.set_num_threads(1)  # of this thread: a second one gains little and can stall
        announced = ""  # the status at the last call of on_change
        try:
            if self._iterator is None:
                self._iterator = iter(self._records)
            while True:
                with self._changed:
                    actions, self._actions = self._actions, []
                    if self._stopping and not actions:
                        break
                    self.status = "running" if self._allowed else "paused"
                    due = not actions and announced == self.status
                    if due and not self._allowed:
                        return self._rest()
                    if due and not records:  # somebody has started it in the meantime
                        return self._start_thread()
                    if due and (early := self._seconds_early()) > 0:
                        self._changed.wait(early)
                        continue
                    if due:
                        self._allowed -= 1
                for action in actions:
                    action()
                if due:
                    self._begun = time.monotonic()
                    if (record := next(self._iterator, None)) is None:
                        return self._end("finished")
                    self.history.append(record)
                announced = self.status
                self._on_change(self)
            self._end("stopped")
        except KeyboardInterrupt:
            self._end("stopped")
            raise
        except BaseException as error:
            self.error = error
            self._end("failed")

    def _seconds_early(self) -> float:
        """How long the pace, which is for `start` only, asks to wait."""
        return self._begun + self._seconds_per_record * self._paced - time.monotonic()

    def _end(self, status: Status) -> None:
        """Close the iterator, set the status, and let `wait` return."""
        try:
            if close := getattr(self._iterator, "close", None):
                close()
            self.status = status
            self._on_change(self)
        except BaseException as error:
            self.error, self.status = self.error or error, "failed"
        self._actions, self._iterator = [], None
        self._rest()
