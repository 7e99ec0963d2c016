"""Split learning as protocols of experiments; each is a small function of task and channel.

Read them as examples for your own protocol (docs/extend.md shows one).
"""

from collections import Counter
from typing import Any

from fltoolkit.channel import Channel
from fltoolkit.cost import ModelCost
from fltoolkit.split.asynchronous import Bookmark, train_async, train_async_relay
from fltoolkit.split.cache import ActivationCache
from fltoolkit.split.chain import train_split
from fltoolkit.split.clients import train_relay, train_splitfed
from fltoolkit.split.uploads import Upload
from fltoolkit_research.protocol import (
    AMOUNT,
    CODEC,
    COUNT,
    FLAG,
    Trained,
    as_protocol,
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


def clients_in_parallel(task: Task) -> int:
    """SplitFed's clients train at the same time in version 1 and one after another in version 2."""
    return task.num_clients if task.settings.get("version") == 1 else 1


def bottoms_work(task: Task, step: int, steps: Counter[str], cost: ModelCost) -> float:
    """FLOPs of the layers before the cut, where each step counts as one with a mean batch.

    State A has a forward and a backward pass, state B has a forward pass only, state C has none.
    """
    batch = len(task.data.y_train) / one_record_per_step(task)
    return (3 * steps["A"] + steps["B"]) * batch * cost.flops_forward_client


EACH_STEP: dict[str, Any] = {"records_per_round": one_record_per_step, "flops": bottoms_work}


@as_protocol(AT_THE_CUT, **EACH_STEP, settings=THROUGH, check=one_client)
def split(task: Task, channel: Channel) -> Trained:
    """One client and a server that has the labels; see `fltoolkit.split.train_split`."""
    (client,), server = task.bottoms(), task.top()
    for record in train_split([client, server], task.batches[0].epochs(task.rounds), channel):
        yield record, [client, server]


@as_protocol(WITH_CLIENTS, **EACH_STEP, settings=THROUGH)
def relay(task: Task, channel: Channel) -> Trained:
    """Clients take turns and hand on the bottom; see `fltoolkit.split.train_relay`."""
    clients, server = {party.name: party for party in task.bottoms()}, task.top()
    alices = [*clients.values()]
    for record in train_relay(alices, server, task.batches, channel, num_rounds=task.rounds):
        yield record, [clients[str(record["client"])], server]


@as_protocol(
    WITH_CLIENTS,
    **EACH_STEP,
    settings=THROUGH | {"version": COUNT},
    check=tested_once,
    together=clients_in_parallel,
)
def splitfed(task: Task, channel: Channel) -> Trained:
    """Bottoms are averaged at the end of a round; see `fltoolkit.split.train_splitfed`."""
    clients, server = task.bottoms(), task.top()
    how = {"num_rounds": task.rounds, "version": task.settings.get("version", 2)}
    for record in train_splitfed(clients, server, task.batches, channel, **how, seed=task.seed):
        yield record, [clients[0], server]


@as_protocol(
    (*WITH_CLIENTS, "control"),
    **EACH_STEP,
    settings=THROUGH | {"moved": AMOUNT, "delta": FLAG},
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
        records: Any = train_async_relay(
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
