"""The package's protocols as values for experiments; each is a small function of task and channel.

Read them as examples for your own protocol (docs/extend.md shows one). Not here: the algorithms,
which are in the rooms split and federated.
"""

import copy
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from fltoolkit.channel import Channel
from fltoolkit.cost import ModelCost
from fltoolkit.data.batches import Batches
from fltoolkit.data.partitions import split_features
from fltoolkit.federated.asynchronous import fedasync as train_fedasync
from fltoolkit.federated.asynchronous import fedbuff as train_fedbuff
from fltoolkit.federated.client import Local
from fltoolkit.federated.clock import Arrivals
from fltoolkit.federated.means import Mean, mean_of_all, mean_of_senders
from fltoolkit.federated.privacy import GaussianDP
from fltoolkit.federated.rounds import fedavg as train_fedavg
from fltoolkit.federated.rounds import interval_averaging as train_intervals
from fltoolkit.history import Record
from fltoolkit.party import Party
from fltoolkit.research.protocol import (
    AMOUNT,
    CODEC,
    COUNT,
    FLAG,
    OPTIMIZER,
    Protocol,
    Setting,
    a_record_a_round,
    a_record_a_step,
    is_number,
)
from fltoolkit.research.task import Task
from fltoolkit.research.text import allow
from fltoolkit.split.asynchronous import train_async, train_async_relay
from fltoolkit.split.cache import ActivationCache
from fltoolkit.split.chain import train_split
from fltoolkit.split.clients import train_relay, train_splitfed
from fltoolkit.split.uploads import Upload
from fltoolkit.split.variants import train_local_loss, train_uploading
from fltoolkit.split.vertical import average, train_vertical

__all__ = ["PROTOCOLS"]

Told = Iterator[tuple[Record, Sequence[Party]]]
"""Every protocol yields a record together with the parties that are the whole network now."""

# ------------------------------------------------------------------- split learning, one client


def split(task: Task, channel: Channel) -> Told:
    """One client and a server that has the labels; see `fltoolkit.split.train_split`."""
    (client,), server = task.bottoms(), task.top()
    for record in train_split([client, server], task.batches[0].epochs(task.rounds), channel):
        yield record, [client, server]


def u_shaped(task: Task, channel: Channel) -> Told:
    """The client also has the last layers, so labels never leave it; see `train_split`."""
    (head,), num_tail = task.bottoms(), task.settings.get("tail", 1)
    if not 0 < num_tail < len(task.model) - task.cut:
        raise ValueError(
            f"settings['tail'] = {num_tail}: after the cut at {task.cut} the model has "
            f"{len(task.model) - task.cut} layers, and the server needs at least one of them: "
            "give a smaller tail or an earlier cut"
        )
    body = task.party("server", copy.deepcopy(task.model[task.cut : -num_tail]))
    tail = task.party(head.name, copy.deepcopy(task.model[-num_tail:]), has_loss=True)
    for record in train_split([head, body, tail], task.batches[0].epochs(task.rounds), channel):
        yield record, [head, body, tail]


def uploading(task: Task, channel: Channel) -> Told:
    """A comparison in which each state uploads; see `fltoolkit.split.train_uploading`."""
    (client,), server = task.bottoms(), task.top()
    steps = task.settings.get("max_local_steps", 1)
    batches = task.batches[0].epochs(task.rounds)
    for record in train_uploading(
        client, server, batches, channel, gate=task.gate, max_local_steps=steps
    ):
        yield record, [client, server]


def local_loss(task: Task, channel: Channel) -> Told:
    """The client learns from a loss of its own, so no gradient comes back.

    For its loss the client has one more linear layer, followed by the model's last item if that
    has no weights. See `fltoolkit.split.train_local_loss`.
    """
    (client,), server = task.bottoms(), task.top()
    with torch.no_grad():
        h = client.module(task.data.x_train[:2])
        wide = server.module(h)[0].numel()
    last = [] if list(task.model[-1].parameters()) else [copy.deepcopy(task.model[-1])]
    linear = nn.Linear(h[0].numel(), wide)
    with torch.no_grad():  # a single layer may start from zeros, which need no seed
        linear.weight.zero_()
        linear.bias.zero_()
    head = task.party(client.name, nn.Sequential(nn.Flatten(), linear, *last), has_loss=True)
    batches = task.batches[0].epochs(task.rounds)
    for record in train_local_loss(client, head, server, batches, channel):
        yield record, [client, server]


