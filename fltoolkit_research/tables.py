"""Tables of a sweep's results: Markdown and CSV.

Here: a row for each setting, with 95 % intervals over the seeds, and how long the training samples
are, for "times the data". Not here: the numbers (analysis), their intervals (intervals).
"""

import csv
import io
import math
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache, partial
from statistics import mean
from typing import Any, Literal, NamedTuple

from fltoolkit.data.files import without_downloads
from fltoolkit.metrics import Metric
from fltoolkit.units import amount
from fltoolkit_research.analysis import (
    Point,
    before,
    bytes_to_reach,
    front,
    groups,
    metric_of,
    points,
    value_within,
)
from fltoolkit_research.experiment import Experiment
from fltoolkit_research.intervals import interval, paired
from fltoolkit_research.pooled.times import lossless_nbytes
from fltoolkit_research.store import Result
from fltoolkit_research.task import Source, samples, source_of

CHEAPER = "the cheaper front point"
_SAMPLED = 5000  # of more samples, so many are compressed, and the rest is estimated

DataNbytes = Callable[[Experiment], float]
"""The bytes of an experiment's training samples; raises ValueError where they are not known."""


class Compared(NamedTuple):
    """A point beside the one that it is compared with; see `compared`."""

    point: Point
    reference: str  # the name of the other point; "" if there is none
    gains: list[float]  # the differences to it, seed by seed
    star: str  # "*" on the front, "(*)" if too few seeds are shared to judge, else ""


def compared(results: Iterable[Result], against: str | None = None) -> list[Compared]:
    """Each point with its differences to the named one, or to the cheaper front point before it."""
    found = points(results)
    by_name = {point.name: point for point in found}
    if against is not None and against not in by_name:
        raise ValueError(f"against={against!r}: choose one of {', '.join(by_name) or 'nothing'}")
    best, rows = front(found), []
    for point in found:
        cheaper = before(point, [p for p in best if p.nbytes < point.nbytes])
        star = "*" * (point in best)
        if star and cheaper and len(point.values.keys() & cheaper.values.keys()) < 2:
            star = "(*)"
        if against is not None:
            cheaper = None if point.name == against else by_name[against]
        gains = paired(point.values, cheaper.values) if cheaper else []
        rows.append(Compared(point, cheaper.name if cheaper else "", gains, star))
    return rows


def table(
    results: Iterable[Result],
    *,
    target: float | None = None,
    budget: float | None = None,
    against: str | None = None,
    data_nbytes: DataNbytes | None = None,
    form: Literal["markdown", "csv"] = "markdown",
) -> str:
    """A table with one row for each setting, few bytes first; the front has a star.

    In brackets stand 95 % confidence intervals of means over the seeds, by Student's t, cut to the
    possible range. A setting is compared with the last front point that has fewer bytes, or with
    the one in ``against``; these differences are paired by seed. A star in brackets, (*), stands
    for a point that shares fewer than two seeds with the front point before it.

    Args:
        results: the results of a sweep, all of one task.
        target: adds a column: the bytes sent until the metric reached this value (95 % is 0.95).
        budget: adds a column: the value of the metric within this number of bytes.
        against: the name of the setting with which all others are compared.
        data_nbytes: adds a column: the bytes sent, divided by what this function, such as
            `fltoolkit_research.data_nbytes`, gives for an experiment; "-" where it raises
            ValueError.
        form: "markdown"; or "csv", with plain numbers: bytes, the metric as it is in records, the
            ends of intervals not cut, ``front`` as 1 or 0; what is not known is empty.

    >>> from fltoolkit import History
    >>> from fltoolkit_research.experiment import Experiment
    >>> def run(name, seed, nbytes, accuracy):
    ...     history = History([{"accuracy": accuracy, "nbytes": nbytes}])
    ...     return Result(Experiment(name=name, seed=seed, lr=nbytes / 1e4), history, "", 1.0)
    >>> accuracies = {"4 bits": (0.875, 0.876, 0.877), "8 bits": (0.895, 0.896, 0.898)}
    >>> runs = [
    ...     run(name, seed, 100 * int(name[0]), accuracy)
    ...     for name, of_seeds in accuracies.items()
    ...     for seed, accuracy in enumerate(of_seeds)
    ... ]
    >>> print(table(runs, against="4 bits"))
    | setting | accuracy [%] | minus 4 bits [points] | sent | seeds | front |
    |---|---|---|---|---|---|
    | 4 bits | 87.60 [87.35, 87.85] |  | 400 B | 3 | * |
    | 8 bits | 89.63 [89.25, 90.01] | +2.03 [+1.89, +2.18] | 800 B | 3 | * |
    """
    if form not in ("markdown", "csv"):
        raise ValueError(f"form={form!r}: choose markdown or csv")
    results = list(results)
    metric, rows = metric_of(result.experiment for result in results), compared(results, against)
    columns = _columns(groups(results), metric, target, budget, data_nbytes)
    if form == "csv":
        return _csv(metric, rows, columns)
    heads, *lines = _cells(metric, rows, columns, f"minus {against or CHEAPER}")
    rule = "|---" * len(heads) + "|"
    head, *body = ("| " + " | ".join(line) + " |" for line in (heads, *lines))
    return "\n".join([head, rule, *body])


class _Column(NamedTuple):
    """A column that each form of a table has: its heads, and the cell of a point."""

    plain_head: str  # in CSV
    head: str
    cell: Callable[[Point], tuple[Any, str]]  # as a plain value for CSV, and in words


