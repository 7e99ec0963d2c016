"""Owners whose data differ: one model for all, or a model for each.

Twenty owners hold the digits, two shards of sorted samples each (McMahan et al. 2017): most of them
know two or three of the ten classes. An owner's accuracy is that on the test part, where each image
counts as often as its class is among the owner's samples.
"""

import copy
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from statistics import mean
from typing import Any

import torch
from torch import Tensor, nn

from experiments import null_rows
from experiments.newer.setting import Group, Setting, product
from experiments.replications.drift import scaffold
from experiments.replications.personal import AtHome, ditto, fedper, own_weights
from experiments.runs import Result
from fltoolkit import SGD, Channel, Party, fedavg, load
from fltoolkit.data import Samples
from fltoolkit.federated import Local
from fltoolkit.federated.samples import Clients
from fltoolkit.history import Record
from fltoolkit.models import seeded
from fltoolkit.trees import Tree
from fltoolkit_research.data import partition_shards
from fltoolkit_research.pooled import pool

OWNERS, COHORT, ROUNDS, STEPS, BATCH = 20, 10, 60, 10, 12

RATES = (0.025, 0.05, 0.1, 0.2, 0.4, 0.8)
GRIDS = {
    **dict.fromkeys(("FedAvg", "SCAFFOLD", "FedPer, last layer at home"), product(lr=RATES)),
    "Ditto": product(lr=(0.1, 0.2, 0.4), pull=(0.1, 1.0)),
    **dict.fromkeys((null_rows.ALONE, *null_rows.SENT), product(lr=RATES)),
}


@lru_cache(maxsize=2)
def data_of(choosing: bool, seed: int) -> Samples:
    """Digits whose test are strangers; to choose, a fifth of the first split's training images."""
    if not choosing:
        return load("digits", strangers=seed).flat()
    data = load("digits_known_writers").flat()
    order = torch.randperm(len(data.y_train), generator=torch.Generator().manual_seed(0))
    held, kept = order[: len(order) // 5], order[len(order) // 5 :]
    x, y = data.x_train, data.y_train
    return Samples(x[kept], y[kept], x[held], y[held], num_classes=10, name="digits")


def network(seed: int) -> nn.Sequential:
    """64-32-10."""
    with seeded(seed):
        last = [nn.Linear(32, 10), nn.LogSoftmax(dim=1)]
        return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), *last)


def run(setting: Setting, seed: int) -> Result:
    """Train once; the accuracies of the owners and the bytes."""
    data = data_of(setting.choosing, seed)
    parts = partition_shards(data.y_train, OWNERS, shards_per_client=2, seed=seed)
    owners = {f"owner_{k}": (data.x_train[p], data.y_train[p]) for k, p in enumerate(parts)}
    model, at_home = network(seed), AtHome()
    channel = Channel(null_rows.SENT.get(setting.name, {}))
    for _ in records(setting, model, owners, channel, at_home, seed):
        pass
    own = {k: own_weights(model, at_home, k) for k in owners}
    if setting.name == null_rows.COMMONEST:
        accuracies = [float(torch.bincount(y).max() / len(y)) for _, y in owners.values()]
    else:
        accuracies = [accuracy(model, own[k], data, y) for k, (_, y) in owners.items()]
    own_models = ("FedPer, last layer at home", "Ditto", null_rows.ALONE, null_rows.COMMONEST)
    shared = {} if setting.name in own_models else {"shared": right(model, data).mean().item()}
    return {
        "own": mean(accuracies),
        "worst": mean(sorted(accuracies)[: len(accuracies) // 10]),
        **shared,
        "nbytes": channel.nbytes(),
    }


def records(
    setting: Setting,
    model: nn.Sequential,
    owners: Clients,
    channel: Channel,
    at_home: AtHome,
    seed: int,
) -> Iterator[Record]:
    """The training of one row."""
    o, name = dict(setting.options), setting.name
    if name in (null_rows.UNTRAINED, null_rows.COMMONEST):
        return
    lr = o.pop("lr")
    local = Local(BATCH, lr=lr, steps=STEPS)
    if name in null_rows.SENT:
        receiver = Party("receiver", model, SGD(model.parameters(), lr=lr), nn.NLLLoss())
        steps = STEPS * COHORT  # as many as all owners of a cohort take in a round
        how: dict[str, Any] = {"batch_size": BATCH, "steps_per_round": steps, "send_back": True}
        yield from pool(owners, receiver, channel, rounds=ROUNDS, seed=seed, **how)
        return
    if name == null_rows.ALONE:  # each takes as many steps as among others
        yield from alone(model, owners, local, at_home, seed, ROUNDS * COHORT // OWNERS)
        return
    protocols: dict[str, Callable[..., Iterator[Record]]] = {
        "SCAFFOLD": scaffold,
        "Ditto": partial(ditto, memory=at_home),
        "FedPer, last layer at home": partial(
            fedper, at_home=lambda entry: entry.startswith("2."), memory=at_home
        ),
    }
    how = {"rounds": ROUNDS, "cohort": COHORT, "local": local, "seed": seed, **o}
    yield from protocols.get(name, fedavg)(model, owners, channel, **how)


def alone(
    model: nn.Module, owners: Clients, local: Local, at_home: AtHome, seed: int, rounds: int
) -> Iterator[Record]:
    """Each owner by itself: `ditto` without a pull, whose messages nobody needs."""
    how: dict[str, Any] = {"rounds": rounds, "cohort": len(owners), "local": local, "seed": seed}
    yield from ditto(model, owners, Channel(), pull=0.0, memory=at_home, **how)


@torch.no_grad()
def right(model: nn.Module, data: Samples) -> Tensor:
    """Which of the test images are recognized."""
    model.eval()
    return (model(data.x_test).argmax(1) == data.y_test).float()


def accuracy(model: nn.Sequential, weights: Tree, data: Samples, y: Tensor) -> float:
    """The accuracy of these weights on test images that are distributed as the owner's classes."""
    judge = copy.deepcopy(model)
    judge.load_state_dict(weights)
    found, share = right(judge, data), torch.bincount(y, minlength=10) / len(y)
    return sum(float(share[c] * found[data.y_test == c].mean()) for c in range(10) if share[c])


OWNERS_DIFFER = Group(
    "owners",
    "Owners who differ: digits, twenty owners with two shards each",
    "digits",
    {
        "own": "owners' accuracy, mean [%]",
        "worst": "worst tenth of the owners [%]",
        "shared": "one model, all classes [%]",
    },
    "FedAvg",
    GRIDS,
    (null_rows.UNTRAINED, null_rows.COMMONEST),
    run,
)
