import math
from dataclasses import replace

import pytest

from experiments.language import tuned
from experiments.language.task import Task

TINY = Task(text="topics", context=16, layers=1, width=16, batch_size=2, workers=2, steps=30)
STUDY = replace(tuned.STUDIES["python"], task=TINY, trial_steps=30)


def test_rates_are_chosen_by_the_validation_half_and_with_a_seed_of_their_own():
    results = {}
    for setting in tuned.trials(STUDY):
        loss = {"nats_validation": abs(math.log(setting.rate / 0.002)), "nats": 5 - setting.rate}
        results[setting.key(TINY, tuned.TRIAL_SEED)] = loss
    names = {setting.name: setting.rate for setting in tuned.best(STUDY, results)}
    assert len(names) == len(STUDY.methods)
    assert names["AdamW, every step, float32"] == 0.002
    assert names["Muon, H = 30, 2 bits"] == 0.01


def test_a_method_without_all_its_trials_is_not_chosen_yet():
    *some, _ = tuned.trials(STUDY)
    results = {s.key(TINY, tuned.TRIAL_SEED): {"nats_validation": 1.0} for s in some}
    assert len(tuned.best(STUDY, results)) == len(STUDY.methods) - 1


@pytest.mark.parametrize("study", tuned.STUDIES.values(), ids=list(tuned.STUDIES))
def test_every_method_has_as_many_trials_and_no_row_has_their_seed(study):
    assert len({len({*method.rates}) for method in study.methods}) == 1
    assert all(tuned.TRIAL_SEED not in method.setting.seeds for method in study.methods)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Muon, H = 30, 2 bits", "Muon, all text on one worker"])
def test_a_run_tells_both_halves_and_repeats_itself(name):
    setting = next(each.setting for each in STUDY.methods if each.setting.name == name)
    first, second = (tuned.run(TINY, setting, seed=1) for _ in range(2))
    assert first["nats"] != first["nats_validation"]
    assert first["key"] == setting.key(TINY, 1)
    assert {**first, "seconds": 0} == {**second, "seconds": 0}
