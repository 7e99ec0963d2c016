"""Parts of a model that stay at home, models of one's own, and FedEx-LoRA, whose mean is exact."""

import copy
from functools import partial

import pytest
import torch
from core.federated.small import FOUR, LOCAL, network, weights
from core.federated.small import trained as trained_once

from experiments.replications.adapters import fedex_lora
from experiments.replications.personal import AtHome, ditto, fedper, own_weights
from fltoolkit.channel import Channel
from fltoolkit.federated import Local, fedavg, local_update
from fltoolkit.federated.workers import client_seed
from fltoolkit_research.finetuning import lora

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


LORA = Local(4, lr=0.5, steps=6)


@pytest.mark.later
def test_each_round_ends_at_the_mean_of_the_clients_merged_weights():
    model = lora(network(), 2, seed=0)
    rounds = fedex_lora(model, FOUR, Channel(), rounds=3, local=LORA)
    for round_ in range(3):
        each = []
        for k, share in FOUR.items():
            client, seed = copy.deepcopy(model), client_seed(0, round_, k)
            delta = local_update(client, client.state_dict(), *share, LORA, seed=seed).delta
            client.load_state_dict({n: t + delta[n] for n, t in client.state_dict().items()})
            each.append(client.merged())
        next(rounds)
        for name, tensor in model.merged().items():
            mean = torch.stack([weights[name] for weights in each]).mean(0)
            torch.testing.assert_close(tensor, mean, rtol=1e-4, atol=1e-5)
