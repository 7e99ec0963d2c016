"""Tables and figure of the runs that are there.

Markdown between two marks of docs/results.md, one PNG, and the runs as JSON lines that go with the
repository.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from statistics import mean, median

import fltoolkit_research as research
from experiments import runs as bench
from experiments.audit.published_tables import published_tables
from experiments.null_rows import ALONE, ONE_BIT, SEND, WORST, megabytes, missing, times
from experiments.pareto import settings
from experiments.replications import dgc, distill, jpeg, shrink
from experiments.tables import markdown
from fltoolkit import Channel, plots, splitnn_mlp
from fltoolkit.history import History
from fltoolkit_research import plots as research_plots
from fltoolkit_research.intervals import holm

PAGE, FIGURE = bench.DOCS / "results.md", bench.DOCS / "images" / "pareto.png"
KEPT = bench.STORED / "pareto.jsonl"
BEGIN, END = "<!-- begin: printed by experiments.pareto --report -->", "<!-- end: printed -->"
TARGETS = {"digits": 0.9, "mnist": 0.96}
REFERENCES = {
    settings.BASELINE_FEDERATED,
    settings.BASELINE_SPLIT,
    "SplitFed, Float8",
    SEND,
    ONE_BIT,
}
"""Named in the figure, too."""
SAME = ", as IID"
"""A row of runs whose owners had other samples: the receiver got the same ones."""
CURVE = ("round", "nbytes", "accuracy")  # of each record; of the last one all is kept
MODULES = (dgc, distill, jpeg, shrink)
"""Where what is stored has names that are not those of the package."""
Parts = dict[tuple[str, str], list[research.Result]]  # by data and "IID" or "non-IID"


def write(store: research.Store) -> None:
    """Bring the page, the figure and the kept runs up to date with a store."""
    results = {r.experiment.key: r for r in read_kept()}
    results |= {r.experiment.key: r for r in store.results() if not r.error}
    keep(current(results.values()))
    parts = parts_of(read_kept())
    draw(parts)
    bench.write_between(PAGE, BEGIN, END, printed := report(parts))
    print(printed)


def current(results: Iterable[research.Result]) -> list[research.Result]:
    """Those that are in the list of methods as it is now, by the names that they have there."""
    results, tasks = list(results), set()
    for e in (r.experiment for r in results):
        words = next(
            (w for w, partition in settings.PARTITIONS.items() if partition == e.partition), None
        )
        if settings.task_of(e) in settings.TASKS and words:
            tasks.add((settings.task_of(e), words))
    seeds = {r.experiment.seed for r in results}
    wanted = {e.key: e for data, words in tasks for e in settings.experiments(data, seeds, [words])}
    keys = [r for r in results if r.experiment.key in wanted]
    return [r._replace(experiment=wanted[r.experiment.key]) for r in keys]


def keep(results: Iterable[research.Result], path: Path = KEPT) -> None:
    """The runs as a file of results, in the order of their names, each made `thin`."""
    part = path.with_suffix(".part")
    part.unlink(missing_ok=True)
    for result in sorted(results, key=lambda r: (r.experiment.name, r.experiment.seed)):
        research.Store(part).add(thin(result))
    part.replace(path)


def thin(result: research.Result) -> research.Result:
    """A run with the curve only, and the whole of its last record."""
    curve = [{key: record[key] for key in CURVE} for record in result.history]
    history = History([*curve[:-1], result.history[-1]])
    return result._replace(history=history, seconds=round(result.seconds, 1))


def read_kept(path: Path = KEPT) -> list[research.Result]:
    """What `keep` wrote, as results whose records but the last have the curve only."""
    return list(_read(path, path.stat().st_mtime_ns)) if path.exists() else []


@cache
def _read(path: Path, written: int) -> tuple[research.Result, ...]:
    """A file as it was at a time: reading it takes seconds, and ten tables need it."""
    return tuple(research.Store(path, MODULES).results())


def parts_of(
    results: Iterable[research.Result], tasks: Sequence[str] = ("mnist", "digits")
) -> Parts:
    """By task, all rows of the same seeds; names lose the part of them that tells the task.

    A null row may have more seeds than the methods: `null_runs` has all of them.
    """
    parts = _by_task(results)
    order = [(data, words) for data in tasks for words in settings.PARTITIONS]
    found: Parts = {}
    for key in order:
        if key in parts:
            methods = _whole(parts[key])
            seeds, null = {r.experiment.seed for r in methods}, _null_rows(key, parts)
            shown = [r for r in null if not seeds or r.experiment.seed in seeds]
            found[key] = [*methods, *shown]
    return found


def _by_task(results: Iterable[research.Result]) -> Parts:
    parts: Parts = {}
    for result in results:
        e = result.experiment
        words = next(w for w, partition in settings.PARTITIONS.items() if partition == e.partition)
        task = settings.task_of(e)
        name = e.name.removesuffix(f" ({words})")
        bare = replace(e, name=name, data=settings.TASKS[task].source(0))  # of one row
        parts.setdefault((task, words), []).append(result._replace(experiment=bare))
    return parts


def null_runs(data: str) -> dict[str, dict[int, dict[str, float]]]:
    """Accuracy and bytes of the IID null rows by name and seed, for tables on the same network."""
    found: dict[str, dict[int, dict[str, float]]] = {}
    parts = _by_task(r for r in read_kept() if is_null(r))
    for r in _null_rows((data, "IID"), parts) if (data, "IID") in parts else []:
        last = {key: r.history[-1][key] for key in ("accuracy", "nbytes")}
        found.setdefault(r.experiment.name, {})[r.experiment.seed] = last
    return found


def is_null(result: research.Result) -> bool:
    """Whether this is a run of a null row."""
    return result.experiment.protocol.name in research.NULL_MODELS


def _whole(results: list[research.Result]) -> list[research.Result]:
    """The methods, of seeds with which all were run, so that means are over the same seeds.

    While there is no such seed, those of the first.
    """
    results = [r for r in results if not is_null(r)]
    seeds = Counter(r.experiment.seed for r in results)
    num_methods = len({r.experiment.name for r in results})
    whole = [seed for seed, count in seeds.items() if count == num_methods] or [*seeds][:1]
    return [r for r in results if r.experiment.seed in whole]


def _null_rows(key: tuple[str, str], parts: Parts) -> list[research.Result]:
    """The null rows of a task, of all their seeds; owners together; sent data also as IID."""
    found = [r for r in parts[key] if is_null(r)]
    names = {r.experiment.name for r in found}
    if key[1] != "IID":
        for r in parts.get((key[0], "IID"), []):
            e = r.experiment
            all_samples = e.protocol.name == "pooled" and "num_kept" not in e.settings
            if all_samples and e.name not in names:
                found.append(r._replace(experiment=replace(e, name=e.name + SAME)))
    rest = [r for r in found if r.experiment.protocol.name != "alone"]
    return [*rest, *all_owners(found, settings.NUM_CLIENTS)]


def all_owners(results: Iterable[research.Result], count: int) -> list[research.Result]:
    """For each seed with so many runs of single owners: their mean, and the worst of them."""
    owners: dict[int, list[research.Result]] = {}
    for r in results:
        if r.experiment.protocol.name == "alone":
            owners.setdefault(r.experiment.seed, []).append(r)
    found = []
    for mine in (each for _, each in sorted(owners.items()) if len(each) == count):
        worst = min(mine, key=lambda r: r.history[-1]["accuracy"])
        rounds = zip(*(r.history for r in mine), strict=True)
        curve = History(
            {**rows[0], "accuracy": mean(float(row["accuracy"]) for row in rows)} for rows in rounds
        )
        first = replace(mine[0].experiment, settings={"owner": 1})  # stands for all of them
        all_, seconds = replace(first, name=ALONE), sum(r.seconds for r in mine)
        found.append(mine[0]._replace(experiment=all_, history=curve, seconds=seconds))
        found.append(worst._replace(experiment=replace(first, name=WORST), seconds=0.0))
    return found


def report(parts: Parts) -> str:
    """All tables as Markdown."""
    blocks = []
    for (data, words), results in parts.items():
        blocks += [f"### {data}, 10 clients, {words}", settings_of(data, results)]
        blocks += [main_table(results, TARGETS[data], data), at_equal_passes(results, data)]
    blocks += ["### Strangers in place of known writers", beside_known(parts)]
    blocks += ["### One thing in place of another", pairs(parts)]
    blocks += ["### Tables 1 and 2 of Vepakomma et al. 2018", vepakomma()]
    return "\n\n".join(blocks)


def settings_of(data: str, results: Sequence[research.Result]) -> str:
    """How long, with how many seeds, and what it took."""
    task = settings.TASKS[data]
    null, results = [r for r in results if is_null(r)], [r for r in results if not is_null(r)]
    seeds = {r.experiment.seed for r in results}
    split, fed = task.split, task.federated
    words = (
        f"Split methods: {task.passes} passes, batch {split['batch_size']}, lr {split['lr']}. "
        f"Federated: {task.rounds} rounds of one local pass, batch {fed['batch_size']}, "
        f"lr {fed['lr']}. {len(results)} runs, {len(seeds)} seed{'s' * (len(seeds) > 1)}, "
        f"{sum(r.seconds for r in results) / 60:.0f} minutes of one process on two busy cores."
    )
    if null:
        words += (
            f" Null rows: as many passes, batches and steps as federated averaging; trained "
            f"longer: {task.longer} passes, batch 64, AdamW with a falling learning rate."
        )
    return words


def main_table(results: Sequence[research.Result], target: float, data: str) -> str:
    """A row a method and a null row, those with few bytes first."""
    by_name, rows, ends = research.groups(results), research.compared(results), ends_of(results)
    base = {row.point.name: row.point.nbytes for row in rows}
    shared = {
        row.point.name: row.point.nbytes - first_model(row.point.experiment)
        for row in rows
        if row.point.experiment.protocol.name == "fedavg"
    }
    head = (
        "method | accuracy [%] | minus the cheaper front row [points] "
        "| minus float32 of its family [points] | MB sent | times the data "
        "| MB without the first model | times fewer "
        f"| MB to {100 * target:g} % | MB up / down / handed on | front"
    )
    cells = []
    for p, reference_name, gains, star in rows:
        protocol = p.experiment.protocol.name
        family = settings.BASELINE_FEDERATED if protocol == "fedavg" else settings.BASELINE_SPLIT
        reference = None if protocol in research.NULL_MODELS else base.get(family)
        float32 = ends.get(family, {}) if reference and p.name != family else {}
        runs = [run.history for run in by_name[p.name]]
        reached = [n for h in runs if (n := research.bytes_to_reach(h, target)) is not None]
        to_target = megabytes(mean(reached), 2) if len(reached) == len(runs) else "never"
        if reached and len(reached) < len(runs):
            to_target = f"{len(runs) - len(reached)} of {len(runs)} never"
        up, down, all_ = (
            mean(int(h[-1][key]) for h in runs) for key in ("nbytes_up", "nbytes_down", "nbytes")
        )
        line = [
            f"**{p.name}**" if protocol in research.NULL_MODELS else p.name,
            bench.share_ci([100 * value for value in p.values.values()]),
            bench.gain_words([100 * g for g in gains], p.num_seeds if reference_name else 0),
            bench.gain_of(ends[p.name], float32),
            megabytes(p.nbytes),
            times(p.nbytes, settings.TASKS[data].data),
            megabytes(shared[p.name]) if p.name in shared else "",
            f"{reference / p.nbytes:,.1f}" if reference else "",
            to_target,
            " / ".join(megabytes(each) for each in (up, down, round(abs(all_ - up - down)))),
            star,
        ]
        cells.append(line)
    lines = [markdown(head, cells)]
    cheaper = [
        row.point._replace(nbytes=shared.get(row.point.name, row.point.nbytes)) for row in rows
    ]
    best = {p.name for p in research.front(sorted(cheaper, key=lambda p: p.nbytes))}
    if new := sorted(best - {row.point.name for row in rows if row.star}):
        lines += ["", f"Without the first model the front would also have: {'; '.join(new)}."]
    names = {row.point.name.removesuffix(SAME) for row in rows}
    if lacking := missing(names):
        lines += ["", f"Not measured yet: {', '.join(sorted(lacking))}."]
    return "\n".join([*lines, *beside_alone(results)])


def first_model(e: research.Experiment) -> int:
    """The bytes of averaging's first model to all clients, by the row's own codec; nobody trains.

    A seed that all share would make the same model everywhere for free.
    """
    channel = Channel({kind: codec for kind, codec in e.codecs.items() if kind == "model"})
    model = splitnn_mlp(
        settings.SIDES[settings.TASKS[settings.task_of(e)].data] ** 2, seed=e.seed
    ).state_dict()
    channel.send("server", "client", "model", model)
    return e.num_clients * channel.nbytes()


def at_equal_passes(results: Sequence[research.Result], data: str) -> str:
    """Averaging after as many passes as split methods make, so after as much computing."""
    passes, words = settings.TASKS[data].passes, []
    for name in (settings.BASELINE_FEDERATED, "3 bits + EF both ways"):
        then = {r.experiment.seed: r.history[passes - 1] for r in research.groups(results)[name]}
        right, sent = bench.accuracies(then), bench.mean_nbytes(then)
        less = bench.gain_of(then, ends_of(results)[settings.BASELINE_SPLIT])
        words.append(f"{name} has {right} % for {megabytes(sent)} MB ({less} points)")
    return (
        f"Averaging after as many passes as split methods make, {passes} rounds, "
        f"and its difference from {settings.BASELINE_SPLIT}: {'; '.join(words)}."
    )


def beside_known(parts: Parts) -> str:
    """Accuracy on strangers minus accuracy on known writers, over the rows of digits."""
    known, lines = parts_of(read_kept(), [settings.KNOWN]), []
    for words in settings.PARTITIONS:
        ends, before = ends_of(parts["digits", words]), ends_of(known[settings.KNOWN, words])
        both = [name for name in ends if name in before]
        less = sorted(100 * (_mean(ends[name]) - _mean(before[name])) for name in both)
        lines.append([words, len(less), *(f"{x:+.2f}" for x in (less[0], median(less), less[-1]))])
    return markdown("digits | rows | least [points] | median | most", lines)


def _mean(runs: bench.Runs) -> float:
    return mean(run["accuracy"] for run in runs.values())


def ends_of(results: Iterable[research.Result]) -> dict[str, bench.Runs]:
    """The last record of each run, by name and seed."""
    found: dict[str, bench.Runs] = {}
    for r in results:
        if len(r.history):
            found.setdefault(r.experiment.name, {})[r.experiment.seed] = r.history[-1]
    return found


def beside_alone(results: Sequence[research.Result]) -> Iterator[str]:
    """Which methods are below an owner that stays alone, after Holm's correction over them."""
    ends = ends_of(results)
    names = dict.fromkeys(r.experiment.name for r in results if not is_null(r))
    gains = {
        name: bench.differences(ends[name], ends.get(ALONE, {})) for name in names if name in ends
    }
    known = dict(zip(gains, holm([*gains.values()]), strict=True))
    below = [name for name, gain in gains.items() if known[name] and mean(gain) < 0]
    unclear = [name for name, gain in gains.items() if len(gain) > 1 and not known[name]]
    for words, chosen in (("below", below), ("not clearly different from", unclear)):
        if chosen:
            these = f"Methods {words} the mean of the owners alone, paired by seed (Holm, 95 %): "
            yield from ("", these + "; ".join(chosen) + ".")


