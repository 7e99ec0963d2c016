"""Inputs from updates: exact for one sample, blurred for many; members by their loss."""

import pytest
import torch
from torch import nn

from experiments.replications.updates import inputs_from_update, match_samples, membership_auc
from fltoolkit import Party
from fltoolkit.models import splitnn_mlp


def update_of(x, y, steps=1, batch=None, lr=0.1):
    """End minus start of SGD on these samples."""
    model = splitnn_mlp(x.shape[1], 10, seed=0)
    start = {name: p.detach().clone() for name, p in model.named_parameters()}
    sgd = torch.optim.SGD(model.parameters(), lr=lr)
    for step in range(steps):
        rows = torch.arange(len(x)) if batch is None else torch.arange(batch) + step * batch
        sgd.zero_grad()
        nn.functional.nll_loss(model(x[rows % len(x)]), y[rows % len(x)]).backward()
        sgd.step()
    return {name: p.detach() - start[name] for name, p in model.named_parameters()}, model


@pytest.fixture
def samples():
    draw = torch.Generator().manual_seed(0)
    return torch.randn(64, 40, generator=draw), torch.randint(10, (64,), generator=draw)


def test_a_single_sample_is_read_exactly(samples):
    x, y = samples
    update, _ = update_of(x[:1], y[:1])
    guesses = inputs_from_update(update)
    assert len(guesses) > 10
    torch.testing.assert_close(guesses, x[:1].expand_as(guesses), atol=1e-3, rtol=1e-3)
    found = match_samples(guesses, x[:1], torch.zeros(40))
    assert found.explained > 0.999
    assert found.recognized == 1


def test_no_guess_explains_nothing(samples):
    x, _ = samples
    nothing = {"0.weight": torch.zeros(8, 40), "0.bias": torch.zeros(8)}
    assert match_samples(inputs_from_update(nothing), x, x.mean(0)) == (0.0, 0.0)


@pytest.mark.later
def test_who_learns_by_heart_is_found_out_and_who_has_not_trained_is_not(samples):
    x, y = samples
    draw = torch.Generator().manual_seed(1)
    other = torch.randn(64, 40, generator=draw), torch.randint(10, (64,), generator=draw)
    _, trained = update_of(x, y, steps=150, lr=0.3)
    fresh = splitnn_mlp(40, 10, seed=0)
    found, chance = (
        membership_auc([Party("all", model)], (x, y), other) for model in (trained, fresh)
    )
    assert found > 0.95
    assert 0.35 < chance < 0.65
