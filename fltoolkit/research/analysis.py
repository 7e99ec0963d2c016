"""Results of a sweep: fronts, bytes to a target, the metric within a budget, time on a link.

Here: numbers and text tables from `Result`s, by the metric of their experiments. Not here: pictures
(the room plots), searching for good settings (search). Notebook 07 uses these functions.
"""

import csv
import io
import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from itertools import accumulate
from operator import itemgetter
from statistics import mean
from typing import Any, NamedTuple

from fltoolkit.history import History, Record
from fltoolkit.metrics import ACCURACY, Metric
from fltoolkit.research.experiment import Experiment
from fltoolkit.research.store import Result
from fltoolkit.units import amount

__all__ = [
    "Point",
    "Size",
    "by_task",
    "bytes_to_reach",
    "c3_score",
    "failures",
    "front",
    "front_within",
    "groups",
    "metric_of",
    "on_link",
    "points",
    "seconds_on",
    "sizes_of",
    "table",
    "table_as_csv",
    "table_as_latex",
    "value_within",
]


class Point(NamedTuple):
    """One setting at the end of its runs; there is one run for each seed.

    >>> point = Point("4 bits", Experiment(), 3, nbytes=2e6, value=0.95, low=0.94, high=0.96)
    >>> point.name, point.high - point.low < 0.03
    ('4 bits', True)
    """

    name: str
    experiment: Experiment  # of the first seed
    num_seeds: int
    nbytes: float  # mean over the seeds
    value: float  # of the experiment's metric, e.g. accuracy 0..1; mean over the seeds
    low: float  # the least of any seed
    high: float  # the largest of any seed


class Size(NamedTuple):
    """The size of one kind of message in one direction, in bytes; see `fltoolkit.research.weigh`.

    Nominal and entropy size are NaN if the codec could not compute them.

    >>> size = Size("activations", "up", nominal=400.0, real=310, entropy=290.0)
    >>> size.real / size.nominal  # the entropy coder saved more than a fifth
    0.775
    """

    kind: str
    direction: str  # "up", "down" or "across"
    nominal: float
    real: int
    entropy: float


def groups(results: Iterable[Result]) -> dict[str, list[Result]]:
    """Results by title: results that differ only in the seed are together. Failures are left out.

    If several settings have the same title, the values that differ are added: "4 bits, lr=0.1".

    >>> history = History([{"accuracy": 0.9, "nbytes": 100}])
    >>> two = [Result(Experiment(name="8 bits", lr=lr), history, "", 1.0) for lr in (0.05, 0.1)]
    >>> list(groups(two))
    ['8 bits, lr=0.05', '8 bits, lr=0.1']
    """
    found: dict[str, list[Result]] = {}
    for name, result in _named(r for r in results if not r.error and len(r.history)):
        found.setdefault(name, []).append(result)
    return found


