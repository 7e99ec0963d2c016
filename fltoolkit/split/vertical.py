"""Vertical data: parties with different columns of the same samples train with one label party.

Not here: parties in a row (chain.py). Notebook 02b derives it.
"""

from collections.abc import Iterable, Iterator, Sequence

import torch
from torch import Tensor

from fltoolkit.channel import Channel
from fltoolkit.history import CHECKED, StepRecord, checked_at_call
from fltoolkit.party import Party
from fltoolkit.shapes import Float
from fltoolkit.split.chain import arriving, check_batch, check_parties, through_chain


def concatenate(hs: list[Float[Tensor, "batch _"]]) -> Float[Tensor, "batch _"]:
    """Put the parties' activations side by side.

    >>> concatenate([torch.ones(1, 2), torch.zeros(1, 1)])
    tensor([[1., 1., 0.]])
    """
    return torch.cat(hs, dim=1)


@checked_at_call
def train_vertical(
    feature_parties: Sequence[Party],
    label_party: Party | Sequence[Party],
    batches: Iterable[tuple[Sequence[Tensor], Tensor]],
    channel: Channel,
) -> Iterator[StepRecord]:
    """Train on vertically split data, batches of ((x_1, ..., x_n), y); records as in `train_split`.

    Each feature party holds other columns of the same samples: row i of every x belongs to the
    same person. The label party puts what they send side by side and trains on it. In its place
    a chain may stand, whose last party has the labels: with ``[bob, tail]``, where the tail is
    called as one of the feature parties, labels never leave that owner (U-shaped).

    Source: Vepakomma et al. 2018, arXiv 1812.00564, figures 2(b) and 2(c).

    >>> from torch import nn
    >>> a, b = Party("a", nn.Linear(2, 1)), Party("b", nn.Linear(3, 1))
    >>> top = Party("bob", nn.Linear(2, 1), loss_fn=nn.MSELoss())
    >>> batches = [((torch.ones(4, 2), torch.ones(4, 3)), torch.ones(4, 1))]
    >>> [record["nbytes"] for record in train_vertical([a, b], top, batches, Channel())]
    [54]
    """
    many = isinstance(label_party, list | tuple)
    chain: list[Party] = [*label_party] if many else [label_party]  # type: ignore[list-item, misc]
    if not chain:
        raise ValueError("label_party=[]: give the party with the labels, or a chain up to it")
    check_parties([*feature_parties, *chain])
    learns = any(party.optimizer is not None for party in feature_parties)
    yield CHECKED

    networks = [party.module for party in (*feature_parties, *chain)]
    totals = channel.begin({party.name for party in feature_parties}, networks)
    for xs, y in arriving(batches):
        if len(xs) != len(feature_parties):
            raise ValueError(f"{len(xs)} feature blocks for {len(feature_parties)} feature parties")
        for x in xs:
            check_batch(x, y)
        channel.step += 1
        hs = [
            channel.send(party.name, chain[0].name, "activations", {"h": party.forward(x)})["h"]
            for party, x in zip(feature_parties, xs, strict=True)
        ]
        merged = concatenate([h.requires_grad_() for h in hs])
        joined = merged.detach().requires_grad_(learns)
        loss, g = through_chain(chain, joined, y, channel, learns=learns)
        parts = () if g is None else torch.autograd.grad(merged, hs, g)
        for party, g_party in zip(feature_parties, parts, strict=False):
            if party.optimizer is not None:  # a party that does not learn needs no gradient
                sent = channel.send(chain[0].name, party.name, "gradients", {"g": g_party})
                party.backward(sent["g"])
        yield {"step": channel.step, "loss": loss, **totals()}