# --------------------------------------------------------------- split learning, several clients


def relay(task: Task, channel: Channel) -> Told:
    """Clients take turns and hand on the bottom; see `fltoolkit.split.train_relay`."""
    clients, server = {party.name: party for party in task.bottoms()}, task.top()
    for record in train_relay(
        [*clients.values()], server, task.batches, channel, num_rounds=task.rounds
    ):
        yield record, [clients[str(record["client"])], server]


def splitfed(task: Task, channel: Channel) -> Told:
    """Bottoms are averaged at the end of a round; see `fltoolkit.split.train_splitfed`."""
    clients, server = task.bottoms(), task.top()
    version = task.settings.get("version", 2)
    for record in train_splitfed(
        clients,
        server,
        task.batches,
        channel,
        num_rounds=task.rounds,
        version=version,
        seed=task.seed,
    ):
        yield record, [clients[0], server]


def split_async(task: Task, channel: Channel) -> Told:
    """A gate decides when clients may be silent; see `fltoolkit.split.train_async`."""
    clients, server = {party.name: party for party in task.bottoms()}, task.top()
    upload = {key: task.settings[key] for key in ("moved", "delta") if key in task.settings}
    how: dict[str, Any] = {"gate": task.gate, "upload": Upload(**upload)}
    how["cache"] = ActivationCache(len(task.data.y_train), seed=task.seed)
    newest, *others = clients.values()
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


def vertical(task: Task, channel: Channel) -> Told:
    """Each client has some columns of all samples; see `fltoolkit.split.train_vertical`.

    Each client has the layers before the cut. The first of them must be linear; a client has only
    the part of it that belongs to its columns. The server averages what the clients send.
    """
    first = task.model[0]
    if not isinstance(first, nn.Linear) or task.data.x_train.ndim != 2:
        raise ValueError(
            "vertical divides columns: it needs samples [samples, features] and a model whose "
            f"first layer is nn.Linear, not {type(first).__name__}"
        )
    columns = split_features(first.in_features, task.num_clients)
    clients = []
    for name, mine in zip(task.names, columns, strict=True):
        bottom = copy.deepcopy(task.model[: task.cut])
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
    everybody = [Party("clients", together), server]
    for record in train_vertical(
        clients, server, batches.epochs(task.rounds), channel, merge=average
    ):
        yield record, everybody


class SideBySide(nn.Module):
    """All bottoms of vertical data as one module, which the test needs."""

    def __init__(self, bottoms: Sequence[nn.Module], columns: Sequence[Tensor]):
        super().__init__()
        self.bottoms, self.columns = nn.ModuleList(bottoms), columns

    def forward(self, x: Tensor) -> Tensor:
        """The average of the outputs of all bottoms, each for its columns."""
        pairs = zip(self.bottoms, self.columns, strict=True)
        return average([bottom(x[:, mine]) for bottom, mine in pairs])


# --------------------------------------------------------------------------- federated learning


def fedavg(task: Task, channel: Channel) -> Told:
    """Rounds of federated averaging; see `fltoolkit.federated.fedavg`."""
    server, settings = task.whole(), task.settings
    for record in train_fedavg(
        *(task.model, shares_of(task), channel),
        rounds=task.rounds,
        cohort=cohort_of(task),
        local=local_of(task),
        arrivals=arrivals_of(task, settings.get("wait_for")),
        mean=mean_of(task),
        server_optimizer=server_optimizer_of(task),
        seed=task.seed,
    ):
        yield record, [server]


