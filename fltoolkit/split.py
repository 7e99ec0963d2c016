"""Split learning: how parties that each hold a part of one network train it together.

Every topology is a function that reads like its figure; what crosses between two parties crosses
through a `Channel`. Not here: what one party does alone (party.py). Next: cost.py.
Notebook 01 derives `split_step`, notebook 02 the rest.
"""

import copy
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from fltoolkit.channel import Channel
from fltoolkit.codecs import Codec
from fltoolkit.history import Record
from fltoolkit.party import Party
from fltoolkit.trees import Tree, weighted_mean

__all__ = [
    "add",
    "average",
    "concatenate",
    "evaluate",
    "predict",
    "split_step",
    "train_relay",
    "train_split",
    "train_splitfed",
    "train_vertical",
    "vertical_step",
]

# --------------------------------------------------------------- vanilla, several hops, U-shaped


def split_step(
    parties: Sequence[Party],
    x: Shaped[Tensor, "batch ..."],
    y: Shaped[Tensor, "batch ..."],
    channel: Channel,
    *,
    labels_from: str | None = None,
) -> float:
    """One training step of a network cut into a chain of parties; returns the batch's loss.

    1. each party computes its part and sends the activations on
    2. the last party computes the loss and learns
    3. the gradient of each cut travels back as far as somebody learns from it

    Two parties are vanilla SplitNN, more are a multi-hop chain. If the first and the last have
    the same name the chain is U-shaped: features and labels never leave that owner. With the
    identity codec each step is bit-equal to one step of the unsplit network.

    Source: Gupta & Raskar 2018, arXiv 1810.06060; Vepakomma et al. 2018, arXiv 1812.00564.

    Args:
        parties: the chain, from the features to the loss.
        x: features, at the first party.
        y: labels. By default the last party has them, aligned with x.
        channel: what the activations and gradients travel through; ``channel.step`` moves on.
        labels_from: who has the labels if it is not the last party; they are sent and counted.
    """
    if len(parties) < 2:
        raise ValueError(f"{len(parties)} parties: a split network needs at least two")
    if labels_from is not None and labels_from not in (names := [p.name for p in parties]):
        raise ValueError(f"labels_from={labels_from!r}: no such party among {names}")
    channel.step += 1
    *senders, last = parties
    h, learning = x, False
    for here, there in zip(senders, parties[1:], strict=True):
        h = channel.send(here.name, there.name, "activations", {"h": here.forward(h)})["h"]
        learning = learning or here.optimizer is not None
        h.requires_grad_(learning)
    if labels_from is not None and labels_from != last.name:
        y = channel.send(labels_from, last.name, "labels", {"y": y})["y"]
    loss, g = last.loss_and_grad(h, y)
    for here, there in zip(reversed(senders), reversed(parties), strict=False):
        if g is None:  # nobody further up learns: nothing needs to travel
            break
        g = channel.send(there.name, here.name, "gradients", {"g": g})["g"]
        g = here.backward(g)
    return loss


def train_split(
    parties: Sequence[Party],
    batches: Iterable[tuple[Tensor, Tensor]],
    channel: Channel,
    *,
    labels_from: str | None = None,
) -> Iterator[Record]:
    """`split_step` over batches, e.g. ``Batches(...).epochs(15)``; yields a record a step.

    In every record the ``nbytes`` columns are running totals: ``nbytes_up`` what the first
    party's owner sent, ``nbytes_down`` what it received, ``nbytes`` everything on all links.
    """
    totals = _totals(channel, {parties[0].name})
    for x, y in batches:
        loss = split_step(parties, x, y, channel, labels_from=labels_from)
        yield {"step": channel.step, "loss": loss, **totals()}


# --------------------------------------------------------------------------------- vertical

Merge = Callable[[list[Tensor]], Tensor]


def concatenate(hs: list[Float[Tensor, "batch _"]]) -> Float[Tensor, "batch _"]:
    """Merge by putting the parties' activations side by side."""
    return torch.cat(hs, dim=1)


def add(hs: list[Float[Tensor, "batch ..."]]) -> Float[Tensor, "batch ..."]:
    """Merge by adding up; all parties need the same cut width."""
    return torch.stack(hs).sum(0)


