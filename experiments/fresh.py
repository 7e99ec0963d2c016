"""Rows that this project names, measured again on seeds that were drawn after they were named.

    python -m experiments.fresh --data digits    # draws seeds for new names, runs what is missing
    python -m experiments.fresh --data mnist --only "one sum"
    python -m experiments.fresh --write          # the table into docs/results.md; --report: here

A row that was named because it was good on some seeds was also lucky on them. Named are the rows of
README, the front of each table, its best method and its best one sum. Their seeds are drawn once,
by the operating system, and stored with the date and the names; names that have seeds keep them.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date
from functools import partial
from math import hypot, sqrt
from pathlib import Path
from statistics import mean, variance

from experiments import runs as bench
from experiments.null_rows import ALONE, ONE_BIT, ONE_SUM, megabytes
from experiments.pareto.report import SAME, ends_of, is_null, parts_of, read_kept
from experiments.pareto.settings import BASELINE_FEDERATED, TASKS, by_name
from experiments.strangers import Setting, measured
from experiments.tables import markdown
from fltoolkit.metrics import t_quantile
from fltoolkit_research import Experiment, front, points
from fltoolkit_research.intervals import interval

RESULTS, DRAWN = bench.STORED / "fresh.jsonl", bench.STORED / "fresh_seeds.jsonl"
PAGE = bench.Page("results", "<!-- begin: experiments.fresh --write -->", "<!-- end: fresh -->")
NUM_SEEDS, README_TABLE = 5, ("mnist", "IID")
README_ROWS = {
    ALONE: "each owner alone, nothing is sent",
    ONE_BIT: "[send the data](docs/send_the_data.md), in 1 bit per pixel",
    "one sum, 504 features, 8 bits": "[one sum](docs/one_sum.md), 504 features, 8 bits",
    "one sum, 504 features, 12 bits, under a secure sum": "the same under a secure sum, 12 bits",
    "one sum, 1,026 features, 8 bits": "one sum, 1,026 features, 8 bits",
    "3 bits + EF both ways": "[averaging](docs/fedavg_results.md), 3 bits in both directions",
    "FedAvg, float32": "averaging, float32",
    "delta-coded cache, 2 bits": "[split](docs/async_states.md), 2 bits at the cut",
    "SplitNN, float32": "split, float32",
}
"""Rows of `README_TABLE`, and what they are called in README."""


def named() -> Iterator[tuple[str, str, list[str]]]:
    """The data and part of each table, and its named rows; not those that are another table's."""
    for (data, part), results in parts_of(read_kept()).items():
        found, null = points(results), {r.experiment.name for r in results if is_null(r)}
        names = [*README_ROWS] * ((data, part) == README_TABLE) + [p.name for p in front(found)]
        methods = [p for p in found if p.name not in null]
        sums = [p for p in found if p.name.startswith(ONE_SUM)]
        best = (max(mine, key=lambda p: mean(p.values.values())) for mine in (methods, sums))
        names += [p.name for p in best]
        yield data, part, [name for name in dict.fromkeys(names) if not name.endswith(SAME)]


def draw(path: Path = DRAWN) -> None:
    """Draw five seeds for the names of each table that have none: one line for each table."""
    rows = bench.read(path).values()
    old = {(row["data"], row["part"], name) for row in rows for name in row["names"]}
    for data, part, names in named():
        if new := [name for name in names if (data, part, name) not in old]:
            what = {"key": f"draw {len(bench.read(path)) + 1}", "date": date.today().isoformat()}
            what |= {"data": data, "part": part, "names": new}
            seeds = random.SystemRandom().sample(range(1_000, 1_000_000), NUM_SEEDS)
            bench.add(path, {**what, "seeds": seeds})


def seeded(data: str, part: str, name: str, seed: int) -> Experiment:
    """A row's experiment with a seed."""
    return replace(by_name(data, part)[name], seed=seed, data=TASKS[data].source(seed))


def settings() -> Iterator[Setting]:
    """All named rows and their fresh seeds."""
    for row in bench.read(DRAWN).values():
        for name in row["names"]:
            about = {"data": row["data"], "part": row["part"], "name": name}
            yield Setting(about, partial(seeded, *about.values()), tuple(row["seeds"]))


