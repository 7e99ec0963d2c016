"""The protocol: owners send their samples to one party, and this party trains on all of them."""

from collections.abc import Iterator, Mapping
from itertools import chain, count, islice

import numpy as np
import torch
from torch import Tensor

from fltoolkit.channel import Channel
from fltoolkit.data.batches import Batches
from fltoolkit.history import CHECKED, StepRecord, checked_at_call
from fltoolkit.party import Party

Samples = tuple[Tensor, Tensor]


class PooledRecord(StepRecord):
    """What `pool` yields."""

    num_samples: int


@checked_at_call
def pool(
    owners: Mapping[str, Samples],
    receiver: Party,
    channel: Channel,
    *,
    rounds: int,
    batch_size: int,
    seed: int,
    steps_per_round: int | None = None,
    send_back: bool = False,
) -> Iterator[PooledRecord]:
    """Send all samples to one party, and train there: the baseline of every other protocol.

    1. every owner sends its samples and their labels to the receiver, once
    2. the receiver trains the whole network on what it has decoded
    3. with ``send_back``, it sends the trained model to every owner

    An owner sorts its samples by their label before it sends them, so class numbers cost next to
    nothing. Nothing stays private: the receiver has every sample, as the codec keeps it.

    Args:
        owners: names to samples ``(x, y)``, at least one owner with one sample.
        receiver: has the whole network, an optimizer and the loss.
        channel: with codecs for the kinds ``samples``, ``labels`` and ``model``; see `lossless`.
        rounds: how many rounds the receiver trains; a record each.
        batch_size: of the receiver.
        seed: of the order of the receiver's batches.
        steps_per_round: how many batches a round has; None: one pass over the received samples.
        send_back: whether the owners get the trained model, in the last round.

    Records hold ``step`` (batches so far), ``loss`` (mean of the round), ``num_samples`` (at the
    receiver) and the running totals ``nbytes_up``, ``nbytes_down``, ``nbytes``.

    Raises ValueError for arguments that do not fit, before anything is sent.
    """
    for name, (x, y) in owners.items():
        if len(x) != len(y) or not len(y):
            raise ValueError(f"owner {name!r} has {len(x)} samples and {len(y)} labels, or none")
    yield CHECKED

    totals = channel.begin(set(owners), [receiver.module], sends_weights=send_back)
    received = []
    for name, (x, y) in owners.items():
        rows = by_class(y)
        x = channel.send(name, receiver.name, "samples", {"x": x[rows]})["x"]
        received.append((x, channel.send(name, receiver.name, "labels", {"y": y[rows]})["y"]))
    x, y = (torch.cat(parts) for parts in zip(*received, strict=True))
    batches = Batches(x, y, batch_size, seed=seed)
    each_batch = chain.from_iterable(map(batches.rows, count()))
    per_round = steps_per_round or len(batches)
    for round_ in range(rounds):
        losses = 0.0
        for rows in islice(each_batch, per_round):
            losses += receiver.loss_and_grad(x[rows], y[rows])[0]
            channel.step += 1
        if send_back and round_ == rounds - 1:
            for name in owners:
                channel.send(receiver.name, name, "model", receiver.weights())
        step, loss = (round_ + 1) * per_round, losses / per_round
        yield {"step": step, "loss": loss, "num_samples": len(y), **totals()}


def by_class(y: Tensor) -> Tensor:
    """The rows of samples, sorted by their class; unchanged if the targets are no class numbers."""
    if y.dim() == 1 and not y.is_floating_point():
        return y.argsort(stable=True)
    return torch.arange(len(y))


def at_random(x: Tensor, y: Tensor, count: int, *, seed: int) -> Samples:
    """``count`` of the samples, drawn without repetition: (x, y); all of them if fewer."""
    rows = np.random.default_rng(seed).permutation(len(y))[:count]
    return x[torch.from_numpy(rows)], y[torch.from_numpy(rows)]
