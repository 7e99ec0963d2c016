"""Under autocast around a whole run every step computes with the weights of now."""

import pytest
import torch
from torch import nn

from fltoolkit import SGD, Batches, Channel, Local, Party, evaluate, fedavg, load, train_split
from fltoolkit.models import seeded

DATA = load("digits_known_writers").flat()
OWNERS = {f"owner {k}": (DATA.x_train[k::5], DATA.y_train[k::5]) for k in range(5)}


def averaged(model):
    local = Local(batch_size=16, lr=0.1, epochs=1)
    rounds = fedavg(model, OWNERS, Channel(), rounds=2, cohort=5, local=local)
    return [evaluate(model, DATA.x_test, DATA.y_test)["accuracy"] for _ in rounds]


def split(model):
    alice = Party("alice", model[:2], SGD(model[:2].parameters(), lr=0.1))
    bob = Party("bob", model[2:], SGD(model[2:].parameters(), lr=0.1), nn.NLLLoss())
    batches = Batches(DATA.x_train, DATA.y_train, 32, seed=0)
    for _ in range(2):
        for _ in train_split([alice, bob], batches.epoch(0), Channel()):
            pass
        yield evaluate([alice, bob], DATA.x_test, DATA.y_test)["accuracy"]


@pytest.mark.later
@pytest.mark.parametrize("trained", [averaged, split])
def test_a_run_under_autocast_is_the_same_with_the_cache_and_without(trained):
    def run(cached):
        with seeded(0):
            model = nn.Sequential(
                nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10), nn.LogSoftmax(dim=1)
            )
        with torch.autocast("cpu", torch.bfloat16, cache_enabled=cached):
            return list(trained(model)), model[0].weight

    (accuracies, weight), (expected, other) = run(True), run(False)
    assert accuracies == expected
    assert torch.equal(weight, other)
