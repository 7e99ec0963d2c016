"""The store and the sweep: nothing lost, nothing twice, and errors in words."""

import importlib
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import BrokenExecutor, Future, ThreadPoolExecutor
from dataclasses import replace
from typing import ClassVar

import pytest

from fltoolkit.history import History
from fltoolkit.research import Experiment, Result, Store, StoreError, cluster, sweep

sweep_module = importlib.import_module("fltoolkit.research.sweep")

TINY = {"num_samples": 64, "rounds": 1}
PLANS = [Experiment("split", seed=seed, **TINY) for seed in range(4)]
DIVERGES = Experiment("split", lr=1e30, **TINY)
SCRIPT = """
    import os, sys
    from fltoolkit.research import Experiment
    from fltoolkit.history import History
    from fltoolkit.research import Result, Store

    store = Store(sys.argv[1])
    for seed in range(1000):
        experiment = Experiment(seed=seed)
        assert store.claim(experiment.key)
        store.add(Result(experiment, History([{"step": n} for n in range(50)]), "", 1.0))
        print(seed, flush=True)
        store.claim(Experiment(seed=seed + 1).key)
"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "results.db"


def quiet(plans, store, **more):
    return sweep(plans, store=store, progress=False, **more)


# ------------------------------------------------------------------------------------------ store


def test_what_goes_in_comes_out(path):
    experiment = Experiment(name="called", seed=1)
    history = History([{"step": 1, "accuracy": 0.5, "who": "x"}, {"step": 2, "flag": True}])
    with Store(path) as store:
        store.add(Result(experiment, History(), "it broke", 1.0))
        assert store.failed() == {experiment.key}
        store.add(Result(experiment, history, "", 2.5))
        store.add(Result(Experiment(seed=2), History(), "", 0.0))
    with Store(path) as store:
        assert len(store) == 2
        assert store.failed() == set()
        again = store.results([experiment.key, "unknown"])
        assert again == [Result(experiment, history, "", 2.5)]
        assert again[0].experiment.name == "called"
        assert [r.experiment.seed for r in store.results()] == [1, 2]
        assert "unknown" not in store


@pytest.mark.slow
def test_kill_9_loses_nothing_that_was_added(path):
    writer = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(SCRIPT), str(path)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert writer.stdout is not None
    told = [int(writer.stdout.readline()) for _ in range(20)]
    writer.send_signal(signal.SIGKILL if os.name != "nt" else signal.SIGTERM)
    told += map(int, writer.communicate()[0].split())
    with Store(path) as store:
        found = store.results()
        seeds = [result.experiment.seed for result in found]
        assert set(told) <= set(seeds) <= {*told, told[-1] + 1}
        assert {len(result.history) for result in found} == {50}
        assert store.claim(Experiment(seed=max(seeds) + 1).key)  # the dead claim nothing


def test_claims(path, monkeypatch):
    mine, other = Store(path), Store(path)
    assert mine.claim("a")
    assert other.claim("a")  # the same process
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as sleeper:
        monkeypatch.setattr(os, "getpid", lambda: sleeper.pid)
        assert not other.claim("a")
        assert other.claim("b")
        monkeypatch.undo()
        assert not mine.claim("b")  # a living process has it
        assert mine.claim("c")
        mine.release(["c"])
        sleeper.communicate(b"\n")
    assert mine.claim("b")  # and now it is gone
    monkeypatch.setattr(time, "time", lambda: 1e12)
    monkeypatch.setattr(os, "getpid", lambda: os.getppid())
    assert other.claim("a")  # it has run out


def test_what_is_finished_is_not_claimed(path):
    """Somebody looked, another process ran it meanwhile, and now he would run it again."""
    with Store(path) as store, Store(path) as other:
        good, bad = PLANS[:2]
        assert good.key not in store
        other.add(Result(good, History([{"step": 1}]), "", 0.0))
        other.add(Result(bad, History(), "it broke", 0.0))
        assert not store.claim(good.key)
        assert not store.claim(bad.key)
        store.forget_failures([good.key, bad.key])
        assert [r.experiment for r in store.results()] == [good]
        assert store.claim(bad.key)


def test_a_store_that_is_made_while_one_looks_is_no_file_of_another_program(path, monkeypatch):
    whole, others = Store._one, []

    def look(self, statement, *values):
        found = whole(self, statement, *values)
        if "application_id" in statement and not others:
            others.append(threading.Thread(target=lambda: Store(path).close()))
            others[0].start()
            others[0].join(0.5)  # it waits for the look to end
        return found

    monkeypatch.setattr(Store, "_one", look)
    with Store(path) as store:
        assert len(store) == 0
    others[0].join()


def test_many_open_a_new_store_at_once(tmp_path):
    """SQLite's locks are between connections: threads with one each stand for processes."""
    together = threading.Barrier(6)

    def open_all(_):
        for number in range(30):
            together.wait(20)
            Store(tmp_path / f"{number}.db").close()

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(open_all, range(6)))


