"""Split learning as protocols of experiments; each is a small function of task and channel.

Read them as examples for your own protocol (docs/extend.md shows one). Not here: the algorithms,
which are in the room split.
"""

import copy
from collections import Counter
from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from fltoolkit.channel import Channel
from fltoolkit.cost import ModelCost
from fltoolkit.data.batches import Batches
from fltoolkit.data.partitions import split_features
from fltoolkit.party import Party
from fltoolkit.split.asynchronous import Bookmark, train_async, train_async_relay
from fltoolkit.split.cache import ActivationCache
from fltoolkit.split.chain import train_split
from fltoolkit.split.clients import train_relay, train_splitfed
from fltoolkit.split.uploads import Upload
from fltoolkit.split.variants import train_uploading
from fltoolkit.split.vertical import train_vertical
from fltoolkit_research.local_loss import train_local_loss
from fltoolkit_research.protocol import (
    AMOUNT,
    CODEC,
    COUNT,
    FLAG,
    Trained,
    as_protocol,
    batches_of_all,
    everybody,
    one_record_per_step,
    tested_once,
)
from fltoolkit_research.task import Task

AT_THE_CUT = ("activations", "gradients")
WITH_CLIENTS = (*AT_THE_CUT, "labels", "model")
THROUGH = {"through": CODEC}  # how the network is tested, see `fltoolkit.evaluate`


def one_client(experiment: Any) -> None:
    """Raise ValueError for several clients."""
    if experiment.num_clients > 1:
        raise ValueError(
            f"num_clients={experiment.num_clients}: {experiment.protocol!r} has one client; use "
            "'relay' (the bottom is handed on), 'splitfed' (bottoms are averaged) or 'split_async'"
        )


def all_samples_everywhere(experiment: Any) -> None:
    """Raise ValueError for a partition of the samples: these clients divide columns."""
    if experiment.partition != "iid":
        raise ValueError(
            f"partition={experiment.partition!r}: clients of vertical have columns of all samples; "
            "leave partition out"
        )


def clients_in_parallel(task: Task) -> int:
    """SplitFed's clients train at the same time in version 1 and one after another in version 2."""
    return task.num_clients if task.settings.get("version") == 1 else 1


def bottoms_work(task: Task, step: int, steps: Counter[str], cost: ModelCost) -> float:
    """FLOPs of the layers before the cut, where each step counts as one with a mean batch.

    State A has a forward and a backward pass, state B has a forward pass only, state C has none.
    """
    batch = len(task.data.y_train) / one_record_per_step(task)
    return (3 * steps["A"] + steps["B"]) * batch * cost.flops_forward_client


# ------------------------------------------------------------------- split learning, one client


@as_protocol(AT_THE_CUT, settings=THROUGH, check=one_client, flops=bottoms_work)
def split(task: Task, channel: Channel) -> Trained:
    """One client and a server that has the labels; see `fltoolkit.split.train_split`."""
    (client,), server = task.bottoms(), task.top()
    for record in train_split([client, server], task.batches[0].epochs(task.rounds), channel):
        yield record, [client, server]


@as_protocol(AT_THE_CUT, settings=THROUGH | {"tail": COUNT}, check=one_client)
def u_shaped(task: Task, channel: Channel) -> Trained:
    """The client also has the last layers, so labels never leave it; see `train_split`."""
    (head,), num_tail = task.bottoms(), task.settings.get("tail", 1)
    if not 0 < num_tail < len(task.layers) - task.cut:
        raise ValueError(
            f"settings['tail'] = {num_tail}: after the cut at {task.cut} the model has "
            f"{len(task.layers) - task.cut} layers, and the server needs at least one of them: "
            "give a smaller tail or an earlier cut"
        )
    body = task.party("server", copy.deepcopy(task.layers[task.cut : -num_tail]))
    tail = task.party(head.name, copy.deepcopy(task.layers[-num_tail:]), has_loss=True)
    for record in train_split([head, body, tail], task.batches[0].epochs(task.rounds), channel):
        yield record, [head, body, tail]


@as_protocol(
    AT_THE_CUT, settings=THROUGH | {"max_local_steps": COUNT}, check=one_client, gated=True
)
def uploading(task: Task, channel: Channel) -> Trained:
    """A comparison in which each state uploads; see `fltoolkit.split.train_uploading`."""
    (client,), server = task.bottoms(), task.top()
    batches, most = task.batches[0].epochs(task.rounds), task.settings.get("max_local_steps", 1)
    for record in train_uploading(
        client, server, batches, channel, gate=task.gate, max_local_steps=most
    ):
        yield record, [client, server]


