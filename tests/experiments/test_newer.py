"""Newer methods: trials are compared on the validation part, rows on the test part."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from experiments.newer import masked
from experiments.newer.__main__ import RESULTS, run
from experiments.newer.owners import OWNERS_DIFFER, data_of
from experiments.newer.setting import CHOICE_SEEDS, SEEDS, Setting, product
from experiments.runs import read
from fltoolkit import Channel
from fltoolkit.federated import Local
from fltoolkit.federated.workers import client_seed

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


def test_no_row_and_no_trial_trains_on_images_that_score_it():
    for data in (data_of(True, 7), data_of(False, 7)):
        x, test = ({tuple(row.tolist()) for row in part} for part in (data.x_train, data.x_test))
        assert len(data.x_test) > 250
        assert not x & test


@pytest.mark.later
def test_a_run_is_the_same_again():
    setting = Setting("owners", "FedPer, last layer at home", {"lr": 0.3})
    results = read(RESULTS)
    kept = next(r for r in results.values() if r["name"] == setting.name and not r["choosing"])
    again = run(None, replace(setting, options=kept["options"]), kept["seed"])
    assert again["key"] == kept["key"]
    assert again["nbytes"] == kept["nbytes"]
    assert again["own"] == pytest.approx(kept["own"], abs=0.01)


@pytest.mark.parametrize("learned", [True, False])
@pytest.mark.parametrize("signed", [True, False])
def test_masks_are_learned_as_in_a_plain_loop_over_values(signed, learned):
    """A linear model with one output: the gradient of (w x - y)^2 is written out."""
    masks, steps, lr, seed = masked.Masks(0.2, signed, learned), 4, 0.05, 7
    model = torch.nn.Linear(3, 1, bias=False)
    x, y = torch.randn(6, 3, generator=torch.Generator().manual_seed(0)), torch.ones(6, 1)
    noise = masks.noise(seed, 3)
    local = Local(None, lr=lr, steps=steps, loss_fn=torch.nn.functional.mse_loss)
    bits = masks.train(model, noise, x, y, local, seed)

    random, w, n = torch.Generator().manual_seed(seed), model.weight[0].tolist(), noise.tolist()
    u = [0.0, 0.0, 0.0]

    def chance(i):
        share = u[i] / n[i]
        return min(max((share + 1) / 2 if signed else share, 0.0), 1.0)

    def drawn():
        return torch.bernoulli(torch.tensor([chance(i) for i in range(3)]), generator=random)

    for step in range(1, steps + 1):
        used = list(u)
        if learned:
            bit, uniform = drawn().tolist(), torch.rand(3, generator=random).tolist()
            for i in range(3):
                m = bit[i] if uniform[i] < step / steps else chance(i)
                used[i] = n[i] * (2 * m - 1) if signed else n[i] * m
        grads = [0.0, 0.0, 0.0]
        for sample, label in zip(x.tolist(), y.tolist(), strict=True):
            error = sum((w[i] + used[i]) * sample[i] for i in range(3)) - label[0]
            grads = [g + 2 * error * sample[i] / len(x) for i, g in enumerate(grads)]
        u = [u[i] - lr * grads[i] for i in range(3)]
    assert bits.tolist() == drawn().tolist()


def test_a_client_sends_a_bit_per_value_and_a_seed_and_the_server_adds_the_mean():
    masks, model = masked.Masks(0.1, signed=True), torch.nn.Linear(80, 100)
    first = torch.nn.utils.parameters_to_vector(model.parameters()).detach().clone()
    x, random = torch.ones(4, 80), torch.Generator().manual_seed(1)
    ys = [torch.randn(4, 100, generator=random) for _ in range(2)]
    owners, channel = {"ann": (x, ys[0]), "ben": (x, ys[1])}, Channel()
    local = Local(4, lr=0.1, steps=2, loss_fn=torch.nn.functional.mse_loss)
    mean = torch.zeros(8100)
    for k, (own_x, own_y) in owners.items():
        seed = client_seed(5, 0, k)
        noise = masks.noise(seed, 8100)
        bits = masks.train(model, noise, own_x, own_y, local, seed)
        assert torch.equal(masked.unpacked(masked.packed(bits, seed)["bits"], 8100), bits)
        mean += noise * (2 * bits - 1) / 2
    how: dict[str, Any] = {"rounds": 1, "local": local, "masks": masks, "seed": 5}
    (_,) = masked.fedmrn(model, owners, channel, **how)
    sent = sum(t.nbytes for t in channel.transfers if t.kind == "update")
    last = torch.nn.utils.parameters_to_vector(model.parameters()).detach()
    torch.testing.assert_close(last, first + mean)
    assert 2 * (8100 / 8 + 4) <= sent <= 2 * (8100 / 8 + 40)
