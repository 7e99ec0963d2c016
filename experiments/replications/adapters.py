"""LoRA factors of several clients, averaged exactly: the mean of products is no product of means.

Here: `fedex_lora`.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from experiments.replications.drift import loss_of_all, plain_rounds
from fltoolkit.channel import Channel
from fltoolkit.federated.client import Local, sent_entries
from fltoolkit.federated.samples import Clients
from fltoolkit.federated.server import SERVER
from fltoolkit.federated.workers import Fleet, Workers, as_fleet
from fltoolkit.history import CHECKED, Record, checked_at_call
from fltoolkit.trees import Tree
from fltoolkit_research.finetuning import FineTuned


@checked_at_call
def fedex_lora(
    tuned: FineTuned,
    clients: Clients | Fleet,
    channel: Channel,
    *,
    rounds: int,
    local: Local,
    seed: int = 0,
) -> Iterator[Record]:
    """FedEx-LoRA (Singhal et al. 2024, arXiv 2410.09432); one record per round.

    Each client k ends a round with a change ``B_k A_k`` of a matrix. The mean of the changes is the
    mean of these products, but `fedavg` makes the product of the means of B and of A. Here the
    difference of the two, the residual, is added to the frozen matrix. A round:

    1. all clients train from the same factors and the same frozen weights
    2. each sends its update of the factors
    3. the server sends the updates of all clients to each of them, from which it computes the means
       of the factors and the residual, which would be as long as the frozen weights

    So a message down is as long as those of all clients up. All clients take part in each round,
    and all weigh the same. The first model is not sent.

    ``tuned`` is a model with changes of `lora`, changed in place, its frozen weights, too; other
    arguments are those of `fedavg`. A codec for the kind ``model`` must decode alike for all
    clients. Records hold ``round``, ``step``, ``loss`` and the running totals of bytes.
    """
    team = Workers(tuned, as_fleet(clients), local, seed, SERVER)
    all_rounds = plain_rounds(team, channel, rounds, len(team.clients))
    yield CHECKED

    totals = channel.begin(set(team.clients), [tuned], sends_weights=True)
    for round_, _ in all_rounds:
        starts = {k: sent_entries(tuned) for k in team.clients}
        updates = team.learn_all(channel, starts, round_)
        received = {k: channel.send(k, SERVER, "update", u.delta) for k, u in updates.items()}
        every = {f"{k}/{name}": t for k, tree in received.items() for name, t in tree.items()}
        got = [channel.send(SERVER, k, "model", every) for k in team.clients]
        split = [{n: got[0][f"{k}/{n}"] for n in received[k]} for k in received]
        absorb(tuned, split)
        yield {"round": round_, "step": channel.step, **loss_of_all(updates), **totals()}


@torch.no_grad()
def absorb(tuned: FineTuned, updates: list[Tree]) -> None:
    """Move the factors by the mean update, and the frozen weights by the residual."""
    start = {name: t.clone() for name, t in tuned.state_dict().items()}

    def changes(update: Tree) -> list[Tensor]:
        tuned.load_state_dict({name: t + update[name] for name, t in start.items()})
        return [change() for change in tuned.changes.values()]

    each = [changes(update) for update in updates]
    first, *others = updates
    mean = {n: sum((u[n] for u in others), first[n]) / len(updates) for n in start}
    frozen = dict(tuned.base.named_buffers())
    for name, of_mean, *of_each in zip(tuned.changes, changes(mean), *each, strict=True):
        frozen[name.replace("/", ".")].add_(torch.stack(of_each).mean(0) - of_mean)
