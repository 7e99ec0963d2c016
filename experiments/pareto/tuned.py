"""The same methods, each with a learning rate of its own, chosen on held-out training samples.

    python -m experiments.pareto.tuned --data digits    # the trials, then the results
    python -m experiments.pareto.tuned --data mnist     # the same for a few methods
    python -m experiments.pareto.tuned --report         # print the tables
    python -m experiments.pareto.tuned --write          # put them into docs/results.md

Every method gets the same trials: the rate of its table times each of a few factors, on seeds that
no other run has. A trial tests on a fifth of the training samples, which it does not train on. The
results are on the test samples, with seeds that neither a trial nor another table has; of digits a
seed draws whose images the test has. Each finished run is a line of JSON and is not run again.
"""

import math
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from statistics import mean
from typing import Any

import fltoolkit_research as research
from experiments import runs as bench
from experiments.null_rows import ALONE, megabytes, times
from experiments.pareto import settings
from experiments.pareto.report import (
    MODULES,
    Parts,
    beside_alone,
    ends_of,
    pairs,
    parts_of,
    read_kept,
)
from experiments.tables import markdown
from fltoolkit.history import History
from fltoolkit.split import BudgetGate
from fltoolkit_research import NULL_MODELS, Experiment, build, compared, num_steps

RESULTS = bench.STORED / "pareto_tuned.jsonl"
SHOWN = bench.Page(
    "results", "<!-- begin: printed by experiments.pareto.tuned --write -->", "<!-- end: tuned -->"
)
HELD_OUT = 0.2
SEEDS = (20, 21, 22, 23, 24)


@dataclass(frozen=True)
class Plan:
    """What is tried on one data set."""

    parts: tuple[str, ...]
    factors: tuple[float, ...]  # of the table's learning rate
    trial_seeds: tuple[int, ...]


PLANS = {
    "digits": Plan(("IID", "non-IID"), (0.5, 1, 2, 4, 8), (100, 101)),
    "mnist": Plan(("IID",), (0.5, 1, 2, 4), (100,)),
}


@dataclass(frozen=True)
class Row:
    """A method as its table has it, with another learning rate."""

    experiment: Experiment
    factor: float
    choosing: bool  # whether held-out training samples are tested on

    @property
    def name(self) -> str:
        """With the part of the tables that it stands in, and the factor."""
        return f"{self.experiment.name} x {self.factor:g}"

    def at(self, seed: int) -> Experiment:
        """The run with a seed, without the lossless coder."""
        return _at(self, seed)

    def key(self, _task: None, seed: int) -> str:
        """The same for the same run."""
        return self.at(seed).key


@cache  # reading the texts of thousands of settings takes seconds
def _at(row: Row, seed: int) -> Experiment:
    source = settings.TASKS[settings.task_of(row.experiment)].source(seed)
    found = with_rate(row.experiment, row.factor, seed=seed, data=source)
    return without_entropy(trial(found) if row.choosing else found)


def with_rate(e: Experiment, factor: float, **more: Any) -> Experiment:
    """The experiment with so many times its learning rate, and with other settings."""
    if e.optimizer:
        return replace(e, optimizer=f"AdamW(lr={rate_of(e) * factor:g})", **more)
    return replace(e, lr=round(e.lr * factor, 6), **more)


def rate_of(e: Experiment) -> float:
    """The learning rate of an experiment: of SGD, or of its optimizer."""
    return float(e.optimizer.keywords["lr"]) if e.optimizer else e.lr


def trial(e: Experiment) -> Experiment:
    """The experiment on held-out training samples; a byte budget becomes as much smaller."""
    e = replace(e, validation=HELD_OUT)
    if not isinstance(e.gate, BudgetGate):
        return e
    nbytes = round((1 - HELD_OUT) * e.gate.nbytes)
    return replace(e, gate=BudgetGate(nbytes, num_steps(e)))


def without_entropy(e: Experiment) -> Experiment:
    """The experiment without its lossless coder, which takes most of the time.

    This changes bytes and no accuracy, unless a byte budget decides what is sent.
    """
    if isinstance(e.gate, BudgetGate):
        return e
    texts = {
        kind: repr(codec).replace(", ContextEntropy()", "") for kind, codec in e.codecs.items()
    }
    return replace(e, codecs={kind: build(text, MODULES) for kind, text in texts.items()})


def method_of(e: Experiment) -> str:
    """The name that shares a choice: all owners alone have one rate."""
    name, _, part = e.name.rpartition(" (")
    return f"{ALONE if name.startswith(settings.ALONE_PREFIX) else name} ({part}"


