"""Split learning in which no gradient comes back: the client learns from a loss of her own.

Not here: training with gradients (`fltoolkit.split`). docs/split_extras.md compares both.
"""

from collections.abc import Iterable, Iterator

from torch import Tensor

from fltoolkit.channel import Channel
from fltoolkit.history import CHECKED, Record, checked_at_call
from fltoolkit.party import Party
from fltoolkit.split.chain import arriving, check_batch, check_parties


@checked_at_call
def train_local_loss(
    alice: Party,
    head: Party,
    bob: Party,
    batches: Iterable[tuple[Tensor, Tensor]],
    channel: Channel,
) -> Iterator[Record]:
    """The client learns from a loss of her own; no gradient comes back.

    ``head`` is a small network of the client, with a loss. The client learns from its gradient,
    which needs no message. She sends activations and labels, and the label party learns from them;
    its loss is in the records, which are those of `train_split`.

    Source: Han et al. 2021, "Accelerating federated learning with split learning on locally
    generated losses" (FL-ICML workshop).

    >>> import torch
    >>> from torch import nn
    >>> alice = Party("alice", nn.Linear(2, 3))
    >>> head = Party("alice", nn.Linear(3, 1), loss_fn=nn.MSELoss())
    >>> bob = Party("bob", nn.Linear(3, 1), loss_fn=nn.MSELoss())
    >>> batches = [(torch.ones(4, 2), torch.ones(4, 1))] * 2
    >>> [record["nbytes_down"] for record in train_local_loss(alice, head, bob, batches, Channel())]
    [0, 0]
    """
    if head.name != alice.name:
        raise ValueError(
            f"the head belongs to {head.name!r}: it must belong to {alice.name!r}, it is not sent"
        )
    check_parties([alice, head, bob])
    yield CHECKED

    totals = channel.begin({alice.name}, [alice.module, bob.module])
    for x, y in arriving(batches):
        check_batch(x, y)
        channel.step += 1
        h = alice.forward(x)
        sent = channel.send(alice.name, bob.name, "activations", {"h": h})["h"]
        y_bob = channel.send(alice.name, bob.name, "labels", {"y": y})["y"]
        _, g = head.loss_and_grad(h.requires_grad_(), y)
        if g is not None:
            alice.backward(g)
        loss, _ = bob.loss_and_grad(sent, y_bob)
        yield {"step": channel.step, "loss": loss, **totals()}
