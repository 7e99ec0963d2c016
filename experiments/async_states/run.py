"""One training run of a setting."""

import copy
import time
from dataclasses import asdict
from functools import lru_cache
from typing import Any

from torch import nn

from experiments.async_states.settings import BATCH_SIZE, LR, Setting, Task
from experiments.runs import Result
from fltoolkit import SGD, Batches, Channel, Party, evaluate, load, splitnn_mlp
from fltoolkit.data import Samples, partition_iid
from fltoolkit.split import ActivationCache, Bookmark, train_async, train_async_relay


@lru_cache(maxsize=1)
def dataset(task: Task) -> Samples:
    """The task's data, flat."""
    return load(task.data).flat()


def parties(data: Samples, num_clients: int, seed: int) -> list[Party]:
    """The clients, all with the same first weights, and last the label party."""
    model = splitnn_mlp(data.x_train.shape[1], data.num_classes, seed=seed)
    names = ["alice"] if num_clients == 1 else [f"alice_{k}" for k in range(num_clients)]
    bottoms, top = {name: copy.deepcopy(model[:4]) for name in names}, model[4:]
    clients = [Party(name, b, SGD(b.parameters(), lr=LR)) for name, b in bottoms.items()]
    return [*clients, Party("bob", top, SGD(top.parameters(), lr=LR), nn.NLLLoss())]


def run(task: Task, setting: Setting, seed: int, data: Samples | None = None) -> Result:
    """Train once and say what it cost and brought; ``curve`` holds [bytes, accuracy] by epoch.

    A run that diverges ends there, with ``diverged`` (the step) and the accuracy it then has.
    """
    start, data = time.perf_counter(), data or dataset(task)
    *alices, bob = parties(data, setting.clients, seed)
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
        "seconds": round(time.perf_counter() - start, 1),
    }
