"""Federated averaging as a protocol of experiments."""

from collections import Counter
from typing import Any

from fltoolkit.channel import Channel
from fltoolkit.cost import ModelCost
from fltoolkit.federated import rounds
from fltoolkit.federated.clock import Arrivals
from fltoolkit.federated.means import mean_of_all, mean_of_senders
from fltoolkit.federated.server import Server
from fltoolkit_research.federated.privacy import GaussianDP
from fltoolkit_research.protocol import (
    AMOUNT,
    COUNT,
    FLAG,
    OPTIMIZER,
    Setting,
    Trained,
    as_protocol,
    is_number,
)
from fltoolkit_research.task import Task


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


def given(task: Task, *names: str) -> dict[str, Any]:
    """Those settings of these names that the experiment has."""
    return {name: task.settings[name] for name in names if name in task.settings}


def cohort_of(task: Task) -> int:
    """The number of clients in a round."""
    return task.settings.get("cohort_size", task.num_clients)


def fits(experiment: Any) -> None:
    """Raise ValueError for settings that contradict each other."""
    settings = experiment.settings
    if {"local_epochs", "local_steps"} <= settings.keys():
        raise ValueError("settings hold local_epochs and local_steps: give one of them")
    if settings.get("masked") and "privacy" in settings:
        raise ValueError(
            "settings hold masked and privacy: give one of them, because privacy needs a mean in "
            "which every update has the same weight"
        )
    size = settings.get("cohort_size", experiment.num_clients)
    if size > experiment.num_clients or settings.get("wait_for", 1) > size:
        raise ValueError(
            f"num_clients={experiment.num_clients}, cohort_size={size}, "
            f"wait_for={settings.get('wait_for', 1)}: cohort_size must be at most "
            "num_clients, and wait_for at most cohort_size"
        )


def clients_work(task: Task, step: int, steps: Counter[str], cost: ModelCost) -> float:
    """FLOPs of all layers at all clients of a mean cohort, in ``step`` rounds."""
    size, local_steps = len(task.data.y_train) / task.num_clients, task.settings.get("local_steps")
    epochs = task.settings.get("local_epochs", 1)
    per_client = epochs * size if local_steps is None else local_steps * task.batch_size
    return 3 * step * cohort_of(task) * per_client * cost.flops_forward


@as_protocol(
    ("model", "update", "control"),
    settings={
        "local_epochs": COUNT,
        "local_steps": COUNT,
        "prox": AMOUNT,
        "keep_state": FLAG,
        "staleness": STALENESS,
        "clock": CLOCK,
        "cohort_size": COUNT,
        "wait_for": COUNT,
        "timeout": AMOUNT,
        "server_optimizer": OPTIMIZER,
        "masked": FLAG,
        "privacy": PRIVACY,
    },
    check=fits,
    together=cohort_of,
    flops=clients_work,
)
def fedavg(task: Task, channel: Channel) -> Trained:
    """A cohort of clients trains, and the server averages; see `fltoolkit.federated.fedavg`."""
    settings = task.settings
    epochs = settings.get("local_epochs", None if "local_steps" in settings else 1)
    steps = settings.get("local_steps")
    local = task.local(epochs=epochs, steps=steps, **given(task, "prox", "keep_state"))
    masked = mean_of_senders if settings.get("masked", False) else mean_of_all
    optimizer = settings.get("server_optimizer")
    server = Server(
        mean=settings.get("privacy") or masked,
        optimizer=optimizer and optimizer(task.model.parameters()),
        arrivals=Arrivals(**given(task, "wait_for", "timeout", "staleness", "clock")),
    )
    how = {"cohort": cohort_of(task), "local": local, "server": server, "seed": task.seed}
    whole = task.whole()
    for record in rounds.fedavg(task.model, task.clients, channel, rounds=task.rounds, **how):
        yield record, [whole]
