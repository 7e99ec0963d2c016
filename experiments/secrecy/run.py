"""One training run: accuracy, bytes by kind, seconds of processor time."""

import hashlib
import time
from collections.abc import Collection, Mapping
from typing import Any

import torch
from torch import nn

from experiments.leakage.run import dataset
from experiments.runs import Result
from experiments.secrecy.dropouts import RandomDropouts
from experiments.secrecy.settings import Setting, Task
from fltoolkit import Channel, fedavg
from fltoolkit.data import Samples, partition_iid
from fltoolkit.federated import Local, Server, mean_of_all
from fltoolkit.models import seeded
from fltoolkit.trees import Tree
from fltoolkit_research.secrecy import PlainSum, SecureSum


def network(data: Samples, num_hidden: int, seed: int) -> nn.Sequential:
    """One hidden layer, of ReLUs."""
    with seeded(seed):
        hidden = nn.Linear(data.x_train.shape[1], num_hidden)
        return nn.Sequential(
            hidden, nn.ReLU(), nn.Linear(num_hidden, data.num_classes), nn.LogSoftmax(1)
        )


class Timed:
    """A mean that sends updates, and the seconds of processor time that it takes."""

    def __init__(self, how: PlainSum | SecureSum):
        self.how, self.seconds = how, 0.0

    def __call__(self, *_: object) -> Tree:
        raise TypeError("this mean collects")

    def collect(
        self, channel: Channel, server: str, updates: Mapping[str, Tree], late: Collection[str]
    ) -> Tree:
        start = time.process_time()
        mean = self.how.collect(channel, server, updates, late)
        self.seconds += time.process_time() - start
        return mean


def run(task: Task, setting: Setting, seed: int) -> Result:
    """Train once; what the tables need."""
    start, data = time.perf_counter(), dataset(task.data)
    shares = partition_iid(data.y_train, 100, seed=seed)[: setting.num_clients]
    mine = {f"client {k}": rows[: task.num_images] for k, rows in enumerate(shares)}
    clients = {name: (data.x_train[rows], data.y_train[rows]) for name, rows in mine.items()}
    model, channel = network(data, task.num_hidden, seed), Channel()
    local = Local(task.batch_size, lr=task.lr, steps=task.steps)
    how: dict[str, Any] = {"dropouts": RandomDropouts(setting.gone, seed=seed), "seed": seed}
    mean: Any = mean_of_all
    if setting.codec is not None and setting.secret:
        how |= {"neighbours": setting.neighbours, "bits": setting.bits}
        mean = Timed(SecureSum(setting.codec, **how))
    elif setting.codec is not None:
        mean = Timed(PlainSum(setting.codec, **how))
    size: dict[str, Any] = {"cohort": setting.num_clients, "server": Server(mean=mean)}
    list(fedavg(model, clients, channel, rounds=task.rounds, local=local, seed=seed, **size))
    weights = torch.cat([t.flatten() for t in model.state_dict().values()])
    with torch.no_grad():
        right = (model(data.x_test).argmax(1) == data.y_test).float().mean()
    kinds = sorted({t.kind for t in channel.transfers})
    per_client = task.rounds * setting.num_clients
    return {
        **{"key": setting.key(task, seed), "name": setting.name, "data": task.data, "seed": seed},
        **{"num_values": weights.numel(), "accuracy": float(right), "nbytes": channel.nbytes()},
        "up": {k: sent_by(channel, k, up=True) / per_client for k in kinds},
        "down": {k: sent_by(channel, k, up=False) / per_client for k in kinds},
        "weights": hashlib.sha256(weights.numpy().tobytes()).hexdigest()[:16],
        "cpu_seconds": mean.seconds / task.rounds if isinstance(mean, Timed) else None,
        "seconds": round(time.perf_counter() - start, 1),
    }


def sent_by(channel: Channel, kind: str, *, up: bool) -> int:
    """Bytes of this kind to the server, or from it."""
    return sum(
        t.nbytes for t in channel.transfers if t.kind == kind and (t.receiver == "server") == up
    )
