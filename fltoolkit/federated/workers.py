"""The clients of a run as one value: who they are, how they train, and how an update is sent.

Every protocol of this room carries it. Not here: what one client computes (client.py), who takes
part in a round and how updates become one (fedavg.py).
"""

import math
import warnings
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from fltoolkit.channel import Channel
from fltoolkit.federated.client import Local, LocalUpdate, check_function, check_settings
from fltoolkit.federated.many_at_once import local_updates
from fltoolkit.federated.samples import Clients, check_fit
from fltoolkit.trees import Tree, is_finite

__all__ = ["Train", "Workers", "client_seed", "send_update"]

Train = Callable[..., Sequence[LocalUpdate | FloatingPointError]]
"""``train(model, starts, data, local, seeds=seeds)``: `local_updates`, or anything called like it.

With ``Local(keep_state=True)`` it also gets ``states=``, what each client's optimizer has kept.
"""


@dataclass(frozen=True)
class Workers:
    """Clients that train copies of one model, each on its own samples.

    Raises TypeError or ValueError for clients that could not train. The model is tried on two
    samples, unless ``train`` is a function of your own, since it may read samples in its own way.

    Args:
        model: the module with which every client computes; it is left as it is.
        clients: names to data ``(x, y)``, as `as_clients` returns them.
        local: what a client does in a round.
        train: the function that trains several clients.
        seed: the seed of batches and random layers.

    >>> clients = {"ann": (torch.ones(4, 1), torch.zeros(4, 1))}
    >>> local = Local(batch_size=4, lr=0.25, steps=1, loss_fn=nn.functional.mse_loss)
    >>> workers = Workers(nn.Linear(1, 1, bias=False), clients, local)
    >>> updates = workers.learn({"ann": {"weight": torch.ones(1, 1)}}, round_=0, states={})
    >>> updates["ann"].delta  # the gradient of the mean of (w x)^2 is 2 w x^2 = 2
    {'weight': tensor([[-0.5000]])}
    """

    model: nn.Module
    clients: Clients
    local: Local
    train: Train = local_updates
    seed: int = 0

    def __post_init__(self) -> None:
        check_settings(self.model, [], [], self.local)
        check_function("train", self.train)
        if self.train is local_updates:
            check_fit(self.model, self.clients, self.local)

    def learn(
        self, starts: Mapping[str, Tree], round_: int, states: dict[str, dict[str, Any]]
    ) -> dict[str, LocalUpdate | FloatingPointError]:
        """Train the clients of ``starts`` from these weights; return each client's update.

        With ``Local(keep_state=True)`` each client goes on with its optimizer's state in
        ``states``, which holds the new state afterwards.
        """
        names = list(starts)
        seeds = [client_seed(self.seed, round_, client) for client in names]
        data, kept = [self.clients[client] for client in names], self.local.keep_state
        more = {"states": [states.get(client) for client in names]} if kept else {}
        found = self.train(self.model, list(starts.values()), data, self.local, seeds=seeds, **more)
        updates = dict(zip(names, found, strict=True))
        for client, update in updates.items():
            if kept and isinstance(update, LocalUpdate) and update.state is not None:
                states[client] = update.state
        return updates


def client_seed(seed: int, round_: int, client: str) -> int:
    """The seed of a client's batches in a round. It does not depend on the other clients.

    >>> client_seed(0, 3, "ann") == client_seed(0, 3, "bea")
    False
    """
    key = [seed, round_, zlib.crc32(client.encode())]
    return int(np.random.SeedSequence(key).generate_state(1)[0])


def send_update(
    client: str,
    server: str,
    update: LocalUpdate | FloatingPointError,
    channel: Channel,
    masked: bool = False,
    hold: bool = False,
) -> tuple[Tree | None, Tree]:
    """Send a client's update; return what arrives, and masks of the coordinates that arrived.

    With ``hold`` the update is not sent: it is returned as it is, for a mean that sends it later.

    If training has failed, the client sends a ``control`` message instead, and None arrives. So NaN
    never gets into the codec's memory or to the server.

    >>> update = LocalUpdate({"w": torch.ones(2)}, loss=0.5, num_samples=4, num_steps=1)
    >>> send_update("ann", "server", update, Channel())
    ({'w': tensor([1., 1.])}, {})
    """
    if isinstance(update, LocalUpdate) and not all(map(is_finite, update.delta.values())):
        update = FloatingPointError("its update holds NaN or infinite values")
    if isinstance(update, FloatingPointError):
        warnings.warn(
            f"client {client!r} is left out of round {channel.step - 1}: {update}", stacklevel=3
        )
        channel.send(client, server, "control", {"failed": torch.ones((), dtype=torch.uint8)})
        return None, {}
    if hold:
        return update.delta, {}
    if masked:
        return channel.send_masked(client, server, "update", update.delta)
    return channel.send(client, server, "update", update.delta), {}


def loss_of_update(update: LocalUpdate | FloatingPointError) -> float:
    """The mean loss of a client's training, or NaN if the training failed."""
    return math.nan if isinstance(update, FloatingPointError) else update.loss
