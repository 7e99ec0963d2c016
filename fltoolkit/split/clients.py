"""Several clients and one label party: the bottom goes from client to client, or is averaged.

Not here: one client (chain.py), clients that fall silent (asynchronous.py). Notebook 02 derives it.
"""

import copy
from collections.abc import Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from fltoolkit.channel import Channel
from fltoolkit.history import CHECKED, TurnRecord, checked_at_call, to_come
from fltoolkit.party import Party
from fltoolkit.split.chain import check_parties, split_step
from fltoolkit.trees import weighted_mean

FED_SERVER = "fed_server"  # its name in the ledger


@runtime_checkable
class Counted(Protocol):
    """Data that knows how many samples it has."""

    num_samples: int


@runtime_checkable
class ClientData(Counted, Protocol):
    """What a client trains on, epoch by epoch; `fltoolkit.data.Batches` fits."""

    def epoch(self, number: int) -> Iterator[tuple[Tensor, Tensor]]:
        """The batches of this epoch."""


@checked_at_call
def train_relay(
    alices: Sequence[Party],
    bob: Party,
    batches: Sequence[ClientData],
    channel: Channel,
    *,
    num_rounds: int | range,
) -> Iterator[TurnRecord]:
    """Several clients train in turn with one label party; each passes its bottom to the next.

    In each round every Alice in order receives the bottom from the Alice before her (a ``model``
    message), then trains one epoch on her own data. She owns her labels and sends them, too. The
    result is that of SGD over the data of all clients, in their order. Optimizers are not passed
    on. Records also hold ``round`` and ``client``. To go on with a run that was saved after k whole
    rounds, pass ``num_rounds=range(k, num_rounds)``.

    Source: Gupta & Raskar 2018, arXiv 1810.06060, algorithm 2 (peer-to-peer mode).

    >>> from torch import nn
    >>> from fltoolkit import Batches
    >>> alices = [Party(name, nn.Linear(1, 1)) for name in ("ann", "bea")]
    >>> bob = Party("bob", nn.Linear(1, 1), loss_fn=nn.MSELoss())
    >>> batches = [Batches(torch.ones(2, 1), torch.ones(2, 1), 2, seed=0)] * 2
    >>> channel = Channel()
    >>> _ = list(train_relay(alices, bob, batches, channel, num_rounds=1))
    >>> [(t.sender, t.receiver) for t in channel.transfers if t.kind == "model"]
    [('ann', 'bea')]
    """
    rounds = to_come("num_rounds", num_rounds)
    check_clients(alices, bob, batches)
    yield CHECKED

    networks = [party.module for party in (*alices, bob)]
    totals = channel.begin({alice.name for alice in alices}, networks, sends_weights=True)
    holder = alices[0] if rounds.start == 0 else alices[-1]
    for round_ in rounds:
        for alice, data in zip(alices, batches, strict=True):
            if alice is not holder:
                alice.load_weights(channel.send(holder.name, alice.name, "model", holder.weights()))
                holder = alice
            for x, y in data.epoch(round_):
                loss = split_step([alice, bob], x, y, channel, labels_from=alice.name)
                step, who = channel.step, alice.name
                yield {"step": step, "round": round_, "client": who, "loss": loss, **totals()}


