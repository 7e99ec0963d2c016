"""Features that somebody else has learned: one sum of them, and training together from them.

    python -m experiments.one_sum_encoder           # five minutes of a core for each seed
    python -m experiments.one_sum_encoder --write   # the table, into docs/one_sum.md

Five classes of CIFAR-10 (JPEG copies) are public: a small network learns them, in 16 x 16 pixels.
Ten owners hold the other five. A seed decides the classes, encoder, owners' pictures and batches.
"""

from collections.abc import Callable
from copy import deepcopy
from functools import cache, partial
from math import cos, pi
from statistics import mean
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from experiments import runs
from experiments.null_rows import MODEL_BACK, megabytes
from experiments.send_data.pictures import pictures
from experiments.send_data.run import Change
from experiments.send_data.settings import ORIGINAL, SMALL
from experiments.send_data.training import Owners, Pixels, accuracy, learn, network, standardized
from experiments.tables import markdown
from fltoolkit import Channel, Party
from fltoolkit.codecs import ErrorFeedback, Only, Pipeline, Quantize
from fltoolkit.federated import Fleet, Local, fedavg
from fltoolkit_research.codecs import STC, ContextEntropy, Difference
from fltoolkit_research.federated import one_sum
from fltoolkit_research.models import random_filters

RESULTS = runs.STORED / "one_sum_encoder.jsonl"
PAGE = runs.Page("one_sum", "<!-- begin: experiments.one_sum_encoder -->", "<!-- end: encoder -->")
CPU, SEEDS, NUM_OWNERS, ROUNDS = torch.device("cpu"), (0, 1, 2), 10, 20
PASSES = {50: 4, 500: 1}  # of an owner in a round, by the number of its pictures
HEAD_RATES = {50: 0.01, 500: 0.1}
Owned = dict[str, Tensor]  # places of pictures
Found = tuple[float, float]  # bytes and accuracy


class World(NamedTuple):
    """What a seed decides."""

    seed: int
    model: nn.Sequential  # the encoder, with a last layer of zeros
    x: Tensor  # uint8, of all owners
    y: Tensor
    rows: Tensor  # their places in CIFAR-10
    test: tuple[Tensor, Tensor]
    views: dict[str, list[Tensor]]  # of x, and of the test


