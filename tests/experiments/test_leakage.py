"""The experiment on leakage: small runs on digits, and what its page may say."""

import json
from dataclasses import replace

import pytest

from experiments.leakage.run import run
from experiments.leakage.settings import BINARY, UP, Setting, Task
from fltoolkit.codecs import Pipeline, Quantize, TopK

SMALL = Task("digits", 200, 150, 60, 2, 50, 0.06, 3, (0, 1))


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
