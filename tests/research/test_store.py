"""The store: nothing lost, and errors in words."""

import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from fltoolkit.history import History
from fltoolkit_research import Experiment, Result, Store, code_version, groups

TINY = {"num_samples": 64, "rounds": 1}
PLANS = [Experiment("split", seed=seed, **TINY) for seed in range(4)]


SCRIPT = """
    import os, sys
    from fltoolkit_research import Experiment
    from fltoolkit.history import History
    from fltoolkit_research import Result, Store

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


def test_what_goes_in_comes_out(path):
    experiment = Experiment(name="called", seed=1)
    history = History([{"step": 1, "accuracy": 0.5, "who": "x"}, {"step": 2, "flag": True}])
    with Store(path) as store:
        store.add(Result(experiment, History(), "it broke", 1.0))
        store.add(Result(experiment, history, "", 2.5))
        store.add(Result(Experiment(seed=2), History(), "", 0.0))
    with Store(path) as store:
        assert len(store) == 2
        again = store.results([experiment.key, "unknown"])
        assert again == [Result(experiment, history, "", 2.5, code_version())]
        assert again[0].experiment.name == "called"
        assert [r.experiment.seed for r in store.results()] == [1, 2]
        assert "unknown" not in store


def test_results_of_other_code_are_kept_and_not_taken_for_this_one(path):
    experiment = Experiment(name="plain", seed=1)
    theirs = Result(
        experiment, History([{"nbytes": 1, "accuracy": 0.1}]), "", 1.0, "0.1.9+01234567"
    )
    mine = Result(experiment, History([{"nbytes": 1, "accuracy": 0.2}]), "", 1.0, code_version())
    with Store(path) as store, Store(path, any_code=True) as lenient:
        store.add(theirs)
        assert experiment.key not in store
        assert store.results([experiment.key]) == []
        assert lenient.results([experiment.key]) == [theirs]
        assert not lenient.claim(experiment.key), "it has been run"
        assert store.claim(experiment.key), "but not by this code"
        store.add(mine._replace(code=""))
        assert store.results() == [theirs, mine]
        assert store.results([experiment.key]) == lenient.results([experiment.key]) == [mine]
        store.rename([replace(experiment, name="new")])
        assert [*groups(store.results())] == [
            f"new, code={code!r}" for code in ("0.1.9+01234567", code_version())
        ]
        assert not store.claim(experiment.key)


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


@pytest.mark.later
def test_many_open_a_new_store_at_once(tmp_path):
    """SQLite's locks are between connections: threads with one each stand for processes."""
    together = threading.Barrier(6)

    def open_all(_):
        for number in range(30):
            together.wait(120)
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


def test_damage_is_told_as_such(path):
    with Store(path) as store:
        store.add(Result(Experiment(), History([{"step": n} for n in range(3000)]), "", 0.0))
    good = path.read_bytes()
    path.write_bytes(b"not a database at all, for sure" * 100)
    with pytest.raises(ValueError, match=r"results\.db is damaged or no store"):
        Store(path)
    path.write_bytes(good[:4096] + b"\xa5" * (3 * 4096) + good[4 * 4096 :])
    with pytest.raises(ValueError, match=r"damaged.*Nothing was changed"):
        Store(path).results()
    path.write_bytes(good)
    assert len(Store(path)) == 1


def test_other_and_newer_files(path, tmp_path):
    sqlite3.connect(tmp_path / "other.db").execute("CREATE TABLE t (x)").connection.close()
    with pytest.raises(ValueError, match="another program"):
        Store(tmp_path / "other.db")
    Store(path).close()
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(ValueError, match=r"newer fltoolkit \(format 99"):
        Store(path)
    with pytest.raises(OSError, match="Can this folder be written"):
        Store(tmp_path)