def interval_averaging(task: Task, channel: Channel) -> Told:
    """All clients are averaged every few steps; see `fltoolkit.federated.interval_averaging`."""
    server, settings = task.whole(), task.settings
    for record in train_intervals(
        *(task.model, shares_of(task), channel),
        num_averages=task.rounds,
        local=local_of(task, steps=settings.get("interval_steps", 1)),
        arrivals=arrivals_of(task, settings.get("replicas_to_aggregate")),
        server_optimizer=server_optimizer_of(task),
        seed=task.seed,
    ):
        yield record, [server]


def fedbuff(task: Task, channel: Channel) -> Told:
    """The model changes after every ``buffer_size`` updates; see `fltoolkit.federated.fedbuff`."""
    server, settings = task.whole(), task.settings
    for record in train_fedbuff(
        *(task.model, shares_of(task), channel),
        rounds=task.rounds,
        buffer_size=settings.get("buffer_size", 1),
        concurrency=settings.get("concurrency", task.num_clients),
        local=local_of(task),
        server_optimizer=server_optimizer_of(task),
        seed=task.seed,
        **lateness_of(task),
    ):
        yield record, [server]


def fedasync(task: Task, channel: Channel) -> Told:
    """The model changes after each update; a round is, on average, one update from each client.

    See `fltoolkit.federated.fedasync`.
    """
    server, settings = task.whole(), task.settings
    for record in train_fedasync(
        *(task.model, shares_of(task), channel),
        num_updates=task.rounds * task.num_clients,
        concurrency=settings.get("concurrency", task.num_clients),
        local=local_of(task),
        alpha=settings.get("alpha", 0.6),
        seed=task.seed,
        **lateness_of(task),
    ):
        yield record, [server]


def shares_of(task: Task) -> dict[str, Any]:
    """Each client's samples by its name."""
    return dict(zip(task.names, task.shares, strict=True))


def local_of(task: Task, *, steps: int | None = None) -> Local:
    """The local training of each client; one epoch if the settings give no epochs and no steps."""
    settings, steps = task.settings, steps or task.settings.get("local_steps")
    return Local(
        task.batch_size,
        lr=task.lr if task.optimizer_call is None else None,
        optimizer=task.optimizer_call,
        epochs=settings.get("local_epochs", None if steps else 1),
        steps=steps,
        prox=settings.get("prox", 0.0),
        loss_fn=task.loss_fn,
        keep_state=settings.get("keep_state", False),
    )


def lateness_of(task: Task) -> dict[str, Any]:
    """The clock and the staleness rule, if the settings have them."""
    return {name: task.settings[name] for name in LATE if name in task.settings}


def arrivals_of(task: Task, wait_for: int | None) -> Arrivals:
    """The rule that says when a round ends."""
    timeout = task.settings.get("timeout", math.inf)
    return Arrivals(wait_for=wait_for, timeout=timeout, **lateness_of(task))


def mean_of(task: Task) -> Mean:
    """How updates are averaged: with noise, over those who sent a value, or by sample counts."""
    privacy, masked = task.settings.get("privacy"), task.settings.get("masked", False)
    return privacy or (mean_of_senders if masked else mean_of_all)


def server_optimizer_of(task: Task) -> torch.optim.Optimizer | None:
    """The server's optimizer; None means that the server adds the mean update."""
    make = task.settings.get("server_optimizer")
    return None if make is None else make(task.model.parameters())


# ----------------------------------------------------------- what an experiment may ask of which


def one_client(experiment: Any) -> None:
    """Raise ValueError for several clients."""
    if experiment.num_clients > 1:
        raise ValueError(
            f"num_clients={experiment.num_clients}: {experiment.protocol!r} has one client; use "
            "'relay' (the bottom is handed on), 'splitfed' (bottoms are averaged) or 'split_async'"
        )


def tested_once(experiment: Any) -> None:
    """Raise ValueError for tests within a round: only at its end is there one model to test."""
    if experiment.evaluations > 1:
        raise ValueError(
            f"evaluations={experiment.evaluations}: {experiment.protocol} is tested once a round, "
            "since clients have different models within a round"
        )


