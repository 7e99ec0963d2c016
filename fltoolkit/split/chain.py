"""Split learning: how parties that each hold a part of one network train it together.

Every topology is a short function that follows its figure; all data between two parties is sent
through a `Channel`. Notebook 01 derives `split_step`, notebooks 02 and 02b the rest.
"""

import warnings
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from torch import Tensor

from fltoolkit.channel import Channel
from fltoolkit.history import CHECKED, StepRecord, checked_at_call
from fltoolkit.party import Party, TrainingWarning
from fltoolkit.shapes import Shaped


def split_step(
    parties: Sequence[Party],
    x: Shaped[Tensor, "batch ..."],
    y: Shaped[Tensor, "batch ..."],
    channel: Channel,
    *,
    labels_from: str | None = None,
) -> float:
    """One training step of a network cut into a chain of parties; returns the batch's loss.

    1. each party computes its part (`Party.forward`) and sends the activations on
    2. the last party computes the loss and takes its optimizer's step (`Party.loss_and_grad`)
    3. the gradient of each cut is sent back, as far as there are parties that learn from it, and
       each of them takes its step (`Party.backward`)

    Two parties are vanilla SplitNN, more are a multi-hop chain. If the first and the last have
    the same name, the chain is U-shaped: features and labels never leave that owner. With the
    identity codec each step is bit-equal to one step of the unsplit network.

    Source: Gupta & Raskar 2018, arXiv 1810.06060; Vepakomma et al. 2018, arXiv 1812.00564.

    Args:
        parties: the chain, from the features to the loss.
        x: features, at the first party.
        y: labels. By default the last party has them, aligned with x.
        channel: what the activations and gradients travel through; ``channel.step`` moves on.
        labels_from: who has the labels if it is not the last party; they are sent and counted.

    >>> import torch
    >>> from torch import nn
    >>> from fltoolkit import SGD
    >>> model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    >>> alice = Party("alice", model[0], SGD(model[0].parameters(), lr=0.1))
    >>> bob = Party("bob", model[1], SGD(model[1].parameters(), lr=0.1), nn.MSELoss())
    >>> channel = Channel()
    >>> _ = split_step([alice, bob], torch.ones(4, 2), torch.ones(4, 1), channel)
    >>> [(transfer.kind, transfer.nbytes_dense) for transfer in channel.transfers]
    [('activations', 48), ('gradients', 48)]
    """
    _check_chain(parties, labels_from)
    channel.step += 1
    return through_chain(parties, x, y, channel, labels_from)[0]


def through_chain(
    parties: Sequence[Party],
    h: Tensor,
    y: Tensor,
    channel: Channel,
    labels_from: str | None = None,
    *,
    learns: bool = False,
) -> tuple[float, Tensor | None]:
    """What `split_step` and `train_vertical` do with h, which the first of the parties has.

    ``learns``: somebody before the first party needs the gradient. Returns the loss, and its
    gradient with respect to h (None if nobody needs one).
    """
    cuts, last = list(pairwise(parties)), parties[-1]
    someone_learns = learns
    for here, there in cuts:
        h = channel.send(here.name, there.name, "activations", {"h": here.forward(h)})["h"]
        someone_learns = someone_learns or here.optimizer is not None
        h.requires_grad_(someone_learns)
    if labels_from is not None and labels_from != last.name:
        y = channel.send(labels_from, last.name, "labels", {"y": y})["y"]
    loss, g = last.loss_and_grad(h, y)
    for here, there in reversed(cuts):
        if g is None:  # no party before this one learns: no gradient need be sent
            break
        g = channel.send(there.name, here.name, "gradients", {"g": g})["g"]
        g = here.backward(g)
    return loss, g


@checked_at_call
def train_split(
    parties: Sequence[Party],
    batches: Iterable[tuple[Tensor, Tensor]],
    channel: Channel,
    *,
    labels_from: str | None = None,
) -> Iterator[StepRecord]:
    """`split_step` over batches, e.g. ``Batches(...).epochs(15)``; yields one record per step.

    The three ``nbytes`` values of a record are totals so far: ``nbytes_up`` is what the first
    party's owner has sent, ``nbytes_down`` is what it has received, ``nbytes`` counts all links.
    As in all protocols, arguments are checked at the call; training begins with the first record.

    >>> import torch
    >>> from torch import nn
    >>> alice = Party("alice", nn.Linear(2, 3))
    >>> bob = Party("bob", nn.Linear(3, 1), loss_fn=nn.MSELoss())
    >>> batches = [(torch.ones(4, 2), torch.ones(4, 1))] * 2
    >>> [record["nbytes_up"] for record in train_split([alice, bob], batches, Channel())]
    [59, 118]
    """
    check_parties(parties)
    _check_chain(parties, labels_from)
    yield CHECKED

    totals = channel.begin({parties[0].name}, [party.module for party in parties])
    for x, y in arriving(batches):
        check_batch(x, y)
        loss = split_step(parties, x, y, channel, labels_from=labels_from)
        yield {"step": channel.step, "loss": loss, **totals()}


def _check_chain(parties: Sequence[Party], labels_from: str | None) -> None:
    if len(parties) < 2:
        raise ValueError(f"{len(parties)} parties: a split network needs at least two")
    if labels_from is not None and labels_from not in (names := [p.name for p in parties]):
        raise ValueError(f"labels_from={labels_from!r}: no such party among {names}")


def check_parties(parties: Sequence[Party]) -> None:
    """Check each party again, and raise ValueError if two owners' networks have one parameter.

    One owner's parts, such as the head and the tail of a U-shape, may share what they like.
    """
    owners: dict[int, str] = {}
    for party in parties:
        if not isinstance(party, Party):
            raise TypeError(f"a {type(party).__name__} is no party: say Party(name, module, ...)")
        party.check()
        for name, param in party.module.named_parameters():
            if (owner := owners.setdefault(id(param), party.name)) != party.name:
                raise ValueError(
                    f"two parties share parameters: {owner!r} and {party.name!r} both have "
                    f"{name!r} (its name at {party.name!r}), so what one learns the other has at "
                    "once, without a message. Give each a layer of its own; networks built from "
                    "one seed start alike"
                )


def check_batch(x: Any, y: Any) -> None:
    """Raise TypeError or ValueError for features and labels that are no tensors of one length."""
    for name, part in (("features", x), ("labels", y)):
        if not isinstance(part, Tensor):
            raise TypeError(
                f"a batch holds {name} of type {type(part).__name__}, not a tensor. "
                "torch.as_tensor(...) makes one of an array"
            )
    if not y.dim():
        raise ValueError("a batch holds one sample: give DataLoader(dataset, batch_size=32)")
    if len(x) != len(y):
        raise ValueError(
            f"a batch holds features of {len(x)} samples and labels of {len(y)}: both need one "
            "row for each sample, in the same order"
        )


def arriving(batches: Any) -> Iterator[Any]:
    """The batches one by one; warns at the end if there was none. TypeError: no batches at all."""
    one = isinstance(batches, tuple) and any(hasattr(part, "shape") for part in batches)
    if one or not isinstance(batches, Iterable):
        raise TypeError(
            f"batches is a {type(batches).__name__}: give many (x, y), such as a DataLoader or "
            "Batches(x, y, 32, seed=0).epochs(5)"
        )
    none_came = True
    for batch in batches:
        none_came = False
        yield batch
    if none_came:
        warnings.warn(
            "there was not a single batch, so nothing was trained. Batches that were walked "
            "through once are used up: call batches.epochs(...) again for each training",
            TrainingWarning,
            stacklevel=3,
        )