def test_what_cannot_be_read_is_left_out_and_named(path):
    with Store(path) as store:
        for experiment in (PLANS[0], Experiment("split", codecs={"gradients": "Pipeline()"})):
            store.add(Result(experiment, History([{"step": 1}]), "", 0.0))
        store._db.execute("UPDATE experiment SET settings = replace(settings, '()', '(Strange())')")
        with pytest.warns(
            UserWarning, match=r"db: 1 of 2 .* left out. \w{16}: .*'Strange' is not"
        ) as w:
            assert [r.experiment for r in store.results()] == PLANS[:1]
        assert w[0].filename == __file__
        assert store.results([PLANS[0].key])


def test_a_new_name_is_kept(path):
    with Store(path) as store:
        quiet(PLANS[:1], store)
        found = quiet([replace(PLANS[0], name="renamed")], store)
        assert [r.experiment.name for r in (*found, *store.results())] == ["renamed"] * 2


def test_damage_is_told_as_such(path):
    with Store(path) as store:
        store.add(Result(Experiment(), History([{"step": n} for n in range(3000)]), "", 0.0))
    good = path.read_bytes()
    path.write_bytes(b"not a database at all, for sure" * 100)
    with pytest.raises(StoreError, match=r"results\.db is damaged or no store"):
        Store(path)
    path.write_bytes(good[:4096] + os.urandom(3 * 4096) + good[4 * 4096 :])
    with pytest.raises(StoreError, match=r"damaged.*Nothing was changed"):
        Store(path).results()
    path.write_bytes(good)
    assert len(Store(path)) == 1


def test_other_and_newer_files(path, tmp_path):
    sqlite3.connect(tmp_path / "other.db").execute("CREATE TABLE t (x)").connection.close()
    with pytest.raises(StoreError, match="another program"):
        Store(tmp_path / "other.db")
    Store(path).close()
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(StoreError, match=r"newer fltoolkit \(format 99"):
        Store(path)
    with pytest.raises(OSError, match="Can this folder be written"):
        Store(tmp_path)


# ------------------------------------------------------------------------------------------ sweep


