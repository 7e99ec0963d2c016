"""From an experiment's settings to a training, and to its records.

Here: how data, parties and channel are put together, and what is told of a run. Not here: the
settings (experiment.py), the protocols (split.py, split_async.py, fedavg.py).
"""

import copy
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fltoolkit.cost import measure
from fltoolkit.data.batches import Batches
from fltoolkit.data.datasets import Dataset, load
from fltoolkit.data.partitions import partition_dirichlet, partition_iid, partition_shards
from fltoolkit.evaluation import evaluate
from fltoolkit.federated.client import Local
from fltoolkit.federated.clock import Arrivals
from fltoolkit.federated.fedavg import fedavg
from fltoolkit.federated.means import masked_mean, weighted_mean
from fltoolkit.history import History, Record
from fltoolkit.models import mcmahan_cnn, splitnn_mlp
from fltoolkit.party import SGD, Party
from fltoolkit.research.experiment import Experiment
from fltoolkit.research.text import build
from fltoolkit.research.weighing import WeighingChannel
from fltoolkit.split.asynchronous import train_async, train_async_relay
from fltoolkit.split.cache import ActivationCache
from fltoolkit.split.chain import train_split
from fltoolkit.split.clients import train_relay, train_splitfed
from fltoolkit.split.uploads import Upload

__all__ = ["num_steps", "records", "run"]


def run(experiment: Experiment) -> History:
    """Train to the end; see `records`."""
    return History(records(experiment))


def records(experiment: Experiment) -> Iterator[Record]:
    """Train, and yield a record an evaluation; to stop early, close the iterator.

    Records hold

    - ``step`` and ``round`` (rounds done), ``loss``: mean training loss since the last record
    - ``accuracy`` and ``test_loss`` on the test set, or on what ``validation`` held out
    - ``nbytes_up``, ``nbytes_down``, ``nbytes``: totals of all real bytes; and by kind and
      direction real, nominal and entropy bytes, see `fltoolkit.research.WeighingChannel.sizes`
    - ``num_waits``: messages that followed one another; those that clients send at the same time
      (fedavg, splitfed version 1) count as one. `fltoolkit.research.seconds_on` makes time of it
    - ``client_flops``: of all clients together, a backward pass counting as two forward passes
    - ``steps_a``, ``steps_b``, ``steps_c``: of split_async, steps so far in each state
    """
    if torch.get_num_threads() > 1:  # bit-equal whoever runs it, and faster for small networks
        torch.set_num_threads(1)
    data = _data(experiment.data, experiment.model, experiment.num_samples, experiment.validation)
    training = _Training(experiment, data)
    raw = {
        "split": training.split,
        "relay": training.relay,
        "splitfed": training.splitfed,
        "split_async": training.split_async,
        "fedavg": training.fedavg,
    }[experiment.protocol]()
    return training.observed(raw)


def num_steps(experiment: Experiment) -> int:
    """How many training steps the whole run takes; of fedavg, rounds."""
    data = _data(experiment.data, experiment.model, experiment.num_samples, experiment.validation)
    return experiment.rounds * _Training(experiment, data).steps_per_round