@checked_at_call
def train_splitfed(
    alices: Sequence[Party],
    bob: Party,
    batches: Sequence[ClientData],
    channel: Channel,
    *,
    num_rounds: int | range,
    version: int,
    seed: int = 0,
) -> Iterator[TurnRecord]:
    """SplitFed: clients train at the same time, a fed server averages their bottoms each round.

    A round: every Alice trains one epoch with the label party, sends her bottom to the fed
    server, which averages by sample counts and sends the average back (both ``model`` messages).

    - version 1: the label party keeps a copy of the top for each client. At the end of the round it
      averages these copies, too, which needs no message. With plain SGD this is FedAvg of the whole
      network.
    - version 2: one top for all, trained through the clients one after the other, in an order
      drawn from ``seed`` for each round.

    The last record of a round is yielded after averaging: then every Alice holds the same bottom,
    and ``bob`` holds the top of the same model. Clients must start from the same weights. To go on
    with a saved run, see `train_relay`; in version 1 the copies of the top then begin with
    ``bob``'s optimizer state, which makes no difference for plain SGD.

    Source: Thapa et al. 2020, arXiv 2004.12088, algorithms 1 and 2.

    >>> from torch import nn
    >>> from fltoolkit import Batches
    >>> layer = nn.Linear(1, 1)
    >>> alices = [Party(name, copy.deepcopy(layer)) for name in ("ann", "bea")]
    >>> bob = Party("bob", nn.Linear(1, 1), loss_fn=nn.MSELoss())
    >>> batches = [Batches(torch.ones(2, 1), torch.ones(2, 1), 2, seed=0)] * 2
    >>> channel = Channel()
    >>> _ = list(train_splitfed(alices, bob, batches, channel, num_rounds=1, version=2))
    >>> [(t.sender, t.receiver) for t in channel.transfers if t.kind == "model"]
    [('ann', 'fed_server'), ('bea', 'fed_server'), ('fed_server', 'ann'), ('fed_server', 'bea')]
    """
    rounds = to_come("num_rounds", num_rounds)
    check_clients(alices, bob, batches)
    if version not in (1, 2):
        raise ValueError(f"version={version}: SplitFed has the versions 1 and 2")
    _check_equal_weights(alices)
    yield CHECKED

    networks = [party.module for party in (*alices, bob)]
    totals = channel.begin({alice.name for alice in alices}, networks, sends_weights=True)
    tops = [copy.deepcopy(bob) for _ in alices] if version == 1 else [bob] * len(alices)
    for round_ in rounds:
        order: Sequence[int] = range(len(alices))
        if version == 2:
            order = np.random.default_rng([seed, round_]).permutation(len(alices)).tolist()
        record: Any = {}
        for k in order:
            for x, y in batches[k].epoch(round_):
                if record:
                    yield record
                loss = split_step([alices[k], tops[k]], x, y, channel, labels_from=alices[k].name)
                who = {"round": round_, "client": alices[k].name}
                record = {"step": channel.step, **who, "loss": loss, **totals()}
        _average(alices, [bob, *tops], [data.num_samples for data in batches], channel)
        yield record | totals()


def _average(
    alices: Sequence[Party], tops: list[Party], num_samples: list[int], channel: Channel
) -> None:
    """Average the bottoms at the fed server, and in version 1 the copies of the top, at home."""
    sent = [channel.send(alice.name, FED_SERVER, "model", alice.weights()) for alice in alices]
    bottom = weighted_mean(sent, num_samples)
    for alice in alices:
        alice.load_weights(channel.send(FED_SERVER, alice.name, "model", bottom))
    bob, *copies = tops
    if copies[0] is not bob:
        top = weighted_mean([copied.weights() for copied in copies], num_samples)
        for copied in tops:
            copied.load_weights(top)


def _check_equal_weights(alices: Sequence[Party]) -> None:
    start = alices[0].weights()
    for alice in alices[1:]:
        theirs = alice.weights()
        same_names = start.keys() == theirs.keys()
        if not same_names or not all(torch.equal(start[name], theirs[name]) for name in start):
            raise ValueError(
                f"{alices[0].name!r} and {alice.name!r} start from different weights: build every "
                "client's module from the same seed"
            )


def check_clients(alices: Sequence[Party], bob: Party, batches: Sequence[Counted]) -> None:
    """Raise ValueError or TypeError for clients and data that do not fit together."""
    if not alices or len(alices) != len(batches):
        raise ValueError(f"{len(alices)} clients and {len(batches)} sets of batches: need one each")
    check_parties([*alices, bob])
    names = [party.name for party in (*alices, bob)]
    if len(set(names)) != len(names):
        raise ValueError(f"two of {names} share one name: the ledger could not tell them apart")
    for alice, data in zip(alices, batches, strict=True):
        if not isinstance(data, Counted):
            raise TypeError(
                f"client {alice.name!r}: its batches are a {type(data).__name__}, which cannot be "
                "dealt anew in each epoch. Say Batches(x, y, batch_size, seed=0), of a loader "
                "Batches(loader.dataset, batch_size=32, seed=0), without .epochs(...)"
            )
        if data.num_samples < 1:
            raise ValueError(f"client {alice.name!r} has no samples: leave it out")