def test_each_runs_once(path, monkeypatch):
    ran = []
    original = sweep_module.records
    monkeypatch.setattr(
        sweep_module, "records", lambda e: ran.append(e.seed) or original(e), raising=True
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


def test_two_that_try_again_share_the_work(path, monkeypatch):
    """Another process has begun to try again what failed, too: this one takes what is left."""
    ran = []
    monkeypatch.setattr(
        sweep_module, "records", lambda e: ran.append(e.seed) or iter([{"step": 1}])
    )
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
    original = sweep_module.records

    def interrupted(experiment):
        if experiment.seed == 2:
            raise KeyboardInterrupt
        return original(experiment)

    with Store(path) as store:
        monkeypatch.setattr(sweep_module, "records", interrupted)
        with pytest.raises(KeyboardInterrupt):
            quiet(PLANS, store)
        assert [r.experiment.seed for r in store.results()] == [0, 1]
        monkeypatch.undo()
        assert len(quiet(PLANS, store)) == 4


MODULE = """
import os
from pathlib import Path
from fltoolkit.codecs import Stage
from fltoolkit.research import allow

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

        class Dies(ThreadPoolExecutor):
            def submit(self, fn, /, *args, **kwargs):
                future: Future = Future()
                future.set_exception(RuntimeError("killed"))
                return future

        dead = quiet(PLANS[2:3], store, pool=Dies())[0]
        assert "the worker is gone" in dead.error
    with pytest.raises(ValueError, match="workers=0"):
        quiet(PLANS, store, workers=0)


class Fragile(ThreadPoolExecutor):
    """A pool that breaks when it is given an experiment that kills."""

    deaths: ClassVar[dict[int, int]] = {}  # by seed: so many times more

    def submit(self, fn, /, *args, **kwargs):
        seed = Experiment.from_json(args[0]).seed if args else None
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
    monkeypatch.setattr(
        sweep_module, "_processes", lambda count: pools.append(count) or Fragile(count)
    )
    with Store(path) as store:
        found = quiet(PLANS, store, workers=2)
        assert [r.error[:31] for r in found] == ["", "", "its worker process died three t", ""]
        assert [len(r.history) for r in found] == [1, 1, 0, 1]
        assert pools[0] == 2
        assert Fragile.deaths == {0: 0, 2: 99 - 3}
        assert not store._db.execute("SELECT * FROM claim").fetchall()


def test_a_broken_pool_of_ones_own_is_told_and_nothing_kept(path):
    class Breaks(ThreadPoolExecutor):
        def submit(self, fn, /, *args, **kwargs):
            future: Future = Future()
            future.set_exception(BrokenExecutor("gone"))
            return future

    with Store(path) as store:
        with pytest.raises(RuntimeError, match="again with a new pool"):
            quiet(PLANS, store, pool=Breaks())
        assert len(store) == 0
        assert len(quiet(PLANS[:1], store)) == 1  # and nothing is claimed


def test_workers_that_cannot_start_are_no_failure_of_the_experiments(path, monkeypatch):
    """As in a script that calls sweep without a guard."""

    class Breaks(ThreadPoolExecutor):
        def submit(self, fn, /, *args, **kwargs):
            raise BrokenExecutor("all are gone")

    monkeypatch.setattr(sweep_module, "ProcessPoolExecutor", lambda *_, **__: Breaks())
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
        from fltoolkit.research import Experiment
        from fltoolkit.research import Store
        from fltoolkit.research import sweep

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
    done = subprocess.run([sys.executable, file, path], capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["1", "0"], done.stderr


@pytest.mark.slow
def test_a_cluster_of_two_workers(path):
    distributed = pytest.importorskip(
        "distributed", reason='needs pip install "fltoolkit[cluster]"'
    )
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as local,
        cluster(local.scheduler_address) as pool,
        Store(path) as store,
    ):
        found = quiet([*PLANS, DIVERGES], store, workers=2, pool=pool)
    assert "FloatingPointError" in found[-1].error
    with Store(path.with_name("here.db")) as store:
        assert [r.history for r in found[:4]] == [r.history for r in quiet(PLANS, store)]


def test_without_dask_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ImportError, match=r'pip install "fltoolkit\[cluster\]"'), cluster("x"):
        pass


def test_claims_are_renewed(path, monkeypatch):
    monkeypatch.setattr(sweep_module, "LEASE", 0.04)
    renewed = threading.Event()
    monkeypatch.setattr(Store, "renew", lambda self: renewed.set())
    with Store(path) as store, sweep_module._renewing(store):
        assert renewed.wait(30)