def average(hs: list[Float[Tensor, "batch ..."]]) -> Float[Tensor, "batch ..."]:
    """Merge by averaging; all parties need the same cut width."""
    return torch.stack(hs).mean(0)


def vertical_step(
    feature_parties: Sequence[Party],
    label_party: Party,
    xs: Sequence[Shaped[Tensor, "batch ..."]],
    y: Tensor,
    channel: Channel,
    *,
    merge: Merge = concatenate,
) -> float:
    """One step on vertically split data; returns the batch's loss.

    Each feature party holds other columns of the same samples, row i of every x belonging to
    the same person. The label party merges what they send and trains on it.
    Source: Vepakomma et al. 2018, arXiv 1812.00564, figure 2(c).
    """
    if len(xs) != len(feature_parties):
        raise ValueError(f"{len(xs)} feature blocks for {len(feature_parties)} feature parties")
    if len({len(x) for x in (*xs, y)}) != 1:
        raise ValueError(f"rows are not aligned: {[len(x) for x in xs]} samples, {len(y)} labels")
    channel.step += 1
    hs = [
        channel.send(party.name, label_party.name, "activations", {"h": party.forward(x)})["h"]
        for party, x in zip(feature_parties, xs, strict=True)
    ]
    merged = merge([h.requires_grad_() for h in hs])
    loss, g = label_party.loss_and_grad(merged.detach().requires_grad_(), y)
    for party, g_party in zip(feature_parties, torch.autograd.grad(merged, hs, g), strict=True):
        if party.optimizer is not None:  # who does not learn needs no gradient
            sent = channel.send(label_party.name, party.name, "gradients", {"g": g_party})
            party.backward(sent["g"])
    return loss


def train_vertical(
    feature_parties: Sequence[Party],
    label_party: Party,
    batches: Iterable[tuple[Sequence[Tensor], Tensor]],
    channel: Channel,
    *,
    merge: Merge = concatenate,
) -> Iterator[Record]:
    """`vertical_step` over batches of ((x_1, ..., x_n), y); records as in `train_split`."""
    totals = _totals(channel, {party.name for party in feature_parties})
    for xs, y in batches:
        loss = vertical_step(feature_parties, label_party, xs, y, channel, merge=merge)
        yield {"step": channel.step, "loss": loss, **totals()}


# ------------------------------------------------------------------------------- many Alices


@runtime_checkable
class Counted(Protocol):
    """Something that holds so many samples."""

    num_samples: int


@runtime_checkable
class ClientData(Counted, Protocol):
    """What a client trains on, epoch by epoch; `fltoolkit.data.Batches` fits."""

    def epoch(self, number: int) -> Iterator[tuple[Tensor, Tensor]]: ...


def train_relay(
    alices: Sequence[Party],
    bob: Party,
    batches: Sequence[ClientData],
    channel: Channel,
    *,
    num_rounds: int,
    start_round: int = 0,
) -> Iterator[Record]:
    """Several clients take turns with one label party; the trained bottom is handed on.

    In each round every Alice in order receives the bottom from the Alice before her (a ``model``
    message, counted), then trains one epoch on her own data. She owns her labels and sends them
    along. It is sequential SGD over everybody's data, as if it lay in one place and was visited
    client by client. Optimizers stay with their owner and are not handed on. After a round the
    last Alice holds the newest bottom. Records also hold ``round`` and ``client``. To go on with
    a run that was saved after k whole rounds, pass ``start_round=k``.

    Source: Gupta & Raskar 2018, arXiv 1810.06060, algorithm 2 (peer-to-peer mode).
    """
    _check_clients(alices, bob, batches, num_rounds - start_round)
    totals = _totals(channel, {alice.name for alice in alices})
    holder = alices[0] if start_round == 0 else alices[-1]
    for round_ in range(start_round, num_rounds):
        for alice, data in zip(alices, batches, strict=True):
            if alice is not holder:
                _load(alice, channel.send(holder.name, alice.name, "model", _weights(holder)))
                holder = alice
            for x, y in data.epoch(round_):
                loss = split_step([alice, bob], x, y, channel, labels_from=alice.name)
                who: Record = {"round": round_, "client": alice.name}
                yield {"step": channel.step, **who, "loss": loss, **totals()}


