"""Sweeps: nothing lost, nothing twice, on cores and on a cluster."""

import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import BrokenExecutor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest

from fltoolkit.cli import main
from fltoolkit.history import History
from fltoolkit_research import Experiment, Result, Store, cluster, sweep, sweeps

TINY = {"num_samples": 64, "rounds": 1}

PLANS = [Experiment("split", seed=seed, **TINY) for seed in range(4)]

DIVERGES = Experiment("split", lr=1e30, **TINY)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "results.db"


def quiet(plans, store, **more):
    return sweep(plans, store=store, progress=False, **more)


def test_a_new_name_is_kept(path):
    with Store(path) as store:
        quiet(PLANS[:1], store)
        found = quiet([replace(PLANS[0], name="renamed")], store)
        assert [r.experiment.name for r in (*found, *store.results())] == ["renamed"] * 2


def test_each_runs_once(path, monkeypatch):
    ran = []
    original = sweeps.records
    monkeypatch.setattr(
        sweeps, "records", lambda e: ran.append(e.seed) or original(e), raising=True
    )
    with Store(path) as store:
        first = quiet(PLANS[:2], store)
        second = quiet([*PLANS, *PLANS], store)
    assert ran == [0, 1, 2, 3]
    assert [r.experiment for r in second] == PLANS
    assert second[:2] == first
    assert all(r.history[-1]["accuracy"] > 0 and r.seconds > 0 for r in second)


def test_a_failure_is_kept_and_the_others_go_on(path):
    with Store(path) as store:
        found = quiet([DIVERGES, *PLANS[:1]], store)
        assert "FloatingPointError" in found[0].error
        assert not len(found[0].history)
        assert not found[1].error
        assert quiet([DIVERGES], store)[0].seconds == found[0].seconds  # not tried again
        assert quiet([DIVERGES], store, retry=True)[0].seconds != found[0].seconds


def test_a_failure_is_named_at_once(path, capsys):
    with Store(path) as store:
        sweep([DIVERGES, *PLANS[:1]], store=store)
    err = capsys.readouterr().err
    assert 0 < err.index("failed: ") < err.index("2/2"), err
    assert "FloatingPointError" in err


def test_two_that_try_again_share_the_work(path, monkeypatch):
    """Another process has begun to try again what failed, too: this one takes what is left."""
    ran = []
    monkeypatch.setattr(sweeps, "records", lambda e: ran.append(e.seed) or iter([{"step": 1}]))
    with Store(path) as store, Store(path) as other:
        for plan in PLANS:
            store.add(Result(plan, History(), "it broke", 0.0))
        whole = Store.forget_failures

        def both(self, keys):
            whole(self, keys)
            whole(self, keys)
            for plan in PLANS[:2]:
                other.add(Result(plan, History(), "again", 0.0))

        monkeypatch.setattr(Store, "forget_failures", both)
        found = quiet(PLANS, store, retry=True)
    assert ran == [2, 3]
    assert [r.error for r in found] == ["again", "again", "", ""]


def test_ctrl_c_leaves_what_is_finished(path, monkeypatch):
    original = sweeps.records

    def interrupted(experiment):
        if experiment.seed == 2:
            raise KeyboardInterrupt
        return original(experiment)

    with Store(path) as store:
        monkeypatch.setattr(sweeps, "records", interrupted)
        with pytest.raises(KeyboardInterrupt):
            quiet(PLANS, store)
        assert [r.experiment.seed for r in store.results()] == [0, 1]
        monkeypatch.undo()
        assert len(quiet(PLANS, store)) == 4


MODULE = """
import os
from pathlib import Path
from fltoolkit.codecs.stage import Stage
from fltoolkit_research import allow


class Deadly(Stage):
    def apply(self, parts):
        once = Path(__file__).with_name("once")
        if not once.exists():
            once.touch()
            os._exit(9)
        return parts

    def undo(self, parts):
        return parts

    def __repr__(self):
        return "Deadly()"

allow(Deadly)
"""


