"""What a protocol is given: each client's data, a network with its first weights, settings.

Here: a `Task`, made from an experiment. Not here: the protocols, the settings (experiment).
"""

import copy
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fltoolkit.data.batches import Batches
from fltoolkit.data.datasets import Samples, load
from fltoolkit.data.partitions import partition_dirichlet, partition_iid
from fltoolkit.federated.client import Local
from fltoolkit.models import mcmahan_cnn, splitnn_mlp
from fltoolkit.party import SGD, Optimizer, Party
from fltoolkit_research.data.partitions import owner_numbers, partition_owners, partition_shards
from fltoolkit_research.text import text_of

_FLAT_MODELS = ("mlp", "splitnn_mlp", "mcmahan_2nn")
"""Models whose inputs are [samples, features]; the others get the samples as they are."""


class Task:
    """Data, network and settings of one run, from which a protocol makes its parties.

    Attributes:
        data: training and test samples, as `fltoolkit.data.Samples`.
        names: the names of the clients, "client_0" and so on.
        shares: for each client, its ``(x, y)``.
        batches: for each client, its `fltoolkit.data.Batches`.
        model: the whole network with its first weights, on the experiment's device.
        loss_fn: the loss.
        settings: the protocol's settings by name.
        gate: a new gate, or None.
        rounds, batch_size, lr, cut, seed, num_clients: as in the experiment.

    >>> from fltoolkit_research.experiment import Experiment
    >>> task = Task(Experiment("relay", num_clients=2, num_samples=100, cut=4))
    >>> [len(y) for x, y in task.shares], [len(task.bottoms()[0].module), len(task.top().module)]
    ([50, 50], [4, 2])
    """

    def __init__(self, experiment: Any):
        self.data = data = samples_of(experiment)
        self.rounds, self.batch_size = experiment.rounds, experiment.batch_size
        self.lr, self.cut, self.seed = experiment.lr, experiment.cut, experiment.seed
        self.num_clients = experiment.num_clients
        self.model = network(experiment, data).to(experiment.device)
        self.loss_fn = experiment.loss()
        # of their own, because a gate and a clock change as training goes on
        self.settings: dict[str, Any] = copy.deepcopy(dict(experiment.settings))
        self.gate: Any = copy.deepcopy(experiment.gate) or None
        self.optimizer_call = experiment.optimizer or None
        self.names = [f"client_{k}" for k in range(experiment.num_clients)]
        rows = dealt_out(data, experiment)
        self.shares = [(data.x_train[each], data.y_train[each]) for each in rows]
        self.batches: list[Any] = [
            Batches(x, y, experiment.batch_size, seed=experiment.seed) for x, y in self.shares
        ]

    @property
    def clients(self) -> dict[str, tuple[Tensor, Tensor]]:
        """Each client's ``(x, y)`` by its name, as the functions of federated learning take it."""
        return dict(zip(self.names, self.shares, strict=True))

    @property
    def layers(self) -> nn.Sequential:
        """The model as an ``nn.Sequential``; TypeError if it is another module."""
        if not isinstance(self.model, nn.Sequential):
            raise TypeError(
                f"the model is a {type(self.model).__name__}: this protocol cuts it between two of "
                "its items, so its function must return an nn.Sequential; averaging takes any"
            )
        return self.model

    def optimizer(self, params: Iterable[nn.Parameter]) -> Optimizer:
        """The experiment's optimizer for these parameters; by default plain SGD."""
        call = self.optimizer_call
        return SGD(params, lr=self.lr) if call is None else call(params)

    def local(self, **how: Any) -> Local:
        """What a client of averaging does, by the experiment's optimizer, rate, batches and loss.

        ``how`` are more arguments of `Local`, such as ``steps=2``.
        """
        lr = self.lr if self.optimizer_call is None else None
        how = {"lr": lr, "optimizer": self.optimizer_call, "loss_fn": self.loss_fn, **how}
        return Local(self.batch_size, **how)

    def party(self, name: str, module: nn.Module, *, has_loss: bool = False) -> Party:
        """A party that learns by the experiment's optimizer; ``has_loss`` gives it the loss."""
        params = list(module.parameters())
        optimizer = self.optimizer(params) if params else None  # a softmax has no parameters
        return Party(name, module, optimizer, self.loss_fn if has_loss else None)

    def bottoms(self) -> list[Party]:
        """The clients of split learning: each has its own copy of the layers before the cut."""
        if not 0 < self.cut < len(self.layers):
            raise ValueError(f"cut={self.cut}: this model has cuts 1 to {len(self.layers) - 1}")
        return [self.party(name, copy.deepcopy(self.layers[: self.cut])) for name in self.names]

    def top(self) -> Party:
        """The server of split learning: the layers after the cut, and the loss."""
        return self.party("server", copy.deepcopy(self.layers[self.cut :]), has_loss=True)

    def whole(self, name: str = "server") -> Party:
        """A party with the network itself, not with a copy: the server of federated learning."""
        return Party(name, self.model, loss_fn=self.loss_fn)


