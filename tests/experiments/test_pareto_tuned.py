"""Learning rates for each method: equal trials, on samples and seeds of their own; fresh seeds."""

import shutil
from collections import Counter
from dataclasses import replace

import pytest

from experiments import fresh
from experiments.pareto import tuned
from experiments.pareto.report import read_kept
from experiments.pareto.settings import TASKS, methods
from experiments.runs import read
from fltoolkit.split import BudgetGate
from fltoolkit_research import num_steps, run
from fltoolkit_research.text import text_of

pytestmark = pytest.mark.later


def test_every_method_has_as_many_trials():
    for data, plan in tuned.PLANS.items():
        tried = Counter(tuned.method_of(row.experiment) for row, _ in tuned.trials(data))
        runs_each = len(plan.factors) * len(plan.trial_seeds)
        owners = {name: len(mine) for name, mine in tuned.methods(data).items()}
        assert tried == {name: runs_each * count for name, count in owners.items()}
    assert len(tuned.methods("digits")) == 2 * 25 + 2 + 12


def test_trials_and_results_share_neither_seeds_nor_samples():
    seen = {result.experiment.seed for result in read_kept()}
    for data, plan in tuned.PLANS.items():
        assert not {*tuned.SEEDS} & {*plan.trial_seeds}
        assert not seen & {*tuned.SEEDS, *plan.trial_seeds}
        row, seed = next(tuned.trials(data))
        assert row.at(seed).validation == 0.2
        assert replace(row, choosing=False).at(seed).validation == 0


def test_rates_are_multiples_of_the_table_also_inside_an_optimizer():
    rates = {
        row.name: (row.at(100).lr, text_of(row.at(100).optimizer))
        for row, _ in tuned.trials("digits")
    }
    assert rates["SplitNN, float32 (IID) x 0.5"] == (0.025, "")
    assert rates["FedAvg, float32 (non-IID) x 4"] == (0.4, "")
    assert rates["send the data, trained longer (IID) x 2"] == (0.05, "AdamW(lr=0.004)")


def test_the_best_on_held_out_samples_is_chosen_once_all_trials_are_there(monkeypatch):
    two_seeds = replace(tuned.PLANS["digits"], trial_seeds=(100, 101))
    monkeypatch.setitem(tuned.PLANS, "digits", two_seeds)
    name, (e, *_) = next(iter(tuned.methods("digits").items()))
    keys = {
        factor: [tuned.Row(e, factor, choosing=True).key(None, seed) for seed in (100, 101)]
        for factor in tuned.PLANS["digits"].factors
    }
    found = {
        key: {"accuracy": 0.95 if factor in (1, 2) else 0.9, "test_loss": 1 / factor}
        for factor, each in keys.items()
        for key in each
    }
    assert tuned.chosen("digits", found) == {name: 2}
    assert {row.factor for row, _ in tuned.results("digits", found) if row.experiment == e} == {2}
    found[keys[0.5][0]] = {"accuracy": 1.0, "test_loss": None}  # a mean of two trials
    found[keys[0.5][1]] = {"accuracy": 0.9, "test_loss": 1.0}
    assert tuned.chosen("digits", found) == {name: 2}
    found[keys[0.5][1]]["accuracy"] = 0.99
    assert tuned.chosen("digits", found) == {name: 0.5}
    del found[keys[4][0]]
    assert tuned.chosen("digits", found) == {}


@pytest.mark.parametrize("protocol", ["relay", "split_async", "fedavg"])
def test_a_trial_without_entropy_coding_has_the_same_accuracy_for_more_bytes(protocol):
    each = (e for e in methods(TASKS["digits"], "iid") if e.protocol.name == protocol)
    e = next(e for e in each if "Entropy" in repr(e.codecs))
    short = replace(e, num_samples=200, rounds=2, seed=100)
    plain = tuned.without_entropy(tuned.trial(short))
    assert "Entropy" not in repr(plain.codecs)
    one, other = (run(each)[-1] for each in (plain, replace(plain, codecs=short.codecs)))
    assert one["accuracy"] == other["accuracy"]
    assert one["test_loss"] == other["test_loss"]
    assert one["nbytes"] > other["nbytes"]


def test_a_byte_budget_is_as_much_smaller_as_the_samples():
    e = next(e for e in methods(TASKS["digits"], "iid") if isinstance(e.gate, BudgetGate))
    small = tuned.trial(e)
    assert small.gate.nbytes == pytest.approx(0.8 * e.gate.nbytes)
    assert small.gate.num_steps == num_steps(small) < e.gate.num_steps
    assert tuned.without_entropy(small) == small


def test_every_named_row_has_seeds_and_none_is_drawn_again(tmp_path):
    path = tmp_path / "seeds.jsonl"
    shutil.copy(fresh.DRAWN, path)
    fresh.draw(path)
    assert path.read_bytes() == fresh.DRAWN.read_bytes()


def test_a_new_name_gets_seeds_of_its_own(tmp_path):
    path = tmp_path / "seeds.jsonl"
    lines = fresh.DRAWN.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text("".join(lines[:-1]), encoding="utf-8")
    fresh.draw(path)
    *kept, new = read(path).values()
    assert kept == [*read(fresh.DRAWN).values()][:-1]
    before = read(fresh.DRAWN)[new["key"]]
    assert new["names"] == before["names"]
    assert new["seeds"] != before["seeds"]


def test_no_other_run_of_these_tables_has_the_seeds():
    used = {r.experiment.seed for r in read_kept()} | {*tuned.SEEDS}
    used |= {seed for plan in tuned.PLANS.values() for seed in plan.trial_seeds}
    for row in read(fresh.DRAWN).values():
        assert len({*row["seeds"]} - used) == fresh.NUM_SEEDS
