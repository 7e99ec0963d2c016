"""Should we train together at all? Measured on a table of one's own, in minutes.

    fltoolkit decide patients.csv --owner clinic --label outcome
    fltoolkit decide patients.csv --columns clinic=age,sex laboratory=iron,zinc --label outcome

Here: the ways to learn that are compared, and the answer in words. Not here: reading a table
(decide_table.py), and attacks on what crossed (`fltoolkit_research.leakage`): a sentence says what
is known of each.
"""

import copy
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from fltoolkit.channel import Channel
from fltoolkit.codecs import Codec, Entropy, ErrorFeedback, Only, Pipeline, Quantize
from fltoolkit.data.batches import Batches
from fltoolkit.data.partitions import generator
from fltoolkit.evaluation import forward
from fltoolkit.federated import Local, fedavg
from fltoolkit.models import seeded
from fltoolkit.party import SGD, Party
from fltoolkit.split import train_vertical
from fltoolkit_research.codecs import Difference
from fltoolkit_research.decide_table import Table
from fltoolkit_research.federated import one_sum
from fltoolkit_research.intervals import interval, mean_ci, paired
from fltoolkit_research.leakage.attacks import auc
from fltoolkit_research.models import random_layer
from fltoolkit_research.pooled import lossless, pool

LEAST_OWNERS = 5
NUM_FEATURES, ROUNDS, BATCH, LR, WIDTH = 128, 20, 16, 0.1, 8
Found = tuple[float, int]  # a score, and the bytes that were sent
Step = TypeVar("Step")


@dataclass(frozen=True)
class Split:
    """One draw: training rows by owner, and test rows of other owners, or of the same ones."""

    owners: dict[str, tuple[Tensor, Tensor]]  # y: int64 [rows], or float32 [rows, 1]
    x_test: Tensor
    y_test: Tensor
    num_classes: int  # 0: numbers are to be predicted
    seed: int
    blocks: dict[str, list[int]]  # the columns of x_test that an owner has
    ends: float = math.inf  # `time.monotonic()` when the limit of time is over

    def timed(self, steps: Iterable[Step]) -> Iterator[Step]:
        """The steps of a training; raises TimeoutError where the limit of time is over."""
        for step in steps:
            yield step
            if time.monotonic() > self.ends:
                raise TimeoutError

    def score(self, output: Tensor) -> float:
        """Two classes: the area under the ROC curve; more: the share of right ones; numbers: R2."""
        if self.num_classes == 2:
            return auc(output[:, 1] - output[:, 0], self.y_test == 1)
        if self.num_classes:
            return float((output.argmax(1) == self.y_test).double().mean())
        y = self.y_test.double()
        return 1 - float((output[:, -1:] - y).square().sum() / (y - y.mean()).square().sum())

    def receiver(self, name: str, columns: int) -> Party:
        """A party with the network of every row that trains."""
        with seeded(self.seed):
            hidden, last = nn.Linear(columns, 64), nn.Linear(64, self.num_classes or 1)
        end = [nn.LogSoftmax(dim=1)] if self.num_classes else []
        model = nn.Sequential(hidden, nn.ReLU(), last, *end)
        return Party(name, model, SGD(model.parameters(), lr=self.lr), self.loss())

    def loss(self) -> nn.Module:
        """The loss of every network."""
        return nn.NLLLoss() if self.num_classes else nn.MSELoss()

    @property
    def lr(self) -> float:
        """The learning rate of every network."""
        return LR if self.num_classes else LR / 5

    def shares(self, y: Tensor) -> Tensor:
        """Labels as `one_sum` adds them, float32 [rows, classes]."""
        if self.num_classes:
            return nn.functional.one_hot(y, self.num_classes).float()
        return torch.cat([1 - y, y], 1)