def _columns(
    runs: Mapping[str, list[Result]],
    metric: Metric,
    target: float | None,
    budget: float | None,
    data_nbytes: DataNbytes | None,
) -> list[_Column]:
    """Bytes, seeds and what was asked for; ``runs`` has the runs of each point by its name."""
    found = [_Column("nbytes", "sent", lambda p: (p.nbytes, amount("nbytes", p.nbytes)))]
    if data_nbytes is not None:
        found.append(_Column("times_the_data", "times the data", partial(_times, data_nbytes)))
    found.append(_Column("seeds", "seeds", lambda p: (p.num_seeds, str(p.num_seeds))))
    if target is not None:
        head = f"bytes to {metric.scale * target:g} {metric.unit}".rstrip()
        found.append(_Column("nbytes_to_target", head, partial(_reached, runs, metric, target)))
    if budget is not None:
        name, _, unit = metric.axis.partition(" [")
        head = f"{name} within {amount('nbytes', budget)}" + f" [{unit}" * bool(unit)
        found.append(_Column("within_budget", head, partial(_within, runs, metric, budget)))
    return found


def _csv(metric: Metric, rows: list[Compared], columns: list[_Column]) -> str:
    heads = ["setting", metric.name, "low", "high", *(column.plain_head for column in columns)]
    heads += ["against", "difference", "difference_low", "difference_high", "shared_seeds"]
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([*heads, "front"])
    for p, reference, gains, star in rows:
        cells = [*_plain([*p.values.values()]), *(column.cell(p)[0] for column in columns)]
        ends = [reference, *_plain(gains), len(gains)] if reference else [""] * 5
        writer.writerow([p.name, *cells, *ends, int(bool(star))])
    return file.getvalue()


def _cells(
    metric: Metric, rows: list[Compared], columns: list[_Column], minus: str
) -> list[list[str]]:
    """The heads, then the lines of a table, as people read them."""
    unit = "points" if metric.unit == "%" else metric.unit
    differences = [minus + f" [{unit}]" * bool(unit)] if len(rows) > 1 else []
    heads = ["setting", metric.axis, *differences, *(column.head for column in columns), "front"]
    lines = [heads]
    for p, reference, gains, star in rows:
        gain = [_gain(metric, gains, p.num_seeds) if reference else ""] * bool(differences)
        cells = [_range(metric, [*p.values.values()]), *gain]
        lines.append([p.name, *cells, *(column.cell(p)[1] for column in columns), star])
    return lines


def _times(data_nbytes: DataNbytes, point: Point) -> tuple[Any, str]:
    """How many times the data a setting sent; nothing where the data are not known."""
    try:
        times = point.nbytes / data_nbytes(point.experiment)
    except ValueError:
        return "", "-"
    return times, f"{float(f'{times:.3g}'):,.6g}"


def _reached(
    runs: Mapping[str, list[Result]], metric: Metric, target: float, point: Point
) -> tuple[Any, str]:
    """The mean bytes to the target; as a plain value only if all seeds have reached it."""
    found = [bytes_to_reach(run.history, target, metric) for run in runs[point.name]]
    reached = [nbytes for nbytes in found if nbytes is not None]
    missed = len(found) - len(reached)
    words = amount("nbytes", mean(reached)) if reached else "never"
    words += f" ({missed} of {len(found)} never)" * bool(reached and missed)
    return "" if missed else mean(reached), words


def _within(
    runs: Mapping[str, list[Result]], metric: Metric, budget: float, point: Point
) -> tuple[Any, str]:
    """The mean within a budget and its interval; nothing if one seed has no value there."""
    got = [value_within(run.history, budget, metric) for run in runs[point.name]]
    values = [value for value in got if value is not None and math.isfinite(value)]
    return (mean(values), _range(metric, values)) if len(values) == len(got) else ("", "")


def _plain(values: list[float]) -> list[Any]:
    """Mean and the ends of its interval as numbers; what is not known is empty."""
    if not values:
        return ["", "", ""]
    found = interval(values)
    return [found.mean, *((found.low, found.high) if found.known else ("", ""))]


def _range(metric: Metric, values: list[float]) -> str:
    """``90.00 [89.10, 90.90]``; a single value stands alone."""
    found = interval(values)
    low, high = metric.possible(found.low), metric.possible(found.high)
    ends = f" [{metric.number(low)}, {metric.number(high)}]" * found.known
    return metric.number(found.mean) + ends


def _gain(metric: Metric, gains: list[float], num_seeds: int) -> str:
    """A difference with its sign; with the number of seeds where not all could be paired."""
    if not gains:
        return "no seed in common"
    found, form = interval(gains), "+.2f" if metric.unit == "%" else "+.4g"
    middle, low, high = (f"{metric.scale * value:{form}}" for value in found[:3])
    seeds = f" ({found.num} seed{'s' * (found.num > 1)})" * (found.num < num_seeds)
    return middle + f" [{low}, {high}]" * found.known + seeds


def data_nbytes(experiment: Experiment) -> int:
    """The bytes of all training samples and labels of an experiment, compressed without loss.

    Of more than 5,000 samples, a part is compressed and the rest is estimated: for MNIST that is
    1.2 % above all of them. Nothing is downloaded.

    Raises ValueError where the size cannot be known, and says why: the files are not on this
    machine, the data set's function fails, or each target is a whole sequence, whose windows
    overlap.
    """
    e = experiment
    return _nbytes(source_of(e.data), e.num_samples, e.validation)


@lru_cache(maxsize=16)
def _nbytes(source: Source, num_samples: int | None, validation: float) -> int:
    try:
        with without_downloads():
            data = samples(source, False, num_samples, validation)
    except Exception as error:  # a function of somebody else may raise anything
        raise ValueError(f"{error}".partition("\n")[0] or type(error).__name__) from error
    x, y = data.x_train, data.y_train
    if y.dim() > 1 and not y.is_floating_point():
        raise ValueError("its targets are sequences: windows of a text may overlap")
    return lossless_nbytes(x, y, sample=_SAMPLED)