def methods(data: str) -> dict[str, list[Experiment]]:
    """What has a learning rate, by the name of the method."""
    found: dict[str, list[Experiment]] = {}
    for e in settings.experiments(data, [0], PLANS[data].parts):
        if e.protocol.name not in ("nothing", "one_sum", "solved"):
            found.setdefault(method_of(e), []).append(e)
    return found


def trials(data: str) -> Iterator[tuple[Row, int]]:
    """What is run to choose, with its seeds."""
    plan = PLANS[data]
    for seed in plan.trial_seeds:
        for factor in plan.factors:
            for mine in methods(data).values():
                yield from ((Row(e, factor, choosing=True), seed) for e in mine)


Scores = dict[float, tuple[float, float]]
"""By factor: the accuracy on held-out samples, and the loss on them with a minus."""


def validated(data: str, mine: list[Experiment], stored: Mapping[str, bench.Result]) -> Scores:
    """What a method's trials found; empty while one of them is not stored."""
    plan, found = PLANS[data], Scores()
    for factor in plan.factors:
        rows = [Row(e, factor, choosing=True) for e in mine]
        runs = [stored.get(row.key(None, seed)) for row in rows for seed in plan.trial_seeds]
        each = [(run["accuracy"], run["test_loss"]) for run in runs if run]
        if len(each) == len(runs):
            accuracy = round(mean(right for right, _ in each), 6)
            found[factor] = (accuracy, -mean(math.inf if x is None else x for _, x in each))
    return found if len(found) == len(plan.factors) else {}


def best(scores: Scores) -> float:
    """The factor with the highest accuracy on held-out samples; of equals that with less loss.

    >>> best({0.5: (0.9, -0.4), 1: (0.95, -0.3), 2: (0.95, -0.2)})
    2
    """
    return max(scores, key=lambda factor: scores[factor])


def chosen(data: str, stored: Mapping[str, bench.Result]) -> dict[str, float]:
    """The factor of each method whose trials are all stored."""
    found = {n: validated(data, mine, stored) for n, mine in methods(data).items()}
    return {name: best(scores) for name, scores in found.items() if scores}


def results(
    data: str, stored: Mapping[str, bench.Result], seeds: Iterable[int] = SEEDS
) -> Iterator[tuple[Row, int]]:
    """The runs of the tables, with their seeds: each method at the rate that was chosen for it."""
    factors, mine = chosen(data, stored), methods(data)
    rows = [Row(e, rate, choosing=False) for name, rate in factors.items() for e in mine[name]]
    every = settings.experiments(data, [0], PLANS[data].parts)
    rows += [Row(e, 1, choosing=False) for e in every if e.protocol.name == "nothing"]
    yield from ((row, seed) for seed in seeds for row in rows)


def run(_task: None, row: Row, seed: int) -> bench.Result:
    """Train once; a run that diverges is a result, too."""
    e, start = row.at(seed), time.process_time()
    found: bench.Result = {"accuracy": 0.0, "test_loss": None, "nbytes": 0}
    try:
        last = research.run(e)[-1]
        found = {"accuracy": round(float(last["accuracy"]), 6), "nbytes": last["nbytes"]}
        loss = float(last.get("test_loss", math.nan))
        found["test_loss"] = round(loss, 5) if math.isfinite(loss) else None
    except (FloatingPointError, ValueError) as error:  # a codec refuses what a network diverged to
        if "diverged" not in str(error):
            raise
        found["error"] = str(error)[:80]
    seconds = round(time.process_time() - start, 1)
    what = {"key": e.key, "name": row.name, "lr": rate_of(e), "choosing": row.choosing}
    return {**what, "seed": seed, **found, "seconds": seconds}


def parts(data: str, stored: Mapping[str, bench.Result]) -> Parts:
    """The results of methods whose seeds are all there, as report.py takes them.

    Of each run there is the last record. Its bytes are those of the table with one rate for all,
    where nothing is left out.
    """
    sent, found = dict[str, list[int]](), dict[str, list[research.Result]]()
    for r in read_kept():
        if settings.task_of(r.experiment) == data:
            sent.setdefault(r.experiment.name, []).append(int(r.history[-1]["nbytes"]))
    for row, seed in results(data, stored):
        name = row.experiment.name
        if (run := stored.get(row.key(None, seed))) and name in sent:
            history = History([{"accuracy": run["accuracy"], "nbytes": mean(sent[name])}])
            result = research.Result(row.at(seed), history, "", run["seconds"])
            found.setdefault(name, []).append(result)
    return parts_of(r for runs in found.values() if len(runs) == len(SEEDS) for r in runs)


