"""Clients without a backward pass, beside those with one and those whose first part stays random.

The network 64-32-32-10 is cut behind its first layer. A step sends the activations of a batch;
rounds are set so that the rows with "as many bytes" send what a row with a head of its own sends.
"""

import copy
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from torch import Tensor, nn

from experiments.newer import seeds
from experiments.newer.setting import Setting, product
from experiments.null_rows import ALONE, MODEL_BACK, ONE_BIT, ONE_SUM, SEND
from experiments.replications.forward_only import Backward, Forward, Lean, local_loss
from experiments.replications.personal import AtHome
from experiments.replications.zeroth_order import Directions
from experiments.runs import Result
from fltoolkit import SGD, Channel, Party
from fltoolkit.codecs import Pipeline, Quantize
from fltoolkit.federated import Local
from fltoolkit.federated.client import batch_indices
from fltoolkit.federated.samples import Clients
from fltoolkit.federated.workers import client_seed
from fltoolkit.history import Record
from fltoolkit.models import seeded
from fltoolkit.split import train_splitfed
from fltoolkit_research.codecs import ContextEntropy
from fltoolkit_research.federated import one_sum
from fltoolkit_research.models import random_layer

SPLITFED = ("SplitFed", "SplitFed, as many bytes")
FIRST = "own head, with a backward pass"
FROZEN = ("first part stays random", "first part stays random, as many bytes")
ONE, TEN = (f"own head, forward only, {words}" for words in ("1 direction", "10 directions"))
LONG = f"{TEN}, 10 steps an upload"
FORWARD = {ONE: (1, 1), TEN: (10, 1), LONG: (10, 10)}  # directions, and steps for each upload
ROUNDS = {SPLITFED[1]: 22, FROZEN[1]: 65}  # of 194,776 and 66,120 bytes; others: 143,816
CODECS = {"update": Pipeline(Quantize(8, stochastic=True), ContextEntropy()), **MODEL_BACK}


def deeper(seed: int) -> nn.Sequential:
    """64-32-32-10."""
    with seeded(seed):
        hidden = [nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU()]
        return nn.Sequential(*hidden, nn.Linear(32, 10), nn.LogSoftmax(dim=1))


def summed(seed: int) -> nn.Sequential:
    """252 random features that nobody trains, and what one sum gives."""
    return random_layer(64, 252, num_classes=10, seed=seed)


def turns(name: str, data: tuple[Tensor, Tensor], local: Local, seed: int) -> Any:
    """A client's batches for SplitFed, the same as in the other rows."""
    x, y = data

    def epoch(number: int) -> Iterator[tuple[Tensor, Tensor]]:
        at = client_seed(seed, number, name)
        return ((x[rows], y[rows]) for rows in batch_indices(len(y), local, at))

    return SimpleNamespace(num_samples=len(y), epoch=epoch)


def records(
    setting: Setting,
    model: nn.Sequential,
    owners: Clients,
    channel: Channel,
    home: AtHome,
    seed: int,
) -> Iterator[Record]:
    """The training of one row."""
    name = setting.name
    if name == ONE_SUM:
        yield from one_sum(owners, model[:3], Party("s", model[3:]), channel, send_back=True)
        return
    if name not in (*SPLITFED, FIRST, *FROZEN, *FORWARD):
        yield from seeds.records(setting, model, owners, channel, home, seed)
        return
    lr, (count, every) = setting.options["lr"], FORWARD.get(name, (1, 1))
    bottom, top = model[:2], model[2:]  # their parameters are the model's
    server = Party("server", top, SGD(top.parameters(), lr=lr), nn.NLLLoss())
    local = Local(seeds.BATCH, lr=lr, steps=seeds.STEPS * every)
    rounds = ROUNDS.get(name, seeds.ROUNDS)
    if name in SPLITFED:
        copies = [copy.deepcopy(bottom) for _ in owners]
        alices = [
            Party(k, c, SGD(c.parameters(), lr=lr)) for k, c in zip(owners, copies, strict=True)
        ]
        batches = [turns(k, data, local, seed) for k, data in owners.items()]
        how: dict[str, Any] = {"num_rounds": rounds, "version": 2, "seed": seed}
        yield from train_splitfed(alices, server, batches, channel, **how)
        bottom.load_state_dict(copies[0].state_dict())
        return
    with seeded(seed + 1):
        net = Lean(bottom, nn.Sequential(nn.Linear(32, 10), nn.LogSoftmax(dim=1)))
    forward = Forward(setting.options.get("own", lr), Directions(count))
    learn = Backward(lr) if name == FIRST else None if name in FROZEN else forward
    how = {"rounds": rounds, "local": local, "learn": learn, "steps_per_upload": every}
    yield from local_loss(net, server, owners, channel, seed=seed, **how)


def run(setting: Setting, seed: int) -> Result:
    """Train once; the accuracy of the model and the bytes."""
    if setting.name == ONE_SUM:
        return seeds.run(setting, seed, records, CODECS, make=summed)
    return seeds.run(setting, seed, records, make=deeper)


FORWARD_ONLY = replace(
    seeds.FROM_SCRATCH,
    name="forward",
    title="Clients without a backward pass: digits, four owners with equal shares",
    grids={
        **dict.fromkeys((*SPLITFED, FIRST, *FROZEN), product(lr=seeds.RATES)),
        ONE: product(lr=(0.2, 0.4), own=(0.001, 0.003, 0.01)),
        **dict.fromkeys((TEN, LONG), product(lr=(0.2, 0.4), own=(0.003, 0.01, 0.03))),
        **dict.fromkeys((ALONE, SEND, ONE_BIT), product(lr=seeds.RATES)),
    },
    fixed=(ONE_SUM, *seeds.FROM_SCRATCH.fixed),
    reference=FIRST,
    second=FROZEN[1],
    run=run,
)
