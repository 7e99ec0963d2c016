"""SplitFT's way to fine-tune: owners and a server train adapters in two parts, and average them.

Each owner has a cut of its own. At every step its activations go to the server and gradients come
back. After each round the adapters of the owners' layers are averaged, and so are those of the
server's copies. In the last layer before its cut an owner may have a smaller rank.

Source: Shan et al. 2026, arXiv 2604.26388, read in the abstract: owners choose their cuts by what
their machines can do, and the rank of LoRA is lower in the cut layer. Here the cuts are given.

Here: one training. Not here: the settings, the task and the table (finetune.py).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice

import torch
from torch import Tensor, nn

from fltoolkit import Batches, Channel, Party
from fltoolkit.history import Record
from fltoolkit.split import split_step
from fltoolkit.trees import Tree, masked_mean
from fltoolkit_research.finetuning import FineTuned, LowRankChange


@dataclass(frozen=True)
class TwoParts:
    """Where each owner's part of the row of items ends, and the ranks of LoRA."""

    cuts: tuple[int, ...]  # by owner: how many items it has
    rank: int
    cut_rank: int  # in an owner's last item


def adapted(model: nn.Sequential, rank: int, narrow: Mapping[str, int] | None = None) -> FineTuned:
    """The items with LoRA in all linear layers, or of another rank in the items that are named.

    All parties draw the same first A for a layer, of which a smaller rank has the first rows.
    """
    changes = dict[str, nn.Module]()
    for path, layer in model.named_modules():
        if isinstance(layer, nn.Linear):
            generator = torch.Generator().manual_seed(sum(map(ord, path)))
            change = LowRankChange(layer.weight, rank, alpha=2.0 * rank, generator=generator)
            own = (narrow or {}).get(path.split(".")[0], rank)
            assert change.a is not None
            change.drawn = change.drawn[:own]
            change.a, change.b = nn.Parameter(change.a[:own]), nn.Parameter(change.b[:, :own])
            changes[f"{path}.weight"] = change
    return FineTuned(model, changes)


class Owner:
    """One owner's chain: its own items, and the server's copy of the others."""

    def __init__(self, name: str, model: nn.Sequential, how: TwoParts, cut: int, lr: float):
        last = list(dict(model.named_children()))[cut - 1]
        self.own = adapted(model[:cut], how.rank, {last: how.cut_rank})
        self.rest = adapted(model[cut:], how.rank)
        adam = partial(torch.optim.AdamW, lr=lr, weight_decay=0.0)  # kept for all rounds
        self.parties = [
            Party(name, self.own, adam(self.own.parameters())),
            Party("server", self.rest, adam(self.rest.parameters()), nn.NLLLoss()),
        ]


@torch.no_grad()
def averaged(states: Sequence[Tree], weights: Sequence[int]) -> Tree:
    """The mean of all adapters; of directions that not everybody has, that of those who do."""
    shapes = {name: max(state[name].shape for state in states) for name in states[0]}
    padded, there = list[Tree](), list[Tree]()
    for state in states:
        ones = {name: torch.ones_like(state[name], dtype=torch.bool) for name in shapes}
        padded.append({name: filled(state[name], shape) for name, shape in shapes.items()})
        there.append({name: filled(ones[name], shape) for name, shape in shapes.items()})
    return masked_mean(padded, there, weights)


def filled(tensor: Tensor, shape: Sequence[int]) -> Tensor:
    """A matrix with zeros below and to the right of it."""
    missing = [large - small for large, small in zip(shape, tensor.shape, strict=True)]
    return nn.functional.pad(tensor, (0, missing[1], 0, missing[0]))


def put(model: FineTuned, mean: Tree) -> None:
    """The part of the mean that a model has room for; directions that nobody has stay zero."""
    own = model.state_dict()
    rooms = {name: tuple(slice(n) for n in tensor.shape) for name, tensor in own.items()}
    model.load_state_dict({n: filled(mean[n][rooms[n]], own[n].shape) for n in own})


def train(
    tuned: FineTuned,
    model: nn.Sequential,
    clients: Mapping[str, tuple[Tensor, Tensor]],
    channel: Channel,
    how: TwoParts,
    lr: float,
    *,
    rounds: int,
    steps: int,
    batch_size: int,
    seed: int,
) -> Iterator[Record]:
    """Rounds of ``steps`` steps by each owner; ``tuned`` is the averaged model after each of them.

    The first download of adapters is left out: they are zeros, which everybody knows.
    """
    owners, batches = list[Owner](), list[Iterator[tuple[Tensor, Tensor]]]()
    for k, ((name, (x, y)), cut) in enumerate(zip(clients.items(), how.cuts, strict=True)):
        owners.append(Owner(name, model, how, cut, lr))
        batches.append(iter(Batches(x, y, batch_size, seed=1000 * seed + k).epochs(rounds * steps)))
    totals = channel.begin(set(clients), [tuned])
    for number in range(rounds):
        states = []
        for name, owner, mine in zip(clients, owners, batches, strict=True):
            if number:
                put(owner.own, channel.send("server", name, "model", owner.own.state_dict()))
            for x, y in islice(mine, steps):
                split_step(owner.parties, x, y, channel, labels_from=name)
            sent = channel.send(name, "server", "update", owner.own.state_dict())
            states.append(sent | owner.rest.state_dict())
        mean = averaged(states, [len(x) for x, _ in clients.values()])
        for model_part in (tuned, *(part for o in owners for part in (o.own, o.rest))):
            put(model_part, mean)
        yield {"round": number + 1, **totals()}
