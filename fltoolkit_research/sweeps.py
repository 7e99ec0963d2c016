"""Many experiments on this machine's cores or on a cluster: each runs once, and none is lost.

Here: which process runs which experiment next. Not here: one run (runs), storing results (store).
"""

import ctypes
import importlib
import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    Executor,
    Future,
    ProcessPoolExecutor,
    wait,
)
from contextlib import contextmanager
from typing import Any

from fltoolkit.history import History, Record
from fltoolkit_research.analysis import failures
from fltoolkit_research.experiment import Experiment, one_name_each
from fltoolkit_research.runs import records
from fltoolkit_research.store import LEASE, Result, Store, code_version


def sweep(
    experiments: Iterable[Experiment],
    *,
    store: Store,
    workers: int = 1,
    pool: Executor | None = None,
    retry: bool = False,
    imports: Sequence[str] = (),
    progress: bool = True,
) -> list[Result]:
    """Run what is not in the store yet; returns the results of all, in order, without repeats.

    Each result is in the store as soon as its run ends. So an interrupted sweep (Ctrl-C, a crash,
    a power cut) goes on when it is called again, and several sweeps, also in several processes,
    may share a store: no experiment runs twice, and each waits for what the others are running.
    Results of another version of the code are kept and not used; see `fltoolkit_research.Store`.
    If you have renamed an experiment, its name in the store changes, too.
    If a run raises an error, the error is stored, and the other runs go on. If a worker process
    dies (killed, out of memory), the runs that were in progress begin again, one at a time. A run
    whose process dies again is stored as failed.

    Args:
        experiments: what to run.
        store: where results are read and written.
        workers: the number of processes on this machine; 1 means this process alone.
        pool: run the experiments there instead, ``workers`` at a time: any
            `concurrent.futures.Executor`, such as that of `cluster`. Only this process writes to
            the store.
        retry: run again the experiments that failed before.
        imports: modules that worker processes import first, in which your own codecs are allowed.
        progress: show a bar with the time left.

    >>> import tempfile
    >>> from pathlib import Path
    >>> two = [Experiment(num_samples=64, rounds=1, seed=seed) for seed in (0, 1)]
    >>> with Store(Path(tempfile.mkdtemp()) / "results.db") as store:
    ...     first = sweep(two, store=store, progress=False)
    ...     again = sweep(two, store=store, progress=False)  # trains nothing
    >>> len(again), [a.seconds == b.seconds for a, b in zip(first, again)]
    (2, [True, True])
    """
    experiments = list(experiments)
    one_name_each(experiments)
    wanted = list({experiment.key: experiment for experiment in experiments}.values())
    if workers < 1:
        raise ValueError(f"workers={workers}: must be at least 1")
    if retry:
        store.forget_failures(e.key for e in wanted)
    store.rename(wanted)
    todo = [e for e in wanted if e.key not in store]
    if pool is not None and todo:
        _check_imports(pool, workers, imports)
    bar = _bar(len(wanted), len(wanted) - len(todo), progress)
    with bar, _renewing(store):
        if workers == 1 and pool is None:
            _run(todo, store, _Here(), 1, bar, ())
        elif pool is None:
            _run_in_processes(todo, store, workers, bar, imports)
        elif lost := _run(todo, store, pool, workers, bar, imports):
            raise RuntimeError(
                f"pool={pool!r} broke while it ran {', '.join(e.title for e in lost)}: these runs "
                "are lost. Call sweep again with a new pool"
            )
    return store.results([e.key for e in wanted])


def _check_imports(pool: Executor, workers: int, imports: Sequence[str]) -> None:
    """Raise if a worker lacks a module. Experiments are not stored as failed because of this."""
    asked = [pool.submit(_import_all, tuple(imports), number) for number in range(workers)]
    for future in asked:
        try:
            theirs = future.result()
        except ImportError as error:
            raise RuntimeError(
                f"a worker of {pool!r} failed: {error}. Workers need fltoolkit and the modules of "
                f"imports={[*imports]}: start them with PYTHONPATH=FOLDER, or in that folder. "
                "Nothing was run"
            ) from error
        except Exception:  # if this error stops the experiments, they report it
            return
        if theirs not in (None, code_version()):  # None: a pool that runs nothing by itself
            raise RuntimeError(
                f"a worker of {pool!r} has the code {theirs}, and this process {code_version()}: "
                "install the same fltoolkit at all of them. Nothing was run"
            )


def _import_all(modules: Sequence[str], number: int) -> str:
    """Import modules by name, and give the version of the code.

    ``number`` makes calls differ, so that Dask does not merge them.
    """
    for module in modules:
        importlib.import_module(module)
    return code_version()


@contextmanager
def cluster(address: str) -> Iterator[Executor]:
    """An executor on a Dask cluster: ``with cluster("tcp://host:8786") as pool: sweep(...)``.

    Dask is used, and not Ray or joblib, because its client gives a standard
    `concurrent.futures.Executor`: `sweep` contains no code for Dask. Workers need fltoolkit, the
    data and the modules of ``imports``: start them in the folder of these modules, or with
    PYTHONPATH (docs/howto.md).
    """
    try:
        from distributed import Client
    except ImportError as error:
        raise ImportError(
            'a cluster needs Dask: pip install "fltoolkit[cluster]", also at its workers'
        ) from error
    with Client(address) as client, client.get_executor(pure=False) as pool:
        yield pool