PAIRS = (
    ("SplitNN, 4 bits all ways", "SplitNN, 4 bits both ways"),
    ("SplitFed, Float8", "SplitNN, Float8"),
    ("loss gate 0.1, Float8", "periodic 4, Float8"),
    ("SplitNN, 4 bits both ways", "RandTopK 10 %"),
    ("3 bits + EF both ways", "delta-coded cache, 2 bits"),
    ("3 bits + EF both ways", "SplitNN, 4 bits all ways"),
    ("3 bits + EF both ways", settings.BASELINE_SPLIT),
    (settings.BASELINE_FEDERATED, settings.BASELINE_SPLIT),
    (ONE_BIT, settings.BASELINE_FEDERATED),
    (f"{ONE_BIT}, trained longer", ONE_BIT),
    (
        "send one for each class and owner: distilled samples, 4 bits per pixel",
        "send one for each class and owner: prototypes, 2 bits per pixel",
    ),
)
"""What the page compares in words."""


def pairs(parts: Parts) -> str:
    """Rows that the page compares, by task: points of accuracy, paired by seed."""
    tasks = {f"{data}, {words}": ends_of(results) for (data, words), results in parts.items()}
    lines = []
    for this, other in PAIRS:
        cells = []
        for ends in tasks.values():
            one, two = (ends.get(name) or ends.get(name + SAME, {}) for name in (this, other))
            cells.append(bench.gain_of(one, two) if one else "")
        if any(cells):
            lines.append([this, other, *cells])
    heads = (f"{task} [points]" for task in tasks)
    return markdown(" | ".join(("this | in place of this", *heads)), lines)


