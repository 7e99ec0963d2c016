"""A few workers who train one model together and send at the same time, as protocols.

Not here: the algorithms (the room federated), and their use on language models (notebook 11).
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from fltoolkit.channel import Channel
from fltoolkit.cost import ModelCost
from fltoolkit.federated.client import Local
from fltoolkit.history import Record
from fltoolkit_research.federated import data_parallel, local_steps
from fltoolkit_research.federated.exchange import AllGather, Ring, ThroughServer
from fltoolkit_research.federated.local_steps import Stream
from fltoolkit_research.protocol import (
    COUNT,
    FLAG,
    OPTIMIZER,
    Setting,
    Trained,
    as_protocol,
    everybody,
    one_record_per_round,
    tested_once,
)
from fltoolkit_research.protocols.averaging import given, local_of, optimizer_of
from fltoolkit_research.task import Task

EXCHANGE = Setting(
    "ThroughServer(), AllGather() or Ring()",
    lambda value: isinstance(value, ThroughServer | AllGather | Ring),
)
STREAM = Setting("a stream such as Stream(4, overlap=1)", lambda v: isinstance(v, Stream))
MOMENTS = Setting(
    "entries of the optimizer's state with numbers of rounds, such as {'exp_avg': 3}",
    lambda value: isinstance(value, Mapping) and all(map(COUNT.allowed, value.values())),
)
STEPS = {"local_steps": COUNT, "keep_state": FLAG}
SENDS = ("model", "update")


def has(name: str, experiment: Any) -> None:
    """Raise ValueError for settings that lack one that the protocol needs."""
    tested_once(experiment)
    if name not in experiment.settings:
        words = experiment.protocol.settings[name].words
        raise ValueError(f"settings lack {name}, which {experiment.protocol} needs: {words}")


def batches_at_once(task: Task) -> int:
    """The steps in a pass over the samples, when each worker takes a batch at the same time."""
    return math.ceil(len(task.data.y_train) / (task.batch_size * task.num_clients))


def inner(task: Task) -> Local:
    """The steps of each worker between two messages; 1 if the settings give none."""
    return local_of(task, steps=task.settings.get("local_steps", 1))


def workers_work(task: Task, step: int, steps: Counter[str], cost: ModelCost) -> float:
    """FLOPs of all layers at all workers, after ``step`` messages."""
    each = task.settings.get("local_steps", 1) * task.batch_size
    return 3 * step * task.num_clients * each * cost.flops_forward


def by_messages(task: Task, training: Iterator[Record], channel: Channel) -> Trained:
    """Each record with the whole network; its step counts messages, not steps of a worker."""
    server = task.whole()
    for record in training:
        yield record | {"step": channel.step}, [server]


among_workers = partial(
    as_protocol,
    SENDS,
    check=tested_once,
    records_per_round=one_record_per_round,
    together=everybody,
    flops=workers_work,
)


@among_workers(settings=STEPS | {"outer": OPTIMIZER, "exchange": EXCHANGE})
def diloco(task: Task, channel: Channel) -> Trained:
    """Many steps between two messages; see `fltoolkit_research.federated.diloco`."""
    how = {"local": inner(task), "outer": optimizer_of(task, "outer"), "seed": task.seed}
    training = local_steps.diloco(
        task.model, task.clients, channel, rounds=task.rounds, **how, **given(task, "exchange")
    )
    return by_messages(task, training, channel)


@among_workers(
    settings=STEPS | {"exchange": EXCHANGE, "moments": MOMENTS}, check=partial(has, "moments")
)
def des_loc(task: Task, channel: Channel) -> Trained:
    """Moments are averaged less often; see `fltoolkit_research.federated.des_loc`."""
    how = {"local": inner(task), "seed": task.seed, **given(task, "moments", "exchange")}
    training = local_steps.des_loc(task.model, task.clients, channel, rounds=task.rounds, **how)
    return by_messages(task, training, channel)


@among_workers(
    settings=STEPS | {"outer": OPTIMIZER, "stream": STREAM}, check=partial(has, "stream")
)
def streaming_diloco(task: Task, channel: Channel) -> Trained:
    """A part of the model at a time; see `fltoolkit_research.federated.streaming_diloco`."""
    how = {"local": inner(task), "outer": optimizer_of(task, "outer"), "seed": task.seed}
    training = local_steps.streaming_diloco(
        task.model, task.clients, channel, rounds=task.rounds, **how, **given(task, "stream")
    )
    return by_messages(task, training, channel)


@among_workers(settings={"exchange": EXCHANGE}, records_per_round=batches_at_once)
def ddp(task: Task, channel: Channel) -> Trained:
    """A message after each step; see `fltoolkit_research.federated.ddp`."""
    how = {"local": local_of(task, steps=1), "seed": task.seed, **given(task, "exchange")}
    steps = task.rounds * batches_at_once(task)
    training = data_parallel.ddp(task.model, task.clients, channel, steps=steps, **how)
    return by_messages(task, training, channel)
