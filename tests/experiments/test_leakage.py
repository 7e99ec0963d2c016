"""The experiment on leakage: small runs on digits, and what its page may say."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from experiments.leakage import report as leakage_report
from experiments.leakage.report import report
from experiments.leakage.run import run, summary
from experiments.leakage.settings import BINARY, UP, Setting, Task
from experiments.runs import read, sweep
from fltoolkit.codecs import Pipeline, Quantize, TopK

SMALL = Task("digits", 200, 150, 60, 2, 50, 0.06, 3, (0, 1))
PAGE = Path(__file__).parents[2] / "docs" / "leakage.md"


@pytest.mark.later
def test_a_run_has_all_that_the_tables_need():
    result = run(SMALL, Setting(UP, "top-k", Pipeline(TopK(0.1))), 0)
    assert 0 < result["positions"] < 1
    assert 0 < result["explained_variance"] < 1
    assert 0 < result["dcor"] < 1
    assert len(result["norm_auc"]) == len(result["direction_auc"]) == SMALL.epochs
    assert result["nbytes_up"] < result["nbytes_down"] / 5
    assert result["nbytes_down"] == pytest.approx(640 * 4 + 12 / 50)
    json.dumps(result, allow_nan=False)


@pytest.mark.later
def test_same_seed_same_result_and_nopeek_is_in_it():
    setting = Setting(UP, "4 bits", Pipeline(Quantize(4)), nopeek=1.0)
    first, again, other = (run(SMALL, s, 1) for s in (setting, setting, replace(setting, nopeek=0)))
    for result in (first, again, other):
        result.pop("seconds")
    assert first == again
    assert first["dcor"] != other["dcor"]
    assert "shown" not in first


@pytest.mark.later
def test_the_binary_task_finds_the_rare_label():
    result = run(SMALL, Setting(BINARY, "float32", binary=True), 1)
    assert max(result["norm_auc"]) > 0.9
    assert 0.5 < result["task_auc"] <= 1
    assert result["positions"] is None


@pytest.mark.later
def test_a_run_that_diverges_is_named_and_the_others_go_on(tmp_path, monkeypatch):
    wild = replace(SMALL, lr=1e30)
    jobs = [(wild, Setting(UP, "float32"), 0), (SMALL, Setting(UP, "8 bits"), 0)]
    sweep(run, jobs, tmp_path / "r", summary=summary)
    results = read(tmp_path / "r")
    assert ["diverged" in result for result in results.values()] == [True, False]
    monkeypatch.setattr(leakage_report, "TASKS", {"digits": wild})
    assert report(results) == "no runs yet"
    first = next(iter(results.values()))
    words = leakage_report.effort(wild, [], results)
    assert words.startswith(
        f"0 runs and 1 that diverged (float32, seed 0, at step {first['diverged']})"
    )
