"""Seeds and scalars in place of weights: four owners of the digits, from scratch and fine-tuned.

Clients send slopes of their loss along directions that seeds make, so the length of a message has
nothing to do with that of the model. With each of these methods an owner measures 800 slopes, and
with the others it takes 300 steps. The pretrained network has learned images of MNIST: other
writers, and another scanner.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache, partial
from statistics import mean
from typing import Any

from torch import nn

from experiments import null_rows
from experiments.newer.owners import alone, data_of, network, right
from experiments.newer.setting import Group, Setting, product
from experiments.replications.adapters import fedex_lora
from experiments.replications.personal import AtHome, own_weights
from experiments.replications.zeroth_order import Directions, decomfl, fedkseed
from experiments.runs import Result
from fltoolkit import SGD, Channel, Party, fedavg, load
from fltoolkit.codecs import Codec
from fltoolkit.data import partition_iid
from fltoolkit.federated import Local
from fltoolkit.federated.samples import Clients
from fltoolkit.history import Record
from fltoolkit_research.finetuning import FineTuned, full, lora
from fltoolkit_research.pooled import pool

OWNERS, ROUNDS, STEPS, BATCH = 4, 30, 10, 12
SLOPES, SLOPE_ROUNDS = 20, 40

RATES = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
SMALL = (0.00075, 0.0015, 0.003, 0.006, 0.012, 0.024)
LARGE = tuple(10 * lr for lr in SMALL)
BEFORE = "nothing: the pretrained network"
ONE, TEN = "DeComFL, one direction per step", "DeComFL, ten directions per step"
EVOLUTION = "EGGROLL, 20 pairs of rank 1 per step"
SEEDS_1024 = "FedKSeed, 1,024 seeds"
ZEROTH: dict[str, tuple[Callable[..., Iterator[Record]], int]] = {  # and local steps
    ONE: (decomfl, SLOPES),
    TEN: (partial(decomfl, along=Directions(10)), SLOPES // 10),
    EVOLUTION: (partial(decomfl, along=Directions(SLOPES, rank=1)), 1),
    SEEDS_1024: (partial(fedkseed, along=Directions(1024)), SLOPES),
}
FACTORS, EXACT = "LoRA of rank 2, FedAvg", "LoRA of rank 2, FedEx-LoRA"
GRIDS = {
    "FedAvg": product(lr=RATES),
    ONE: product(lr=SMALL),
    TEN: product(lr=LARGE),
    EVOLUTION: product(lr=LARGE),
    SEEDS_1024: product(lr=SMALL),
    **dict.fromkeys((null_rows.ALONE, *null_rows.SENT), product(lr=RATES)),
}


@lru_cache(maxsize=1)
def learned() -> nn.Sequential:
    """64-32-10 that has learned 10,000 images of MNIST, cut and shrunk to 8 by 8."""
    data, digits = load("mnist"), data_of(False, 0).x_train
    x, y = data.x_train[:10_000, :, 4:24, 4:24], data.y_train[:10_000]
    x = nn.functional.adaptive_avg_pool2d(x, 8).flatten(1)
    x = (x - x.mean()) / x.std() * digits.std()
    model = network(0)
    party = Party("server", model, SGD(model.parameters(), lr=0.1), nn.NLLLoss())
    for _ in pool({"mnist": (x, y)}, party, Channel(), rounds=10, batch_size=32, seed=0):
        pass
    return model


def run(
    setting: Setting,
    seed: int,
    train: Callable[..., Iterator[Record]] | None = None,
    more: Mapping[str, Codec] | None = None,
    make: Callable[[int], nn.Module] = network,
) -> Result:
    """Train what ``make`` gives once, by `records` or ``train``; its accuracy and the bytes."""
    data, name = data_of(setting.choosing, seed), setting.name
    parts = partition_iid(data.y_train, OWNERS, seed=seed)
    owners = {f"owner_{k}": (data.x_train[p], data.y_train[p]) for k, p in enumerate(parts)}
    at_home = AtHome()
    model = make(seed)
    if name in (FACTORS, EXACT):
        model = lora(learned(), 2, seed=0)
    elif setting.group == "tuned" and name != null_rows.UNTRAINED:
        model = full(learned())
    channel = Channel(null_rows.SENT.get(name, more or {}))
    for _ in (train or records)(setting, model, owners, channel, at_home, seed):
        pass
    if name == null_rows.COMMONEST:
        found = float((data.y_test == data.y_train.bincount().argmax()).float().mean())
    elif name == null_rows.ALONE:
        each = []
        for owner in owners:
            model.load_state_dict(own_weights(model, at_home, owner))
            each.append(right(model, data).mean().item())
        found = mean(each)
    else:
        found = right(model, data).mean().item()
    return {"accuracy": found, "nbytes": 0 if name == null_rows.ALONE else channel.nbytes()}


def records(
    setting: Setting,
    model: nn.Module,
    owners: Clients,
    channel: Channel,
    at_home: AtHome,
    seed: int,
) -> Iterator[Record]:
    """The training of one row."""
    name = setting.name
    if name in (null_rows.UNTRAINED, null_rows.COMMONEST, BEFORE):
        return
    lr = setting.options["lr"]
    how: dict[str, Any] = {"cohort": OWNERS, "seed": seed}
    local = Local(BATCH, lr=lr, steps=STEPS)
    if name in null_rows.SENT:
        receiver = Party("receiver", model, SGD(model.parameters(), lr=lr), nn.NLLLoss())
        steps = STEPS * OWNERS
        more: dict[str, Any] = {"batch_size": BATCH, "steps_per_round": steps, "send_back": True}
        yield from pool(owners, receiver, channel, rounds=ROUNDS, seed=seed, **more)
    elif name == null_rows.ALONE:
        yield from alone(model, owners, local, at_home, seed, ROUNDS)
    elif name in ZEROTH:
        protocol, steps = ZEROTH[name]
        local = Local(BATCH, lr=lr, steps=steps)
        yield from protocol(model, owners, channel, rounds=SLOPE_ROUNDS, local=local, **how)
    elif isinstance(model, FineTuned) and name == EXACT:
        yield from fedex_lora(model, owners, channel, rounds=ROUNDS, local=local, seed=seed)
    else:
        yield from fedavg(model, owners, channel, rounds=ROUNDS, local=local, **how)


FROM_SCRATCH = Group(
    "seeds",
    "Seeds and scalars, from scratch: digits, four owners with equal shares",
    "digits",
    {"accuracy": "accuracy [%]"},
    "FedAvg",
    GRIDS,
    (null_rows.UNTRAINED, null_rows.COMMONEST),
    run,
)

FINE_TUNED = replace(
    FROM_SCRATCH,
    name="tuned",
    title="Seeds and scalars, fine-tuning: from MNIST to digits, four owners with equal shares",
    grids={
        "FedAvg": GRIDS["FedAvg"],
        **dict.fromkeys((FACTORS, EXACT), product(lr=(0.01, 0.02, 0.05, 0.1, 0.2, 0.4))),
        **GRIDS,
    },
    fixed=(BEFORE, null_rows.UNTRAINED, null_rows.COMMONEST),
)
