"""One sum of a text: counts of the n-grams of all owners, and the model of Witten and Bell 1991.

    python -m experiments.one_sum_text --write   # the table, into docs/one_sum.md: a minute

The owners, their windows, the held-out windows and the loss are those of ``experiments.language``,
seed 10. Each owner sends, once, which n-grams her windows have and how often, and gets the sum,
which does not depend on who has which window. Each length is mixed with the next shorter one, as
Chen and Goodman 1999 write it for Witten and Bell.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

from experiments.language.data_parallel import deal
from experiments.language.task import Task, text_of
from experiments.runs import Page
from experiments.tables import markdown
from fltoolkit import Channel
from fltoolkit_research.pooled import lossless

Ints = NDArray[np.int64]
Counts = tuple[Ints, Ints]  # sorted n-grams as numbers, and how often each occurs
LONGEST, SEED = 5, 10
PAGE = Page("one_sum", "<!-- begin: printed by experiments.one_sum_text -->", "<!-- end: text -->")


def grams(x: Tensor, y: Tensor, n: int, base: int) -> Ints:
    """For each character of y [windows, characters] the n-gram that ends there, as a number.

    Before its window stands the symbol ``base - 1``, which is no character.
    """
    row = pad(torch.cat([x[:, :1], y], dim=1), (n, 0), value=base - 1).numpy().astype(np.int64)
    width = y.shape[1]
    parts = (row[:, 2 + k : 2 + k + width] * base ** (n - 1 - k) for k in range(n))
    return sum(parts, start=np.zeros(1, np.int64)).ravel()


def sent(channel: Channel, sender: str, receiver: str, counted: Counts) -> Counts:
    """What the receiver reads: in the message are the gaps between n-grams, and their counts."""
    gaps, counts = np.diff(counted[0], prepend=0), counted[1]
    planes = {f"{k}": torch.from_numpy(gaps >> 8 * k & 255).to(torch.uint8) for k in range(4)}
    tree = {**planes, "counts": torch.from_numpy(counts)}
    tree = channel.send(sender, receiver, "update", tree)
    gaps = sum(tree[f"{k}"].numpy().astype(np.int64) << 8 * k for k in range(4))
    return np.cumsum(gaps), tree["counts"].numpy()


def added(tables: list[Counts]) -> Counts:
    """The sum of these tables."""
    keys, places = np.unique(np.concatenate([keys for keys, _ in tables]), return_inverse=True)
    weights = np.concatenate([counts for _, counts in tables])
    return keys, np.bincount(places, weights).astype(np.int64)


def nats(table: Counts, n: int, test: Ints, base: int) -> float:
    """Nats per character of a test, all n-grams of which are given, from those of a training."""
    p = np.full(len(test), 1 / (base - 1))
    for length in range(1, n + 1):
        keys, counts = added([(table[0] % base**length, table[1])])
        wanted = test % base**length
        found = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        count = np.where(keys[found] == wanted, counts[found], 0)
        before, first = np.unique(keys // base, return_index=True)
        total, kinds = np.add.reduceat(counts, first), np.diff(np.append(first, len(keys)))
        place = np.minimum(np.searchsorted(before, wanted // base), len(before) - 1)
        known = before[place] == wanted // base
        p = np.where(known, (count + kinds[place] * p) / (total[place] + kinds[place]), p)
    return float(-np.log(p).mean())


def row(n: int, task: Task) -> list[str]:
    """The counts of n-grams: the loss, together and alone, and the bytes both ways."""
    text, channel = text_of(task.text), Channel({"update": lossless()})
    base, tables = len(text.alphabet) + 1, {}
    test = grams(*text.windows(task.context, "test"), n, base)
    for name, (x, y) in deal(task, SEED, by_role=False).items():
        own = np.unique(grams(x, y, n, base), return_counts=True)
        tables[name] = sent(channel, name, "server", own)
    summed = added([*tables.values()])
    up = channel.nbytes()
    for name in tables:
        sent(channel, "server", name, summed)
    alone = np.mean([nats(each, n, test, base) for each in tables.values()])
    occur = np.unique(np.concatenate([keys for keys, _ in tables.values()]), return_counts=True)[1]
    hers = sum(occur == 1) / sum(len(keys) for keys, _ in tables.values())
    losses = [f"{nats(summed, n, test, base):.3f}", f"{alone:.3f}"]
    return [
        f"counts of {n}-grams",
        *losses,
        *(f"{each / 1e6:.2f}" for each in (up, channel.nbytes())),
        f"{hers:.0%}",
    ]


def table() -> str:
    """A row for each length."""
    head = "row | nats per character | each owner alone | MB up | MB in all | at one owner only"
    return markdown(head, [row(n, Task()) for n in range(1, LONGEST + 1)])


if __name__ == "__main__":
    PAGE.command(table, __doc__)
