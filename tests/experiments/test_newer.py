"""Newer methods: trials are compared on the validation part, rows on the test part."""

from dataclasses import replace

import pytest
import torch

from experiments.newer import pairs, unchanged
from experiments.newer.__main__ import GROUPS, RESULTS, run
from experiments.newer.owners import OWNERS_DIFFER, data_of
from experiments.newer.report import PAGE, table
from experiments.newer.setting import CHOICE_SEEDS, SEEDS, Setting, product
from experiments.null_rows import missing
from experiments.runs import read

GRIDS = {"plain": product(lr=(1, 2)), "new": product(lr=(1, 2)), "nothing": product()}
SMALL = replace(OWNERS_DIFFER, grids=GRIDS, fixed=(), reference="plain", seeds=(1, 2))


def test_the_better_trial_is_chosen_and_failed_ones_are_not():
    values = {("plain", 1): 0.5, ("plain", 2): 0.7, ("new", 1): 0.3}
    results = {}
    for trial in SMALL.trials():
        value = values.get((trial.name, trial.options["lr"]))
        found = {"error": "diverged"} if value is None else {"own": value}
        results |= {trial.key(None, seed): found for seed in trial.seeds}
    chosen = {setting.name: dict(setting.options) for setting in SMALL.settings(results)}
    assert chosen == {"plain": {"lr": 2}, "new": {"lr": 1}, "nothing": {}}
    assert all(not setting.choosing for setting in SMALL.settings(results))
    assert not {*CHOICE_SEEDS} & {*SEEDS}


def test_no_choice_sees_the_test_part():
    x, test = data_of(True).x_train, data_of(False).x_test
    held = data_of(True).x_test
    assert len(x) + len(held) == len(data_of(False).x_train)
    assert not {tuple(row.tolist()) for row in held} & {tuple(row.tolist()) for row in test}


def test_a_run_is_the_same_again():
    setting = Setting("owners", "FedPer, last layer at home", {"lr": 0.3})
    results = read(RESULTS)
    kept = next(r for r in results.values() if r["name"] == setting.name and not r["choosing"])
    again = run(None, replace(setting, options=kept["options"]), kept["seed"])
    assert again["key"] == kept["key"]
    assert again["nbytes"] == kept["nbytes"]
    assert again["own"] == pytest.approx(kept["own"], abs=0.01)


def test_the_page_is_what_the_results_say():
    for group in GROUPS.values():
        printed = table(group, read(RESULTS)).split("\n\n", 1)[1]
        assert printed in PAGE.read_text(encoding="utf-8")
        rows = [line.split(" | ")[0].strip("|* ") for line in printed.splitlines()]
        assert not missing(rows) - {"each owner alone, worst"}  # a column of this table


def test_the_nearest_of_all_points_is_sent_for_each_pair_and_an_odd_value_too():
    stage, grid = pairs.Pairs(2), pairs.normal_grid(2)
    x = pairs.normal_values(1)[:21].view(3, 7)
    scale = x.square().mean().sqrt()
    flat = [*x.reshape(-1).tolist(), 0.0]
    expected = []
    for k in range(0, 22, 2):
        pair = torch.tensor(flat[k : k + 2]) / scale
        expected += (grid[(grid - pair).norm(dim=1).argmin()] * scale).tolist()
    parts = stage.apply({"w": x})
    assert parts["w"].values.shape == x.shape
    back = stage.undo(parts)["w"].reshape(-1)
    torch.testing.assert_close(back[:20], torch.tensor(expected[:20]))


def test_the_page_has_the_errors_of_pairs_and_of_what_is_better():
    page = PAGE.read_text(encoding="utf-8")
    (row,) = [line for line in page.splitlines() if line.startswith("| pairs, 2 bits |")]
    bits, error = pairs.weighed(pairs.codecs(2)["pairs, 2 bits"], pairs.normal_values(10))
    assert row.split(" | ")[1].startswith(f"{bits:.2f}")
    assert float(row.split(" | ")[2].split(" ")[0]) == pytest.approx(error, abs=0.02)


def test_a_patch_has_the_changed_values_only():
    old = {"w": torch.linspace(-1, 1, 1000), "b": torch.zeros(3)}
    same = {"w": old["w"] * (1 + 1e-6), "b": torch.zeros(3)}
    changed, short = unchanged.patched(old, same)
    assert changed < 0.01
    new = {"w": -old["w"], "b": torch.ones(3)}  # also across zero
    changed, long = unchanged.patched(old, new)
    assert changed == 1.0
    assert short < 100 < long
    assert unchanged.ordered(torch.tensor([-2.0, -1.0, 0.0, 1.0, 2.0])).diff().min() > 0
