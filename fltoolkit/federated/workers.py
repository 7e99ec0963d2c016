"""The clients of a run as one value: who they are, how they train, and how an update is sent.

Here: `Fleet`, clients with what they remember, and `Workers`, which every protocol of this room
carries: it also knows which clients are in this process. Not here: what one client computes
(client.py), who takes part in a round and how updates become one (rounds.py).
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
from fltoolkit.federated.client import Local, LocalUpdate, check_function, check_settings
from fltoolkit.federated.many_at_once import local_updates
from fltoolkit.federated.means import Collecting, Mean, WithMasks, mean_of_all
from fltoolkit.federated.samples import Clients, as_clients, check_fit
from fltoolkit.history import Record
from fltoolkit.trees import Tree, is_finite

Train = Callable[..., Sequence[LocalUpdate | FloatingPointError]]
"""``train(model, starts, data, local, seeds=seeds)``: `local_updates`, or anything called like it.

With ``Local(keep_state=True)`` it also gets ``states=``, what each client's optimizer has kept.
"""


@dataclass
class Fleet:
    """Clients, what they remember between two rounds or steps, and the function that trains them.

    Every protocol of this room takes names to data, or a fleet in their place. For a run that goes
    on, `save_run` accepts a fleet like a party. (`fedavg`, `fedasync` and `fedbuff` keep the
    server's memory in a `Backlog` or a `Flight`.)

    Args:
        clients: names to data ``(x, y)``.
        train: a function with the arguments of `local_updates`. With one of your own, the model is
            not tried on the samples first.

    Attributes:
        optimizers: the state of each client's optimizer, by name.
        weights: what each client's model holds, where they differ.
        waiting: what was sent and is not applied yet, the oldest first.
        momenta: each worker's momentum (`demo`), or how its steps are corrected (`scaffold`).

    >>> Fleet({"ann": (torch.ones(4, 1), torch.zeros(4, 1))}).state_dict()
    {'optimizers': {}, 'weights': {}, 'waiting': [], 'momenta': {}}
    """

    clients: Clients
    train: Train = local_updates
    optimizers: dict[str, dict[str, Any]] = field(default_factory=dict)
    weights: dict[str, Tree] = field(default_factory=dict)
    waiting: list[Tree] = field(default_factory=list)
    momenta: dict[str, Tree] = field(default_factory=dict)
    name = "fleet"  # of its file

    def __len__(self) -> int:
        """The number of clients."""
        return len(self.clients)

    def state_dict(self) -> dict[str, Any]:
        """Plain values and tensors, so that it can be saved without pickle."""
        return {name: getattr(self, name) for name in _MEMORY}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved `state_dict`."""
        for name in _MEMORY:
            setattr(self, name, type(getattr(self, name))(state[name]))


def as_fleet(clients: Clients | Fleet) -> Fleet:
    """The fleet, or a new one of these clients."""
    return clients if isinstance(clients, Fleet) else Fleet(clients)


_MEMORY = ("optimizers", "weights", "waiting", "momenta")


@dataclass(frozen=True)
class Workers:
    """Clients that train copies of one model, each on its own samples.

    Raises TypeError or ValueError for clients that could not train. The model is tried on two
    samples, unless the fleet trains in a way of its own.

    Args:
        model: the module with which every client computes; it is left as it is.
        fleet: the clients, and how they train. ``clients`` is their data as tensors.
        local: what a client does in a round.
        seed: the seed of batches and random layers.
        server: the name of the server, which no client may have; empty if there is none.

    >>> clients = {"ann": (torch.ones(4, 1), torch.zeros(4, 1))}
    >>> local = Local(batch_size=4, lr=0.25, steps=1, loss_fn=nn.functional.mse_loss)
    >>> workers = Workers(nn.Linear(1, 1, bias=False), Fleet(clients), local)
    >>> starts = {"ann": {"weight": torch.ones(1, 1)}}
    >>> updates = workers.learn(Channel(), starts, round_=0, states={})
    >>> updates["ann"].delta  # the gradient of the mean of (w x)^2 is 2 w x^2 = 2
    {'weight': tensor([[-0.5000]])}
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
        check_function("train", self.fleet.train)
        if self.fleet.train is local_updates:
            check_fit(self.model, self.clients, self.local)

    def are_here(self, channel: Channel) -> bool:
        """Whether all clients, and the server if there is one, are in this process."""
        return all(map(channel.is_here, [*self.clients, *([self.server] if self.server else [])]))

    def learn(
        self,
        channel: Channel,
        starts: Mapping[str, Tree],
        round_: int,
        states: dict[str, dict[str, Any]],
    ) -> dict[str, LocalUpdate | FloatingPointError]:
        """Train the clients of ``starts`` from these weights; return each client's update.

        With ``Local(keep_state=True)`` each client goes on with its optimizer's state in
        ``states``, which holds the new state afterwards.

        For a client in another process the update holds zeros and the loss is NaN. Over several
        processes a failed training raises FloatingPointError, because the others wait for it.
        """
        here = [client for client in starts if channel.is_here(client)]
        seeds = [client_seed(self.seed, round_, client) for client in here]
        data, kept = [self.clients[client] for client in here], self.local.keep_state
        more = {"states": [states.get(client) for client in here]} if kept else {}
        given = [starts[client] for client in here]
        found = self.fleet.train(self.model, given, data, self.local, seeds=seeds, **more)
        learned = dict(zip(here, map(_checked, found), strict=True))
        for client, update in learned.items():
            if isinstance(update, FloatingPointError) and not self.are_here(channel):
                raise FloatingPointError(f"client {client!r}, round {round_}: {update}")
            if kept and isinstance(update, LocalUpdate) and update.state is not None:
                states[client] = update.state
        return {c: learned[c] if c in learned else _elsewhere(starts[c]) for c in starts}

    def learn_all(
        self,
        channel: Channel,
        starts: Mapping[str, Tree],
        round_: int,
        states: dict[str, dict[str, Any]],
    ) -> dict[str, LocalUpdate]:
        """As `learn`, but raise FloatingPointError if the training of any client fails."""
        good = {}
        for client, update in self.learn(channel, starts, round_, states).items():
            if not isinstance(update, LocalUpdate):
                raise FloatingPointError(f"client {client!r}, round {round_}: {update}")
            good[client] = update
        return good


def plus(tree: Tree, other: Tree, factor: float = 1) -> Tree:
    """``tree + factor * other``, for the entries that both have."""
    return {name: t + factor * other[name] for name, t in tree.items() if name in other}


def _checked(update: LocalUpdate | FloatingPointError) -> LocalUpdate | FloatingPointError:
    """The update, or an error if it holds NaN: this must not get into a codec's memory."""
    if isinstance(update, LocalUpdate) and not all(map(is_finite, update.delta.values())):
        return FloatingPointError("its update holds NaN or infinite values")
    return update


def _elsewhere(start: Tree) -> LocalUpdate:
    """What stands for the update of a client in another process."""
    return LocalUpdate({name: torch.zeros_like(t) for name, t in start.items()}, math.nan, 0, 0)


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
    if isinstance(mean, Collecting):
        return update.loss, update.delta, {}
    if isinstance(mean, WithMasks):
        return update.loss, *channel.send_masked(client, server, "update", update.delta)
    return update.loss, channel.send(client, server, "update", update.delta), {}
