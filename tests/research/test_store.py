import os
import re
import subprocess
import sys
import textwrap

import pytest

import fltoolkit
from fltoolkit.history import History
from fltoolkit_research import Experiment, Result, Store, add_row, groups, read_rows

TINY = {"num_samples": 64, "rounds": 1}
PLANS = [Experiment("split", seed=seed, **TINY) for seed in range(4)]
HISTORY = History([{"step": 1, "accuracy": 0.5, "who": "x"}, {"step": 2, "flag": True}])


@pytest.fixture
def path(tmp_path):
    return tmp_path / "new folder" / "results.jsonl"


def test_what_goes_in_comes_out(path):
    experiment = Experiment(name="called", seed=1)
    store = Store(path)
    assert len(store) == 0
    store.add(Result(experiment, History(), "it broke", 1.0))
    store.add(Result(experiment, HISTORY, "", 2.5))
    store.add(Result(Experiment(seed=2), History(), "", 0.0))
    again = Store(path)
    first = Result(experiment, HISTORY, "", 2.5, fltoolkit.__version__)
    assert (len(again), again.results()[0]) == (2, first)
    assert again.of([experiment, PLANS[0]]) == {experiment.key: first}
    assert [r.experiment.seed for r in again.results()] == [1, 2]
    assert again.results()[0].experiment.name == "called"


def test_results_of_another_version_are_kept_and_not_taken_for_this_one(path):
    experiment, store = Experiment(name="plain", seed=1), Store(path)
    history = History([{"nbytes": 1, "accuracy": 0.1}])
    store.add(Result(experiment, history, "", 1.0, "0.1.9"))
    assert store.of([experiment]) == {}
    store.add(Result(experiment, history, "", 1.0))
    assert [*store.of([experiment])] == [experiment.key]
    names = [f"plain, code={version!r}" for version in ("0.1.9", fltoolkit.__version__)]
    assert [*groups(store.results())] == names


def test_a_line_that_was_cut_off_and_a_bad_row_cost_themselves_and_one_warning(path):
    for number in range(2):
        add_row(path, {"key": str(number)})
    with path.open("a") as file:
        file.write('["no", "row"]\n{"no": "key"}\n\n' + "[" * 10**5 + '\n{"key": "cut o')
    add_row(path, {"key": "after"})
    with pytest.warns(UserWarning, match="left out") as w:
        assert [*read_rows(path)] == ["0", "1", "after"]
    assert "3 lines cannot be read and are left out, first line 3" in str(w[0].message)
    assert "1 rows have no key and are left out: {'no': 'key'}" in str(w[1].message)
    path.write_bytes(b"\xff\x00 something else\n")
    with pytest.raises(ValueError, match="holds no lines of JSON"):
        Store(path).results()
    assert read_rows(path.with_name("nothing")) == {}


def test_a_full_disk_is_an_error(path):
    if not os.path.exists("/dev/full"):
        pytest.skip("needs /dev/full")
    path.parent.mkdir()
    path.symlink_to("/dev/full")
    with pytest.raises(OSError, match="space"):
        add_row(path, {"key": "0"})


def test_what_cannot_be_read_is_left_out_and_named(path):
    store = Store(path)
    store.add(Result(PLANS[0], History([{"step": 1}]), "", 0.0))
    strange = {"codecs": {"gradients": "Pipeline(Strange())"}}
    row = {"key": "0123@1", "settings": strange, "records": [], "error": "", "seconds": 1}
    add_row(path, row)
    add_row(path, {"key": "of another kind"})
    for wrong in ({"settings": []}, {"records": [[1]]}, {"records": 5}, {"seconds": "x"}):
        add_row(path, {**row, "key": "a@1", **wrong})
        with pytest.warns(UserWarning, match="left out") as w:
            assert [r.experiment for r in store.results()] == PLANS[:1]
        assert "1 rows are no results, left out: a@1" in str(w[0].message)
        assert re.search(r"1 of 2 .* left out. 0123: .*'Strange' is not", str(w[1].message))
    assert w[1].filename == __file__


@pytest.mark.slow
def test_two_processes_write_at_once_and_are_killed(path):
    """What a process has been told is stored is there, whatever ends it."""
    script = """
        import sys
        from fltoolkit_research import add_row
        number = 0
        while True:
            add_row(sys.argv[1], {"key": f"{sys.argv[2]}-{number}", "filling": "x" * 3000})
            print(number, flush=True)
            number += 1
    """
    command = [sys.executable, "-c", textwrap.dedent(script), str(path)]
    writers = [
        subprocess.Popen([*command, name], stdout=subprocess.PIPE, text=True) for name in "ab"
    ]
    done = dict.fromkeys("ab", 0)
    for _ in range(30):
        for name, writer in zip(done, writers, strict=True):
            assert writer.stdout is not None
            done[name] = int(writer.stdout.readline())
    for writer in writers:
        writer.kill()
        writer.communicate()
    add_row(path, {"key": "last"})
    rows = read_rows(path)
    assert {f"{name}-{n}" for name in done for n in range(done[name] + 1)} <= {*rows}
    assert "last" in rows
    assert all(len(row.get("filling", "x" * 3000)) == 3000 for row in rows.values())
