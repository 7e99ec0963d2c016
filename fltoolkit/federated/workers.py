"""The clients of a run as one value: who they are, how they train, and how an update is sent.

Here: `Fleet`, the clients of a run; `Workers`, which every protocol of this room carries and which
also knows which clients are in this process; and `RoundMemory`, for what a protocol keeps. Not
here: what one client computes (client.py), who takes part in a round (rounds.py).
"""

import math
import warnings
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import nn

from fltoolkit.channel import Channel
from fltoolkit.federated.client import Local, LocalUpdate, check_settings
from fltoolkit.federated.many_at_once import local_updates
from fltoolkit.federated.means import Mean, WithMasks, mean_of_all
from fltoolkit.federated.samples import Clients, as_clients, check_fit
from fltoolkit.history import Record
from fltoolkit.party import uncompiled
from fltoolkit.trees import Tree, is_finite, plus_difference

Train = Callable[..., Sequence[LocalUpdate | FloatingPointError]]
"""``train(model, starts, data, local, seeds=seeds)``: `local_updates`, or anything called like it.

With ``Local(keep_state=True)`` it also gets ``states=``, what each client's optimizer has kept.
"""


class RoundMemory:
    """The base of a dataclass in which a protocol keeps what it needs between two rounds.

    Its values are tensors, numbers, texts, lists and dicts of these. For a run that goes on,
    `save_run` accepts a memory like a party.

    >>> @dataclass
    ... class Momenta(RoundMemory):
    ...     of: dict[str, Tree] = field(default_factory=dict)
    ...     name = "momenta"  # of its file
    >>> Momenta().state_dict()
    {'of': {}}
    """

    name = "memory"

    def state_dict(self) -> dict[str, Any]:
        """All values by name, so that they can be saved without pickle."""
        return dict(vars(self))

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved `state_dict`."""
        vars(self).update({name: state[name] for name in vars(self)})


@dataclass
class Fleet:
    """What a user gives: the clients' data, and how they train.

    Every protocol of this room takes names to data, or a fleet in their place. For a run that goes
    on with ``Local(keep_state=True)``, `save_run` accepts a fleet like a party.

    Args:
        clients: names to data ``(x, y)``.
        train: a function with the arguments of `local_updates`. With one of your own, the model is
            not tried on the samples first.
        optimizers: the state of each client's optimizer, by name; it is never sent.

    >>> Fleet({"ann": (torch.ones(4, 1), torch.zeros(4, 1))}).state_dict()
    {'optimizers': {}}
    """

    clients: Clients
    train: Train = local_updates
    optimizers: dict[str, dict[str, Any]] = field(default_factory=dict)
    name = "fleet"  # of its file

    def __len__(self) -> int:
        return len(self.clients)

    def state_dict(self) -> dict[str, Any]:
        """Plain values and tensors, so that it can be saved without pickle."""
        return {"optimizers": self.optimizers}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved `state_dict`."""
        self.optimizers = dict(state["optimizers"])


def as_fleet(clients: Clients | Fleet) -> Fleet:
    """The fleet, or a new one of these clients."""
    return clients if isinstance(clients, Fleet) else Fleet(clients)


