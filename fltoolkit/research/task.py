"""What a protocol is given to work with: data dealt out, a fresh network, parties, settings.

Here: a `Task`, made of an experiment. Not here: the protocols (methods), the experiment's
settings and what is allowed of them (experiment).
"""

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fltoolkit.data.batches import Batches
from fltoolkit.data.datasets import Dataset, load
from fltoolkit.data.partitions import partition_dirichlet, partition_iid, partition_shards
from fltoolkit.models import mcmahan_cnn, splitnn_mlp
from fltoolkit.party import SGD, Optimizer, Party
from fltoolkit.research.text import build, read_call

__all__ = ["Task"]

FLAT = ("mlp", "splitnn_mlp", "mcmahan_2nn")
"""Models whose inputs are [samples, features]; the others get the samples as they are."""


class Task:
    """Data, network and settings of one run, for a protocol to make parties of.

    Attributes:
        data: training and test samples, a `fltoolkit.data.Dataset`.
        names: of the clients, "client_0" and so on.
        shares: of each client, its ``(x, y)``.
        batches: of each client, its `fltoolkit.data.Batches`.
        model: the whole network with its first weights, an ``nn.Sequential``.
        loss_fn: the loss.
        settings: of the protocol, by name, with texts such as a clock's already built.
        gate: a fresh one, or None.
        rounds, batch_size, lr, cut, seed, num_clients: as in the experiment.
    """

    def __init__(self, experiment: Any, settings: Mapping[str, Any], data: Dataset):
        self.data, self.settings = data, settings
        self.rounds, self.batch_size = experiment.rounds, experiment.batch_size
        self.lr, self.cut, self.seed = experiment.lr, experiment.cut, experiment.seed
        self.num_clients = experiment.num_clients
        self.model = network(experiment, data)
        self.loss_fn = read_call(experiment.loss)()
        self.gate: Any = build(experiment.gate) if experiment.gate else None
        self.optimizer_call = read_call(experiment.optimizer) if experiment.optimizer else None
        self.names = [f"client_{k}" for k in range(experiment.num_clients)]
        rows = dealt_out(data.y_train, experiment)
        self.shares = [(data.x_train[each], data.y_train[each]) for each in rows]
        self.batches: list[Any] = [
            Batches(x, y, experiment.batch_size, seed=experiment.seed) for x, y in self.shares
        ]

    def optimizer(self, params: Iterable[nn.Parameter]) -> Optimizer:
        """The experiment's optimizer for these parameters; by default plain SGD."""
        call = self.optimizer_call
        return SGD(params, lr=self.lr) if call is None else call(params)

    def party(self, name: str, module: nn.Module, *, has_loss: bool = False) -> Party:
        """A party that learns by the experiment's optimizer, and knows the loss if it has one."""
        params = list(module.parameters())
        optimizer = self.optimizer(params) if params else None  # a softmax has nothing to learn
        return Party(name, module, optimizer, self.loss_fn if has_loss else None)

    def bottoms(self) -> list[Party]:
        """The clients of split learning: each has its own copy of the layers before the cut."""
        if not 0 < self.cut < len(self.model):
            raise ValueError(f"cut={self.cut}: this model has cuts 1 to {len(self.model) - 1}")
        return [self.party(name, copy.deepcopy(self.model[: self.cut])) for name in self.names]

    def top(self) -> Party:
        """The server of split learning: the layers after the cut, and the loss."""
        return self.party("server", copy.deepcopy(self.model[self.cut :]), has_loss=True)

    def whole(self, name: str = "server") -> Party:
        """A party with the network itself, not a copy: what a federated server has."""
        return Party(name, self.model, loss_fn=self.loss_fn)


def samples(name: str, model: str, num_samples: int | None, validation: float) -> Dataset:
    """The task's samples; which of them are left out or held out does not depend on the seed."""
    call = None if name.isidentifier() else read_call(name)
    source = load if call is None else call.target
    return chosen(source, name, model, num_samples, validation)


@lru_cache(maxsize=4)
def chosen(
    source: Callable[..., Dataset],  # in the key: a function that was written anew is called anew
    name: str,
    model: str,
    num_samples: int | None,
    validation: float,
) -> Dataset:
    """What `samples` gives, and gave before for the same settings."""
    data = load(name) if source is load else read_call(name)()
    if not isinstance(data, Dataset):
        raise TypeError(f"data={name!r} gave a {type(data).__name__}: it must give a Dataset")
    data = data.flat() if model.partition("(")[0] in FLAT else data
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


def network(experiment: Any, data: Dataset) -> nn.Sequential:
    """The experiment's model, its first weights drawn from the seed."""
    if experiment.model == "mlp":
        return splitnn_mlp(data.x_train.shape[1], data.num_classes, seed=experiment.seed)
    if experiment.model == "cnn":
        return mcmahan_cnn(data.num_classes, seed=experiment.seed)
    model = read_call(experiment.model)(seed=experiment.seed)
    if not isinstance(model, nn.Sequential):
        raise TypeError(
            f"model={experiment.model!r} gave a {type(model).__name__}: it must give an "
            "nn.Sequential, which can be cut between two of its items"
        )
    return model


def dealt_out(targets: Tensor, experiment: Any) -> Sequence[Tensor]:
    """Which rows each client has; one client has all, in their order."""
    clients, seed = experiment.num_clients, experiment.seed
    if clients == 1:
        return [torch.arange(len(targets))]
    how, number = experiment.dealt
    if how != "iid" and (targets.is_floating_point() or targets.ndim != 1):
        raise ValueError(
            f"partition={experiment.partition!r} deals by class, and these targets are no class "
            "numbers [samples]: take partition='iid'"
        )
    if how == "shards":
        return partition_shards(targets, clients, shards_per_client=int(number), seed=seed)
    if how == "dirichlet":
        return partition_dirichlet(targets, clients, alpha=number, seed=seed)
    return partition_iid(targets, clients, seed=seed)