def _run_in_processes(
    todo: list[Experiment], store: Store, workers: int, bar: Any, imports: Sequence[str]
) -> None:
    """As `_run`; if a process has died, go on with new processes."""
    while todo:
        with _processes(min(workers, len(todo))) as processes:
            _check_imports(processes, 1, imports)
            lost = _run(todo, store, processes, workers, bar, imports)
        for experiment in lost:  # one of these ended the process: now each gets its own process
            alone = [experiment]
            for _ in range(2):
                if alone:
                    with _processes(1) as process:
                        alone = _run(alone, store, process, 1, bar, imports)
            if alone and store.claim(experiment.key):
                _keep(Result(experiment, History(), _DIED, 0.0), store, bar)


_DIED = "its worker process died three times, twice while it ran alone: is there enough memory?"


def _run(
    todo: list[Experiment],
    store: Store,
    pool: Executor,
    workers: int,
    bar: Any,
    imports: Sequence[str],
) -> list[Experiment]:
    """Keep ``workers`` experiments running until all are in the store.

    If the pool breaks, the function ends early: experiments that have not begun stay in ``todo``,
    and those that were running are returned.
    """
    running: dict[Future[tuple[list[Record], str, float]], Experiment] = {}
    claimed: set[str] = set()
    lost: list[Experiment] = []
    try:
        while running or (todo and not lost):
            while len(running) < workers and not lost and (mine := _claimed(todo, store, bar)):
                claimed.add(mine.key)
                try:
                    running[pool.submit(_job, mine.to_json(), imports)] = mine
                except BrokenExecutor:
                    lost.append(mine)
            if not running:
                if todo and not lost:  # other processes run all that is left: look again later
                    time.sleep(1)
                continue
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                experiment = running.pop(future)
                result = _result(experiment, future)
                if result is None:
                    lost.append(experiment)
                    continue
                _keep(result, store, bar)
        return lost
    finally:
        for future in running:
            future.cancel()
        store.release(claimed)  # of those that are in the store, none is left


def _keep(result: Result, store: Store, bar: Any) -> None:
    """Store a result, and name it at once if it failed: the sweep may go on for hours."""
    store.add(result)
    for title, error in failures([result]).items() if not bar.disable else ():
        bar.write(f"failed: {title}: {error}", file=sys.stderr)
    bar.set_postfix_str(result.experiment.title[:40], refresh=False)
    bar.update()


def _claimed(todo: list[Experiment], store: Store, bar: Any) -> Experiment | None:
    """Take the first experiment that no other process runs out of ``todo``; None if there is none.

    What another process has finished meanwhile is taken out, too.
    """
    for experiment in list(todo):
        if store.claim(experiment.key):
            todo.remove(experiment)
            return experiment
        if experiment.key in store:
            todo.remove(experiment)
            bar.update()
    return None


def _result(
    experiment: Experiment, future: "Future[tuple[list[Record], str, float]]"
) -> Result | None:
    """The result of a job; None if the pool broke, perhaps because of another experiment."""
    try:
        found, error, seconds = future.result()
    except BrokenExecutor:
        return None
    except Exception as broken:
        found, error, seconds = [], f"the worker is gone: {broken!r}", 0.0
    return Result(experiment, History(found), error, seconds)


def _job(text: str, imports: Sequence[str]) -> tuple[list[Record], str, float]:
    """One run in any process; arguments and result are plain values."""
    start = time.perf_counter()
    try:
        _import_all(imports, 0)
        found, error = list(records(Experiment.from_json(text))), ""
    except Exception:
        found, error = [], traceback.format_exc()
    return found, error, time.perf_counter() - start


@contextmanager
def _renewing(store: Store) -> Iterator[None]:
    """Keep this process's claims valid while it works, even if one run takes long."""
    over = threading.Event()

    def renew() -> None:
        while not over.wait(LEASE / 4):
            with Store(store.path) as own:
                own.renew()

    thread = threading.Thread(target=renew, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


class _Here(Executor):
    """Runs a job when it is submitted, in this process."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


@contextmanager
def _processes(count: int) -> Iterator[Executor]:
    """Worker processes that end with this one, however it ends."""
    before = set(multiprocessing.active_children())
    spawn = multiprocessing.get_context("spawn")  # a fork would copy torch's threads' locks
    pool = ProcessPoolExecutor(count, mp_context=spawn, initializer=_begin)
    try:
        pool.submit(os.getpid).result()
        yield pool
    except BrokenExecutor as error:
        raise RuntimeError(
            "the worker processes cannot start; their messages are printed above. In a script, "
            'call sweep below `if __name__ == "__main__":`; or use workers=1'
        ) from error
    except BaseException:  # Ctrl-C above all: do not wait for runs of minutes
        for child in set(multiprocessing.active_children()) - before:
            child.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


_PR_SET_PDEATHSIG = 1  # in linux/prctl.h: the signal that a process gets when its parent dies


def _begin() -> None:
    """In a new worker: Ctrl-C is for the parent, and if the parent dies, so does the worker.

    Linux kills the worker at once, also within one long computation. It does so when the thread
    that started the worker ends, so a pool must not outlive the thread in which it was made; here
    both belong to one call of `sweep`. Elsewhere a thread of the worker waits for the parent's
    end, and has to wait for a turn. A worker that is still importing modules ends after that.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.name == "posix" and os.getppid() != parent.pid:
        os._exit(1)  # it died while this worker began
    threading.Thread(target=_follow, args=(parent,), daemon=True).start()


def _follow(parent: Any) -> None:
    parent.join()
    os._exit(1)


def _bar(total: int, done: int, shown: bool) -> Any:
    from tqdm.auto import tqdm

    return tqdm(total=total, initial=done, unit="run", disable=not shown, smoothing=0)
