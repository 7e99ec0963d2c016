"""Split learning: how parties that each hold a part of one network train it together.

Every topology is a short function that follows its figure; all data between two parties is sent
through a `Channel`. Not here: what one party does alone (party.py).
Notebook 01 derives `split_step`, notebook 02 the rest.
"""

from collections.abc import Iterable, Iterator, Sequence

from jaxtyping import Shaped
from torch import Tensor

from fltoolkit.channel import Channel
from fltoolkit.history import Record
from fltoolkit.party import Party

__all__ = ["split_step", "train_split"]

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
    3. the gradient of each cut is sent back, as far as there are parties that learn from it

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

    The three ``nbytes`` values of a record are totals so far: ``nbytes_up`` is what the first
    party's owner has sent, ``nbytes_down`` is what it has received, ``nbytes`` counts all links.
    """
    totals = channel.totals({parties[0].name})
    for x, y in batches:
        loss = split_step(parties, x, y, channel, labels_from=labels_from)
        yield {"step": channel.step, "loss": loss, **totals()}


# --------------------------------------------------------------------------------- vertical


# ------------------------------------------------------------------------------- many Alices


# ------------------------------------------------------------------- the experimenter's view


# ---------------------------------------------------------------------------------- helpers