def samples_of(experiment: Any) -> Samples:
    """The samples of an experiment, flat for a model of `_FLAT_MODELS`."""
    model = experiment.model
    name = model.func.__name__ if isinstance(model, partial) else model
    what = name in _FLAT_MODELS, experiment.num_samples, experiment.validation
    return samples(source_of(experiment.data), *what)


Source = tuple[Any, ...]


def source_of(data: Any) -> Source:
    """A function that loads data, its arguments, and its keyword arguments, as a key of a cache."""
    if isinstance(data, partial):
        return data.func, data.args, tuple(sorted(data.keywords.items()))
    return load, (data,), ()


@lru_cache(maxsize=4)
def samples(source: Source, flat: bool, num_samples: int | None, validation: float) -> Samples:
    """The samples for these settings; they are kept, so that equal settings load them only once.

    The choice of those left out or held out does not depend on the seed.
    """
    function, args, keywords = source
    data = function(*args, **dict(keywords))
    name = args[0] if function is load else function.__name__
    if not isinstance(data, Samples):
        raise TypeError(f"data={name!r} gave a {type(data).__name__}: it must give Samples")
    data = data.flat() if flat else data
    if num_samples is None and not validation:
        return data
    total = len(data.y_train)
    count = total if num_samples is None else num_samples
    held = round(validation * count)
    if not 1 <= count <= total or held >= count:
        raise ValueError(
            f"num_samples={count}, {held} of them held out: {name} has {total:,} training samples, "
            "and at least one must remain for training"
        )
    rows = torch.from_numpy(np.random.default_rng(0).permutation(total)[:count])
    kept, out = rows[held:], rows[:held]
    if held:
        data = replace(data, x_test=data.x_train[out], y_test=data.y_train[out])
    owners = None if data.owners is None else owner_numbers(data)[kept]
    return replace(data, x_train=data.x_train[kept], y_train=data.y_train[kept], owners=owners)


def network(experiment: Any, data: Samples) -> nn.Module:
    """The experiment's model; its first weights are drawn from the seed."""
    if experiment.model == "mlp":
        return splitnn_mlp(data.x_train.shape[1], data.num_classes, seed=experiment.seed)
    if experiment.model == "cnn":
        return mcmahan_cnn(data.num_classes, seed=experiment.seed)
    model = experiment.model(seed=experiment.seed)
    if not isinstance(model, nn.Module):
        raise TypeError(
            f"model={text_of(experiment.model)!r} returned a {type(model).__name__}: it must "
            "return an nn.Module; for split learning an nn.Sequential, which can be cut"
        )
    return model


def dealt_out(data: Samples, experiment: Any) -> Sequence[Tensor]:
    """The rows that each client has. A single client has all rows in their order."""
    targets, clients, seed = data.y_train, experiment.num_clients, experiment.seed
    if clients == 1:
        return [torch.arange(len(targets))]
    how, number = experiment.dealt
    if how == "owners":
        return partition_owners(owner_numbers(data), clients, seed=seed)
    if how != "iid" and (targets.is_floating_point() or targets.ndim != 1):
        raise ValueError(
            f"partition={experiment.partition!r} divides samples by class, and these targets are "
            "no class numbers of shape [samples]: use partition='iid'"
        )
    if how == "shards":
        return partition_shards(targets, clients, shards_per_client=int(number), seed=seed)
    if how == "dirichlet":
        return partition_dirichlet(targets, clients, alpha=number, seed=seed)
    return partition_iid(targets, clients, seed=seed)
