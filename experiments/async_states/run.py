"""One training run of a setting."""

import copy
import time
from dataclasses import asdict
from functools import lru_cache
from typing import Any

from torch import nn

from experiments.async_states.settings import BATCH_SIZE, LR, Setting, Task
from experiments.cifar10 import load_cifar10
from experiments.runs import Result
from fltoolkit import SGD, Batches, Channel, Party, evaluate, load, splitnn_mlp
from fltoolkit.data import Samples, partition_iid
from fltoolkit.models import seeded
from fltoolkit.split import ActivationCache, Bookmark, train_async, train_async_relay

SHAPES = {"digits": (1, 8, 8), "mnist": (1, 28, 28), "cifar10": (3, 32, 32)}
SHAPES["cifar10_tenth"] = SHAPES["cifar10"]


@lru_cache(maxsize=1)
def dataset(task: Task) -> Samples:
    """The task's data; flat for the MLP."""
    name = task.data.removesuffix("_tenth")
    data = load_cifar10() if name == "cifar10" else load(name)
    if task.data.endswith("_tenth"):
        data = Samples(
            *(part[::10].clone() for part in (data.x_train, data.y_train)),
            *(part[::10].clone() for part in (data.x_test, data.y_test)),
            num_classes=data.num_classes,
            name=task.data,
        )
    return data.flat() if task.model == "mlp" else data


def vgg11(num_classes: int = 10, *, seed: int) -> nn.Sequential:
    """VGG-11 for 3 x 32 x 32: 8 convolutions and one linear layer, without BatchNorm and dropout.

    Configuration A of Simonyan & Zisserman 2014 (arXiv 1409.1556), with the short end that is
    usual for small images. Cut at 6: after the second pooling, 128 x 8 x 8 activations. First
    weights are He's, but small in the last layer: else the first loss is 6, and its gradients
    throw the network.
    """
    layers: list[nn.Module] = []
    with seeded(seed):
        width_in = 3
        for widths in ((64,), (128,), (256, 256), (512, 512), (512, 512)):
            for width in widths:
                layers += [nn.Conv2d(width_in, width, 3, padding=1), nn.ReLU()]
                width_in = width
            layers.append(nn.MaxPool2d(2))
        layers += [nn.Flatten(), nn.Linear(512, num_classes), nn.LogSoftmax(dim=1)]
        for layer in layers:
            if isinstance(layer, nn.Conv2d | nn.Linear):
                nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
                nn.init.zeros_(layer.bias)  # type: ignore[arg-type]
        nn.init.normal_(layers[-2].weight, std=0.01)  # type: ignore[arg-type]
    return nn.Sequential(*layers)


def parties(task: Task, data: Samples, num_clients: int, seed: int, device: str) -> list[Party]:
    """The clients, all with the same first weights, and last the label party."""
    if task.model == "mlp":
        model, cut = splitnn_mlp(data.x_train.shape[1], data.num_classes, seed=seed), 4
    else:
        model, cut = vgg11(data.num_classes, seed=seed), 6
    names = ["alice"] if num_clients == 1 else [f"alice_{k}" for k in range(num_clients)]
    bottoms = {name: copy.deepcopy(model[:cut]).to(device) for name in names}
    top = model[cut:].to(device)
    lr = LR[task.model]
    clients = [Party(name, b, SGD(b.parameters(), lr=lr)) for name, b in bottoms.items()]
    return [*clients, Party("bob", top, SGD(top.parameters(), lr=lr), nn.NLLLoss())]


def run(
    task: Task, setting: Setting, seed: int, data: Samples | None = None, device: str = "cpu"
) -> Result:
    """Train once and say what it cost and brought; ``curve`` holds [bytes, accuracy] by epoch.

    A run that diverges ends there, with ``diverged`` (the step) and the accuracy it then has.
    """
    start, data = time.perf_counter(), data or dataset(task)
    *alices, bob = parties(task, data, setting.clients, seed, device)
    channel, gate = Channel(setting.codecs), copy.deepcopy(setting.gate)
    cache = ActivationCache(len(data.y_train), seed=seed)
    batches = [Batches(data.x_train, data.y_train, BATCH_SIZE, seed=seed)]
    hold: dict[str, Any] = {"gate": gate, "upload": setting.upload, "bookmark": Bookmark(cache)}
    if setting.clients == 1:
        records = train_async(alices[0], bob, batches[0], channel, num_epochs=task.epochs, **hold)
    else:
        rows = partition_iid(data.y_train, setting.clients, seed=seed)
        batches = [Batches(data.x_train[i], data.y_train[i], BATCH_SIZE, seed=seed) for i in rows]
        records = train_async_relay(alices, bob, batches, channel, num_rounds=task.epochs, **hold)
    by_name, newest = {alice.name: alice for alice in alices}, alices[0]
    steps, curve, record, score = dict.fromkeys("ABC", 0), [], {}, {}
    try:
        for record in records:
            steps[str(record["state"])] += 1
            if record["state"] == "A":  # who learned last has the bottom that counts
                newest = by_name[str(record.get("client", "alice"))]
            if channel.step % sum(map(len, batches)) == 0:
                score = evaluate([newest, bob], data.x_test, data.y_test)
                curve.append([record["nbytes"], round(float(score["accuracy"]), 4)])
    except (ValueError, FloatingPointError) as error:  # of a codec or a gate; of a party
        if "diverged" not in str(error):
            raise
        try:
            score = evaluate([newest, bob], data.x_test, data.y_test)
        except FloatingPointError:  # no number comes out, so none is right
            score = {"accuracy": 0.0}
        score["diverged"] = channel.step
    kinds = sorted({transfer.kind for transfer in channel.transfers})
    return {
        **{"key": setting.key(task, seed), "seed": seed, **asdict(task)},
        **{"clients": setting.clients, "gate": repr(setting.gate), "upload": repr(setting.upload)},
        "codecs": {kind: repr(codec) for kind, codec in setting.codecs.items()},
        **score,
        **{name: record[name] for name in ("nbytes", "nbytes_up", "nbytes_down")},
        "nbytes_of": {kind: channel.nbytes(kind=kind) for kind in kinds},
        "steps": steps,
        "curve": curve,
        **{"seconds": round(time.perf_counter() - start, 1), "device": device},
    }
