"""Many experiments on the cores of this machine: each runs once, and none is lost.

Here: `sweep`, and `finished`, which runs any jobs in processes.
"""

import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from typing import Any, TypeVar

import fltoolkit
from fltoolkit.history import History, Record
from fltoolkit_research.analysis import failures
from fltoolkit_research.experiment import Experiment, one_name_each
from fltoolkit_research.runs import records
from fltoolkit_research.store import Result, Store

Job = TypeVar("Job")
Done = tuple[list[Record], str, float]  # records, error, seconds


def sweep(
    experiments: Iterable[Experiment],
    *,
    store: Store,
    workers: int = 1,
    retry: bool = False,
    progress: bool = True,
) -> list[Result]:
    """Run what is not in the store yet; returns the results of all, in order, without repeats.

    Each result is in the store as soon as its run ends, so an interrupted sweep goes on when it is
    called again. A new name of an experiment is stored, too. If a run raises an error, the error is
    stored, and the other runs go on. If a worker process dies (killed, out of memory), the sweep
    ends with a RuntimeError.

    Args:
        experiments: what to run.
        store: where results are read and written.
        workers: the number of processes on this machine; 1 means this process alone. Processes
            import the modules in which your own codecs, data and models are defined.
        retry: run again the experiments that failed before.
        progress: show a bar with the time left.
    """
    experiments = list(experiments)
    one_name_each(experiments)
    wanted = list({experiment.key: experiment for experiment in experiments}.values())
    found, rows = store.of(wanted), store.rows()
    for result in found.values():
        e = result.experiment
        if rows[f"{e.key}@{result.code}"]["settings"].get("name", "") != e.name:
            store.add(result)
    if retry:
        found = {key: result for key, result in found.items() if not result.error}
    todo = [e for e in wanted if e.key not in found]
    with _bar(len(wanted), len(found), progress) as bar:
        for experiment, future in finished(_trained, todo, workers=workers):
            result = _kept(experiment, future)
            found[experiment.key] = result
            store.add(result)
            if not bar.disable:
                for title, error in failures([result]).items():
                    bar.write(f"failed: {title}: {error}", file=sys.stderr)
            bar.set_postfix_str(experiment.title[:40], refresh=False)
            bar.update()
    return [found[e.key] for e in wanted]


def _trained(experiment: Experiment) -> Done:
    """One run in any process."""
    start = time.perf_counter()
    try:
        found, error = list(records(experiment)), ""
    except Exception:
        found, error = [], traceback.format_exc()
    return found, error, time.perf_counter() - start


def _kept(experiment: Experiment, future: "Future[Done]") -> Result:
    """The result of a run. Raises if a worker died or lacks a module: no failure of the run."""
    try:
        found, error, seconds = future.result()
    except (ImportError, AttributeError, pickle.PicklingError) as mistake:
        raise RuntimeError(
            f"a worker could not be given {experiment.title!r}: {mistake}. Workers import your "
            "modules: define what is your own in a file, and set PYTHONPATH to its folder. This "
            "run is not stored"
        ) from mistake
    except BrokenExecutor as mistake:
        raise RuntimeError(
            "a worker process died: was it killed, or is there too little memory? Runs that had "
            "ended are stored; call sweep again to go on, with fewer workers"
        ) from mistake
    return Result(experiment, History(found), error, seconds, fltoolkit.__version__)


# ------------------------------------------------------------------------- any jobs, in processes


def finished(
    run: Callable[[Job], Any], jobs: Iterable[Job], *, workers: int = 1
) -> Iterator[tuple[Job, "Future[Any]"]]:
    """Call ``run`` for each job; yields the job and a future that is done, in the order they end.

    Args:
        run: a function of a module, if there are several workers.
        jobs: its arguments; processes get them by pickle.
        workers: so many at a time; with 1 they run in this process.
    """
    if workers < 1:
        raise ValueError(f"workers={workers}: must be at least 1")
    waiting = list(jobs)
    if workers == 1 or not waiting:
        for job in waiting:
            future: Future[Any] = Future()
            try:
                future.set_result(run(job))
            except Exception as error:
                future.set_exception(error)
            yield job, future
        return
    with _processes(min(workers, len(waiting))) as pool:
        running = {pool.submit(_unpacked, pickle.dumps((run, job))): job for job in waiting}
        for future in as_completed(running):
            yield running.pop(future), future


def _unpacked(job: bytes) -> Any:
    """Run a job in a worker, which imports the modules of the job here and nowhere before."""
    run, argument = pickle.loads(job)
    return run(argument)


@contextmanager
def _processes(count: int) -> Iterator[Executor]:
    """Worker processes that end with this one."""
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


def _begin() -> None:
    """In a new worker: Ctrl-C is for the parent, and if the parent dies, so does the worker."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_follow, daemon=True).start()


def _follow() -> None:
    if parent := multiprocessing.parent_process():
        parent.join()
        os._exit(1)


def _bar(total: int, done: int, shown: bool) -> Any:
    try:
        from tqdm.auto import tqdm
    except ImportError as error:
        raise ImportError('a sweep needs tqdm: pip install "fltoolkit[research]"') from error

    return tqdm(total=total, initial=done, unit="run", disable=not shown, smoothing=0)
