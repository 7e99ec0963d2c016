"""SCAFFOLD: where it ends, what it sends, what it equals."""

import pytest
import torch
from core.federated.small import FOUR, trained, weights
from torch import nn

from experiments.replications.drift import Corrections, scaffold
from fltoolkit.federated import Local, fedavg


@pytest.mark.later
def test_the_first_round_of_scaffold_is_that_of_federated_averaging():
    """Control variates begin at zero."""
    model, _, records = trained(scaffold, cohort=3)
    other, _, others = trained(fedavg, cohort=3)
    assert torch.equal(weights(model), weights(other))
    assert records[0]["loss"] == others[0]["loss"]
    second, third = (trained(p, rounds=2)[0] for p in (scaffold, fedavg))
    assert not torch.allclose(weights(second), weights(third), atol=1e-4)


def test_what_the_server_remembers_is_the_mean_of_what_the_clients_do():
    """Also of those that were not drawn (SCAFFOLD, algorithm 1, line 17): their change is zero."""
    memory = Corrections()
    trained(scaffold, rounds=5, cohort=2, memory=memory)
    for name, c in memory.server.items():
        mine = [memory.clients[k][name] if k in memory.clients else 0 * c for k in FOUR]
        assert torch.allclose(c, sum(mine) / 4, atol=1e-5), name
        assert c.any()


BOWLS = {  # the loss of an owner is steep (w - at)^2 / 2
    name: (torch.tensor([[steep**0.5]]), torch.tensor([[steep**0.5 * at]]))
    for name, steep, at in (("flat", 0.5, 0.0), ("steep", 2.0, 1.0))
}
DOWN = Local(None, lr=0.3, steps=10, loss_fn=lambda output, y: (output - y).square().sum() / 2)


@pytest.mark.later
def test_owners_who_differ_pull_averaging_away_from_the_best_model_and_not_scaffold():
    """The best w of both is (0.5 * 0 + 2 * 1) / 2.5 = 0.8; after long local training the mean of
    the ends is near the mean of 0 and 1."""
    models = [nn.Linear(1, 1, bias=False) for _ in range(2)]
    for model, protocol in zip(models, (fedavg, scaffold), strict=True):
        trained(protocol, BOWLS, 60, 2, DOWN, model=model)
    ends = [model.weight.item() for model in models]
    assert ends[0] < 0.6
    assert ends[1] == pytest.approx(0.8, abs=1e-3)


def test_scaffold_sends_twice_the_values_of_averaging():
    dense = []
    for protocol in (fedavg, scaffold):
        _, channel, records = trained(protocol, rounds=3, cohort=2)
        dense.append(sum(t.nbytes_dense for t in channel.transfers))
        assert records[-1]["nbytes"] == channel.nbytes()
    assert dense[1] == 2 * dense[0]


def test_buffers_are_averaged_and_corrected_by_nothing():
    model = nn.Sequential(nn.Linear(5, 3), nn.BatchNorm1d(3), nn.LogSoftmax(1))
    trained(scaffold, rounds=2, model=model)
    assert model[1].num_batches_tracked == 6
    assert model[1].running_mean.any()
