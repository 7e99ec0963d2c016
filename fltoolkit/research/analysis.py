"""What a sweep tells: fronts, bytes to a target, accuracy within a budget, time on a link.

Here: numbers and text tables from `Result`s. Not here: pictures (tradeoff.py), searching for good
settings (suggest.py). Notebook 07 uses all of it.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from statistics import mean
from typing import NamedTuple

from fltoolkit.history import History, Record
from fltoolkit.research.experiment import Experiment
from fltoolkit.research.store import Result
from fltoolkit.units import amount

__all__ = [
    "Point",
    "Size",
    "accuracy_within",
    "by_task",
    "bytes_to_reach",
    "c3_score",
    "failures",
    "front",
    "front_within",
    "groups",
    "on_link",
    "points",
    "seconds_on",
    "sizes_of",
    "table",
]


class Point(NamedTuple):
    """One setting at the end of its runs, one run a seed."""

    name: str
    experiment: Experiment  # of the first seed
    num_seeds: int
    nbytes: float  # mean over the seeds
    accuracy: float  # mean over the seeds, 0..1
    low: float  # the worst seed's
    high: float  # the best seed's


class Size(NamedTuple):
    """What one kind of message took in one direction, in bytes; see `fltoolkit.research.weigh`.

    Nominal and entropy size are NaN where the codec could not tell them.
    """

    kind: str
    direction: str  # "up", "down" or "across"
    nominal: float
    real: int
    entropy: float


def groups(results: Iterable[Result]) -> dict[str, list[Result]]:
    """Results by title: those that differ in the seed alone are together. Failures are left out.

    Where one title stands for several settings, what differs is added to it: "4 bits, lr=0.1".
    """
    found: dict[str, list[Result]] = {}
    for name, result in _named(r for r in results if not r.error and len(r.history)):
        found.setdefault(name, []).append(result)
    return found


def _named(results: Iterable[Result]) -> list[tuple[str, Result]]:
    """Each with its title and what tells it from others of that title, the seed apart."""
    results = list(results)
    settings = [{**asdict(r.experiment), "name": "", "seed": 0} for r in results]
    values: dict[tuple[str, str], set[str]] = {}  # by title and field: what is there
    for result, mine in zip(results, settings, strict=True):
        for field, value in mine.items():
            values.setdefault((result.experiment.title, field), set()).add(repr(value))
    named = []
    for result, mine in zip(results, settings, strict=True):
        title = result.experiment.title
        differs = [f"{k}={v!r}" for k, v in mine.items() if len(values[title, k]) > 1]
        named.append((", ".join([title, *differs]), result))
    return named


def by_task(results: Iterable[Result]) -> dict[str, list[Result]]:
    """Results by data, model, clients and partition, in words: only those of one task compare."""
    tasks: dict[str, list[Result]] = {}
    for result in results:
        e = result.experiment
        words = f"{e.data}, {e.model}, {e.num_clients} client{'s' * (e.num_clients > 1)}"
        words += f", {e.partition}" * (e.num_clients > 1)
        tasks.setdefault(words, []).append(result)
    return tasks


def points(results: Iterable[Result]) -> list[Point]:
    """Where each setting ended, those with few bytes first."""
    found = []
    for name, runs in groups(results).items():
        scores = [float(run.history[-1]["accuracy"]) for run in runs]
        nbytes = mean(float(run.history[-1]["nbytes"]) for run in runs)
        row = (nbytes, mean(scores), min(scores), max(scores))
        found.append(Point(name, runs[0].experiment, len(runs), *row))
    return sorted(found, key=lambda point: point.nbytes)


def front(found: Iterable[Point]) -> list[Point]:
    """The Pareto front: points such that none has fewer bytes and at least their accuracy.

    >>> e = Experiment()
    >>> three = [Point(n, e, 1, b, a, a, a) for n, b, a in (("x", 1, 0.8), ("y", 2, 0.7), ("z", 3, 0.9))]
    >>> [point.name for point in front(three)]
    ['x', 'z']
    """  # noqa: E501
    best: list[Point] = []
    for point in sorted(found, key=lambda p: (p.nbytes, -p.accuracy)):
        if not best or point.accuracy > best[-1].accuracy:
            best.append(point)
    return best


def front_within(
    results: Iterable[Result], budgets: Sequence[float]
) -> list[tuple[float, float, float, float]]:
    """Budget, and of the best method within it: mean, least and largest accuracy over the seeds.

    For each seed the best of all methods is taken on the test set, which flatters it a little.
    Runs are cut where the budget ends, as if training had been stopped there. Budgets that do not
    pay for one evaluation of each seed are left out.
    """
    by_seed: dict[int, list[History]] = {}
    for runs in groups(results).values():
        for run in runs:
            by_seed.setdefault(run.experiment.seed, []).append(run.history)
    rows, best = [], [-1.0] * len(by_seed)
    for budget in sorted(budgets):
        for place, histories in enumerate(by_seed.values()):
            within = (accuracy_within(history, budget) for history in histories)
            best[place] = max([best[place], *(a for a in within if a is not None)])
        if best and min(best) >= 0:  # and more money does no harm: one may spend less of it
            rows.append((budget, mean(best), min(best), max(best)))
    return rows


def bytes_to_reach(history: History, accuracy: float) -> int | None:
    """What had been sent when a run first reached ``accuracy`` (0..1); None if it never did.

    >>> bytes_to_reach(History([{"accuracy": 0.5, "nbytes": 10}, {"accuracy": 0.9, "nbytes": 20}]), 0.8)
    20
    """  # noqa: E501
    if not 0 <= accuracy <= 1:
        raise ValueError(f"accuracy={accuracy}: from 0 to 1; write 95 % as 0.95")
    for record in history.having("accuracy", "nbytes"):
        if float(record["accuracy"]) >= accuracy:
            return int(record["nbytes"])
    return None


def accuracy_within(history: History, nbytes: float) -> float | None:
    """The last accuracy measured before more than ``nbytes`` were sent; None if none was.

    The last and not the best: nobody may choose the moment by looking at the test set.
    """
    found = None
    for record in history.having("accuracy", "nbytes"):
        if int(record["nbytes"]) > nbytes:
            break
        found = float(record["accuracy"])
    return found


def c3_score(
    accuracy: float,
    nbytes: float,
    client_flops: float = 0.0,
    *,
    max_nbytes: float,
    max_flops: float = math.inf,
    temperature: float = 8.0,
) -> float:
    """One number for accuracy, communication and client compute: larger is better, at most 1.

    ``accuracy * exp(-(nbytes / max_nbytes + client_flops / max_flops) / temperature)``, the two
    being shares of what is available. A large temperature forgives spending.

    Source: the C3-Score of Chopra et al. 2021, arXiv 2112.01637. Its text was not available to us
    beyond the introduction: form and temperature are as we remember them and are not verified.

    >>> round(c3_score(0.9, 50e6, max_nbytes=100e6), 4)
    0.8455
    """
    if not (max_nbytes > 0 and max_flops > 0 and temperature > 0):
        raise ValueError(
            f"max_nbytes={max_nbytes}, max_flops={max_flops}, temperature={temperature}: all "
            "above 0"
        )
    return accuracy * math.exp(-(nbytes / max_nbytes + client_flops / max_flops) / temperature)


def seconds_on(record: Record, *, rate: float, latency: float = 0.0) -> float:
    """Seconds that a run's messages took on a link: ``nbytes / rate + num_waits * latency``.

    ``rate`` is in bytes a second, of all clients together; ``latency`` in seconds a message.
    Computing is not in it.

    >>> seconds_on({"nbytes": 2_000_000, "num_waits": 100}, rate=1e6, latency=0.05)
    7.0
    """
    if not rate > 0 or not latency >= 0:
        raise ValueError(f"rate={rate}, latency={latency}: need rate > 0 and latency >= 0")
    return int(record["nbytes"]) / rate + int(record["num_waits"]) * latency


def on_link(history: History, *, rate: float, latency: float = 0.0) -> History:
    """The records with ``seconds``, see `seconds_on`: for `fltoolkit.plots.curves`."""
    return History(
        {**record, "seconds": seconds_on(record, rate=rate, latency=latency)} for record in history
    )


def sizes_of(record: Record) -> list[Size]:
    """The ledger of a record: each kind and direction with its three sizes."""
    found = []
    for key, nbytes in record.items():
        _, _, rest = key.partition("nbytes_")
        kind, _, direction = rest.rpartition("_")
        if kind:  # and not the total of a direction, such as nbytes_up
            nominal, entropy = (
                float(record.get(f"{size}_{rest}", math.nan)) for size in ("nominal", "entropy")
            )
            found.append(Size(kind, direction, nominal, int(nbytes), entropy))
    return found


def table(
    results: Iterable[Result], *, target: float | None = None, budget: float | None = None
) -> str:
    """A Markdown table: a row a setting, those with few bytes first; the front is marked.

    Args:
        results: of a sweep.
        target: also how many bytes it took to reach this accuracy (0..1).
        budget: also the accuracy within so many bytes.
    """
    results = list(results)
    by_name, found = groups(results), points(results)
    best = {point.name for point in front(found)}
    heads = ["setting", "accuracy [%]", "sent", "seeds"]
    heads += [f"bytes to {100 * target:g} %"] if target is not None else []
    heads += [f"accuracy within {amount('nbytes', budget)} [%]"] if budget is not None else []
    lines = ["| " + " | ".join([*heads, "front"]) + " |", "|---" * (len(heads) + 1) + "|"]
    for point in found:
        histories = [run.history for run in by_name[point.name]]
        cells = [point.name, _percent(point.accuracy, point.low, point.high)]
        cells += [amount("nbytes", point.nbytes), str(point.num_seeds)]
        if target is not None:
            reached = [n for h in histories if (n := bytes_to_reach(h, target)) is not None]
            missed = len(histories) - len(reached)
            words = amount("nbytes", mean(reached)) if reached else "never"
            cells.append(
                words + (f" ({missed} of {len(histories)} never)" * bool(reached and missed))
            )
        if budget is not None:
            got = [a for h in histories if (a := accuracy_within(h, budget)) is not None]
            whole = len(got) == len(histories)
            cells.append(_percent(mean(got), min(got), max(got)) if whole else "")
        lines.append("| " + " | ".join([*cells, "*" * (point.name in best)]) + " |")
    return "\n".join(lines)


def failures(results: Iterable[Result]) -> Mapping[str, str]:
    """Title and last line of the error of what failed."""
    return {
        f"{name}, seed {r.experiment.seed}": r.error.strip().splitlines()[-1]
        for name, r in _named(r for r in results if r.error)
    }


def _percent(middle: float, low: float, high: float) -> str:
    if low == high:
        return f"{100 * middle:.2f}"
    return f"{100 * middle:.2f} [{100 * low:.2f}, {100 * high:.2f}]"
