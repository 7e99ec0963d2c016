"""The runner in threads, without a browser: each order at each moment, and what is left after."""

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from course.labs.few_digits import SECONDS

from fltoolkit.history import Record
from fltoolkit_course.labs import Runner


def counting(count: int = 1000) -> Iterator[Record]:
    yield from ({"step": step} for step in range(1, count + 1))


class Gated:
    """An iterator that gives a record each time `give` is called, and says where it ran."""

    def __init__(self) -> None:
        self.permits, self.threads, self.closed = threading.Semaphore(0), set(), False
        self.asked = threading.Semaphore(0)
        self.alone = threading.Lock()

    def give(self, count: int = 1) -> None:
        self.permits.release(count)

    def __iter__(self) -> Iterator[Record]:
        try:
            step = 0
            while True:
                assert self.alone.acquire(blocking=False), "two threads at a time"
                self.asked.release()
                assert self.permits.acquire(timeout=SECONDS)
                self.threads.add(threading.get_ident())
                self.alone.release()
                yield {"step": (step := step + 1)}
        finally:
            self.closed = True

    def wait_until_asked(self, times: int = 1) -> None:
        for _ in range(times):
            assert self.asked.acquire(timeout=SECONDS)


def settled(runner: Runner) -> Runner:
    assert runner.wait(SECONDS), runner
    return runner


def started(records: Any, **how: Any) -> Runner:
    runner = Runner(records, **how)
    runner.start()
    return runner


def ended(records: Any, **how: Any) -> Runner:
    return settled(started(records, **how))


def test_starting_twice_runs_once_and_in_another_thread() -> None:
    source = Gated()
    runner = started(source)
    runner.start()
    source.wait_until_asked()
    runner.start()
    source.give(2)
    source.wait_until_asked(2)
    runner.stop()
    assert runner.wait(0.02) is False, "the record in progress is not done yet"
    assert runner.status == "running", "what is true, not what is wished"
    assert not source.closed
    source.give()
    assert settled(runner).history.column("step") == [1, 2, 3]
    assert runner.status == "stopped"
    assert source.closed
    assert len(source.threads) == 1
    assert threading.get_ident() not in source.threads


@pytest.mark.parametrize("order", [Runner.start, Runner.step, Runner.run])
def test_a_run_that_is_over_cannot_go_on(order: Callable[[Runner], object]) -> None:
    runner = ended(counting(3))
    with pytest.raises(RuntimeError, match="over"):
        order(runner)
    runner.stop()
    runner.pause()
    assert runner.status == "finished"
    assert not runner.between(lambda: None)


def test_pause_step_and_start_again() -> None:
    source = Gated()
    runner = started(source)
    source.wait_until_asked()
    with pytest.raises(RuntimeError, match="a thread makes records already"):
        runner.run()
    runner.pause()
    assert not runner.wait(0.02)
    source.give()
    assert settled(runner).status == "paused"
    assert len(runner.history) == 1

    source.give(3)
    runner.step()
    assert len(settled(runner).history) == 2
    runner.step(2)
    assert len(settled(runner).history) == 4
    assert runner.status == "paused"
    with pytest.raises(ValueError, match="count=0"):
        runner.step(0)

    runner.start()
    source.give()
    source.wait_until_asked(5)  # 2, 3, 4, 5 and now 6
    assert runner.status == "running"
    runner.pause()
    source.give()
    assert len(settled(runner).history) == 6
    runner.stop()
    assert settled(runner).status == "stopped"
    assert source.closed


def failing() -> Iterator[Record]:
    yield {"step": 1}
    raise FloatingPointError("the loss is nan")


def test_an_error_ends_the_run_with_a_message() -> None:
    runner = ended(failing())
    assert runner.status == "failed"
    assert runner.message == "FloatingPointError: the loss is nan"
    assert runner.history.column("step") == [1], "what was recorded stays"
    with pytest.raises(FloatingPointError, match="nan"):
        Runner(failing()).run()


