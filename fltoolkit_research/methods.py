"""The package's protocols as values for experiments; each is a small function of task and channel.

Read them as examples for your own protocol (docs/extend.md shows one). Not here: the algorithms,
which are in the rooms split and federated.
"""

import copy
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from inspect import signature
from typing import Any, cast

import torch
from torch import Tensor, nn

from fltoolkit.channel import Channel
from fltoolkit.cost import ModelCost
from fltoolkit.data.batches import Batches
from fltoolkit.data.partitions import split_features
from fltoolkit.federated.client import Local
from fltoolkit.federated.clock import Arrivals
from fltoolkit.federated.means import Mean, mean_of_all, mean_of_senders
from fltoolkit.federated.rounds import fedavg as train_fedavg
from fltoolkit.federated.rounds import interval_averaging as train_intervals
from fltoolkit.federated.server import Server
from fltoolkit.history import Record
from fltoolkit.party import Party
from fltoolkit.split.asynchronous import Bookmark, train_async, train_async_relay
from fltoolkit.split.cache import ActivationCache
from fltoolkit.split.chain import train_split
from fltoolkit.split.clients import train_relay, train_splitfed
from fltoolkit.split.uploads import Upload
from fltoolkit.split.variants import train_uploading
from fltoolkit.split.vertical import train_vertical
from fltoolkit_research.federated.asynchronous import AsyncServer
from fltoolkit_research.federated.asynchronous import fedasync as train_fedasync
from fltoolkit_research.federated.asynchronous import fedbuff as train_fedbuff
from fltoolkit_research.federated.data_parallel import ddp as train_ddp
from fltoolkit_research.federated.exchange import AllGather, Ring, ThroughServer
from fltoolkit_research.federated.local_steps import Stream
from fltoolkit_research.federated.local_steps import des_loc as train_des_loc
from fltoolkit_research.federated.local_steps import diloco as train_diloco
from fltoolkit_research.federated.local_steps import streaming_diloco as train_streaming
from fltoolkit_research.federated.privacy import GaussianDP
from fltoolkit_research.local_loss import train_local_loss
from fltoolkit_research.protocol import (
    AMOUNT,
    CODEC,
    COUNT,
    FLAG,
    OPTIMIZER,
    Protocol,
    Setting,
    Trained,
    is_number,
    one_record_per_round,
    one_record_per_step,
)
from fltoolkit_research.task import Task
from fltoolkit_research.text import allow

# ------------------------------------------------------------------- split learning, one client


def split_in_two(task: Task, channel: Channel) -> Trained:
    """One client and a server that has the labels; see `fltoolkit.split.train_split`."""
    (client,), server = task.bottoms(), task.top()
    for record in train_split([client, server], task.batches[0].epochs(task.rounds), channel):
        yield record, [client, server]


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


def uploading(task: Task, channel: Channel) -> Trained:
    """A comparison in which each state uploads; see `fltoolkit.split.train_uploading`."""
    (client,), server = task.bottoms(), task.top()
    batches, given = task.batches[0].epochs(task.rounds), arguments(train_uploading, task)
    for record in train_uploading(client, server, batches, channel, **given):
        yield record, [client, server]


