"""What all experiments share: each run is done once, and pages get their tables."""

import json
from argparse import Namespace
from concurrent.futures import ThreadPoolExecutor

import pytest

from experiments import runs
from experiments.runs import STORED, Page, fill, put_between, read, sweep
from fltoolkit_research import sweeps


class Setting:
    """A setting whose runs cost nothing."""

    name, seeds = "made up", (0, 1, 2)

    def key(self, task, seed):
        return f"{task}-{seed}"


def run(task, setting, seed, offset=0):
    result = {"key": setting.key(task, seed), "seed": seed, "accuracy": 0.5 + seed / 100}
    return {**result, "nbytes": 1000 * (seed + 1) + offset, "seconds": 0.1}


def test_a_sweep_runs_each_once(tmp_path, capsys):
    path, seeds = tmp_path / "runs" / "results.jsonl", []

    def counted(task, setting, seed):
        seeds.append(seed)
        return run(task, setting, seed)

    jobs = [("digits", Setting(), seed) for seed in (0, 1)]
    for _ in range(2):
        sweep(counted, jobs, path)
    assert "made up" in capsys.readouterr().out
    assert seeds == [0, 1]
    assert list(read(path)) == ["digits-0", "digits-1"]


@pytest.mark.later
def test_all_files_of_results_are_read():
    for path in STORED.glob("*.jsonl"):
        rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
        assert read(path) == {row["key"]: row for row in rows}, path


def test_what_is_no_sweep_is_done_once_too_and_ctrl_c_keeps_what_is_finished(tmp_path):
    def stop():
        raise KeyboardInterrupt

    todo = {"one": lambda: {"found": 1}, "two": stop}
    for _ in range(2):
        with pytest.raises(SystemExit, match="what is finished is kept, run again to go on"):
            fill(todo, tmp_path / "found")
    fill({"one": stop, "two": lambda: {"found": 2}}, tmp_path / "found")
    assert [r["found"] for r in read(tmp_path / "found").values()] == [1, 2]


def test_a_page_gets_new_tables_and_one_without_marks_is_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(runs, "DOCS", tmp_path)
    page = Page("page", "<a>", "<b>")
    page.path.write_text("before\n<a>\nold\n<b>\nafter\n")
    assert not page.shows("| new |")
    page.tell("| new |", Namespace(write=False))
    assert capsys.readouterr().out == "| new |\n"
    page.tell("| new |", Namespace(write=True))
    assert page.path.read_text() == "before\n<a>\n\n| new |\n\n<b>\nafter\n"
    assert page.shows("| new |")
    with pytest.raises(ValueError, match="the page must hold the line '<b>' once"):
        put_between("<a> no other mark", "<a>", "<b>", "new")


@pytest.mark.slow
def test_workers_find_what_one_process_finds(tmp_path, monkeypatch):
    """Threads get the jobs as processes do, by pickle; tests of `sweeps` begin processes."""
    from experiments.fedavg_results.run import run as train
    from experiments.fedavg_results.settings import Setting, Task

    jobs = [(Task("digits", clients=20, rounds=1), Setting("part", "f"), seed) for seed in (0, 1)]
    sweep(train, jobs, tmp_path / "one")
    monkeypatch.setattr(sweeps, "_processes", ThreadPoolExecutor)
    sweep(train, jobs, tmp_path / "two", workers=2)
    one, two = read(tmp_path / "one"), read(tmp_path / "two")
    assert {k: r["curve"] for k, r in one.items()} == {k: r["curve"] for k, r in two.items()}