def test_actions_fall_between_two_records() -> None:
    source, seen = Gated(), []
    runner = Runner(source)
    runner.between(lambda: seen.append(("before", len(runner.history))))
    runner.start()
    source.wait_until_asked()
    runner.between(lambda: seen.append((threading.get_ident(), len(runner.history))))
    assert seen == [("before", 0)], "record 1 is in progress"
    source.give()
    source.wait_until_asked()
    assert seen[1:] == [(next(iter(source.threads)), 1)]

    runner.pause()
    source.give()
    settled(runner)
    runner.between(lambda: seen.append(("in a pause", len(runner.history))))
    assert seen[2:] == [("in a pause", 2)], "at once"
    assert runner.status == "paused"
    runner.between(lambda: 1 / 0)
    assert runner.message == "ZeroDivisionError: division by zero"
    assert len(runner.history) == 2


def test_who_starts_it_during_an_action_in_a_pause_gets_a_thread() -> None:
    """Who moves a slider in a pause does not make records, also if a start comes in between."""
    source = Gated()
    runner = Runner(source)
    source.give()
    runner.run(1)
    runner.between(runner.start)
    source.give()
    source.wait_until_asked(3)
    assert len(source.threads) == 2
    runner.stop()
    source.give()
    settled(runner)


def test_listeners_hear_everything_and_their_errors_are_not_lost() -> None:
    heard: list[tuple[str, int]] = []
    runner = Runner(counting(3), on_change=lambda r: heard.append((r.status, len(r.history))))
    runner.step()
    settled(runner)
    runner.start()
    settled(runner)
    assert heard == [
        *[("running", 0), ("running", 1), ("paused", 1)],
        *[("running", 1), ("running", 2), ("running", 3), ("finished", 3)],
    ]
    assert ended(counting(3), on_change=lambda r: 1 / 0).status == "failed"
    runner = ended(counting(), on_change=lambda r: r.wait() and None)
    assert "cannot wait" in runner.message


def test_a_plain_run_here_and_now() -> None:
    threads = set()
    runner = Runner(counting(10), on_change=lambda _: threads.add(threading.get_ident()))
    assert len(runner.run(4)) == 4
    assert runner.status == "paused"
    assert runner.wait(0)
    assert runner.run().column("step") == list(range(1, 11))
    assert runner.status == "finished"
    assert threads == {threading.get_ident()}

    runner = Runner(counting(), on_change=lambda r: r.stop() if len(r.history) == 7 else None)
    assert len(runner.run()) == 7
    assert runner.status == "stopped"

    runner = Runner(counting(9))
    runner.run(5)
    runner.start()
    assert len(settled(runner).history) == 9


def test_a_pace_for_people_yields_to_orders() -> None:
    runner = started(counting(), seconds_per_record=3600)
    runner.pause()
    settled(runner)
    made = len(runner.history)
    assert made <= 1
    runner.step(3)  # asked for by the piece: at once
    assert len(settled(runner).history) == made + 3
    runner.start()
    runner.pace(0)
    assert len(settled(runner).history) == 1000


def test_many_threads_at_once() -> None:
    runner = Runner(counting(3000))
    counted: list[int] = []

    def meddle(number: int) -> None:
        for _ in range(200):
            try:
                (runner.start, runner.pause, runner.step)[number % 3]()
            except RuntimeError:
                return
            runner.between(lambda: counted.append(len(runner.history)))

    threads = [threading.Thread(target=meddle, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    with suppress(RuntimeError):  # it may be over already
        runner.start()
    settled(runner)
    assert runner.status == "finished"
    assert runner.history.column("step") == list(range(1, 3001)), "none lost, none doubled"
    assert counted == sorted(counted)


@pytest.mark.slow
def test_a_script_may_end_while_it_runs_and_needs_no_widgets() -> None:
    code = (
        "import sys, torch\nfrom fltoolkit_course.labs import Runner\n"
        "def work():\n    while True: yield {'sum': float(torch.rand(300, 300).mm("
        "torch.rand(300, 300)).sum())}\n"
        "runner = Runner(work()); runner.start()\n"
        "while not len(runner.history): pass\nprint('ipywidgets' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=600, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "False\n", "")
