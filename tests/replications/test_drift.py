"""What the pages of SCAFFOLD and FedDyn say: where they end, what they send, what they equal."""

from functools import partial

import pytest
import torch
from core.federated.small import FOUR, network, trained, weights
from torch import nn

from experiments.replications.drift import Corrections, feddyn, scaffold
from fltoolkit.federated import Local, fedavg

PROTOCOLS = [scaffold, partial(feddyn, alpha=0.5)]


@pytest.mark.later
def test_the_first_round_of_scaffold_is_that_of_federated_averaging():
    """Control variates begin at zero."""
    model, _, records = trained(scaffold, cohort=3)
    other, _, others = trained(fedavg, cohort=3)
    assert torch.equal(weights(model), weights(other))
    assert records[0]["loss"] == others[0]["loss"]
    second, third = (trained(p, rounds=2)[0] for p in (scaffold, fedavg))
    assert not torch.allclose(weights(second), weights(third), atol=1e-4)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_the_server_remembers_is_the_mean_of_what_the_clients_do(protocol):
    """Also of those that were not drawn (SCAFFOLD, algorithm 1, line 17): their change is zero."""
    memory = Corrections()
    trained(protocol, rounds=5, cohort=2, memory=memory)
    for name, c in memory.server.items():
        mine = [memory.clients[k][name] if k in memory.clients else 0 * c for k in FOUR]
        assert torch.allclose(c, sum(mine) / 4, atol=1e-5), name
        assert c.any()


def test_feddyns_first_round_goes_twice_as_far_as_fedprox():
    """g_k = h = 0 before it, so h becomes -alpha times the mean, and h / alpha adds it again."""
    start = weights(network())
    model, *_ = trained(partial(feddyn, alpha=0.5))
    prox = Local(4, lr=0.1, steps=3, prox=0.5)
    other, *_ = trained(fedavg, local=prox)
    assert torch.allclose(weights(model) - start, 2 * (weights(other) - start), atol=1e-6)


class Bowl(nn.Module):
    """The loss of a sample (a, x) is a (w - x)^2 / 2."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(1))

    def forward(self, sample):
        return sample[:, :1].sqrt() * (self.w - sample[:, 1:])


BOWLS = {
    name: (torch.tensor([[steep, at]]), torch.zeros(1, 1))
    for name, steep, at in (("flat", 0.5, 0.0), ("steep", 2.0, 1.0))
}
DOWN = Local(None, lr=0.3, steps=10, loss_fn=lambda output, y: (output - y).square().sum() / 2)


@pytest.mark.later
def test_owners_who_differ_pull_averaging_away_from_the_best_model_and_not_these_two():
    """The best w of both is (0.5 * 0 + 2 * 1) / 2.5 = 0.8; after long local training the mean of
    the ends is near the mean of 0 and 1."""
    ends = [trained(p, BOWLS, 60, 2, DOWN, model=Bowl())[0].w.item() for p in (fedavg, *PROTOCOLS)]
    assert ends[0] < 0.6
    assert ends[1:] == pytest.approx([0.8, 0.8], abs=1e-3)


def test_scaffold_sends_twice_the_values_of_averaging_and_feddyn_the_same_bytes():
    dense = {}
    for name, protocol in zip(("avg", "scaffold", "feddyn"), (fedavg, *PROTOCOLS), strict=True):
        _, channel, records = trained(protocol, rounds=3, cohort=2)
        dense[name] = sum(t.nbytes_dense for t in channel.transfers)
        assert records[-1]["nbytes"] == channel.nbytes()
        assert records[-1]["nbytes"] == records[-1]["nbytes_up"] + records[-1]["nbytes_down"]
    assert dense["scaffold"] == 2 * dense["avg"]
    assert dense["feddyn"] == dense["avg"]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_buffers_are_averaged_and_corrected_by_nothing(protocol):
    model = nn.Sequential(nn.Linear(5, 3), nn.BatchNorm1d(3), nn.LogSoftmax(1))
    trained(protocol, rounds=2, model=model)
    assert model[1].num_batches_tracked == 6
    assert model[1].running_mean.any()
