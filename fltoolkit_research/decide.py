"""Should we train together at all? Measured on a table of one's own, in minutes.

    fltoolkit decide patients.csv --owner clinic --label outcome

Here: reading a table, the ways to learn from it that are compared, and the answer in words. Not
here: columns at different owners, and what an attacker reads (`fltoolkit_research.leakage`).
"""

import copy
import csv
import io
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

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
from fltoolkit_research.codecs import Difference
from fltoolkit_research.federated import one_sum
from fltoolkit_research.intervals import interval, mean_ci, paired
from fltoolkit_research.leakage.attacks import auc
from fltoolkit_research.models import random_layer
from fltoolkit_research.pooled import lossless, pool

MOST_ROWS, MOST_KINDS, LEAST_OWNERS = 20_000, 20, 5
NUM_FEATURES, ROUNDS, BATCH, LR = 128, 20, 16, 0.1
Owners = Mapping[str, tuple[Tensor, Tensor]]


class Table(NamedTuple):
    """What was read of a file: numbers, classes, owners, and what should be known about them."""

    x: Tensor  # float32 [rows, columns]; NaN where a cell is empty
    y: Tensor  # class numbers, int64 [rows]
    owners: list[str]  # of each row
    classes: list[str]
    notes: list[str]


def read_table(path: str | Path, owner: str, label: str) -> Table:
    """Read a file of comma, semicolon or tab separated values with a line of names.

    A column of numbers is taken as it is. A column of at most 20 different texts becomes a column
    of 0 and 1 for each text; one of more texts is left out, and the notes say so.

    Raises ValueError if a column is missing, if an owner or a label is empty, or if there are fewer
    than two owners or classes.
    """
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not UTF-8; in Excel save it as 'CSV UTF-8'") from error
    delimiter = max(",;\t", key=text.partition("\n")[0].count)
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter)
    names, rows = list(reader.fieldnames or []), list(reader)
    if len(set(names)) < len(names) or any(None in row for row in rows):
        raise ValueError(
            f"{path}: its columns are {names}; each needs a name of its own, and no line may have "
            "more cells"
        )
    for name in (owner, label):
        if name not in names:
            raise ValueError(f"{path}: no column {name!r}; the columns are {', '.join(names)}")
    notes = [f"{len(rows):,} rows, {len(names) - 2} columns beside {owner!r} and {label!r}"]
    if len(rows) > MOST_ROWS:
        chosen = generator(0).choice(len(rows), MOST_ROWS, replace=False)
        rows = [rows[k] for k in sorted(chosen)]
        notes.append(f"{MOST_ROWS:,} rows were drawn at random, to be done in minutes")
    for number, row in enumerate(rows, 2):
        if not (row[owner] or "").strip() or not (row[label] or "").strip():
            raise ValueError(f"{path}, line {number}: {owner!r} or {label!r} is empty")
    classes = sorted({row[label].strip() for row in rows})
    if not 2 <= len(classes) <= MOST_KINDS:
        raise ValueError(
            f"{label!r} has {len(classes)} different values: 2 to {MOST_KINDS} classes are "
            "allowed. Numbers must be cut into classes first, such as 'above the median'"
        )
    columns = []
    for name in (each for each in names if each not in (owner, label)):
        cells = [(row[name] or "").strip() for row in rows]
        columns += _columns(name, cells, notes)
    if not columns:
        raise ValueError(f"{path}: no column is left beside {owner!r} and {label!r}")
    of = [row[owner].strip() for row in rows]
    sizes = Counter(of)
    if len(sizes) < 2:
        raise ValueError(f"{owner!r} has one value, {of[0]!r}: give a column of several owners")
    few = [name for name, count in sizes.items() if count < 10]
    if few:
        notes.append(f"{len(few)} of {len(sizes)} owners have fewer than ten rows")
    y = torch.tensor([classes.index(row[label].strip()) for row in rows])
    return Table(torch.stack(columns, 1), y, of, classes, notes)


def _columns(name: str, cells: Sequence[str], notes: list[str]) -> list[Tensor]:
    """The tensors of one column of the file."""
    empty = [cell.lower() in ("", "na", "nan", "null", "?") for cell in cells]
    if any(empty):
        notes.append(f"{name!r} is empty in {sum(empty):,} rows: the mean stands there, and a mark")
    marks = [torch.tensor(empty).float()] if any(empty) else []
    try:
        numbers = [math.nan if gap else float(c) for c, gap in zip(cells, empty, strict=True)]
    except ValueError:
        numbers = []
    if any(math.isinf(number) for number in numbers):
        raise ValueError(f"{name!r} holds an infinite number: leave the cell empty, or correct it")
    if numbers:
        return [torch.tensor(numbers), *marks]
    kinds = sorted({cell for cell, gap in zip(cells, empty, strict=True) if not gap})
    if len(kinds) > MOST_KINDS:
        notes.append(f"{name!r} holds {len(kinds):,} different texts: it is left out")
        return []
    return [torch.tensor([float(cell == kind) for cell in cells]) for kind in kinds] + marks


