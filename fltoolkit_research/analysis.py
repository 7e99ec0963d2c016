"""Results of a sweep: fronts, bytes to a target, the metric within a budget, time on a link.

Here: numbers from `Result`s, by the metric of their experiments. Notebook 07 uses these functions.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import mean
from typing import NamedTuple

from fltoolkit.history import History, Record
from fltoolkit.metrics import ACCURACY, Metric
from fltoolkit_research.experiment import Experiment
from fltoolkit_research.intervals import holm_level, interval, paired
from fltoolkit_research.store import Result


class Point(NamedTuple):
    """One setting at the end of its runs; there is one run for each seed."""

    name: str
    experiment: Experiment  # of the first seed
    nbytes: float  # mean over the seeds
    values: Mapping[int, float]  # by seed: the experiment's metric, e.g. accuracy 0..1

    @property
    def num_seeds(self) -> int:
        """The number of seeds."""
        return len(self.values)

    @property
    def value(self) -> float:
        """The mean over the seeds."""
        return mean(self.values.values())

    @property
    def low(self) -> float:
        """The lower end of the mean's 95 % interval by Student's t; for one seed, its value."""
        return interval([*self.values.values()]).low if self.num_seeds > 1 else self.value

    @property
    def high(self) -> float:
        """The upper end of that interval; for one seed, its value."""
        return interval([*self.values.values()]).high if self.num_seeds > 1 else self.value


def groups(results: Iterable[Result]) -> dict[str, list[Result]]:
    """Results by title: results that differ only in the seed are together.

    What `failures` lists is left out: runs that failed, and runs that end with NaN or infinity.

    If several settings have the same title, the values that differ are added: "4 bits, lr=0.1".
    """
    found: dict[str, list[Result]] = {}
    for name, result in _named(r for r in results if len(r.history) and not _failure(r)):
        found.setdefault(name, []).append(result)
    return found


def _failure(result: Result) -> str:
    """Why a result cannot be compared, in one line; "" if it can be."""
    if result.error:
        return result.error.strip().splitlines()[-1]
    name = result.experiment.metric.name
    value = float(result.history[-1][name]) if len(result.history) else 0.0
    return "" if math.isfinite(value) else f"{name} is {value} at the end: training diverged"


def _named(results: Iterable[Result]) -> list[tuple[str, Result]]:
    """Each result with its title and the settings in which it differs from others of that title.

    The seed is no such setting; the version of the code is.
    """
    results = list(results)
    settings = [{**r.experiment.plain(), "name": "", "seed": 0, "code": r.code} for r in results]
    values: dict[tuple[str, str], set[str]] = {}  # by title and field: the values that occur
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
    """Results grouped by their task: data, model, clients, partition, loss and metric, in words.

    Only results of one task can be compared.
    """
    tasks: dict[str, list[Result]] = {}
    for result in results:
        e = result.experiment.plain()
        several = e["num_clients"] > 1
        words = f"{e['data']}, {e['model']}, {e['num_clients']} client{'s' * several}"
        words += f", {e['partition']}" * several
        words += f", {e['loss']}" * (e["loss"] != Experiment.loss)
        words += f", {e['metric']}" * (e["metric"] != Experiment.metric)
        tasks.setdefault(words, []).append(result)
    return tasks


def metric_of(experiments: Iterable[Experiment]) -> Metric:
    """The metric of these experiments; raises ValueError if they have different metrics.

    Different metrics cannot be compared. Without any experiment, the metric is accuracy.
    """
    found = {experiment.metric.name: experiment.metric for experiment in experiments}
    if len(found) > 1:
        raise ValueError(
            f"these experiments measure {' and '.join(found)}, which cannot be compared: take "
            "results of one task, see fltoolkit_research.by_task"
        )
    return next(iter(found.values()), ACCURACY)


def points(results: Iterable[Result]) -> list[Point]:
    """The last evaluation of each setting; settings with few bytes come first."""
    found = []
    for name, runs in groups(results).items():
        metric = runs[0].experiment.metric.name
        values = {run.experiment.seed: float(run.history[-1][metric]) for run in runs}
        nbytes = mean(float(run.history[-1]["nbytes"]) for run in runs)
        found.append(Point(name, runs[0].experiment, nbytes, values))
    return sorted(found, key=lambda point: point.nbytes)


def front(found: Iterable[Point]) -> list[Point]:
    """The Pareto front, as far as the seeds can tell it from noise; the fewest bytes come first.

    A point is on the front if its mean is better than that of every point with fewer bytes, and if
    its gain over the front point `before` it is more than noise: the interval of their differences,
    paired by seed, is on the better side of 0. The intervals are wider than 95 %, because each
    point with such a difference is a test, and a table has many (`holm_level`). This does not
    correct for the choice of the point before, which is made by the same values. Where points share
    fewer than two seeds the means decide, and a point with several seeds need not be better than a
    point with one.
    """
    found = list(found)
    metric = metric_of(point.experiment for point in found)
    sign = -1 if metric.higher_is_better else 1
    ordered = sorted(found, key=lambda p: (p.nbytes, sign * p.value))
    num_open, best, left = len(found) + 1, list[Point](), len(found)
    while left < num_open:
        num_open = left
        best, left = _front(ordered, metric, holm_level(num_open))
    return best


def _front(ordered: Sequence[Point], metric: Metric, level: float) -> tuple[list[Point], int]:
    """The front with intervals of this level, and how many differences they do not tell from 0."""
    several = any(point.num_seeds > 1 for point in ordered)
    best, num_open = list[Point](), 0
    leading: Point | None = None  # the best mean so far
    for point in ordered:
        reference = before(point, best)
        gains = paired(point.values, reference.values) if reference else []
        sure = len(gains) < 2 or interval(gains, level).beyond_zero
        num_open += not sure
        if leading is None or metric.better(point.value, leading.value):
            gain = mean(gains) if len(gains) > 1 else point.value - (reference or point).value
            if sure and (reference is None or metric.better(gain, 0.0)):
                best.append(point)
            leading = leading if several and point.num_seeds == 1 else point
    return best, num_open


def before(point: Point, best: Sequence[Point]) -> Point | None:
    """The last of ``best``, if possible one that shares two seeds or more with ``point``."""
    sharing = [other for other in best if len(point.values.keys() & other.values.keys()) > 1]
    return next(iter([*reversed(sharing), *reversed(best)]), None)


def bytes_to_reach(history: History, target: float, metric: Metric = ACCURACY) -> int | None:
    """The bytes a run had sent when it first reached ``target``; None if it never reached it.

    >>> from fltoolkit import History
    >>> bytes_to_reach(History([{"accuracy": 0.5, "nbytes": 10}, {"accuracy": 0.9, "nbytes": 20}]), 0.8)
    20
    """  # noqa: E501
    if metric.unit == "%" and not 0 <= target <= 1:
        raise ValueError(f"target={target}: {metric} is from 0 to 1; write 95 % as 0.95")
    for record in history.having(metric.name, "nbytes"):
        if metric.reaches(float(record[metric.name]), target):
            return int(record["nbytes"])
    return None


def value_within(history: History, nbytes: float, metric: Metric = ACCURACY) -> float | None:
    """The last value measured before more than ``nbytes`` were sent; None if none was.

    The last value and not the best one: choosing the best moment would use the test set.
    """
    found = None
    for record in history.having(metric.name, "nbytes"):
        if int(record["nbytes"]) > nbytes:
            break
        found = float(record[metric.name])
    return found


def seconds_on(record: Record, *, rate: float, latency: float = 0.0) -> float:
    """Seconds that a run's messages took on a link: ``nbytes / rate + num_waits * latency``.

    ``rate`` is in bytes per second for all clients together; ``latency`` is in seconds per message.
    The time for computing is not included.

    >>> seconds_on({"nbytes": 2_000_000, "num_waits": 100}, rate=1e6, latency=0.05)
    7.0
    """
    return int(record["nbytes"]) / rate + int(record["num_waits"]) * latency


def failures(results: Iterable[Result]) -> Mapping[str, str]:
    """For each failed experiment, its title and the reason: the last line of its error, or NaN."""
    return {
        f"{name}, seed {r.experiment.seed}": _failure(r)
        for name, r in _named(r for r in results if _failure(r))
    }
