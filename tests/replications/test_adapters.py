"""FedEx-LoRA: after a round the model is the mean of the clients' models, which FedAvg misses."""

import copy

import pytest
import torch
from core.federated.small import FOUR, network

from experiments.replications.adapters import fedex_lora
from fltoolkit.channel import Channel
from fltoolkit.federated import Local, local_update
from fltoolkit.federated.workers import client_seed
from fltoolkit_research.finetuning import lora

LOCAL = Local(4, lr=0.5, steps=6)


def tuned():
    return lora(network(), 2, seed=0)


def merged_alone(start, k, round_):
    """What client k makes of the model in a round, by itself."""
    client, (x, y) = copy.deepcopy(start), FOUR[k]
    seed = client_seed(0, round_, k)
    update = local_update(client, client.state_dict(), x, y, LOCAL, seed=seed)
    client.load_state_dict({n: t + update.delta[n] for n, t in client.state_dict().items()})
    return client.merged()


@pytest.mark.later
def test_each_round_ends_at_the_mean_of_the_clients_merged_weights():
    model = tuned()
    rounds = fedex_lora(model, FOUR, Channel(), rounds=3, local=LOCAL)
    for round_ in range(3):
        each = [merged_alone(model, k, round_) for k in FOUR]
        next(rounds)
        for name, tensor in model.merged().items():
            mean = torch.stack([weights[name] for weights in each]).mean(0)
            torch.testing.assert_close(tensor, mean, rtol=1e-4, atol=1e-5)