def local_loss(task: Task, channel: Channel) -> Trained:
    """The client learns from a loss of its own, so no gradient comes back.

    For its loss the client has one more linear layer, followed by the model's last item if that
    has no weights. See `fltoolkit_research.local_loss.train_local_loss`.
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


def relay(task: Task, channel: Channel) -> Trained:
    """Clients take turns and hand on the bottom; see `fltoolkit.split.train_relay`."""
    clients, server = {party.name: party for party in task.bottoms()}, task.top()
    given = arguments(train_relay, task)
    for record in train_relay([*clients.values()], server, task.batches, channel, **given):
        yield record, [clients[str(record["client"])], server]


def splitfed(task: Task, channel: Channel) -> Trained:
    """Bottoms are averaged at the end of a round; see `fltoolkit.split.train_splitfed`."""
    clients, server = task.bottoms(), task.top()
    given = arguments(train_splitfed, task)
    for record in train_splitfed(clients, server, task.batches, channel, **given):
        yield record, [clients[0], server]


def split_async(task: Task, channel: Channel) -> Trained:
    """A gate decides when clients may be silent; see `fltoolkit.split.train_async`."""
    clients, server = {party.name: party for party in task.bottoms()}, task.top()
    newest, *others = clients.values()
    if others:
        given = arguments(train_async_relay, task)
        records = train_async_relay([newest, *others], server, task.batches, channel, **given)
    else:
        given = arguments(train_async, task)
        records = train_async(newest, server, task.batches[0], channel, **given)
    for record in records:
        if record["state"] == "A" and "client" in record:
            newest = clients[str(record["client"])]
        yield record, [newest, server]


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
    everybody = [Party("clients", together), server]
    for record in train_vertical(
        clients, server, batches.epochs(task.rounds), channel, merge=average
    ):
        yield record, everybody


def average(hs: Sequence[Tensor]) -> Tensor:
    """Merge activations of equal width by averaging."""
    return torch.stack(list(hs)).mean(0)


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


def federated(
    train: Callable[..., Iterator[Record]], **own: Callable[[Task], Any]
) -> Callable[[Task, Channel], Trained]:
    """A protocol made from the signature of a function of `fltoolkit.federated`.

    The function gets the first model, each client's samples by its name, the channel, and
    `arguments`; ``own`` are arguments that this protocol computes in its own way.
    """

    def run(task: Task, channel: Channel) -> Trained:
        server, shares = task.whole(), dict(zip(task.names, task.shares, strict=True))
        given = arguments(train, task) | {name: value(task) for name, value in own.items()}
        for record in train(task.model, shares, channel, **given):
            yield record, [server]

    return run


def cohort_of(task: Task) -> int:
    """The number of clients in a round."""
    return task.settings.get("cohort_size", task.num_clients)


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


def inner_steps_of(task: Task) -> int:
    """The steps of each worker between two messages; 1 if the settings give none."""
    return task.settings.get("local_steps", task.settings.get("interval_steps", 1))


def inner_of(task: Task) -> Local:
    """The steps of each worker between two messages."""
    return local_of(task, steps=inner_steps_of(task))


single_of = partial(local_of, steps=1)
"""One step between two messages."""


def batches_at_once(task: Task) -> int:
    """The steps in a pass over the samples, when each worker takes a batch at the same time."""
    return math.ceil(len(task.data.y_train) / (task.batch_size * task.num_clients))


def server_of(task: Task, *, wait_for: str = "wait_for") -> Server:
    """What the server does in a round; ``wait_for`` names the setting with the number."""
    given = settings_given(task, "timeout", "staleness", "clock")
    arrivals = Arrivals(wait_for=task.settings.get(wait_for), **given)
    return Server(mean=mean_of(task), optimizer=optimizer_of(task), arrivals=arrivals)


def async_server_of(task: Task) -> AsyncServer:
    """What a server does that does not wait for rounds."""
    given = settings_given(task, "staleness", "clock")
    concurrency = task.settings.get("concurrency", task.num_clients)
    return AsyncServer(concurrency=concurrency, optimizer=optimizer_of(task), **given)


def mean_of(task: Task) -> Mean:
    """How updates are averaged: with noise, over those who sent a value, or by sample counts."""
    privacy, masked = task.settings.get("privacy"), task.settings.get("masked", False)
    return privacy or (mean_of_senders if masked else mean_of_all)


def optimizer_of(task: Task, name: str = "server_optimizer") -> torch.optim.Optimizer | None:
    """The optimizer of the common model; None means that the mean update is added."""
    make = task.settings.get(name)
    return None if make is None else make(task.model.parameters())


def settings_given(task: Task, *names: str) -> dict[str, Any]:
    """Those settings of these names that the experiment has."""
    return {name: task.settings[name] for name in names if name in task.settings}


ARGUMENTS: dict[str, Callable[[Task], Any]] = {
    **dict.fromkeys(("rounds", "num_rounds", "num_epochs", "num_averages"), lambda t: t.rounds),
    "num_updates": lambda task: task.rounds * task.num_clients,
    "cohort": cohort_of,
    "buffer_size": lambda task: task.settings.get("buffer_size", 1),
    "steps": lambda task: task.rounds * batches_at_once(task),
    "local": local_of,
    "server": server_of,
    "outer": lambda task: optimizer_of(task, "outer"),
    "version": lambda task: task.settings.get("version", 2),
    "gate": lambda task: task.gate,
    "upload": lambda task: Upload(**settings_given(task, "moved", "delta")),
    "bookmark": lambda task: Bookmark(ActivationCache(len(task.data.y_train), seed=task.seed)),
    "seed": lambda task: task.seed,
}
"""How the value of a protocol's argument is made from a task, for the names in its signature."""