def epochs_or_steps(experiment: Any) -> None:
    """Raise ValueError for settings that contradict each other."""
    if {"local_epochs", "local_steps"} <= experiment.settings.keys():
        raise ValueError("settings hold local_epochs and local_steps: give one of them")
    if experiment.settings.get("masked") and "privacy" in experiment.settings:
        raise ValueError(
            "settings hold masked and privacy: give one of them, because privacy needs a mean in "
            "which every update has the same weight"
        )


def rounds_only(experiment: Any) -> None:
    """Raise ValueError for settings that a federated protocol with rounds cannot have."""
    tested_once(experiment)
    epochs_or_steps(experiment)
    size = experiment.settings.get("cohort_size", experiment.num_clients)
    if size > experiment.num_clients or experiment.settings.get("wait_for", 1) > size:
        raise ValueError(
            f"num_clients={experiment.num_clients}, cohort_size={size}, "
            f"wait_for={experiment.settings.get('wait_for', 1)}: cohort_size must be at most "
            "num_clients, and wait_for at most cohort_size"
        )


def all_samples_everywhere(experiment: Any) -> None:
    """Raise ValueError for a partition of the samples: these clients divide columns."""
    if experiment.partition != "iid":
        raise ValueError(
            f"partition={experiment.partition!r}: clients of vertical have columns of all samples; "
            "leave partition out"
        )


# --------------------------------------------------------------------- how long, how much work


def batches_of_all(task: Task) -> int:
    """The batches in a pass over the samples, which all clients have in common."""
    return math.ceil(len(task.data.y_train) / task.batch_size)


def cohort_of(task: Task) -> int:
    """The number of clients in a round."""
    return task.settings.get("cohort_size", task.num_clients)


def clients_at_once(task: Task) -> int:
    """SplitFed's clients train at the same time in version 1 and one after another in version 2."""
    return task.num_clients if task.settings.get("version") == 1 else 1


def everybody(task: Task) -> int:
    """All clients send at the same time."""
    return task.num_clients


def bottoms_work(task: Task, step: int, steps: Counter[str], cost: ModelCost) -> float:
    """FLOPs of the layers before the cut, where each step counts as one with a mean batch.

    State A has a forward and a backward pass, state B has a forward pass only, state C has none.
    """
    batch = len(task.data.y_train) / a_record_a_step(task)
    return (3 * steps["A"] + steps["B"]) * batch * cost.flops_forward_client


def clients_work(task: Task, step: int, steps: Counter[str], cost: ModelCost) -> float:
    """FLOPs of all layers at all clients of a mean cohort, in ``step`` rounds."""
    size = len(task.data.y_train) / task.num_clients
    per_client = task.settings.get("local_epochs", 1) * size
    local_steps = task.settings.get("local_steps", task.settings.get("interval_steps"))
    if local_steps is not None:
        per_client = local_steps * task.batch_size
    return 3 * step * cohort_of(task) * per_client * cost.flops_forward


def updates_work(task: Task, step: int, steps: Counter[str], cost: ModelCost) -> float:
    """FLOPs of all layers for the updates that arrived."""
    each = task.settings.get("buffer_size", 1)
    return clients_work(task, step, steps, cost) * each / cohort_of(task)


# ----------------------------------------------------------------------------------- the values


def is_clock(value: Any) -> bool:
    """True if ``value`` is a function that gives the seconds for a client and a round."""
    return answers(value, "client_0", 0)


def is_staleness(value: Any) -> bool:
    """True if ``value`` is a function that gives the weight of an update that is a round late."""
    return answers(value, 1)


def answers(value: Any, *question: Any) -> bool:
    """True if ``value`` is a function that returns a number for these arguments."""
    try:
        return callable(value) and is_number(value(*question))
    except TypeError:
        return False


