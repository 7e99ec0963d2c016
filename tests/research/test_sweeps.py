import importlib
import multiprocessing
import os
import pickle
import shutil
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import BrokenExecutor, Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import own_codec
import pytest

from fltoolkit.codecs import Pipeline
from fltoolkit_research import Experiment, Store, sweep, sweeps

TINY = {"num_samples": 64, "rounds": 1}
PLANS = [Experiment("split", seed=seed, **TINY) for seed in range(4)]
DIVERGES = Experiment("split", lr=1e30, **TINY)


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "results.jsonl")


def quiet(plans, store, **more):
    return sweep(plans, store=store, progress=False, **more)


def test_a_new_name_is_kept(store):
    quiet(PLANS[:1], store)
    found = quiet([replace(PLANS[0], name="renamed")], store)
    assert [r.experiment.name for r in (*found, *store.results())] == ["renamed"] * 2


def test_each_runs_once(store, monkeypatch):
    ran, original = [], sweeps.records
    monkeypatch.setattr(sweeps, "records", lambda e: ran.append(e.seed) or original(e))
    first = quiet(PLANS[:2], store)
    second = quiet([*PLANS, *PLANS], store)
    assert ran == [0, 1, 2, 3]
    assert [r.experiment for r in second] == PLANS
    assert second[:2] == first
    assert all(r.history[-1]["accuracy"] > 0 and r.seconds > 0 for r in second)


def test_a_failure_is_named_and_kept_and_the_others_go_on(store, capsys):
    found = sweep([DIVERGES, *PLANS[:1]], store=store)
    err = capsys.readouterr().err
    assert 0 < err.index("failed: ") < err.index("2/2"), err
    assert "FloatingPointError" in found[0].error
    assert not len(found[0].history)
    assert not found[1].error
    assert quiet([DIVERGES], store)[0].seconds == found[0].seconds  # not tried again
    assert quiet([DIVERGES], store, retry=True)[0].seconds != found[0].seconds


def test_ctrl_c_leaves_what_is_finished(store, monkeypatch):
    original = sweeps.records

    def interrupted(experiment):
        if experiment.seed == 2:
            raise KeyboardInterrupt
        return original(experiment)

    monkeypatch.setattr(sweeps, "records", interrupted)
    with pytest.raises(KeyboardInterrupt):
        quiet(PLANS, store)
    assert [r.experiment.seed for r in store.results()] == [0, 1]
    monkeypatch.undo()
    assert len(quiet(PLANS, store)) == 4


BUSY = """
import os, time
from fltoolkit_research.sweeps import _processes

def busy():
    print(os.getpid(), flush=True)
    while True:
        pass

if __name__ == "__main__":
    with _processes(1) as pool:
        pool.submit(busy)
        time.sleep(60)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_killed_sweep_leaves_no_worker_behind(tmp_path):
    (file := tmp_path / "busy.py").write_text(BUSY)
    with subprocess.Popen([sys.executable, file], stdout=subprocess.PIPE, text=True) as parent:
        worker = Path(f"/proc/{int(parent.stdout.readline())}/cmdline")
        busy_now = alive(worker)
        parent.kill()  # before any assertion: leaving this block waits for the parent
        until = time.monotonic() + 120  # its call would take longer
    assert busy_now
    try:
        while alive(worker) and time.monotonic() < until:
            time.sleep(0.01)
        assert not alive(worker)
    finally:
        if alive(worker):
            os.kill(int(worker.parent.name), signal.SIGKILL)


def alive(cmdline):
    """Whether a process is there, and no zombie that waits to be collected."""
    try:
        return bool(cmdline.read_bytes())
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.slow
def test_worker_processes_give_the_same_and_import_ones_own_modules_until_ctrl_c(
    store, monkeypatch
):
    """One pool for all of it: each worker imports torch. Windows has no SIGINT for one process."""
    folder = store.path.parent
    monkeypatch.syspath_prepend(folder)
    shutil.copy(own_codec.__file__, folder / "own_stage.py")
    mine = importlib.import_module("own_stage")
    codec = Pipeline(mine.Nothing())
    plans = [PLANS[0], Experiment("split", codecs={"gradients": codec}, **TINY)]
    here = quiet(plans, Store(folder / "other.jsonl"))

    def interrupt():
        while len(store) < 2:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    if os.name == "nt":
        quiet(plans, store, workers=2)
    else:  # in the background of a shell the signal is ignored
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        threading.Thread(target=interrupt, daemon=True).start()
        with pytest.raises(KeyboardInterrupt):
            quiet([*plans, replace(PLANS[0], rounds=10**6)], store, workers=2)
        signal.signal(signal.SIGINT, before)
        assert not multiprocessing.active_children()
    found = {r.experiment: r for r in Store(store.path, [mine]).results()}
    assert [found[e].history for e in plans] == [r.history for r in here]
    assert [found[e].error for e in plans] == ["", ""]


def test_a_worker_that_lacks_a_module_is_no_failure_of_the_experiment(store, monkeypatch):
    broken = Breaks(ModuleNotFoundError("No module named 'x'"))
    monkeypatch.setattr(sweeps, "_processes", lambda count: broken)
    with pytest.raises(RuntimeError, match=r"No module named 'x'.*PYTHONPATH.*is not stored"):
        quiet(PLANS[:1], store, workers=2)
    assert len(store) == 0
    with pytest.raises(ValueError, match="workers=0"):
        quiet(PLANS, store, workers=0)


class Breaks(ThreadPoolExecutor):
    """A pool in which every job ends with this error."""

    def __init__(self, error):
        super().__init__()
        self.error = error

    def submit(self, fn, /, *args, **kwargs):
        future: Future = Future()
        future.set_exception(self.error)
        return future


def test_when_a_worker_dies_the_sweep_ends_and_what_had_ended_is_kept(store, monkeypatch):
    class Fragile(Breaks):
        """A pool that breaks when it is given the last experiment."""

        def submit(self, fn, /, *args, **kwargs):
            last = args and pickle.loads(args[0])[1] == PLANS[-1]
            return super().submit(fn) if last else ThreadPoolExecutor.submit(self, fn, *args)

    broken = Fragile(BrokenExecutor("gone"))
    monkeypatch.setattr(sweeps, "_processes", lambda count: broken)
    monkeypatch.setattr(sweeps, "as_completed", lambda running: [*running])
    with pytest.raises(RuntimeError, match=r"a worker process died.*call sweep again"):
        quiet(PLANS, store, workers=2)
    assert [r.experiment for r in store.results()] == PLANS[:-1]


def test_workers_that_cannot_start_are_no_failure_of_the_experiments(store, monkeypatch):
    """As in a script that calls sweep without a guard."""
    broken = Breaks(BrokenExecutor("all are gone"))
    monkeypatch.setattr(sweeps, "ProcessPoolExecutor", lambda *_, **__: broken)
    with pytest.raises(RuntimeError, match="below `if __name__"):
        quiet(PLANS, store, workers=2)
    assert len(store) == 0


def test_equal_settings_under_two_names_are_an_error(store):
    """The later one would silently take the place of the first."""
    with pytest.raises(ValueError, match=r"'a' and 'b' are names of the same"):
        quiet([Experiment(name="a", **TINY), Experiment(name="b", **TINY)], store)