def train_splitfed(
    alices: Sequence[Party],
    bob: Party,
    batches: Sequence[ClientData],
    channel: Channel,
    *,
    num_rounds: int,
    start_round: int = 0,
    version: int,
    seed: int = 0,
    fed_server: str = "fed_server",
) -> Iterator[Record]:
    """SplitFed: clients train at the same time, a fed server averages their bottoms each round.

    A round: every Alice trains one epoch with the label party, sends her bottom to the fed
    server, which averages by sample counts and sends the average back (both ``model`` messages).

    - version 1: the label party keeps a copy of the top for each client and averages the copies
      too, at home, at the end of the round. With plain SGD this is FedAvg of the whole network.
    - version 2: one top for all, trained through the clients one after the other, in an order
      drawn from ``seed`` for each round.

    The last record of a round comes after averaging: then every Alice holds the same bottom and
    ``bob`` the top that goes with it. Clients must start from the same weights. To go on with a
    run that was saved after k whole rounds, pass ``start_round=k``; in version 1 the copies of
    the top then begin with ``bob``'s optimizer state, which makes no difference for plain SGD.
    Source: Thapa et al. 2020, arXiv 2004.12088, algorithms 1 and 2.
    """
    _check_clients(alices, bob, batches, num_rounds - start_round)
    if version not in (1, 2):
        raise ValueError(f"version={version}: SplitFed has the versions 1 and 2")
    start = _weights(alices[0])
    for alice in alices[1:]:
        theirs = _weights(alice)
        if start.keys() != theirs.keys() or any(
            not torch.equal(start[name], weight) for name, weight in theirs.items()
        ):
            raise ValueError(
                f"{alices[0].name!r} and {alice.name!r} start from different weights: build every "
                "client's module from the same seed"
            )
    totals = _totals(channel, {alice.name for alice in alices})
    num_samples = [data.num_samples for data in batches]
    tops = [copy.deepcopy(bob) for _ in alices] if version == 1 else [bob] * len(alices)
    for round_ in range(start_round, num_rounds):
        record: Record = {}
        drawn = np.random.default_rng([seed, round_]).permutation(len(alices))
        for k in range(len(alices)) if version == 1 else drawn:
            for x, y in batches[k].epoch(round_):
                if record:
                    yield record
                loss = split_step([alices[k], tops[k]], x, y, channel, labels_from=alices[k].name)
                who: Record = {"round": round_, "client": alices[k].name}
                record = {"step": channel.step, **who, "loss": loss, **totals()}
        sent = [channel.send(a.name, fed_server, "model", _weights(a)) for a in alices]
        bottom = weighted_mean(sent, num_samples)
        for alice in alices:
            _load(alice, channel.send(fed_server, alice.name, "model", bottom))
        if version == 1:
            top = weighted_mean([_weights(copied) for copied in tops], num_samples)
            for copied in (bob, *tops):
                _load(copied, top)
        yield {**record, **totals()}


# ------------------------------------------------------------------- the experimenter's view


@torch.no_grad()
def predict(
    parties: Sequence[Party],
    x: Shaped[Tensor, "batch ..."] | Sequence[Shaped[Tensor, "batch ..."]],
    *,
    merge: Merge = concatenate,
    through: Codec | None = None,
) -> Float[Tensor, "batch ..."]:
    """The whole network's output, all parts in evaluation mode and then back in their own.

    The experimenter's view and no protocol: nothing is sent, nothing counted, nothing learned.
    A sequence of x is vertical data: one block for each party but the last. With ``through``,
    activations pass a fresh copy of that codec at each cut, as they would in use: for a network
    trained with `RandTopK` that is ``Pipeline(RandTopK(fraction, training=False))``.
    """
    crossing = copy.deepcopy(through)

    def cross(h: Tensor) -> Tensor:
        return h if crossing is None else crossing.decode(crossing.encode({"h": h}))["h"]

    modules = [m for party in parties for m in party.module.modules()]
    modes = [module.training for module in modules]
    try:
        for party in parties:
            party.module.eval()
        if isinstance(x, Tensor):
            h = x
            for number, party in enumerate(parties):
                h = party.module((cross(h) if number else h).to(party.device))
            return h
        features = zip(parties[:-1], x, strict=True)
        hs = [cross(party.module(block.to(party.device))) for party, block in features]
        return parties[-1].module(merge([h.to(parties[-1].device) for h in hs]))
    finally:
        for module, mode in zip(modules, modes, strict=True):
            module.training = mode


