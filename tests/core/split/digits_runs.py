import copy

import torch
from torch import nn

from fltoolkit.channel import Channel
from fltoolkit.data import Batches, load
from fltoolkit.models import splitnn_mlp
from fltoolkit.party import SGD, Party
from fltoolkit.split import Periodic, State, train_async

DATA = load("digits_known_writers").flat()
LR = 0.05


def parties(num_alices=None, seed=0):
    model = splitnn_mlp(64, seed=seed)
    top = model[4:]
    bob = Party("bob", top, SGD(top.parameters(), LR), nn.NLLLoss())
    alices = []
    for k in range(num_alices or 1):
        bottom = copy.deepcopy(model[:4])
        alices.append(Party(f"alice{k}", bottom, SGD(bottom.parameters(), LR)))
    return (alices, bob) if num_alices else (alices[0], bob)


def batches(num=300, batch_size=50, seed=0):
    return Batches(DATA.x_train[:num], DATA.y_train[:num], batch_size, seed=seed)


def weights(*parties):
    return [w.clone() for party in parties for w in party.module.state_dict().values()]


def same(one, two):
    return all(torch.equal(a, b) for a, b in zip(one, two, strict=True))


def run(gate, *, num_epochs=4, channel=None, **settings):
    gate = copy.deepcopy(gate)  # pytest hands the same one to several tests
    alice, bob = parties()
    channel = Channel() if channel is None else channel
    train = train_async(
        alice, bob, batches(), channel, gate=gate, num_epochs=num_epochs, **settings
    )
    return list(train), (alice, bob), channel


class _Planned(Periodic):
    def __init__(self, plan):
        super().__init__(1)
        self.plan = plan

    def _decide(self, progress):
        return State(self.plan[self.checks % len(self.plan)])
