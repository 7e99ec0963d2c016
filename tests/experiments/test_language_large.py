"""The table at ten million parameters: its command in small; the page beside all its stores."""

import math
from importlib import import_module

import pytest

from experiments.language.command import page_of
from experiments.language.large import CHOOSING_SEED, RESULTS, chosen, rows, run, trials
from experiments.language.task import Task, python_sources
from experiments.runs import read

SMALL = Task(text="topics", context=16, layers=1, width=16, batch_size=2, workers=2, steps=30)


def test_rates_are_chosen_by_the_validation_half_and_with_a_seed_of_their_own():
    results = {}
    for setting in trials(SMALL):
        loss = {"nats_validation": abs(math.log(setting.rate / 0.002)), "nats": 5 - setting.rate}
        results[setting.key(SMALL, CHOOSING_SEED)] = loss
    names = {setting.name: setting.rate for setting in chosen(SMALL, results)}
    assert len(names) == len(list(rows(SMALL)))
    assert names["AdamW, every step, float32"] == 0.002
    assert names["Muon, H = 30, 2 bits"] == 0.01
    assert all(CHOOSING_SEED not in setting.seeds for setting in chosen(SMALL, results))


def test_a_method_without_all_its_trials_is_not_chosen_yet():
    *some, _ = trials(SMALL)
    results = {s.key(SMALL, CHOOSING_SEED): {"nats_validation": 1.0} for s in some}
    assert len(chosen(SMALL, results)) == len(list(rows(SMALL))) - 1


def test_every_method_has_as_many_trials():
    assert {len(row.rates) for row in rows(SMALL)} == {3}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Muon, H = 30, 2 bits", "Muon, all text on one worker"])
def test_a_run_tells_both_halves_and_repeats_itself(name):
    setting = next(row.setting for row in rows(SMALL) if row.setting.name == name)
    first, second = (run(SMALL, setting, seed=1) for _ in range(2))
    assert first["nats"] != first["nats_validation"]
    assert first["key"] == setting.key(SMALL, 1)
    assert {**first, "seconds": 0} == {**second, "seconds": 0}


@pytest.mark.slow
def test_python_sources_are_a_text_of_ascii():
    text = python_sources(50_000)
    assert len(text.train) + len(text.test) == 50_000
    assert text.alphabet.isascii()


@pytest.mark.parametrize(
    "part",
    [pytest.param("split", marks=pytest.mark.later), "finetune", "inversion", "large"],
)
def test_the_page_shows_what_is_stored(part):
    results = read(RESULTS.with_name(f"language_{part}.jsonl"))
    assert page_of(part).shows(import_module(f"experiments.language.{part}").report(results))