BUSY = """
import multiprocessing, os, pathlib, sys, time
from fltoolkit_research.sweeps import _processes

def busy(folder):
    (folder / str(os.getpid())).touch()
    sum(range(10**11))  # one call of minutes; no other thread has a turn

if __name__ == "__main__":
    begun, num_busy = pathlib.Path(sys.argv[1]), int(sys.argv[2])
    with _processes(2) as pool:
        for _ in range(2):
            pool.submit(busy, begun)
        children = multiprocessing.active_children
        while len(children()) < 2 or len([*begun.iterdir()]) < num_busy:
            time.sleep(0.01)
        print(*(child.pid for child in children()), flush=True)
        time.sleep(60)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a worker ends after its long call")
@pytest.mark.parametrize("num_busy", [2, 0], ids=["at work", "while they still begin"])
def test_a_killed_sweep_leaves_no_worker_behind(tmp_path, num_busy):
    file, begun = tmp_path / "busy.py", tmp_path / "begun"
    file.write_text(BUSY)
    begun.mkdir()
    with subprocess.Popen(
        [sys.executable, file, begun, str(num_busy)], stdout=subprocess.PIPE, text=True
    ) as parent:
        workers = [Path(f"/proc/{pid}/cmdline") for pid in parent.stdout.readline().split()]
        # a process that still begins may have no command line for a moment
        busy_now = not num_busy or all(map(alive, workers))
        parent.kill()  # before any assertion: leaving this block waits for the parent
        until = time.monotonic() + 120  # their calls would take longer
    assert len(workers) == 2
    assert busy_now
    try:
        while any(map(alive, workers)) and time.monotonic() < until:
            time.sleep(0.01)
        assert not any(map(alive, workers))
    finally:
        for worker in filter(alive, workers):
            os.kill(int(worker.parent.name), signal.SIGKILL)


def alive(cmdline):
    """Whether a process is there, and no zombie that waits to be collected."""
    try:
        return bool(cmdline.read_bytes())
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.slow
def test_a_sweep_with_workers_in_a_thread_that_ends_after_it(path):
    """Linux ends a worker when the thread that started it ends: not before the sweep is over."""

    def in_a_thread():
        with Store(path) as store:
            return quiet(PLANS, store, workers=2)

    with ThreadPoolExecutor(1) as thread:
        assert [r.error for r in thread.submit(in_a_thread).result()] == [""] * 4


@pytest.mark.slow
def test_worker_processes_one_of_which_is_killed(path, monkeypatch):
    monkeypatch.syspath_prepend(path.parent)
    path.with_name("deadly_codec.py").write_text(MODULE)
    importlib.import_module("deadly_codec")
    deadly = Experiment("split", codecs={"gradients": "Pipeline(Deadly())"}, **TINY)
    with Store(path) as store:
        found = quiet([PLANS[0], deadly], store, workers=2, imports=["deadly_codec"])
        here = quiet([PLANS[0], deadly], Store(path.with_name("other.db")))
        assert [r.history for r in found] == [r.history for r in here]
        assert [r.error for r in found] == ["", ""]

        dead = quiet(PLANS[2:3], store, pool=Breaks(RuntimeError("killed")))[0]
        assert "the worker is gone" in dead.error
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


class Fragile(ThreadPoolExecutor):
    """A pool that breaks when it is given an experiment that kills."""

    deaths: ClassVar[dict[int, int]] = {}  # by seed: so many times more

    def submit(self, fn, /, *args, **kwargs):
        seed = Experiment.from_json(args[0]).seed if fn is sweeps._job else None
        if self.deaths.get(seed, 0) == 0:
            return super().submit(fn, *args, **kwargs)
        self.deaths[seed] -= 1
        future: Future = Future()
        future.set_exception(BrokenExecutor("gone"))
        return future


def test_when_a_worker_dies_the_others_lose_nothing(path, monkeypatch):
    """Seed 0 kills its worker once, seed 2 always; 0 and 1 run beside one another at first."""
    pools = []
    monkeypatch.setattr(Fragile, "deaths", {0: 1, 2: 99})
    monkeypatch.setattr(sweeps, "_processes", lambda count: pools.append(count) or Fragile(count))
    with Store(path) as store:
        found = quiet(PLANS, store, workers=2)
        assert [r.error[:31] for r in found] == ["", "", "its worker process died three t", ""]
        assert [len(r.history) for r in found] == [1, 1, 0, 1]
        assert pools[0] == 2
        assert Fragile.deaths == {0: 0, 2: 99 - 3}
        assert not store._db.execute("SELECT * FROM claim").fetchall()


def test_a_broken_pool_of_ones_own_is_reported_and_nothing_kept(path):
    with Store(path) as store:
        with pytest.raises(RuntimeError, match="again with a new pool"):
            quiet(PLANS, store, pool=Breaks(BrokenExecutor("gone")))
        assert len(store) == 0
        assert len(quiet(PLANS[:1], store)) == 1  # and nothing is claimed


def test_workers_that_cannot_start_are_no_failure_of_the_experiments(path, monkeypatch):
    """As in a script that calls sweep without a guard."""
    broken = Breaks(BrokenExecutor("all are gone"))
    monkeypatch.setattr(sweeps, "ProcessPoolExecutor", lambda *_, **__: broken)
    with Store(path) as store:
        with pytest.raises(RuntimeError, match="below `if __name__"):
            quiet(PLANS, store, workers=2)
        assert len(store) == 0


def test_two_sweeps_share_a_store(path, monkeypatch):
    """Another process has claimed one: this sweep runs the others and waits for that one."""
    elsewhere = Store(path)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        mine = os.getpid()
        monkeypatch.setattr(os, "getpid", lambda: other.pid)
        assert elsewhere.claim(PLANS[0].key)
        monkeypatch.setattr(os, "getpid", lambda: mine)
        waited = []

        def sleep(seconds):
            waited.append(len(elsewhere))
            elsewhere.add(Result(PLANS[0], History([{"step": 7}]), "", 0.0))

        monkeypatch.setattr(time, "sleep", sleep)
        with Store(path) as store:
            found = quiet(PLANS[:3], store)
        other.communicate(b"\n")
    assert waited == [2]
    assert found[0].history[-1] == {"step": 7}


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT for one process")
def test_a_real_ctrl_c_with_workers_ends_them(path):
    script = """
        import multiprocessing, sys, threading, os, signal, time
        from fltoolkit_research import Experiment
        from fltoolkit_research import Store
        from fltoolkit_research import sweep

        if __name__ == "__main__":
            # in the background of a shell it is ignored, and a child inherits that
            signal.signal(signal.SIGINT, signal.default_int_handler)
            store = Store(sys.argv[1])
            plans = [Experiment("split", rounds=r, num_samples=64) for r in (1, 10**6)]

            def interrupt():
                with Store(sys.argv[1]) as own:
                    while len(own) < 1:
                        time.sleep(0.05)
                os.kill(os.getpid(), signal.SIGINT)

            threading.Thread(target=interrupt).start()
            try:
                sweep(plans, store=store, workers=2, progress=False)
            except KeyboardInterrupt:
                print(len(store), len(multiprocessing.active_children()))
    """
    file = path.with_name("script.py")
    file.write_text(textwrap.dedent(script))
    done = subprocess.run([sys.executable, file, path], capture_output=True, text=True, timeout=600)
    assert done.stdout.split() == ["1", "0"], done.stderr


def dies_once(marker, job, *given):
    """Ends its process when it is called for the first time."""
    if not marker.exists():
        marker.touch()
        os._exit(1)
    return job(*given)


@pytest.mark.slow
def test_a_cluster_of_two_workers_one_of_which_is_lost(path):
    """The experiment that it had runs at the other one, and all ends as in one process."""
    distributed = pytest.importorskip(
        "distributed", reason='needs pip install "fltoolkit[cluster]"'
    )
    marker = path.with_name("was_there")

    class Lossy:
        def submit(self, job, *given):
            first = (dies_once, marker, job) if job is sweeps._job else (job,)
            return pool.submit(*first, *given)

    how = {"threads_per_worker": 1, "memory_limit": 0, "dashboard_address": None}
    with (
        distributed.LocalCluster(n_workers=2, **how) as two,
        cluster(two.scheduler_address) as pool,
        Store(path) as store,
    ):
        found = quiet([*PLANS, DIVERGES], store, workers=2, pool=Lossy())
    assert marker.exists()
    assert "FloatingPointError" in found[-1].error
    with Store(path.with_name("here.db")) as store:
        assert [r.history for r in found[:4]] == [r.history for r in quiet(PLANS, store)]


def test_without_dask_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ImportError, match=r'pip install "fltoolkit\[cluster\]"'), cluster("x"):
        pass


def test_claims_are_renewed(path, monkeypatch):
    monkeypatch.setattr(sweeps, "LEASE", 0.04)
    renewed = threading.Event()
    monkeypatch.setattr(Store, "renew", lambda self: renewed.set())
    with Store(path) as store, sweeps._renewing(store):
        assert renewed.wait(30)


def test_equal_settings_under_two_names_are_an_error(path):
    """The later one would silently take the place of the first."""
    with (
        Store(path) as store,
        pytest.raises(ValueError, match=r"'a' and 'b' are names of the same"),
    ):
        quiet([Experiment(name="a", **TINY), Experiment(name="b", **TINY)], store)


def test_a_worker_without_a_module_is_reported_and_nothing_is_kept_as_failed(path):
    """So that nothing has to be tried again when the worker has it."""
    with Store(path) as store, ThreadPoolExecutor(1) as pool:
        with pytest.raises(RuntimeError, match=r"No module named 'not_there'.*PYTHONPATH=FOLDER"):
            quiet(PLANS[:1], store, pool=pool, imports=["not_there"])
        assert len(store) == 0


@pytest.mark.slow
def test_a_cluster_from_the_scheduler_on(path, monkeypatch, capsys):
    """As docs/howto.md has it: a scheduler, a worker with PYTHONPATH, the command line."""
    pytest.importorskip("distributed", reason='needs pip install "fltoolkit[cluster]"')
    folder = path.parent
    (folder / "modules").mkdir()
    own = Path(__file__).parents[1] / "own_codec.py"
    shutil.copy(own, folder / "modules" / "dask_codec.py")
    (folder / "plan.yaml").write_text(
        "defaults: {num_samples: 64, rounds: 1, codecs: {gradients: Pipeline(Nothing())}}\n"
        "experiments: [{seeds: [0, 1]}]\n"
    )
    monkeypatch.syspath_prepend(folder / "modules")
    told = folder / "scheduler.json"  # it takes a free port itself, and writes down which
    dask = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--no-dashboard"]
    dask += ["--host", "127.0.0.1", "--port", "0", "--scheduler-file", str(told)]
    monkeypatch.delenv("PYTHONPATH", raising=False)
    without = {**os.environ}
    having = {**without, "PYTHONPATH": str(folder / "modules")}
    with ended(subprocess.Popen(dask, env=without)) as scheduler:
        while not (told.exists() and told.read_text().endswith("}")):
            assert scheduler.poll() is None
            time.sleep(0.05)
        address = json.loads(told.read_text())["address"]
        worker = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--nthreads", "1"]
        worker += ["--memory-limit", "0"]
        words = ["sweep", str(folder / "plan.yaml"), "--scheduler", address]
        words += ["--import", "dask_codec"]
        with (
            ended(subprocess.Popen(worker, env=without, cwd=folder)),
            pytest.raises(RuntimeError, match="No module named 'dask_codec'"),
        ):
            main(words)
        with ended(subprocess.Popen(worker, env=having, cwd=folder)):
            assert main(words) == 0
    assert "| split, gradients: Pipeline(Nothing()) |" in capsys.readouterr().out
    with Store(folder / "plan.db") as store:
        assert [r.error for r in store.results()] == ["", ""]


@contextmanager
def ended(process):
    """End a process that was started, whatever happens."""
    try:
        yield process
    finally:
        process.terminate()
        process.wait(120)