@dataclass(frozen=True)
class Workers:
    """What a protocol carries: a checked fleet with the model, the settings and the seed.

    Raises TypeError or ValueError for clients that could not train. The model is tried on two
    samples, unless the fleet trains in a way of its own.

    Args:
        model: the module with which every client computes; training leaves it as it is.
        fleet: the clients, and how they train. ``clients`` is their data as tensors.
        local: what a client does in a round.
        seed: the seed of batches and random layers.
        server: the name of the server, which no client may have; empty if there is none.
    """

    model: nn.Module
    fleet: Fleet
    local: Local
    seed: int = 0
    server: str = ""
    clients: Clients = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "clients", as_clients(self.fleet.clients, self.server))
        check_settings(self.model, [], [], self.local)
        object.__setattr__(self, "model", uncompiled(self.model))  # its names are sent
        if self.fleet.train is local_updates:
            check_fit(self.model, self.clients, self.local)

    def are_here(self, channel: Channel) -> bool:
        """Whether all clients, and the server if there is one, are in this process."""
        return all(map(channel.is_here, [*self.clients, *([self.server] if self.server else [])]))

    def learn(
        self, channel: Channel, starts: Mapping[str, Tree], round_: int
    ) -> dict[str, LocalUpdate | FloatingPointError]:
        """Train the clients of ``starts`` from these weights; return each client's update.

        With ``Local(keep_state=True)`` each client goes on with its optimizer's state in the fleet,
        which holds the new state afterwards.

        For a client in another process the update holds zeros and the loss is NaN. Over several
        processes a failed training raises FloatingPointError, because the others wait for it.
        """
        here, states = [k for k in starts if channel.is_here(k)], self.fleet.optimizers
        kept = {"states": [states.get(k) for k in here]} if self.local.keep_state else {}
        learned = self.fleet.train(
            self.model,
            [starts[k] for k in here],
            [self.clients[k] for k in here],
            self.local,
            seeds=[client_seed(self.seed, round_, k) for k in here],
            **kept,
        )
        updates: dict[str, LocalUpdate | FloatingPointError] = {
            k: LocalUpdate({n: torch.zeros_like(t) for n, t in start.items()}, math.nan, 0, 0)
            for k, start in starts.items()
        }
        for k, update in zip(here, learned, strict=True):
            # an update with NaN must not get into a codec's memory
            if isinstance(update, LocalUpdate) and not all(map(is_finite, update.delta.values())):
                update = FloatingPointError("its update holds NaN or infinite values")
            if isinstance(update, FloatingPointError) and not self.are_here(channel):
                raise FloatingPointError(f"client {k!r}, round {round_}: {update}")
            if isinstance(update, LocalUpdate) and update.state is not None:
                states[k] = update.state
            updates[k] = update
        return updates

    def learn_all(
        self, channel: Channel, starts: Mapping[str, Tree], round_: int
    ) -> dict[str, LocalUpdate]:
        """As `learn`, but raise FloatingPointError if the training of any client fails."""
        good = {}
        for client, update in self.learn(channel, starts, round_).items():
            if not isinstance(update, LocalUpdate):
                raise FloatingPointError(f"client {client!r}, round {round_}: {update}")
            good[client] = update
        return good


def plus(tree: Tree, other: Tree, factor: float = 1) -> Tree:
    """``tree + factor * other``, for the entries that both have."""
    return {n: plus_difference(t, factor * other[n]) for n, t in tree.items() if n in other}


def mean_loss(losses: Sequence[float], weights: Sequence[float]) -> Record:
    """The weighted mean of the losses that this process knows; no ``loss`` if it knows none."""
    known = [(loss, weight) for loss, weight in zip(losses, weights, strict=True) if loss == loss]
    total = sum(weight for _, weight in known)
    return {"loss": sum(loss * weight for loss, weight in known) / total} if total else {}


def client_seed(seed: int, round_: int, client: str) -> int:
    """The seed of a client's batches in a round. It does not depend on the other clients."""
    key = [seed, round_, zlib.crc32(client.encode())]
    return int(np.random.SeedSequence(key).generate_state(1)[0])


def send_update(
    client: str,
    server: str,
    update: LocalUpdate | FloatingPointError,
    channel: Channel,
    mean: Mean = mean_of_all,
) -> tuple[float, Tree | None, Tree]:
    """Send a client's update as the mean needs it; return its loss, what arrives, and masks.

    The masks say which coordinates arrived; they are empty unless the mean is `WithMasks`. A mean
    that is `Collecting`, such as a secure sum, sends all updates itself when the round has ended,
    so nothing is sent here. If training has failed, the client sends a ``control`` message
    instead, and None arrives.
    """
    if isinstance(update, FloatingPointError):
        where = f"client {client!r} is left out of round {channel.step - 1}"
        warnings.warn(f"{where}: {update}", stacklevel=3)
        channel.send(client, server, "control", {"failed": torch.ones((), dtype=torch.uint8)})
        return math.nan, None, {}
    if hasattr(mean, "collect"):  # as `isinstance` of `Collecting` would tell in 30 microseconds
        return update.loss, update.delta, {}
    if isinstance(mean, WithMasks):
        return update.loss, *channel.send_masked(client, server, "update", update.delta)
    return update.loss, channel.send(client, server, "update", update.delta), {}


def what_is_wrong(received: Tree, expected: Tree) -> str:
    """Why an update cannot enter the mean of a model with these entries; empty if it can."""
    if received.keys() != expected.keys():
        return f"other entries than the model has: {sorted(received.keys() ^ expected.keys())}"
    for name, tensor in received.items():
        if tensor.shape != expected[name].shape:
            shapes = f"{list(tensor.shape)} in place of {list(expected[name].shape)}"
            return f"entry {name!r} in the shape {shapes}"
        if not is_finite(tensor):
            return f"NaN or infinite values in entry {name!r}"
    return ""