def vepakomma() -> str:
    """The two published tables of SplitNN, by our formulas; see `audit.published_tables`."""
    found = []
    for row in published_tables():
        cells = [row["table"], row["method"], row["num_clients"], f"{row['printed']:g}"]
        cells += [f"{row['ours']:.3g}", f"{100 * row['difference']:+.1f} %"]
        found.append(cells)
    return markdown("table | method | clients | printed | ours | difference", found)


def draw(parts: Parts, path: Path = FIGURE) -> None:
    """A Pareto plot a task, one below the other; the same methods are named in all of them."""
    names = {
        p.name for results in parts.values() for p in research.front(research.points(results))
    } | REFERENCES
    figure = plots.new_figure(width=10, height=4.6 * len(parts))
    axes = figure.subplots(len(parts), squeeze=False)[:, 0]
    for ax, ((data, words), results) in zip(axes, parts.items(), strict=True):
        research_plots.pareto([r for r in results if r.history[-1]["nbytes"]], ax, names=names)
        (alone,) = research.points([r for r in results if r.experiment.name == ALONE]) or (None,)
        if alone and ax.get_ylim()[0] < 100 * alone.value:
            ax.axhline(100 * alone.value, color="#777777", linestyle=":", linewidth=1)
            place, axis = (0.01, 100 * alone.value), ("axes fraction", "data")
            ax.annotate(f"{ALONE}: 0 bytes", place, xycoords=axis, fontsize=8, va="bottom")
        seeds = len({r.experiment.seed for r in results})
        title = f"{data}, 10 clients, {words}, {seeds} seed{'s' * (seeds > 1)}"
        ax.set_title(title, fontsize=10)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