def _named(results: Iterable[Result]) -> list[tuple[str, Result]]:
    """Each result with its title and the settings in which it differs from others of that title.

    The seed is no such setting.
    """
    results = list(results)
    settings = [{**asdict(r.experiment), "name": "", "seed": 0} for r in results]
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

    >>> runs = [Result(Experiment(data=data), History(), "", 1.0) for data in ("digits", "mnist")]
    >>> list(by_task(runs))
    ['digits, mlp, 1 client', 'mnist, mlp, 1 client']
    """
    tasks: dict[str, list[Result]] = {}
    for result in results:
        e = result.experiment
        words = f"{e.data}, {e.model}, {e.num_clients} client{'s' * (e.num_clients > 1)}"
        words += f", {e.partition}" * (e.num_clients > 1)
        words += f", {e.loss}" * (e.loss != Experiment.loss)
        words += f", {e.metric}" * (e.metric != Experiment.metric)
        tasks.setdefault(words, []).append(result)
    return tasks


def metric_of(experiments: Iterable[Experiment]) -> Metric:
    """The metric of these experiments; raises ValueError if they have different metrics.

    Different metrics cannot be compared. Without any experiment, the metric is accuracy.

    >>> metric_of([Experiment(metric="perplexity"), Experiment(metric="perplexity", seed=1)]).name
    'perplexity'
    """
    found = {experiment.metric: experiment for experiment in experiments}
    if len(found) > 1:
        raise ValueError(
            f"these experiments measure {' and '.join(found)}, which cannot be compared: take "
            "results of one task, see fltoolkit.research.by_task"
        )
    return next((experiment.measured for experiment in found.values()), ACCURACY)


def points(results: Iterable[Result]) -> list[Point]:
    """The last evaluation of each setting; settings with few bytes come first.

    The two seeds of this setting become one point, whose value is their mean:

    >>> runs = [
    ...     Result(Experiment(seed=seed), History([{"accuracy": a, "nbytes": 100}]), "", 1.0)
    ...     for seed, a in ((0, 0.75), (1, 1.0))
    ... ]
    >>> points(runs)[0]._replace(experiment=None)
    Point(name='split', experiment=None, num_seeds=2, nbytes=100.0, value=0.875, low=0.75, high=1.0)
    """
    found = []
    for name, runs in groups(results).items():
        metric = runs[0].experiment.metric
        scores = [float(run.history[-1][metric]) for run in runs]
        nbytes = mean(float(run.history[-1]["nbytes"]) for run in runs)
        row = (nbytes, mean(scores), min(scores), max(scores))
        found.append(Point(name, runs[0].experiment, len(runs), *row))
    return sorted(found, key=lambda point: point.nbytes)


def front(found: Iterable[Point]) -> list[Point]:
    """The Pareto front: points such that none has fewer bytes and is at least as good.

    >>> e = Experiment()
    >>> three = [Point(n, e, 1, b, a, a, a) for n, b, a in (("x", 1, 0.8), ("y", 2, 0.7), ("z", 3, 0.9))]
    >>> [point.name for point in front(three)]
    ['x', 'z']
    """  # noqa: E501
    found = list(found)
    metric = metric_of(point.experiment for point in found)
    sign = -1 if metric.higher_is_better else 1
    best: list[Point] = []
    for point in sorted(found, key=lambda p: (p.nbytes, sign * p.value)):
        if not best or metric.better(point.value, best[-1].value):
            best.append(point)
    return best


def front_within(
    results: Iterable[Result], budgets: Sequence[float]
) -> list[tuple[float, float, float, float]]:
    """For each budget, the best method within it: mean, least and largest value over the seeds.

    Every evaluation of every method counts that was within the budget, as if training had been
    stopped there. For each seed the best is chosen on the test set, so the values are a little too
    good. Budgets that are too small for one evaluation of each seed are left out.

    >>> history = History([{"accuracy": 0.5, "nbytes": 100}, {"accuracy": 0.9, "nbytes": 300}])
    >>> front_within([Result(Experiment(), history, "", 1.0)], [50, 200, 400])
    [(200, 0.5, 0.5, 0.5), (400, 0.9, 0.9, 0.9)]
    """
    results = list(results)
    metric = metric_of(result.experiment for result in results)
    reached: dict[int, list[tuple[int, float]]] = {}  # by seed: bytes and value of each evaluation
    for runs in groups(results).values():
        for run in runs:
            rows = run.history.having(metric.name, "nbytes")
            tests = [(int(row["nbytes"]), float(row[metric.name])) for row in rows]
            reached.setdefault(run.experiment.seed, []).extend(tests)
    best_so_far = {seed: _best_so_far(sorted(tests), metric) for seed, tests in reached.items()}
    found = []
    for budget in sorted(budgets):
        places = [bisect_right(rows, budget, key=itemgetter(0)) for rows in best_so_far.values()]
        if places and all(places):
            best = [rows[k - 1][1] for k, rows in zip(places, best_so_far.values(), strict=True)]
            found.append((budget, mean(best), min(best), max(best)))
    return found


def _best_so_far(tests: list[tuple[int, float]], metric: Metric) -> list[tuple[int, float]]:
    """Bytes and the best value up to there."""
    bests = accumulate((value for _, value in tests), lambda a, b: metric.best([a, b]))
    return [(nbytes, best) for (nbytes, _), best in zip(tests, bests, strict=True)]


def bytes_to_reach(history: History, target: float, metric: Metric = ACCURACY) -> int | None:
    """The bytes a run had sent when it first reached ``target``; None if it never reached it.

    >>> bytes_to_reach(History([{"accuracy": 0.5, "nbytes": 10}, {"accuracy": 0.9, "nbytes": 20}]), 0.8)
    20
    """  # noqa: E501
    if metric.unit == "%" and not 0 <= target <= 1:
        raise ValueError(f"target={target}: {metric} is from 0 to 1; write 95 % as 0.95")
    if not math.isfinite(target):
        raise ValueError(f"target={target}: give a number that {metric} may reach")
    for record in history.having(metric.name, "nbytes"):
        if metric.reaches(float(record[metric.name]), target):
            return int(record["nbytes"])
    return None


def value_within(history: History, nbytes: float, metric: Metric = ACCURACY) -> float | None:
    """The last value measured before more than ``nbytes`` were sent; None if none was.

    The function returns the last value and not the best one, since choosing the best moment would
    use the test set.

    >>> history = History([{"accuracy": 0.5, "nbytes": 100}, {"accuracy": 0.9, "nbytes": 300}])
    >>> value_within(history, 200), value_within(history, 50)
    (0.5, None)
    """
    found = None
    for record in history.having(metric.name, "nbytes"):
        if int(record["nbytes"]) > nbytes:
            break
        found = float(record[metric.name])
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

    ``accuracy * exp(-(nbytes / max_nbytes + client_flops / max_flops) / temperature)``. The two
    quotients are shares of what is available. With a large temperature, costs matter less.

    Source: the C3-Score of Chopra et al. 2021, arXiv 2112.01637. Its text was not available to us
    beyond the introduction: form and temperature are as we remember them and are not verified.

    >>> round(c3_score(0.9, 50e6, max_nbytes=100e6), 4)
    0.8455
    """
    if not (max_nbytes > 0 and max_flops > 0 and temperature > 0):
        raise ValueError(
            f"max_nbytes={max_nbytes}, max_flops={max_flops}, temperature={temperature}: all of "
            "them must be above 0"
        )
    return accuracy * math.exp(-(nbytes / max_nbytes + client_flops / max_flops) / temperature)