def trained(model: nn.Module, x: Tensor, y: Tensor, passes: int, lr: float, seed: int) -> None:
    """One place learns from these pictures; the rate sinks along a cosine."""
    pixels, rows = Pixels(x, y, CPU), torch.arange(len(y))
    sgd = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9, nesterov=True, weight_decay=5e-4)
    for epoch in range(passes):
        sgd.param_groups[0]["lr"] = lr * (0.5 + 0.5 * cos(pi * epoch / passes))
        for batch in pixels.batches(rows, min(100, max(10, len(y) // 10)), seed, epoch):
            learn(model, sgd, *batch)


def zeros(num_features: int) -> nn.Linear:
    """A last layer that everybody has without a byte."""
    layer: nn.Linear = nn.utils.skip_init(nn.Linear, num_features, 5)
    layer.load_state_dict({"weight": torch.zeros(5, num_features), "bias": torch.zeros(5)})
    return layer


@cache
@torch.no_grad()
def world(seed: int) -> World:
    """Public classes, the encoder that learned them, and features with their mean and scale."""
    all_x, all_y, test_x, test_y, *_ = pictures(ORIGINAL)
    draw = torch.Generator().manual_seed(seed)
    public, private = torch.randperm(10, generator=draw).split(5)
    inner = network(SMALL, seed)
    model = nn.Sequential(nn.AvgPool2d(2), *inner[:11], nn.AvgPool2d(2), *inner[12:])
    rows = torch.isin(all_y, public).nonzero()[:, 0]
    with torch.enable_grad():
        trained(model, all_x[rows], all_y[rows], passes=10, lr=0.1, seed=seed)
    known, rows = standardized(all_x[rows[:4000]], CPU), torch.isin(all_y, private).nonzero()[:, 0]
    rows = rows[torch.randperm(len(rows), generator=draw)]
    mine, kept = rows[: NUM_OWNERS * max(PASSES)], torch.isin(test_y, private)
    number = torch.empty(10, dtype=torch.int64).scatter(0, private, torch.arange(5))
    both = [standardized(each, CPU) for each in (all_x[mine], test_x[kept])]
    raw, views = random_filters((3, 32, 32), 28, size=7, seed=seed)[:5], {}
    views["random"] = [torch.cat([raw(some) for some in each.split(1000)]) for each in both]
    for name, pool in (("256", nn.Identity()), ("64", nn.AvgPool1d(4))):
        features = nn.Sequential(*model[:14], nn.Unflatten(1, (64, 4)), pool, nn.Flatten())
        z = features(known)
        views[name] = [(features(each) - z.mean(0)) / z.std(0).mean() for each in both]
    views["508"] = [torch.hstack(pair) for pair in zip(views["256"], views["random"], strict=True)]
    model[14] = zeros(256)
    test = both[1], number[test_y[kept]]
    return World(seed, model, all_x[mine], number[all_y[mine]], mine, test, views)


def summed(of: World, owned: Owned, view: str, bits: int = 8) -> Found:
    """One sum of features, and the layer back."""
    z, z_test = of.views[view]
    server, few_bits = Party("server", zeros(z.shape[1])), Quantize(bits, stochastic=True)
    coded = Only(Pipeline(few_bits, ContextEntropy()), min_size=100)
    channel = Channel({"update": coded, **MODEL_BACK})
    owners = {name: (z[rows], of.y[rows]) for name, rows in owned.items()}
    list(one_sum(owners, nn.Flatten(), server, channel, send_back=True))
    return channel.nbytes(), accuracy(server.module, z_test, of.test[1])


def averaged(of: World, owned: Owned, *, whole: bool, rounds: int = ROUNDS) -> Found:
    """The whole network, coded as in ``experiments.send_data``, or the last layer in 3 bits."""
    model, num_each, (z, z_test) = deepcopy(of.model), len(owned["owner_0"]), of.views["256"]
    train = Owners(model, Pixels(of.x, of.y, CPU), slow=30.0)
    change, last = Change(len(train.start)), nn.Sequential(zeros(256), nn.LogSoftmax(dim=1))
    stages: list[Any] = [STC(0.01), STC(0.02)] if whole else [Quantize(3), Quantize(3)]
    up, down = (Pipeline(stage, ContextEntropy()) for stage in stages)
    owners = {name: (rows if whole else z[rows], of.y[rows]) for name, rows in owned.items()}
    rate = 0.1 if whole else HEAD_RATES[num_each]
    local = Local(batch_size=num_each // 10, lr=rate, epochs=PASSES[num_each])
    channel = Channel({"update": ErrorFeedback(up), "model": Difference(down)})
    both = (change, Fleet(owners, train)) if whole else (last, owners)
    list(fedavg(*both, channel, rounds=rounds, cohort=NUM_OWNERS, local=local, seed=of.seed))
    train.put(change.change)
    return channel.nbytes(), accuracy(*((model, *of.test) if whole else (last, z_test, of.test[1])))


def tuned(of: World, rows: Tensor, passes: int) -> nn.Module:
    """One place has these pictures and trains the whole network from the encoder."""
    trained(model := deepcopy(of.model), of.x[rows], of.y[rows], passes, lr=0.02, seed=of.seed)
    return model


def sent(of: World, owned: Owned) -> Found:
    """All JPEG files in one place, and the network back in eight bits."""
    rows, channel = torch.cat(list(owned.values())), Channel(MODEL_BACK)
    model = tuned(of, rows, ROUNDS * PASSES[len(owned["owner_0"])] // 2)
    channel.broadcast("server", list(owned), "model", dict(model.state_dict()))
    return channel.nbytes() + pictures(ORIGINAL).nbytes(of.rows[rows]), accuracy(model, *of.test)


def alone(of: World, owned: Owned, *, whole: bool) -> Found:
    """An owner solves for its own last layer, or trains the whole network (three of the ten)."""
    if not whole:
        return 0, mean(summed(of, {name: rows}, "256")[1] for name, rows in owned.items())
    models = [tuned(of, r, ROUNDS * PASSES[len(r)] // 2) for r in list(owned.values())[:3]]
    return 0, mean(accuracy(model, *of.test) for model in models)


FIRST = "one sum of the encoder's 256 features, 8 bits"
ROWS: dict[str, Callable[[World, Owned], Found]] = {
    FIRST: partial(summed, view="256"),
    "one sum of the encoder's 256 features, 12 bits": partial(summed, view="256", bits=12),
    "one sum of the encoder's 64 features, 8 bits": partial(summed, view="64"),
    "one sum of 252 random features, 8 bits": partial(summed, view="random"),
    "one sum of both, 508 features, 8 bits": partial(summed, view="508"),
    "averaging of the last layer, 3 bits both ways": partial(averaged, whole=False),
    "averaging of the whole network, 1 % up, 2 % down": partial(averaged, whole=True),
    "the same in 60 rounds": partial(averaged, whole=True, rounds=60),
    "**send the data**": sent,
    "**each owner alone**, its last layer solved": partial(alone, whole=False),
    "**each owner alone**, its whole network trained": partial(alone, whole=True),
}


def run(num_each: int, name: str, seed: int) -> runs.Result:
    """One run, as a line of the file."""
    of, parts = world(seed), torch.arange(NUM_OWNERS * num_each).split(num_each)
    nbytes, right = ROWS[name](of, {f"owner_{k}": rows for k, rows in enumerate(parts)})
    what = {"num_each": num_each, "name": name, "seed": seed, "nbytes": int(nbytes)}
    return {**what, "accuracy": round(right, 4)}


def table(results: dict[str, runs.Result]) -> str:
    """A line for each row; differences are from the first row of as many pictures."""
    rows: dict[tuple[int, str], runs.Runs] = {}
    for each in results.values():
        rows.setdefault((each["num_each"], each["name"]), {})[each["seed"]] = each
    lines = []
    for (num_each, name), found in rows.items():
        gain = "" if name == FIRST else runs.gain_of(found, rows[num_each, FIRST])
        size = megabytes(runs.mean_nbytes(found), 2)
        lines.append([num_each, name, runs.accuracies(found), gain, size])
    head = "pictures each | row | accuracy [%] | minus the first [points] | MB sent"
    return markdown(head, lines)


def main() -> None:
    """The command line."""
    args = runs.options(__doc__ or "", RESULTS).parse_args()
    if args.report or args.write:
        PAGE.tell(table(runs.read(args.out)), args)
    else:
        all_ = {f"{s}: {n}, {name}": (n, name, s) for s in SEEDS for n in PASSES for name in ROWS}
        runs.fill({key: partial(run, *a) for key, a in all_.items() if args.only in key}, args.out)


if __name__ == "__main__":
    main()