@as_protocol(("activations", "labels"), settings=THROUGH, check=one_client)
def local_loss(task: Task, channel: Channel) -> Trained:
    """The client learns from a loss of its own, so no gradient comes back.

    For its loss the client has one more linear layer, followed by the model's last item if that
    has no weights. See `fltoolkit.split.train_local_loss`.
    """
    (client,), server = task.bottoms(), task.top()
    with torch.no_grad():
        h = client.module(task.data.x_train[:2].to(client.device))
        wide = server.module(h)[0].numel()
    last = [] if list(task.layers[-1].parameters()) else [copy.deepcopy(task.layers[-1])]
    linear = nn.Linear(h[0].numel(), wide, device=client.device)
    with torch.no_grad():  # a single layer may start from zeros, which need no seed
        linear.weight.zero_()
        linear.bias.zero_()
    head = task.party(client.name, nn.Sequential(nn.Flatten(), linear, *last), has_loss=True)
    batches = task.batches[0].epochs(task.rounds)
    for record in train_local_loss(client, head, server, batches, channel):
        yield record, [client, server]


# --------------------------------------------------------------- split learning, several clients


@as_protocol(WITH_CLIENTS, settings=THROUGH, flops=bottoms_work)
def relay(task: Task, channel: Channel) -> Trained:
    """Clients take turns and hand on the bottom; see `fltoolkit.split.train_relay`."""
    clients, server = {party.name: party for party in task.bottoms()}, task.top()
    training = train_relay(
        [*clients.values()], server, task.batches, channel, num_rounds=task.rounds
    )
    for record in training:
        yield record, [clients[str(record["client"])], server]


@as_protocol(
    WITH_CLIENTS,
    settings=THROUGH | {"version": COUNT},
    check=tested_once,
    together=clients_in_parallel,
    flops=bottoms_work,
)
def splitfed(task: Task, channel: Channel) -> Trained:
    """Bottoms are averaged at the end of a round; see `fltoolkit.split.train_splitfed`."""
    clients, server = task.bottoms(), task.top()
    how = {"num_rounds": task.rounds, "version": task.settings.get("version", 2)}
    for record in train_splitfed(clients, server, task.batches, channel, **how, seed=task.seed):
        yield record, [clients[0], server]


@as_protocol(
    (*WITH_CLIENTS, "control"),
    settings=THROUGH | {"moved": AMOUNT, "delta": FLAG},
    flops=bottoms_work,
    gated=True,
)
def split_async(task: Task, channel: Channel) -> Trained:
    """A gate decides when clients may be silent; see `fltoolkit.split.train_async`."""
    clients, server = {party.name: party for party in task.bottoms()}, task.top()
    newest, *others = clients.values()
    upload = Upload(moved=task.settings.get("moved", 0.0), delta=task.settings.get("delta", False))
    cache = ActivationCache(len(task.data.y_train), seed=task.seed)
    how: dict[str, Any] = {"gate": task.gate, "upload": upload, "bookmark": Bookmark(cache)}
    if others:
        records = train_async_relay(
            [newest, *others], server, task.batches, channel, num_rounds=task.rounds, **how
        )
    else:
        records = train_async(
            newest, server, task.batches[0], channel, num_epochs=task.rounds, **how
        )
    for record in records:
        if record["state"] == "A" and "client" in record:
            newest = clients[str(record["client"])]
        yield record, [newest, server]


def average(hs: Sequence[Tensor]) -> Tensor:
    """Merge activations of equal width by averaging."""
    return torch.stack(list(hs)).mean(0)


@as_protocol(
    AT_THE_CUT,
    check=all_samples_everywhere,
    records_per_round=batches_of_all,
    together=everybody,
)
def vertical(task: Task, channel: Channel) -> Trained:
    """Each client has some columns of all samples; see `fltoolkit.split.train_vertical`.

    Each client has the layers before the cut. The first of them must be linear; a client has only
    the part of it that belongs to its columns. The server averages what the clients send.
    """
    first = task.layers[0]
    if not isinstance(first, nn.Linear) or task.data.x_train.ndim != 2:
        raise ValueError(
            "vertical divides columns: it needs samples [samples, features] and a model whose "
            f"first layer is nn.Linear, not {type(first).__name__}"
        )
    columns = split_features(first.in_features, task.num_clients)
    clients = []
    for name, mine in zip(task.names, columns, strict=True):
        bottom = copy.deepcopy(task.layers[: task.cut])
        own = cast(nn.Linear, cast(nn.Sequential, bottom)[0])
        own.in_features = len(mine)
        own.weight = nn.Parameter(first.weight.detach()[:, mine].clone())
        clients.append(task.party(name, bottom))
    server = task.top()
    x, y = task.data.x_train, task.data.y_train
    batches: Any = Batches(
        tuple(x[:, mine] for mine in columns), y, task.batch_size, seed=task.seed
    )
    together = SideBySide([client.module for client in clients], columns)
    whole = [Party("clients", together), server]
    for record in train_vertical(
        clients, server, batches.epochs(task.rounds), channel, merge=average
    ):
        yield record, whole


class SideBySide(nn.Module):
    """All bottoms of vertical data as one module, which the test needs."""

    def __init__(self, bottoms: Sequence[nn.Module], columns: Sequence[Tensor]):
        super().__init__()
        self.bottoms, self.columns = nn.ModuleList(bottoms), columns

    def forward(self, x: Tensor) -> Tensor:
        """The average of the outputs of all bottoms, each for its columns."""
        pairs = zip(self.bottoms, self.columns, strict=True)
        return average([bottom(x[:, mine]) for bottom, mine in pairs])