def report(stored: Mapping[str, bench.Result]) -> str:
    """All tables as Markdown."""
    blocks, shown = list[str](), Parts()
    for data, plan in PLANS.items():
        found = parts(data, stored)
        shown |= found
        for part in plan.parts:
            if scores := scores_of(data, part, stored):
                blocks += [f"### {data}, 10 clients, {part}, a learning rate for each method"]
                blocks += [words_of(data, scores), trials_table(data, scores)]
            if runs := found.get((data, part)):
                blocks += [RESULTS_WORDS, results_table(data, runs)]
    blocks += ["### One thing in place of another, tuned", pairs(shown)] if shown else []
    return "\n\n".join(blocks)


def scores_of(data: str, part: str, stored: Mapping[str, bench.Result]) -> dict[str, Scores]:
    """What the trials of a part found, by the names of its table."""
    words = f" ({part})"
    return {
        name.removesuffix(words): scores
        for name, mine in methods(data).items()
        if name.endswith(words) and (scores := validated(data, mine, stored))
    }


def words_of(data: str, scores: Mapping[str, Scores]) -> str:
    """With which trials the rates were chosen, and how often which of them was best."""
    plan = PLANS[data]
    won = Counter(best(each) for each in scores.values())
    return (
        f"Trials: for each method {listed(plan.factors)} times the learning rate of its table "
        f"above, seed{'s' * (len(plan.trial_seeds) > 1)} {listed(plan.trial_seeds)}, tested on "
        "a fifth of the training samples, held out. The best, in bold, for so many of "
        f"{len(scores)} methods: {', '.join(f'{won[f]} at {f:g} times' for f in plan.factors)}. "
        "Where accuracies are equal, the loss decides."
    )


RESULTS_WORDS = (
    f"Results: seeds {', '.join(map(str, SEEDS))}, test samples, for the methods whose runs are "
    "all stored. Bytes are those of the table above: these runs leave the lossless coder out, "
    "which changes no accuracy."
)


def listed(values: Sequence[float]) -> str:
    """Numbers in words.

    >>> listed((0.5, 1, 2)), listed([100])
    ('0.5, 1 and 2', '100')
    """
    *first, last = (f"{value:g}" for value in values)
    return f"{', '.join(first)} and {last}" if first else last


def trials_cell(scores: Scores) -> str:
    """The held-out accuracy at each rate; the best one in bold.

    >>> trials_cell({0.5: (0.9, -0.4), 1: (0.95, -0.2), 2: (0.95, -0.3)})
    '90.0 / **95.0** / 95.0'
    """
    cells = {factor: f"{100 * accuracy:.1f}" for factor, (accuracy, _) in scores.items()}
    cells[best(scores)] = f"**{cells[best(scores)]}**"
    return " / ".join(cells.values())


def trials_table(data: str, scores: Mapping[str, Scores]) -> str:
    """What the trials of each method found, and the rate that was chosen."""
    factors = " / ".join(f"{factor:g}" for factor in PLANS[data].factors)
    return markdown(
        f"method | held-out accuracy at {factors} times the rate [%] | times the rate",
        ([name, trials_cell(each), f"{best(each):g}"] for name, each in scores.items()),
    )


def results_table(data: str, runs: Sequence[research.Result]) -> str:
    """A row for each method at the rate that was chosen for it, those with few bytes first."""
    ends, lines = ends_of(runs), []
    for p, reference, gains, star in compared(runs):
        e, protocol = p.experiment, p.experiment.protocol.name
        null = protocol in NULL_MODELS
        family = settings.BASELINE_FEDERATED if protocol == "fedavg" else settings.BASELINE_SPLIT
        cells = [
            f"**{p.name}**" if null else p.name,
            "" if protocol == "nothing" else f"{rate_of(e):g}",
            bench.share_ci([100 * value for value in p.values.values()]),
            bench.gain_words([100 * g for g in gains], p.num_seeds if reference else 0),
            "" if null or p.name == family else bench.gain_of(ends[p.name], ends.get(family, {})),
            megabytes(p.nbytes),
            times(p.nbytes, data),
            star,
        ]
        lines.append(cells)
    table = markdown(
        "method | rate | accuracy [%] | minus the cheaper front row [points] "
        "| minus float32 of its family [points] | MB, as above | times the data | front",
        lines,
    )
    return "\n".join([table, *beside_alone(runs)])


def main() -> None:
    """The command line."""
    parser = bench.options(__doc__, RESULTS)
    parser.add_argument("--data", choices=PLANS, default="digits")
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS, help="of the results")
    args = parser.parse_args()
    if args.report or args.write:
        SHOWN.tell(report(bench.read(args.out)), args)
        return
    do = partial(bench.sweep, run, path=args.out)
    do(jobs=[(None, *each) for each in trials(args.data) if args.only in each[0].name])
    found = results(args.data, bench.read(args.out), args.seeds)
    do(jobs=[(None, *each) for each in found if args.only in each[0].name])


if __name__ == "__main__":
    main()