def arguments(train: Callable[..., Any], task: Task) -> dict[str, Any]:
    """The values of those keyword arguments of ``train`` that the task has, by their names.

    A name that is not in `ARGUMENTS` gets the setting of that name. If there is no such setting, it
    is left out, so that the default of ``train`` counts.
    """
    names = [n for n, p in signature(train).parameters.items() if p.kind is p.KEYWORD_ONLY]
    return settings_given(task, *names) | {n: ARGUMENTS[n](task) for n in names if n in ARGUMENTS}


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
            f"evaluations={experiment.evaluations}: {experiment.protocol} is tested once per "
            "round, since clients have different models within a round"
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


def has(name: str, experiment: Any) -> None:
    """Raise ValueError for settings that lack one that the protocol needs."""
    tested_once(experiment)
    if name not in experiment.settings:
        words = experiment.method.settings[name].words
        raise ValueError(f"settings lack {name}, which {experiment.protocol} needs: {words}")


def all_samples_everywhere(experiment: Any) -> None:
    """Raise ValueError for a partition of the samples: these clients divide columns."""
    if experiment.partition != "iid":
        raise ValueError(
            f"partition={experiment.partition!r}: clients of vertical have columns of all samples; "
            "leave partition out"
        )


# --------------------------------------------------------------------- how long, how much work


def batches_of_all(task: Task) -> int:
    """The batches in one pass over all samples."""
    return math.ceil(len(task.data.y_train) / task.batch_size)


def clients_in_parallel(task: Task) -> int:
    """SplitFed's clients train at the same time in version 1 and one after another in version 2."""
    return task.num_clients if task.settings.get("version") == 1 else 1


def everybody(task: Task) -> int:
    """All clients send at the same time."""
    return task.num_clients


def bottoms_work(task: Task, step: int, steps: Counter[str], cost: ModelCost) -> float:
    """FLOPs of the layers before the cut, where each step counts as one with a mean batch.

    State A has a forward and a backward pass, state B has a forward pass only, state C has none.
    """
    batch = len(task.data.y_train) / one_record_per_step(task)
    return (3 * steps["A"] + steps["B"]) * batch * cost.flops_forward_client


def clients_work(task: Task, step: int, steps: Counter[str], cost: ModelCost) -> float:
    """FLOPs of all layers at all clients of a mean cohort, in ``step`` rounds."""
    size, local_steps = len(task.data.y_train) / task.num_clients, task.settings.get("local_steps")
    epochs = task.settings.get("local_epochs", 1)
    per_client = epochs * size if local_steps is None else local_steps * task.batch_size
    return 3 * step * cohort_of(task) * per_client * cost.flops_forward


def workers_work(task: Task, step: int, steps: Counter[str], cost: ModelCost) -> float:
    """FLOPs of all layers at all workers, after ``step`` messages."""
    each = inner_steps_of(task) * task.batch_size
    return 3 * step * task.num_clients * each * cost.flops_forward


def updates_work(task: Task, step: int, steps: Counter[str], cost: ModelCost) -> float:
    """FLOPs of all layers for the updates that arrived."""
    each = task.settings.get("buffer_size", 1)
    return clients_work(task, step, steps, cost) * each / cohort_of(task)


# ----------------------------------------------------------------------------------- the values


def answers(value: Any, *question: Any) -> bool:
    """True if ``value`` is a function that returns a number for these arguments."""
    try:
        return callable(value) and is_number(value(*question))
    except TypeError:
        return False


def value_of(words: str, kind: Any) -> Setting:
    """A setting that is a value of a class, or of one of several."""
    return Setting(words, lambda value: isinstance(value, kind), as_text=True)


CLOCK = Setting(
    "a clock such as LogNormal(sigma=1.0)", lambda v: answers(v, "client_0", 0), as_text=True
)
STALENESS = Setting(
    "a rule such as Drop() or Polynomial(a=0.5)", lambda v: answers(v, 1), as_text=True
)
PRIVACY = value_of("noise such as GaussianDP(clip=1.0, noise_multiplier=0.5)", GaussianDP)
EXCHANGE = value_of("ThroughServer(), AllGather() or Ring()", ThroughServer | AllGather | Ring)
STREAM = value_of("a stream such as Stream(4, overlap=1)", Stream)
MOMENTS = Setting(
    "entries of the optimizer's state with numbers of rounds, such as {'exp_avg': 3}",
    lambda value: isinstance(value, Mapping) and all(map(COUNT.allowed, value.values())),
)

