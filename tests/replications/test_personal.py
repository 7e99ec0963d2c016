"""Parts of a model that stay at home, and models of one's own: the ends of their scales."""

from functools import partial

import pytest
import torch
from core.federated.small import FOUR, LOCAL, network, weights
from core.federated.small import trained as trained_once
from torch import nn

from experiments.replications.personal import (
    AtHome,
    ditto,
    fedper,
    normalization,
    own_weights,
    worst_tenth,
)
from fltoolkit.federated import fedavg, local_update
from fltoolkit.federated.workers import client_seed

trained = partial(trained_once, rounds=3, cohort=3)


def test_with_nothing_at_home_fedper_is_federated_averaging():
    model, _, records = trained(fedper, at_home=lambda name: False)
    other, _, others = trained(fedavg)
    assert torch.equal(weights(model), weights(other))
    assert records[-1]["nbytes"] == others[-1]["nbytes"]
    assert records[-1]["loss"] == others[-1]["loss"]


def test_what_stays_at_home_is_never_sent_and_differs_from_owner_to_owner():
    kept, first = AtHome(), network()
    how = {"cohort": 4, "memory": kept, "at_home": lambda name: name.startswith("2.")}
    model, channel, _ = trained(fedper, **how)
    whole = sum(p.numel() for p in model.parameters())
    head = sum(p.numel() for p in model[2].parameters())
    assert {t.nbytes_dense for t in channel.transfers} == {4 * (whole - head)}
    assert torch.equal(model[2].weight, first[2].weight)
    own = [own_weights(model, kept, name) for name in FOUR]
    assert not torch.allclose(own[0]["2.weight"], own[1]["2.weight"], atol=1e-3)
    assert torch.equal(own[0]["0.weight"], own[1]["0.weight"])


def test_fedbn_keeps_every_entry_of_batch_norm():
    model, kept = nn.Sequential(nn.Linear(5, 3), nn.BatchNorm1d(3), nn.LogSoftmax(1)), AtHome()
    trained(fedper, model=model, cohort=4, at_home=normalization(model), memory=kept)
    entries = {"1.weight", "1.bias", "1.running_mean", "1.running_var", "1.num_batches_tracked"}
    assert kept.weights["w0"].keys() == entries
    assert kept.weights["w0"]["1.num_batches_tracked"] == 9
    assert model[1].num_batches_tracked == 0
    assert not normalization(network())("0.weight")


@pytest.mark.later
def test_the_shared_model_of_ditto_is_that_of_federated_averaging():
    model, _, records = trained(ditto, pull=0.3)
    other, _, others = trained(fedavg)
    assert torch.equal(weights(model), weights(other))
    assert [r["nbytes"] for r in records] == [r["nbytes"] for r in others]


@pytest.mark.later
def test_without_a_pull_each_owner_of_ditto_trains_alone():
    kept = AtHome()
    model, *_ = trained(ditto, cohort=4, pull=0.0, memory=kept)
    for name, (x, y) in FOUR.items():
        alone = {n: t.clone() for n, t in network().state_dict().items()}
        for round_ in range(3):
            update = local_update(model, alone, x, y, LOCAL, seed=client_seed(0, round_, name))
            alone = {n: t + update.delta[n] for n, t in alone.items()}
        own = own_weights(model, kept, name)
        assert all(torch.equal(own[n], t) for n, t in alone.items()), name


@pytest.mark.later
def test_a_strong_pull_leaves_no_model_of_ones_own():
    """With lr * pull = 1 a step ends at the server's model, minus the step of the loss."""
    before, *_ = trained(fedavg, rounds=2, cohort=4)  # what everybody gets in round 3
    far = []
    for pull in (10.0, 0.0):
        model, *_ = trained(ditto, cohort=4, pull=pull, memory=(kept := AtHome()))
        own = own_weights(model, kept, "w0")
        far.append(max((own[n] - sent).abs().max() for n, sent in before.state_dict().items()))
    assert far[0] < 0.3 * far[1]


def test_who_was_never_drawn_has_the_shared_model():
    kept = AtHome()
    model, *_ = trained(ditto, rounds=1, cohort=1, pull=0.1, memory=kept)
    missing = next(name for name in FOUR if name not in kept.weights)
    assert torch.equal(own_weights(model, kept, missing)["0.weight"], model[0].weight)


def test_the_worst_tenth_and_what_is_refused():
    assert worst_tenth([0.5, 0.9] * 10) == 0.5
    with pytest.raises(ValueError, match="empty"):
        worst_tenth([])
    with pytest.raises(ValueError, match="keep fewer at home"):
        trained(fedper, at_home=lambda name: True)
    with pytest.raises(ValueError, match="prox=-1"):
        trained(ditto, pull=-1.0)