def split_of(table: Table, seed: int, ends: float = math.inf) -> Split:
    """A quarter of the owners is the test; with fewer than five owners a quarter of the rows.

    Columns, and numbers to be predicted, get mean 0 and deviation 1 over the training rows.
    """
    names, random = sorted(set(table.owners)), generator(seed)
    if len(names) >= LEAST_OWNERS:
        held = {names[k] for k in random.permutation(len(names))[: max(1, len(names) // 4)]}
        test = torch.tensor([owner in held for owner in table.owners])
    else:
        test = torch.from_numpy(random.permutation(len(table.y))) < len(table.y) // 4
    x = _standard(table.x, test)
    y = table.y if table.classes else _standard(table.y[:, None], test)
    owners = {name: (x[~test][:, block], y[~test]) for name, block in table.blocks.items()}
    for name in names:
        mine = torch.tensor([owner == name for owner in table.owners]) & ~test
        if bool(mine.any()):
            owners[name] = x[mine], y[mine]
    return Split(owners, x[test], y[test], len(table.classes), seed, table.blocks, ends)


def _standard(x: Tensor, test: Tensor) -> Tensor:
    mean = x[~test].nanmean(0).nan_to_num()
    x = torch.where(x.isnan(), mean, x) - mean
    deviation = x[~test].square().mean(0).sqrt()
    return x / deviation.where(deviation > 0, 1.0)


def _same(split: Split) -> Found:
    channel, counts = Channel(), torch.zeros(split.num_classes or 2)
    for name, (_, y) in split.owners.items():
        own = {"counts": split.shares(y).sum(0)}
        came = own if split.blocks else channel.send(name, "server", "update", own)
        counts += came["counts"]
    return split.score((counts / counts.sum()).expand(len(split.y_test), -1)), channel.nbytes()


def _trained(split: Split, x: Tensor, y: Tensor, x_test: Tensor) -> float:
    party = split.receiver("owner", x.shape[1])
    for batch in split.timed(Batches(x, y, BATCH, seed=split.seed).epochs(ROUNDS)):
        party.loss_and_grad(*batch)
    return split.score(forward([party], x_test))


def _alone(split: Split) -> Found:
    scores = [_trained(split, x, y, split.x_test) for x, y in split.owners.values()]
    return sum(scores) / len(scores), 0


def _sent(split: Split, codec: Codec, most: float = math.inf) -> Found:
    channel = Channel({"samples": codec, "labels": lossless()})
    party = split.receiver("receiver", split.x_test.shape[1])
    owners = {name: (x.clamp(-most, most), y) for name, (x, y) in split.owners.items()}
    rounds = pool(owners, party, channel, rounds=ROUNDS, batch_size=BATCH, seed=split.seed)
    list(split.timed(rounds))
    return split.score(forward([party], split.x_test)), channel.nbytes()


def _summed(split: Split) -> Found:
    columns, outputs = split.x_test.shape[1], split.num_classes or 2
    model = random_layer(columns, NUM_FEATURES, num_classes=outputs, seed=split.seed)
    codec = Only(Pipeline(Quantize(8, stochastic=True), Entropy()), min_size=100)
    server, channel = Party("the server", model[3]), Channel({"update": codec})
    owners = {name: (x, split.shares(y)) for name, (x, y) in split.owners.items()}
    list(one_sum(owners, model[:3], server, channel))
    return split.score(forward([Party("owner", model[:3]), server], split.x_test)), channel.nbytes()


def _averaged(split: Split, codecs: Mapping[str, Codec]) -> Found:
    model = split.receiver("all", split.x_test.shape[1]).module
    channel = Channel(copy.deepcopy(dict(codecs)))
    local = Local(batch_size=BATCH, lr=split.lr, epochs=1, loss_fn=split.loss())
    how = {"cohort": len(split.owners), "local": local, "seed": split.seed}
    rounds = fedavg(model, split.owners, channel, rounds=ROUNDS, **how)  # type: ignore[arg-type]
    list(split.timed(rounds))
    return split.score(forward([Party("server", model)], split.x_test)), channel.nbytes()


def _own_columns(split: Split) -> Found:
    first, (x, y) = next(iter(split.owners.items()))
    if not split.blocks[first]:
        return _same(split)
    return _trained(split, x, y, split.x_test[:, split.blocks[first]]), 0


def column_owner_alone(split: Split, name: str) -> Found:
    """One owner with its own columns; the owner of the labels sends it the labels of their rows."""
    first, (x, y) = next(iter(split.owners)), split.owners[name]
    if name == first:
        return _own_columns(split)
    channel = Channel({"labels": lossless()})
    keys = generator(split.seed).integers(2**62, size=len(y))
    channel.send(first, name, "intersection", {"keys": torch.from_numpy(keys)})
    y = channel.send(first, name, "labels", {"y": y})["y"]
    return _trained(split, x, y, split.x_test[:, split.blocks[name]]), channel.nbytes()


def _each_with_its_columns(split: Split) -> Found:
    found = [column_owner_alone(split, name) for name, block in split.blocks.items() if block]
    scores, nbytes = zip(*found, strict=True)
    return sum(scores) / len(scores), sum(nbytes)


def _aligned(split: Split, codecs: Mapping[str, Codec]) -> Channel:
    """A channel over which a number of 64 bits for each row has told whose rows belong together."""
    first, *others = split.owners
    channel = Channel(copy.deepcopy(dict(codecs)))
    for name in others:
        keys = generator(split.seed).integers(2**62, size=len(split.owners[name][1]))
        channel.send(name, first, "intersection", {"keys": torch.from_numpy(keys)})
    return channel


def _sent_columns(split: Split, codec: Codec, most: float = math.inf) -> Found:
    first, *others = split.owners
    x, y = split.owners[first]
    channel = _aligned(split, {"samples": codec})
    for name in others:
        own = {"x": split.owners[name][0].clamp(-most, most)}
        x = torch.cat([x, channel.send(name, first, "samples", own)["x"]], 1)
    x_test = torch.cat([split.x_test[:, block] for block in split.blocks.values()], 1)
    return _trained(split, x, y, x_test), channel.nbytes()


def _split(split: Split, codecs: Mapping[str, Codec]) -> Found:
    """The owner of the labels has a part for its own columns, whose messages are not counted."""
    first, channel, parts = next(iter(split.owners)), _aligned(split, codecs), []
    held = {name: block for name, block in split.blocks.items() if block}
    for name, block in held.items():
        with seeded(split.seed):
            part = nn.Sequential(nn.Linear(len(block), WIDTH), nn.ReLU())
        own = "own part" if name == first else name
        parts.append(Party(own, part, SGD(part.parameters(), lr=split.lr)))
    top = split.receiver(first, WIDTH * len(parts))
    y = split.owners[first][1]
    xs = tuple(split.owners[name][0] for name in held)
    batches = Batches(xs, y, BATCH, seed=split.seed)
    list(split.timed(train_vertical(parts, top, batches.epochs(ROUNDS), channel)))
    blocks = [split.x_test[:, block] for block in held.values()]
    free = sum(t.nbytes for t in channel.transfers if "own part" in (t.sender, t.receiver))
    output = forward([*parts, top], blocks, through=codecs.get("activations"))
    return split.score(output), channel.nbytes() - free


class Way(NamedTuple):
    """A way to learn, with the bytes that it sends, and what an attacker reads from them."""

    run: Callable[[Split], Found]
    reads: str
    answer: str = ""  # of a way that leaves rows and columns with their owners


THREE_BITS, FOUR_BITS = (Pipeline(Quantize(bits), Entropy()) for bits in (3, 4))
BOTH_WAYS = {"update": ErrorFeedback(THREE_BITS), "model": Difference(THREE_BITS)}
CUT = {"activations": FOUR_BITS, "gradients": FOUR_BITS}
SAME, ALONE, SEND, FEW = "the same for all", "each owner alone", "send the data", "send it, 4 bits"
SUM, AVERAGE, SPLIT, LABELS = "one sum", "average, 3 bits", "split, 4 bits", "label owner alone"
NOTHING, ALL = "nothing: nothing is sent", "every row and its label"
COARSE = "every row and its label, each number as one of 16 levels"
UPDATES = (
    "the update of each owner in each round, from which rows can be rebuilt; a secure sum hides it"
)
BY_FORMULA = "By formula, not measured"
THEIRS = "which people both have, and the columns of the other owners"
KNOWN = "which people both have, what a row's activations tell of it, and from gradients its label"
WAYS = {
    SAME: Way(_same, "how many rows of each class an owner has (or the sum of its numbers)"),
    ALONE: Way(_alone, NOTHING),
    SEND: Way(lambda split: _sent(split, lossless()), ALL),
    FEW: Way(lambda split: _sent(split, lossless(Quantize(4)), 3.0), COARSE),
    SUM: Way(_summed, "who is in an owner's sum (docs/one_sum.md); a secure sum hides it", "sum"),
    AVERAGE: Way(lambda split: _averaged(split, BOTH_WAYS), UPDATES, "average"),
    "average, float32": Way(lambda split: _averaged(split, {}), UPDATES, "average"),
}
"""What is compared if rows are with owners."""
COLUMN_WAYS = {
    SAME: Way(_same, NOTHING),
    LABELS: Way(_own_columns, NOTHING),
    ALONE: Way(_each_with_its_columns, "which people have which label: each owner gets all labels"),
    SEND: Way(lambda split: _sent_columns(split, lossless()), THEIRS),
    FEW: Way(
        lambda split: _sent_columns(split, lossless(Quantize(4)), 3.0), f"{THEIRS} in 16 levels"
    ),
    SPLIT: Way(lambda split: _split(split, CUT), KNOWN, "split"),
    "split, float32": Way(lambda split: _split(split, {}), KNOWN, "split"),
}
"""What is compared if columns are with owners.

The first owner has the labels, and may have no columns."""


class Decision(NamedTuple):
    """Scores by way and seed, mean bytes by way, and the answer."""

    scores: dict[str, dict[int, float]]
    nbytes: dict[str, float]
    answer: str  # "don't", "sum", "average" or "split", if the data must stay with their owners
    words: str


def decide(table: Table, *, seeds: Sequence[int] = range(5), minutes: float = math.inf) -> Decision:
    """Try every way of `WAYS` or `COLUMN_WAYS` on each draw, and say what to do and why.

    The answer is "don't" if the best way that keeps the data at home is not clearly better than
    each owner alone, or than the same answer for all (a paired 95 % interval above 0). Else it is
    the way with the fewest bytes among those that are clearly better than both, and not clearly
    worse than the best. A draw whose test has only one of two classes is left out. No draw begins
    that would probably end after so many ``minutes``, and one that is not done then is left out.

    Raises ValueError if fewer than two draws are left.
    """
    ways, began = COLUMN_WAYS if table.blocks else WAYS, time.monotonic()
    scores: dict[str, dict[int, float]] = {name: {} for name in ways}
    nbytes: dict[str, list[int]] = {name: [] for name in ways}
    why = "have both classes in their test. Give more seeds, or put owners of one class together"
    for seed in seeds:
        done, passed = len(scores[SAME]), (time.monotonic() - began) / 60
        if done and passed * (done + 1) / done > minutes:
            why = f"are done: one took {passed:.1f} minutes. Give {2.2 * passed:.0f} or more"
            break
        split = split_of(table, seed, began + 60 * minutes)
        if split.num_classes in (0, 2) and len(split.y_test.unique()) == 1:
            continue  # such a test has no area under a curve, and no variance
        found: dict[str, Found] = {}
        try:
            for name, way in ways.items():
                found[name] = way.run(split)
        except TimeoutError:
            why = f"are done after {minutes:g} minutes, in {name!r}. Give more, or fewer owners"
            break
        for name, (score, sent) in found.items():
            scores[name][seed] = score
            nbytes[name].append(sent)
    if (done := len(scores[SAME])) < 2:
        raise ValueError(f"at least 2 draws are needed; {done} of {len(seeds)} {why}")
    mean_nbytes = {name: sum(each) / len(each) for name, each in nbytes.items()}
    return Decision(scores, mean_nbytes, *_answer(scores, mean_nbytes))


def _answer(scores: dict[str, dict[int, float]], nbytes: dict[str, float]) -> tuple[str, str]:
    means = {name: sum(each.values()) / len(each) for name, each in scores.items()}
    ways = COLUMN_WAYS if LABELS in scores else WAYS
    home = [name for name in scores if ways[name].answer]
    best = max(home, key=lambda name: means[name])
    nulls = (SAME, LABELS if LABELS in scores else ALONE)

    def ahead(one: str, other: str) -> list[float]:
        return paired(scores[one], scores[other])

    gaining = [n for n in home if all(interval(ahead(n, null)).low > 0 for null in nulls)]
    null = min(nulls, key=lambda each: interval(ahead(best, each)).low)
    words = f"{best} against {null}: {mean_ci([100 * g for g in ahead(best, null)], '+.1f')} points"
    if best not in gaining:
        return "don't", f"{words}. That may be nothing: more rows, or other columns, come first"
    as_good = [n for n in gaining if n == best or interval(ahead(n, best)).high >= 0]
    chosen = min(as_good, key=lambda name: nbytes[name])
    words += f"; {chosen} sends the fewest bytes of what is as good"
    factor = nbytes[chosen] / nbytes[SEND]
    if factor > 1:
        words += f". If the data may leave: send. They take {factor:,.1f} times fewer bytes"
    if ways is COLUMN_WAYS:
        words += f".\n{BY_FORMULA}: what splitting sends and the data grow alike with the rows"
        return ways[chosen].answer, words
    now = "is already shorter, and as long at" if factor < 1 else "is shorter from"
    words += f".\n{BY_FORMULA}: only the data grow with the rows, so {chosen} {now}"
    more, grown = ("twice the features", 4) if chosen == SUM else ("ten times the parameters", 10)
    words += f" {factor:,.1f} times these rows on; with {more}, {factor * grown:,.1f} times"
    return ways[chosen].answer, words


def tell(table: Table, num_seeds: int = 5, minutes: float = math.inf) -> None:
    """Print what was read of a file, the scores and bytes of all ways, and the answer."""
    if num_seeds < 2 or not minutes > 0:
        raise ValueError(f"{num_seeds} seeds, {minutes:g} minutes: at least 2, and more than 0")
    print(*table.notes, sep="\n")
    number = len(table.blocks) or len(set(table.owners))
    strangers = len(set(table.owners)) >= LEAST_OWNERS
    kinds = len(table.classes)
    whose = "owners nobody trained on" if strangers else "rows of the same owners"
    what = "area under the ROC curve" if kinds == 2 else "accuracy" if kinds else "R2"
    labels = f"{kinds} classes" if kinds else "numbers to predict"
    print(f"{number} owners, {labels}. Tested on {whose}: {what} [%]\n")
    found = decide(table, seeds=range(num_seeds), minutes=minutes)
    data, left = found.nbytes[SEND], num_seeds - len(found.scores[SAME])
    if left:
        print(f"{left} of {num_seeds} draws are left out: one class in the test, or no time left")
    print(f"{'':20}{'score [%]':>26}{'kB sent':>12}{'times the data':>16}")
    for name, each in found.scores.items():
        ends = interval([100 * value for value in each.values()])
        low, high = max(ends.low, 0.0 if kinds else ends.low), min(ends.high, 100.0)
        score = f"{ends.mean:.1f} [{low:.1f}, {high:.1f}]"
        kb, times = found.nbytes[name] / 1e3, found.nbytes[name] / data
        print(f"{name:20}{score:>26}{kb:>12,.1f}{times:>16,.1f}")
    print("\nWhat the receiver reads, or whoever breaks in there:")
    for name, way in (COLUMN_WAYS if table.blocks else WAYS).items():
        print(f"{name:20}{way.reads}")
    print(f"\nIf the data must stay with their owners: {found.answer}.\n{found.words}.")