class _Training:
    """Parties, data and channel of one run, built from an experiment's settings."""

    def __init__(self, experiment: Experiment, data: Dataset):
        self.e, self.data = experiment, data
        model = _model(experiment, data)
        if not 0 < experiment.cut < len(model):
            raise ValueError(f"cut={experiment.cut}: this model has cuts 1 to {len(model) - 1}")
        self.model = model
        names = [f"client_{k}" for k in range(experiment.num_clients)]
        bottoms = [copy.deepcopy(model[: experiment.cut]) for _ in names]
        lr, top = experiment.lr, copy.deepcopy(model[experiment.cut :])
        self.clients = [
            Party(name, bottom, SGD(bottom.parameters(), lr=lr))
            for name, bottom in zip(names, bottoms, strict=True)
        ]
        self.server = Party("server", top, SGD(top.parameters(), lr=lr), nn.NLLLoss())
        self.newest = self.clients[0]  # who has the bottom that counts
        rows = _partition(data.y_train, experiment)
        self.shares = [(data.x_train[each], data.y_train[each]) for each in rows]
        self.batches: Any = [
            Batches(x, y, experiment.batch_size, seed=experiment.seed) for x, y in self.shares
        ]
        federated = experiment.protocol == "fedavg"
        self.steps_per_round = 1 if federated else sum(map(len, self.batches))
        codecs = {kind: build(text) for kind, text in experiment.codecs.items()}
        self.channel = WeighingChannel(codecs, clients=names, every=7 if federated else 53)
        self.flops = measure(model, tuple(data.x_train.shape[1:]), experiment.cut)

    # ------------------------------------------------------------- the protocols, called by name

    def split(self) -> Iterator[Record]:
        batches: Any = self.batches[0].epochs(self.e.rounds)
        return train_split([self.clients[0], self.server], batches, self.channel)

    def relay(self) -> Iterator[Record]:
        return train_relay(
            self.clients, self.server, self.batches, self.channel, num_rounds=self.e.rounds
        )

    def splitfed(self) -> Iterator[Record]:
        return train_splitfed(
            self.clients,
            self.server,
            self.batches,
            self.channel,
            num_rounds=self.e.rounds,
            version=self.e.settings.get("version", 2),
            seed=self.e.seed,
        )

    def split_async(self) -> Iterator[Record]:
        upload = {key: self.e.settings[key] for key in ("moved", "delta") if key in self.e.settings}
        how: dict[str, Any] = {"gate": build(self.e.gate), "upload": Upload(**upload)}
        how["cache"] = ActivationCache(len(self.data.y_train), seed=self.e.seed)
        if self.e.num_clients > 1:
            return train_async_relay(
                self.clients,
                self.server,
                self.batches,
                self.channel,
                num_rounds=self.e.rounds,
                **how,
            )
        return train_async(
            self.clients[0],
            self.server,
            self.batches[0],
            self.channel,
            num_epochs=self.e.rounds,
            **how,
        )

    def fedavg(self) -> Iterator[Record]:
        names = [client.name for client in self.clients]
        settings = self.e.settings
        epochs, steps = settings.get("local_epochs"), settings.get("local_steps")
        local = Local(
            batch_size=self.e.batch_size,
            lr=self.e.lr,
            epochs=1 if epochs is None and steps is None else epochs,
            steps=steps,
            prox=settings.get("prox", 0.0),
        )
        return fedavg(
            self.model,
            dict(zip(names, self.shares, strict=True)),
            self.channel,
            rounds=self.e.rounds,
            cohort=settings.get("cohort_size", self.e.num_clients),
            local=local,
            arrivals=Arrivals(wait_for=settings.get("wait_for")),
            mean=masked_mean if settings.get("masked", False) else weighted_mean,
            seed=self.e.seed,
        )

    # ---------------------------------------------------------------- what is told of a training

    def observed(self, raw: Iterator[Record]) -> Iterator[Record]:
        """A record where an evaluation is due."""
        losses: list[float] = []
        steps: Counter[str] = Counter()
        by_name = {client.name: client for client in self.clients}
        per_round = self.steps_per_round
        for record in raw:
            step, state = int(record["step"]), str(record.get("state", "A"))
            steps[state] += 1
            if "loss" in record:
                losses.append(float(record["loss"]))
            if "client" in record and state == "A":
                self.newest = by_name[str(record["client"])]
            done = step * self.e.evaluations
            if done // per_round == (done - self.e.evaluations) // per_round:
                continue
            kept = {key: record[key] for key in ("nbytes_up", "nbytes_down", "nbytes")}
            yield {
                "step": step,
                "round": step / per_round if step % per_round else step // per_round,
                **({"loss": sum(losses) / len(losses)} if losses else {}),
                **self.score(),
                **kept,
                **self.channel.sizes(),
                "num_waits": self.num_waits(),
                "client_flops": self.client_flops(step, steps),
                **({f"steps_{s.lower()}": steps[s] for s in "ABC"} if self.e.gate else {}),
            }
            losses = []

    def score(self) -> Record:
        x, y = self.data.x_test, self.data.y_test
        if self.e.protocol == "fedavg":
            whole = Party("server", self.model, loss_fn=nn.NLLLoss())
            return evaluate([whole], x, y)
        through = self.e.settings.get("through")
        parties = [self.newest, self.server]
        return evaluate(parties, x, y, through=build(through) if through else None)

    def num_waits(self) -> int:
        together = {
            "fedavg": self.e.settings.get("cohort_size", self.e.num_clients),
            "splitfed": self.e.num_clients if self.e.settings.get("version") == 1 else 1,
        }.get(self.e.protocol, 1)
        return math.ceil(len(self.channel.transfers) / together)

    def client_flops(self, step: int, steps: Counter[str]) -> int:
        """A step counts as one with a mean batch; rounds as their mean cohort."""
        if self.e.protocol == "fedavg":
            settings, size = self.e.settings, len(self.data.y_train) / self.e.num_clients
            per_client = settings.get("local_epochs", 1) * size
            if "local_steps" in settings:
                per_client = settings["local_steps"] * self.e.batch_size
            cohort = settings.get("cohort_size", self.e.num_clients)
            return round(3 * step * cohort * per_client * self.flops.flops_forward)
        batch = len(self.data.y_train) / self.steps_per_round
        passes = 3 * steps["A"] + steps["B"]
        return round(passes * batch * self.flops.flops_forward_client)


@lru_cache(maxsize=4)
def _data(name: str, model: str, num_samples: int | None, validation: float) -> Dataset:
    """The task's samples; which of them are left out or held out does not depend on the seed."""
    data = load(name)
    data = data.flat() if model == "mlp" else data
    if num_samples is None and not validation:
        return data
    total = len(data.y_train)
    count = total if num_samples is None else num_samples
    held = round(validation * count)
    if not 1 <= count <= total or held >= count:
        raise ValueError(f"num_samples={count}, {held} of them held out: {name} has {total:,}")
    rows = torch.from_numpy(np.random.default_rng(0).permutation(total)[:count])
    kept, out = rows[held:], rows[:held]
    if held:
        data = replace(data, x_test=data.x_train[out], y_test=data.y_train[out])
    return replace(data, x_train=data.x_train[kept], y_train=data.y_train[kept])


def _model(experiment: Experiment, data: Dataset) -> nn.Sequential:
    if experiment.model == "mlp":
        return splitnn_mlp(data.x_train.shape[1], data.num_classes, seed=experiment.seed)
    return mcmahan_cnn(data.num_classes, seed=experiment.seed)


def _partition(labels: Tensor, experiment: Experiment) -> Sequence[Tensor]:
    """Which rows each client has; one client has all, in their order."""
    clients, seed = experiment.num_clients, experiment.seed
    if clients == 1:
        return [torch.arange(len(labels))]
    how, number = experiment.dealt
    if how == "shards":
        return partition_shards(labels, clients, shards_per_client=int(number), seed=seed)
    if how == "dirichlet":
        return partition_dirichlet(labels, clients, alpha=number, seed=seed)
    return partition_iid(labels, clients, seed=seed)
