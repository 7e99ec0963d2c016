"""Accuracy over bytes over epsilon: noise from each client under a secure sum, and what needs none.

A hundred clients with 14 digits each, all in each round; a linear model of 650 parameters. The same
whole numbers are added in the clear, which gives the same model; keys and shares are not in the
bytes (docs/secrecy.md has them).
"""

import time
from collections.abc import Mapping, Sequence
from statistics import mean
from typing import Any

import torch
from torch import Tensor, nn

from experiments.leakage.run import dataset
from experiments.replications.noisy_sum import NoisySum
from experiments.runs import Result, share_ci
from experiments.tables import markdown
from fltoolkit import Channel, fedavg
from fltoolkit.data import partition_iid
from fltoolkit.federated import Local, Server, mean_of_all
from fltoolkit.models import seeded
from fltoolkit_research.federated import GaussianDP
from fltoolkit_research.pooled import lossless_nbytes
from fltoolkit_research.secrecy import promise

CLIENTS, ROUNDS, CLIP, LOCAL = 100, 10, 0.5, Local(7, lr=0.5, steps=8)
NOISE, FEW_BITS = (2.0, 4.0, 8.0), (12, 10)
NAMES = (
    *("float32, no noise", *(f"float32, the server adds noise {z:g}" for z in NOISE)),
    *(f"16 bits, each adds noise {z:g}" for z in NOISE),
    *(f"{bits} bits, each adds noise 4" for bits in FEW_BITS),
    *("16 bits, each adds noise 4, clip 5", "16 bits, each adds noise 4, clip 5 that adapts"),
    *("send the data", "each alone"),
)


def noise(name: str, seed: int) -> Result:
    """One row, one seed."""
    start, data = time.perf_counter(), dataset("digits", seed)
    shares = partition_iid(data.y_train, CLIENTS, seed=seed)
    clients = {
        f"client {k}": (data.x_train[rows[:14]], data.y_train[rows[:14]])
        for k, rows in enumerate(shares)
    }
    x, y = (torch.cat([c[i] for c in clients.values()]) for i in (0, 1))
    if name == "each alone":
        ten = list(clients.values())[:10]
        right, nbytes, epsilon = mean(_alone(*own, 80, seed) for own in ten), 0, None
    elif name == "send the data":
        right, nbytes, epsilon = _alone(x, y, 80 * CLIENTS, seed), lossless_nbytes(x, y), None
    else:
        right, nbytes, epsilon = _together(name, clients, seed)
    seconds = round(time.perf_counter() - start, 1)
    what = {"what": "noise", "name": name, "seed": seed, "accuracy": right}
    return {**what, "nbytes_up": nbytes, "epsilon": epsilon, "seconds": seconds}


def _together(
    name: str, clients: Mapping[str, tuple[Tensor, Tensor]], seed: int
) -> tuple[float, int, float | None]:
    model, channel = _linear(seed), Channel()
    num_values = sum(p.numel() for p in model.parameters())
    multiplier = float(name.split("noise ")[1].split(",")[0]) if "adds" in name else 0.0
    clip = 5.0 if "clip 5" in name else CLIP
    run = {"num_clients": CLIENTS, "rounds": ROUNDS}
    how: Any = mean_of_all
    epsilon = None
    if "server adds" in name:
        how = GaussianDP(clip, multiplier, seed=seed)
        epsilon = promise(how, cohort=CLIENTS, **run).epsilon
    elif multiplier:
        quantile = 0.5 if "adapts" in name else None
        bits = int(name.split()[0])
        how = NoisySum(clip, multiplier, bits, quantile, secret=False, seed=seed)
        epsilon = how.promise(num_values=num_values, **run).epsilon
    size: dict[str, Any] = {"cohort": CLIENTS, "local": LOCAL, "server": Server(mean=how)}
    list(fedavg(model, clients, channel, rounds=ROUNDS, seed=seed, **size))
    return _accuracy(model, seed), channel.nbytes(kind="update"), epsilon


def _linear(seed: int) -> nn.Sequential:
    with seeded(seed):
        return nn.Sequential(nn.Linear(64, 10), nn.LogSoftmax(1))


def _alone(x: Tensor, y: Tensor, steps: int, seed: int) -> float:
    """Accuracy of one party with these samples, in batches of seven."""
    model, random = _linear(seed), torch.Generator().manual_seed(seed)
    optimizer = torch.optim.SGD(model.parameters(), lr=LOCAL.lr if len(x) < 100 else 0.1)
    for _ in range(steps):
        rows = torch.randint(len(x), (7,), generator=random)
        optimizer.zero_grad()
        nn.functional.nll_loss(model(x[rows]), y[rows]).backward()
        optimizer.step()
    return _accuracy(model, seed)


def _accuracy(model: nn.Module, seed: int) -> float:
    data = dataset("digits", seed)
    with torch.no_grad():
        return float((model(data.x_test).argmax(1) == data.y_test).double().mean())


def noise_table(results: Sequence[Result]) -> str:
    """A row for each way: accuracy, kB of all clients, epsilon."""
    found = []
    for name in NAMES:
        mine = [r for r in results if r["name"] == name]
        if mine:
            right = share_ci([100 * r["accuracy"] for r in mine], ".1f")
            epsilon = mine[0]["epsilon"]
            sent = f"{mean(r['nbytes_up'] for r in mine) / 1000:,.0f}"
            found.append([name, right, sent, f"{epsilon:.2f}" if epsilon else "none"])
    return markdown(
        "updates | accuracy %, mean [95 % interval] | kB up, all clients and rounds | epsilon",
        found,
    )
