"""Devices, and autocast around a whole run.

Samples go to the model's device, and messages come from it: tried on one without any values.

torch's device "meta" refuses to mix its tensors with others, as a GPU does. It holds no numbers, so
where a number is read there is a 1, and messages are trees of zeros. On a GPU itself:
`test_gpu_by_one_argument` in split/test_chain.py.
"""

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

from fltoolkit import SGD, Batches, Channel, Local, Party, evaluate, fedavg, load, train_split
from fltoolkit.channel import Delivery
from fltoolkit.models import seeded

X, Y = torch.ones(10, 4), torch.zeros(10, dtype=torch.int64)
LOGITS = {"loss_fn": nn.CrossEntropyLoss()}


class WithoutValues(Channel):
    """Carries the shapes; ``devices`` are those from which messages came."""

    def __init__(self):
        super().__init__()
        self.devices = []

    def cross(self, link, tree):
        self.devices += [(link.sender, value.device.type) for value in tree.values()]
        return Delivery({name: torch.zeros(value.shape) for name, value in tree.items()}, b"")


@pytest.fixture
def channel(monkeypatch):
    monkeypatch.setattr(torch.Tensor, "item", lambda tensor: 1.0)
    monkeypatch.setattr(torch.Tensor, "__float__", lambda tensor: 1.0)
    monkeypatch.setattr(torch.Tensor, "__bool__", lambda tensor: True)
    return WithoutValues()


@pytest.mark.later  # the first operation on "meta" imports for seconds
@pytest.mark.filterwarnings("ignore:for .* copying from a non-meta parameter")
@pytest.mark.parametrize("data", [(X, Y), TensorDataset(X, Y)])
def test_averaging_on_one_device(data, channel):
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)).to("meta")
    local = Local(5, lr=0.1, epochs=1, **LOGITS)
    (record,) = fedavg(model, {"ann": data}, channel, rounds=1, cohort=1, local=local)
    assert record["num_arrived"] == 1
    assert {*channel.devices} == {("server", "meta"), ("ann", "meta")}


def test_a_part_on_a_device_beside_a_part_on_the_cpu(channel):
    bottom, top = nn.Linear(4, 8), nn.Linear(8, 3)
    alice = Party("alice", bottom.to("meta"), torch.optim.SGD(bottom.parameters(), lr=0.1))
    bob = Party("bob", top, torch.optim.SGD(top.parameters(), lr=0.1), **LOGITS)
    assert len(list(train_split([alice, bob], Batches(X, Y, 5, seed=0).epoch(0), channel))) == 2
    assert {*channel.devices} == {("alice", "meta"), ("bob", "cpu")}


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