def again(data: str, part: str) -> dict[str, bench.Runs]:
    """The runs of a table's named rows, by name and seed, where all seeds were run."""
    found: dict[str, bench.Runs] = {}
    for run in bench.read(RESULTS).values():
        if (run["data"], run["part"]) == (data, part):
            found.setdefault(run["name"], {})[run["seed"]] = run
    return {name: runs for name, runs in found.items() if len(runs) == NUM_SEEDS}


def apart(old: Sequence[float], fresh: Sequence[float]) -> str:
    """The difference of the means of as many values, with its 95 % interval: two-sample t.

    >>> apart([1.0, 2.0, 3.0], [2.0, 3.0, 4.0])
    '+1.00 [-1.27, +3.27]'
    """
    gain, num = mean(fresh) - mean(old), len(old)
    half = t_quantile(2 * num - 1) * sqrt((variance(old) + variance(fresh)) / num)
    return f"{gain:+.2f} [{gain - half:+.2f}, {gain + half:+.2f}]"


def over_images(runs: bench.Runs, reference: bench.Runs, num_images: int) -> str:
    """A difference that is paired by seed, if its interval is to cover another draw of images, too.

    Of one image it is -1, 0 or 1, and 0 where neither row errs: an upper bound of its variance.

    >>> better, worse = ({seed: {"accuracy": a} for seed in (1, 2)} for a in (0.9, 0.8))
    >>> over_images(better, worse, 29)
    '+10.00 [-9.60, +29.60]'
    """
    gain = interval(bench.differences(runs, reference))
    errors = sum(1 - mean(r["accuracy"] for r in each.values()) for each in (runs, reference))
    drawn = 196 * sqrt((errors - (gain.mean / 100) ** 2) / num_images)
    half = hypot(gain.high - gain.mean, drawn)
    return f"{gain.mean:+.2f} [{gain.mean - half:+.2f}, {gain.mean + half:+.2f}]"


def report() -> str:
    """A line for each named row that was measured again; the seeds; and what was not measured."""
    parts, lines, told = parts_of(read_kept()), [], []
    for drawn in bench.read(DRAWN).values():
        key = drawn["data"], drawn["part"]
        ends, found, words = ends_of(parts[key]), again(*key), ", ".join(key)
        for name in drawn["names"]:
            if name in found:
                was, now = ([100 * r["accuracy"] for r in e[name].values()] for e in (ends, found))
                within = interval(was).low <= mean(now) <= interval(was).high
                sent = (megabytes(bench.mean_nbytes(each[name])) for each in (ends, found))
                cells = [words, name, bench.share_ci(was), bench.share_ci(now)]
                cells += ["yes" if within else "no", apart(was, now)]
                reference = found.get(BASELINE_FEDERATED, {})
                both = [bench.gain_of(found[name], reference), ""]
                if drawn["data"] == "mnist" and name != BASELINE_FEDERATED:
                    both[1] = over_images(found[name], reference, 10_000)
                lines.append([*cells, *both, " / ".join(sent)])
        words += f": seeds {', '.join(map(str, drawn['seeds']))}, drawn on {drawn['date']}"
        left = "; ".join(name for name in drawn["names"] if name not in found)
        told.append(words + "; not measured yet: " * bool(left) + left + ".")
    table = markdown(
        "table | row | its seeds [%] | fresh seeds [%] | fresh mean in the row's interval "
        "| fresh minus its own [points] | minus FedAvg, both fresh [points] "
        "| the same over other images, too | MB, its own / fresh",
        lines,
    )
    num = sum("yes" in line for line in lines)
    told.insert(0, f"{num} of {len(lines)} fresh means are inside the interval of their row.")
    return "\n\n".join([table, *told])


def main() -> None:
    """The command line."""
    parser = bench.options(__doc__ or "", RESULTS)
    parser.add_argument("--data", choices=TASKS, default="digits")
    args = parser.parse_args()
    if args.report or args.write:
        PAGE.tell(report(), args)
        return
    draw()
    mine = [s for s in settings() if s.about["data"] == args.data]
    bench.sweep(measured, bench.jobs_of(None, bench.chosen(mine, args)), args.out)


if __name__ == "__main__":
    main()