def seconds_on(record: Record, *, rate: float, latency: float = 0.0) -> float:
    """Seconds that a run's messages took on a link: ``nbytes / rate + num_waits * latency``.

    ``rate`` is in bytes per second for all clients together; ``latency`` is in seconds per message.
    The time for computing is not included.

    >>> seconds_on({"nbytes": 2_000_000, "num_waits": 100}, rate=1e6, latency=0.05)
    7.0
    """
    if not rate > 0 or not latency >= 0:
        raise ValueError(f"rate={rate}, latency={latency}: need rate > 0 and latency >= 0")
    return int(record["nbytes"]) / rate + int(record["num_waits"]) * latency


def on_link(history: History, *, rate: float, latency: float = 0.0) -> History:
    """The records with one more key, ``seconds``, see `seconds_on` (for `plots.curves`).

    >>> history = History([{"nbytes": 500, "num_waits": 2}, {"nbytes": 1000, "num_waits": 4}])
    >>> on_link(history, rate=1000, latency=0.25).column("seconds")
    [1.0, 2.0]
    """
    return History(
        {**record, "seconds": seconds_on(record, rate=rate, latency=latency)} for record in history
    )


def sizes_of(record: Record) -> list[Size]:
    """The ledger of a record: each kind and direction with its three sizes.

    >>> record = {"nbytes_activations_up": 310, "nominal_activations_up": 400, "nbytes_up": 310}
    >>> sizes_of(record)
    [Size(kind='activations', direction='up', nominal=400.0, real=310, entropy=nan)]
    """
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
    """A Markdown table with one row for each setting, few bytes first; the front has a star.

    Args:
        results: the results of a sweep, all of one task.
        target: adds a column: the bytes sent until the metric reached this value (95 % is 0.95).
        budget: adds a column: the value of the metric within this number of bytes.

    >>> history = History([{"accuracy": 0.5, "nbytes": 100}, {"accuracy": 0.9, "nbytes": 300}])
    >>> print(table([Result(Experiment(name="8 bits"), history, "", 1.0)], target=0.8))
    | setting | accuracy [%] | sent | seeds | bytes to 80 % | front |
    |---|---|---|---|---|---|
    | 8 bits | 90.00 | 300 B | 1 | 300 B | * |
    """
    heads, rows = _cells(list(results), target, budget)
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def table_as_latex(
    results: Iterable[Result], *, target: float | None = None, budget: float | None = None
) -> str:
    r"""The rows of `table` as a LaTeX ``tabular``, with the rules of the package booktabs.

    >>> history = History([{"accuracy": 0.9, "nbytes": 300}])
    >>> print(table_as_latex([Result(Experiment(name="8 bits"), history, "", 1.0)]))
    \begin{tabular}{lrrrc}
    \toprule
    setting & accuracy [\%] & sent & seeds & front \\
    \midrule
    8 bits & 90.00 & 300 B & 1 & $\star$ \\
    \bottomrule
    \end{tabular}
    """
    heads, rows = _cells(list(results), target, budget)
    lines = [r"\begin{tabular}{l" + "r" * (len(heads) - 2) + "c}", r"\toprule"]
    lines += [" & ".join(map(_latex, heads)) + r" \\", r"\midrule"]
    lines += [" & ".join(map(_latex, row)) + r" \\" for row in rows]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"])