def evaluate(
    parties: Sequence[Party],
    x: Shaped[Tensor, "samples ..."] | Sequence[Shaped[Tensor, "samples ..."]],
    y: Int[Tensor, " samples"],
    *,
    merge: Merge = concatenate,
    through: Codec | None = None,
    batch_size: int = 1000,
) -> Record:
    """``{"test_loss": ..., "accuracy": fraction right}`` on data not trained on; see `predict`.

    Both are means over samples; ``batch_size`` only bounds the memory this takes. Raises
    FloatingPointError if the loss is NaN or infinite.
    """
    if (loss_fn := parties[-1].loss_fn) is None:
        raise ValueError(f"party {parties[-1].name!r} comes last and has no loss_fn: give it one")
    if not len(y):
        raise ValueError("no samples to evaluate: y is empty")
    if batch_size < 1:
        raise ValueError(f"batch_size={batch_size}: evaluate 1 sample or more at a time")
    for features in [x] if isinstance(x, Tensor) else x:
        if len(features) != len(y):
            raise ValueError(f"{len(features)} samples and {len(y)} labels: need one each")
    loss = right = 0.0
    for start in range(0, len(y), batch_size):
        rows = slice(start, start + batch_size)
        block = x[rows] if isinstance(x, Tensor) else [part[rows] for part in x]
        output = predict(parties, block, merge=merge, through=through)
        labels = y[rows].to(output.device)
        loss += float(loss_fn(output, labels)) * len(labels)
        right += float((output.argmax(dim=1) == labels).sum())
    if not math.isfinite(loss):
        raise FloatingPointError(
            f"the test loss is {loss}: the model has diverged, or the test data hold NaN"
        )
    return {"test_loss": loss / len(y), "accuracy": right / len(y)}


# ---------------------------------------------------------------------------------- helpers


def _totals(channel: Channel, clients: set[str]) -> Callable[[], dict[str, int]]:
    """A function that says what has been sent so far, reading only what is new since its last call.

    Up is what a client sent to someone who is none, down the reverse; the total has all links,
    those between two clients or two servers too.
    """
    seen = up = down = total = 0

    def totals() -> dict[str, int]:
        nonlocal seen, up, down, total
        for transfer in channel.transfers[seen:]:
            total += transfer.nbytes
            if transfer.sender in clients and transfer.receiver not in clients:
                up += transfer.nbytes
            elif transfer.receiver in clients and transfer.sender not in clients:
                down += transfer.nbytes
        seen = len(channel.transfers)
        return {"nbytes_up": up, "nbytes_down": down, "nbytes": total}

    return totals


def _weights(party: Party) -> Tree:
    """All that makes up the party's part of the model, buffers included."""
    return party.module.state_dict()


def _load(party: Party, weights: Tree) -> None:
    party.module.load_state_dict(weights)


def _check_clients(
    alices: Sequence[Party], bob: Party, batches: Sequence[Counted], rounds_left: int
) -> None:
    if rounds_left < 1:
        raise ValueError(f"num_rounds leaves {rounds_left} rounds to train; it counts from 0")
    if not alices or len(alices) != len(batches):
        raise ValueError(f"{len(alices)} clients and {len(batches)} sets of batches: need one each")
    names = [party.name for party in (*alices, bob)]
    if len(set(names)) != len(names):
        raise ValueError(f"two of {names} share one name: the ledger could not tell them apart")
    owned = [{id(param) for param in party.module.parameters()} for party in (*alices, bob)]
    if len(set().union(*owned)) != sum(map(len, owned)):
        raise ValueError(
            "two parties share parameters, so what one learns the other has at once, without a "
            "message. Build a network for each (from one seed, so that they start alike)"
        )
    for alice, data in zip(alices, batches, strict=True):
        if data.num_samples < 1:
            raise ValueError(f"client {alice.name!r} has no samples: leave it out")
