"""Federated averaging as protocols of experiments.

Not here: the algorithms (the rooms federated), and workers who train one model (workers).
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import torch

from fltoolkit.channel import Channel
from fltoolkit.cost import ModelCost
from fltoolkit.federated import rounds
from fltoolkit.federated.client import Local
from fltoolkit.federated.clock import Arrivals
from fltoolkit.federated.means import Mean, mean_of_all, mean_of_senders
from fltoolkit.federated.server import Server
from fltoolkit.history import Record
from fltoolkit_research.federated.privacy import GaussianDP
from fltoolkit_research.protocol import (
    AMOUNT,
    COUNT,
    FLAG,
    OPTIMIZER,
    Setting,
    Trained,
    as_protocol,
    everybody,
    is_number,
    one_record_per_round,
    tested_once,
)
from fltoolkit_research.task import Task

# ---------------------------------------------------------------------------------- the settings


def answers(value: Any, *question: Any) -> bool:
    """True if ``value`` is a function that returns a number for these arguments."""
    try:
        return callable(value) and is_number(value(*question))
    except TypeError:
        return False


CLOCK = Setting("a clock such as LogNormal(sigma=1.0)", lambda v: answers(v, "client_0", 0))
STALENESS = Setting("a rule such as Drop() or Polynomial(a=0.5)", lambda v: answers(v, 1))
PRIVACY = Setting(
    "noise such as GaussianDP(clip=1.0, noise_multiplier=0.5)", lambda v: isinstance(v, GaussianDP)
)
FEDERATED = ("model", "update", "control")
LOCAL = {"local_epochs": COUNT, "local_steps": COUNT, "prox": AMOUNT, "keep_state": FLAG}
LATE = {"staleness": STALENESS, "clock": CLOCK}
COHORT = {"cohort_size": COUNT, "wait_for": COUNT, "timeout": AMOUNT}
SERVER = {"server_optimizer": OPTIMIZER}


def given(task: Task, *names: str) -> dict[str, Any]:
    """Those settings of these names that the experiment has."""
    return {name: task.settings[name] for name in names if name in task.settings}


def cohort_of(task: Task) -> int:
    """The number of clients in a round."""
    return task.settings.get("cohort_size", task.num_clients)


def local_of(task: Task, *, steps: int | None = None) -> Local:
    """The local training of each client; one epoch if the settings give no epochs and no steps."""
    settings, steps = task.settings, steps or task.settings.get("local_steps")
    epochs = settings.get("local_epochs", None if steps else 1)
    return task.local(epochs=epochs, steps=steps, **given(task, "prox", "keep_state"))


def optimizer_of(task: Task, name: str = "server_optimizer") -> torch.optim.Optimizer | None:
    """The optimizer of the common model; None means that the mean update is added."""
    make = task.settings.get(name)
    return None if make is None else make(task.model.parameters())


def server_of(task: Task, wait_for: int | None, mean: Mean = mean_of_all) -> Server:
    """What the server does in a round."""
    arrivals = Arrivals(wait_for=wait_for, **given(task, "timeout", "staleness", "clock"))
    return Server(mean=mean, optimizer=optimizer_of(task), arrivals=arrivals)


def at_the_server(task: Task, training: Iterator[Record]) -> Trained:
    """Each record with the server, which has the whole network."""
    server = task.whole()
    for record in training:
        yield record, [server]


# ----------------------------------------------------------- what an experiment may ask of which


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


# ------------------------------------------------------------------------------------- the work


def clients_work(task: Task, step: int, steps: Counter[str], cost: ModelCost) -> float:
    """FLOPs of all layers at all clients of a mean cohort, in ``step`` rounds."""
    size, local_steps = len(task.data.y_train) / task.num_clients, task.settings.get("local_steps")
    epochs = task.settings.get("local_epochs", 1)
    per_client = epochs * size if local_steps is None else local_steps * task.batch_size
    return 3 * step * cohort_of(task) * per_client * cost.flops_forward


def intervals_work(task: Task, step: int, steps: Counter[str], cost: ModelCost) -> float:
    """FLOPs of all layers at all replicas, after ``step`` averages."""
    each = task.settings.get("interval_steps", 1) * task.batch_size
    return 3 * step * task.num_clients * each * cost.flops_forward


# ----------------------------------------------------------------------------------- protocols


@as_protocol(
    FEDERATED,
    settings=LOCAL | LATE | COHORT | SERVER | {"masked": FLAG, "privacy": PRIVACY},
    check=rounds_only,
    records_per_round=one_record_per_round,
    together=cohort_of,
    flops=clients_work,
)
def fedavg(task: Task, channel: Channel) -> Trained:
    """A cohort of clients trains, and the server averages; see `fltoolkit.federated.fedavg`."""
    masked = mean_of_senders if task.settings.get("masked", False) else mean_of_all
    mean = task.settings.get("privacy") or masked
    training = rounds.fedavg(
        task.model,
        task.clients,
        channel,
        rounds=task.rounds,
        cohort=cohort_of(task),
        local=local_of(task),
        server=server_of(task, task.settings.get("wait_for"), mean),
        seed=task.seed,
    )
    return at_the_server(task, training)


@as_protocol(
    FEDERATED,
    settings=LATE | SERVER | {"interval_steps": COUNT, "replicas_to_aggregate": COUNT},
    check=tested_once,
    records_per_round=one_record_per_round,
    together=everybody,
    flops=intervals_work,
)
def interval_averaging(task: Task, channel: Channel) -> Trained:
    """Replicas are averaged after some steps; see `fltoolkit.federated.interval_averaging`."""
    training = rounds.interval_averaging(
        task.model,
        task.clients,
        channel,
        num_averages=task.rounds,
        local=local_of(task, steps=task.settings.get("interval_steps", 1)),
        server=server_of(task, task.settings.get("replicas_to_aggregate")),
        seed=task.seed,
    )
    return at_the_server(task, training)