@dataclass(frozen=True)
class Split:
    """One draw: training rows by owner, and test rows of other owners, or of the same ones."""

    owners: Owners
    x_test: Tensor
    y_test: Tensor
    num_classes: int
    seed: int

    def score(self, parties: Sequence[Party]) -> float:
        """The area under the ROC curve of two classes; else the share of right classes."""
        output = forward(parties, self.x_test)
        if self.num_classes == 2:
            return auc(output[:, 1] - output[:, 0], self.y_test == 1)
        return float((output.argmax(1) == self.y_test).double().mean())

    def network(self) -> nn.Sequential:
        """The network of every row that trains."""
        columns = self.x_test.shape[1]
        with seeded(self.seed):
            hidden, last = nn.Linear(columns, 64), nn.Linear(64, self.num_classes)
        return nn.Sequential(hidden, nn.ReLU(), last, nn.LogSoftmax(dim=1))


def split_of(table: Table, seed: int) -> Split:
    """A quarter of the owners is the test; with fewer than five owners a quarter of the rows.

    Columns get mean 0 and deviation 1 over the training rows.
    """
    names, random = sorted(set(table.owners)), generator(seed)
    if len(names) >= LEAST_OWNERS:
        held = {names[k] for k in random.permutation(len(names))[: max(1, len(names) // 4)]}
        test = torch.tensor([owner in held for owner in table.owners])
    else:
        test = torch.from_numpy(random.permutation(len(table.y))) < len(table.y) // 4
    mean = table.x[~test].nanmean(0).nan_to_num()
    x = torch.where(table.x.isnan(), mean, table.x) - mean
    deviation = x[~test].square().mean(0).sqrt()
    x = x / deviation.where(deviation > 0, 1.0)
    rows = {n: [k for k, o in enumerate(table.owners) if o == n and not test[k]] for n in names}
    owners = {name: (x[mine], table.y[mine]) for name, mine in rows.items() if mine}
    return Split(owners, x[test], table.y[test], len(table.classes), seed)


def _alone(split: Split) -> tuple[float, int]:
    scores = []
    for x, y in split.owners.values():
        model = split.network()
        party = Party("owner", model, SGD(model.parameters(), lr=LR), nn.NLLLoss())
        for epoch in range(ROUNDS):
            for rows in Batches(x, y, BATCH, seed=split.seed).rows(epoch):
                party.loss_and_grad(x[rows], y[rows])
        scores.append(split.score([party]))
    return sum(scores) / len(scores), 0


def _sent(split: Split) -> tuple[float, int]:
    model, channel = split.network(), Channel({"samples": lossless(), "labels": lossless()})
    party = Party("receiver", model, SGD(model.parameters(), lr=LR), nn.NLLLoss())
    list(pool(split.owners, party, channel, rounds=ROUNDS, batch_size=BATCH, seed=split.seed))
    return split.score([party]), channel.nbytes()


def _summed(split: Split) -> tuple[float, int]:
    columns = split.x_test.shape[1]
    model = random_layer(columns, NUM_FEATURES, num_classes=split.num_classes, seed=split.seed)
    codec = Only(Pipeline(Quantize(8, stochastic=True), Entropy()), min_size=100)
    server, channel = Party("the server", model[3:]), Channel({"update": codec})
    list(one_sum(split.owners, model[:3], server, channel))
    return split.score([Party("owner", model[:3]), server]), channel.nbytes()


def _averaged(split: Split, codecs: Mapping[str, Codec]) -> tuple[float, int]:
    model, channel = split.network(), Channel(copy.deepcopy(dict(codecs)))
    local = Local(batch_size=BATCH, lr=LR, epochs=1)
    how = {"cohort": len(split.owners), "local": local, "seed": split.seed}
    list(fedavg(model, split.owners, channel, rounds=ROUNDS, **how))  # type: ignore[arg-type]
    return split.score([Party("server", model)]), channel.nbytes()


THREE_BITS = Pipeline(Quantize(3), Entropy())
BOTH_WAYS = {"update": ErrorFeedback(THREE_BITS), "model": Difference(THREE_BITS)}
ALONE, SEND, SUM, AVERAGE = "each owner alone", "send the data", "one sum", "average, 3 bits"
WAYS: dict[str, Callable[[Split], tuple[float, int]]] = {
    ALONE: _alone,
    SEND: _sent,
    SUM: _summed,
    AVERAGE: lambda split: _averaged(split, BOTH_WAYS),
    "average, float32": lambda split: _averaged(split, {}),
}
"""What is compared; each gives a score and the bytes that were sent."""


class Decision(NamedTuple):
    """Scores by way and seed, mean bytes by way, and the answer."""

    scores: dict[str, dict[int, float]]
    nbytes: dict[str, float]
    answer: str  # "don't", "sum" or "average", if samples must stay with their owners
    words: str


def decide(table: Table, *, seeds: Sequence[int] = range(5)) -> Decision:
    """Try every way of `WAYS` on each draw, and say what to do and why.

    The answer is "don't" if the best way that keeps samples at home is not clearly better than each
    owner alone (a paired 95 % interval above 0). Else it is the way with the fewest bytes among
    those that are clearly better than that, and not clearly worse than the best. A draw whose test
    has only one of two classes is left out.

    Raises ValueError if fewer than two draws are left.
    """
    scores: dict[str, dict[int, float]] = {name: {} for name in WAYS}
    nbytes: dict[str, list[int]] = {name: [] for name in WAYS}
    for seed in seeds:
        split = split_of(table, seed)
        if len(table.classes) == 2 and len(split.y_test.unique()) == 1:
            continue  # such a test has no area under a curve
        for name, way in WAYS.items():
            scores[name][seed], sent = way(split)
            nbytes[name].append(sent)
    if len(scores[ALONE]) < 2:
        raise ValueError(
            f"{len(scores[ALONE])} of {len(seeds)} draws have both classes in their test: at least "
            "2 are needed. Give more seeds, or put owners together who have one class each"
        )
    mean_nbytes = {name: sum(each) / len(each) for name, each in nbytes.items()}
    return Decision(scores, mean_nbytes, *_answer(scores, mean_nbytes))


def _answer(scores: dict[str, dict[int, float]], nbytes: dict[str, float]) -> tuple[str, str]:
    means = {name: sum(each.values()) / len(each) for name, each in scores.items()}
    home = [name for name in scores if name not in (ALONE, SEND)]
    best = max(home, key=lambda name: means[name])

    def behind(one: str, other: str) -> list[float]:
        return paired(scores[one], scores[other])

    gain = behind(best, ALONE)
    words = f"{best} against {ALONE}: {mean_ci([100 * g for g in gain], '+.1f')} points"
    if interval(gain).low <= 0:
        return "don't", f"{words}. That may be nothing: more rows, or other columns, come first"
    gaining = [name for name in home if interval(behind(name, ALONE)).low > 0]
    as_good = [name for name in gaining if name == best or interval(behind(name, best)).high >= 0]
    chosen = min(as_good, key=lambda name: nbytes[name])
    words += f"; {chosen} sends the fewest bytes of what is as good"
    factor = nbytes[chosen] / nbytes[SEND]
    if factor > 1:
        words += f". The data themselves take {factor:,.1f} times fewer bytes, if they may leave"
    if chosen == SUM and factor > 1:
        words += f"; from {factor:,.1f} times the rows on, the sum is the shorter one"
    return "sum" if chosen == SUM else "average", words


def tell(path: str | Path, owner: str, label: str, num_seeds: int = 5) -> None:
    """Print what was read of a file, the scores and bytes of all ways, and the answer."""
    if num_seeds < 2:
        raise ValueError(f"{num_seeds} seeds: at least 2, for an interval")
    table = read_table(path, owner, label)
    print(*table.notes, sep="\n")
    owners = len(set(table.owners))
    whose = "owners nobody trained on" if owners >= LEAST_OWNERS else "rows of the same owners"
    what = "area under the ROC curve" if len(table.classes) == 2 else "accuracy"
    print(f"{owners} owners, {len(table.classes)} classes. Tested on {whose}: {what} [%]\n")
    found = decide(table, seeds=range(num_seeds))
    data, left = found.nbytes[SEND], num_seeds - len(found.scores[ALONE])
    if left:
        print(f"{left} of {num_seeds} draws are left out: their test has one class only")
    print(f"{'':20}{'score [%]':>26}{'kB sent':>12}{'times the data':>16}")
    for name, each in found.scores.items():
        ends = interval([100 * value for value in each.values()])
        low, high = max(ends.low, 0.0), min(ends.high, 100.0)
        score = f"{ends.mean:.1f} [{low:.1f}, {high:.1f}]"
        kb, times = found.nbytes[name] / 1e3, found.nbytes[name] / data
        print(f"{name:20}{score:>26}{kb:>12,.1f}{times:>16,.1f}")
    print(f"\nIf the rows must stay with their owners: {found.answer}.\n{found.words}.")
    print("One owner's sum tells who is in it: use a secure sum (docs/one_sum.md).")