AT_THE_CUT, FEDERATED = ("activations", "gradients"), ("model", "update", "control")
WITH_CLIENTS = (*AT_THE_CUT, "labels", "model")
LOCAL = {"local_epochs": COUNT, "local_steps": COUNT, "prox": AMOUNT, "keep_state": FLAG}
LATE = {"staleness": STALENESS, "clock": CLOCK}
COHORT = {"cohort_size": COUNT, "wait_for": COUNT, "timeout": AMOUNT}
THROUGH, SERVER = {"through": CODEC}, {"server_optimizer": OPTIMIZER}
STEPS = {"local_steps": COUNT, "keep_state": FLAG}


def among_workers(
    name: str,
    train: Callable[..., Iterator[Record]],
    settings: Mapping[str, Setting],
    *,
    local: Callable[[Task], Local] = inner_of,
    check: Callable[[Any], None] = tested_once,
) -> Protocol:
    """A protocol of workers who train one model together and send at the same time."""
    every_step = local is single_of

    def run(task: Task, channel: Channel) -> Trained:
        for record, parties in federated(train, local=local)(task, channel):
            yield record | {"step": channel.step}, parties  # it counted inner steps

    return Protocol(
        name,
        run,
        ("model", "update"),
        settings,
        check,
        records_per_round=batches_at_once if every_step else one_record_per_round,
        together=everybody,
        flops=workers_work,
    )


PROTOCOLS = {
    protocol.name: protocol
    for protocol in (
        Protocol("split", split_in_two, AT_THE_CUT, THROUGH, one_client, flops=bottoms_work),
        Protocol("relay", relay, WITH_CLIENTS, THROUGH, flops=bottoms_work),
        Protocol(
            "splitfed",
            splitfed,
            WITH_CLIENTS,
            THROUGH | {"version": COUNT},
            tested_once,
            together=clients_in_parallel,
            flops=bottoms_work,
        ),
        Protocol(
            "split_async",
            split_async,
            (*WITH_CLIENTS, "control"),
            THROUGH | {"moved": AMOUNT, "delta": FLAG},
            flops=bottoms_work,
            gated=True,
        ),
        Protocol(
            "fedavg",
            federated(train_fedavg),
            FEDERATED,
            LOCAL | LATE | COHORT | SERVER | {"masked": FLAG, "privacy": PRIVACY},
            rounds_only,
            records_per_round=one_record_per_round,
            together=cohort_of,
            flops=clients_work,
        ),
        Protocol(
            "interval_averaging",
            federated(
                train_intervals,
                local=inner_of,
                server=lambda task: server_of(task, wait_for="replicas_to_aggregate"),
            ),
            FEDERATED,
            LATE | SERVER | {"interval_steps": COUNT, "replicas_to_aggregate": COUNT},
            tested_once,
            records_per_round=one_record_per_round,
            together=everybody,
            flops=workers_work,
        ),
        Protocol(
            "fedasync",
            federated(train_fedasync, server=async_server_of),
            FEDERATED,
            LOCAL | LATE | {"alpha": AMOUNT, "concurrency": COUNT},
            epochs_or_steps,
            records_per_round=everybody,
            flops=updates_work,
        ),
        Protocol(
            "fedbuff",
            federated(train_fedbuff, server=async_server_of),
            FEDERATED,
            LOCAL | LATE | SERVER | {"buffer_size": COUNT, "concurrency": COUNT},
            rounds_only,
            records_per_round=one_record_per_round,
            flops=updates_work,
        ),
        among_workers("diloco", train_diloco, STEPS | {"outer": OPTIMIZER, "exchange": EXCHANGE}),
        among_workers(
            "des_loc",
            train_des_loc,
            STEPS | {"exchange": EXCHANGE, "moments": MOMENTS},
            check=partial(has, "moments"),
        ),
        among_workers(
            "streaming_diloco",
            train_streaming,
            STEPS | {"outer": OPTIMIZER, "stream": STREAM},
            check=partial(has, "stream"),
        ),
        among_workers("ddp", train_ddp, {"exchange": EXCHANGE}, local=single_of),
        Protocol("u_shaped", u_shaped, AT_THE_CUT, THROUGH | {"tail": COUNT}, one_client),
        Protocol(
            "vertical",
            vertical,
            AT_THE_CUT,
            check=all_samples_everywhere,
            records_per_round=batches_of_all,
            together=everybody,
        ),
        Protocol(
            "uploading",
            uploading,
            AT_THE_CUT,
            THROUGH | {"max_local_steps": COUNT},
            one_client,
            gated=True,
        ),
        Protocol("local_loss", local_loss, ("activations", "labels"), THROUGH, one_client),
    )
}
"""The package's protocols by name."""

allow(*PROTOCOLS.values())