CLOCK = Setting("a clock such as LogNormal(sigma=1.0)", is_clock, as_text=True)
STALENESS = Setting("a rule such as Drop() or Polynomial(a=0.5)", is_staleness, as_text=True)
PRIVACY = Setting(
    "noise such as GaussianDP(clip=1.0, noise_multiplier=0.5)",
    lambda value: isinstance(value, GaussianDP),
    as_text=True,
)

AT_THE_CUT, FEDERATED = ("activations", "gradients"), ("model", "update", "control")
LOCAL = {"local_epochs": COUNT, "local_steps": COUNT, "prox": AMOUNT, "keep_state": FLAG}
LATE = {"staleness": STALENESS, "clock": CLOCK}

PROTOCOLS = {
    protocol.name: protocol
    for protocol in (
        Protocol(
            "split",
            split,
            sends=AT_THE_CUT,
            settings={"through": CODEC},
            check=one_client,
            flops=bottoms_work,
        ),
        Protocol(
            "relay",
            relay,
            sends=(*AT_THE_CUT, "labels", "model"),
            settings={"through": CODEC},
            flops=bottoms_work,
        ),
        Protocol(
            "splitfed",
            splitfed,
            sends=(*AT_THE_CUT, "labels", "model"),
            settings={"through": CODEC, "version": COUNT},
            check=tested_once,
            together=clients_at_once,
            flops=bottoms_work,
        ),
        Protocol(
            "split_async",
            split_async,
            sends=(*AT_THE_CUT, "labels", "model", "control"),
            settings={"through": CODEC, "moved": AMOUNT, "delta": FLAG},
            flops=bottoms_work,
            gated=True,
        ),
        Protocol(
            "fedavg",
            fedavg,
            sends=FEDERATED,
            settings={
                **LOCAL,
                **LATE,
                "cohort_size": COUNT,
                "masked": FLAG,
                "wait_for": COUNT,
                "timeout": AMOUNT,
                "server_optimizer": OPTIMIZER,
                "privacy": PRIVACY,
            },
            check=rounds_only,
            records_a_round=a_record_a_round,
            together=cohort_of,
            flops=clients_work,
        ),
        Protocol(
            "interval_averaging",
            interval_averaging,
            sends=FEDERATED,
            settings={
                **LATE,
                "interval_steps": COUNT,
                "replicas_to_aggregate": COUNT,
                "server_optimizer": OPTIMIZER,
            },
            check=tested_once,
            records_a_round=a_record_a_round,
            together=everybody,
            flops=clients_work,
        ),
        Protocol(
            "fedasync",
            fedasync,
            sends=FEDERATED,
            settings={**LOCAL, **LATE, "alpha": AMOUNT, "concurrency": COUNT},
            check=epochs_or_steps,
            records_a_round=everybody,
            flops=updates_work,
        ),
        Protocol(
            "fedbuff",
            fedbuff,
            sends=FEDERATED,
            settings={
                **LOCAL,
                **LATE,
                "buffer_size": COUNT,
                "concurrency": COUNT,
                "server_optimizer": OPTIMIZER,
            },
            check=rounds_only,
            records_a_round=a_record_a_round,
            flops=updates_work,
        ),
        Protocol(
            "u_shaped",
            u_shaped,
            sends=AT_THE_CUT,
            settings={"through": CODEC, "tail": COUNT},
            check=one_client,
        ),
        Protocol(
            "vertical",
            vertical,
            sends=AT_THE_CUT,
            check=all_samples_everywhere,
            records_a_round=batches_of_all,
            together=everybody,
        ),
        Protocol(
            "uploading",
            uploading,
            sends=AT_THE_CUT,
            settings={"through": CODEC, "max_local_steps": COUNT},
            check=one_client,
            gated=True,
        ),
        Protocol(
            "local_loss",
            local_loss,
            sends=("activations", "labels"),
            settings={"through": CODEC},
            check=one_client,
        ),
    )
}
"""The package's protocols by name."""

allow(*PROTOCOLS.values())