def table_as_csv(
    results: Iterable[Result], *, target: float | None = None, budget: float | None = None
) -> str:
    """The rows of `table` as CSV with plain numbers: bytes, and the metric as it is in records.

    >>> history = History([{"accuracy": 0.9, "nbytes": 300}])
    >>> print(table_as_csv([Result(Experiment(name="8 bits"), history, "", 1.0)]), end="")
    setting,accuracy,low,high,nbytes,seeds,front
    8 bits,0.9,0.9,0.9,300.0,1,1
    """
    results = list(results)
    metric, best = metric_of(r.experiment for r in results), front(points(results))
    by_name = groups(results)
    heads = ["setting", metric.name, "low", "high", "nbytes", "seeds"]
    heads += ["nbytes_to_target"] if target is not None else []
    heads += ["within_budget"] if budget is not None else []
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([*heads, "front"])
    for p in points(results):
        row: list[object] = [p.name, p.value, p.low, p.high, p.nbytes, p.num_seeds]
        histories = [run.history for run in by_name[p.name]]
        if target is not None:
            reached = [bytes_to_reach(history, target, metric) for history in histories]
            every = [nbytes for nbytes in reached if nbytes is not None]
            row.append(mean(every) if len(every) == len(reached) else "")
        if budget is not None:
            row.append(_mean_within(histories, budget, metric)[0])
        writer.writerow([*row, int(p in best)])
    return file.getvalue()


def _cells(
    results: list[Result], target: float | None, budget: float | None
) -> tuple[list[str], list[list[str]]]:
    """The heads and the rows of a table, as people read them."""
    metric = metric_of(result.experiment for result in results)
    by_name, found = groups(results), points(results)
    best = {point.name for point in front(found)}
    heads, rows = ["setting", metric.axis, "sent", "seeds"], []
    heads += [f"bytes to {_short(metric, target)}"] if target is not None else []
    if budget is not None:
        name, _, unit = metric.axis.partition(" [")
        heads.append(f"{name} within {amount('nbytes', budget)}" + f" [{unit}" * bool(unit))
    for point in found:
        histories = [run.history for run in by_name[point.name]]
        cells = [point.name, _range(metric, point.value, point.low, point.high)]
        cells += [amount("nbytes", point.nbytes), str(point.num_seeds)]
        if target is not None:
            reached = [n for h in histories if (n := bytes_to_reach(h, target, metric)) is not None]
            missed = len(histories) - len(reached)
            words = amount("nbytes", mean(reached)) if reached else "never"
            cells.append(
                words + (f" ({missed} of {len(histories)} never)" * bool(reached and missed))
            )
        if budget is not None:
            middle, low, high = _mean_within(histories, budget, metric)
            cells.append("" if middle == "" else _range(metric, middle, low, high))
        rows.append([*cells, "*" * (point.name in best)])
    return [*heads, "front"], rows


def _mean_within(histories: list[History], budget: float, metric: Metric) -> tuple[Any, Any, Any]:
    """Mean, least and largest value within a budget; empty texts if one seed has none."""
    got = [value_within(history, budget, metric) for history in histories]
    values = [value for value in got if value is not None]
    if len(values) < len(got):
        return "", "", ""
    return mean(values), min(values), max(values)


def failures(results: Iterable[Result]) -> Mapping[str, str]:
    """For each experiment that failed, its title and the last line of its error.

    >>> error = "Traceback ...\\nValueError: loss is NaN"
    >>> failures([Result(Experiment(name="lr too high"), History(), error, 1.0)])
    {'lr too high, seed 0': 'ValueError: loss is NaN'}
    """
    return {
        f"{name}, seed {r.experiment.seed}": r.error.strip().splitlines()[-1]
        for name, r in _named(r for r in results if r.error)
    }


def _range(metric: Metric, middle: float, low: float, high: float) -> str:
    if low == high:
        return metric.number(middle)
    return f"{metric.number(middle)} [{metric.number(low)}, {metric.number(high)}]"


def _short(metric: Metric, value: float) -> str:
    return f"{metric.scale * value:g} {metric.unit}".rstrip()


_LATEX = str.maketrans(
    {each: f"\\{each}" for each in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
)


def _latex(text: str) -> str:
    """``text`` with LaTeX's special characters escaped; the star of the front becomes a symbol."""
    return r"$\star$" if text == "*" else text.translate(_LATEX)
