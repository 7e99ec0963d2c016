"""Does `fltoolkit decide` answer the same on other draws? On the tables that scikit-learn ships.

    python -m experiments.decide_sets           # ten draws of each table, three minutes
    python -m experiments.decide_sets --write   # the same into docs/decide.md
    python -m experiments.decide_sets --columns --write    # one table of columns, two minutes

The usual five draws (seeds 0 to 4) against five others (5 to 9): the answer, the way with the best
mean of those that keep the data at home, and the largest difference in bytes.
"""

import argparse
from collections.abc import Iterable, Iterator
from functools import partial

import numpy as np
import torch
from sklearn import datasets
from sklearn.utils import Bunch

from experiments.runs import Page, share_ci
from experiments.tables import markdown
from fltoolkit.data.datasets import WRITERS_END
from fltoolkit_research import decide as deciding
from fltoolkit_research.decide_table import Table

USUAL, OTHERS = range(5), range(5, 10)
THIRDS = {"mean": [*range(10)], "error": [*range(10, 20)], "worst": [*range(20, 30)]}
COLUMNS = Page(
    "decide", "<!-- begin: printed by decide_sets --columns -->", "<!-- end: columns -->"
)
PAGE = Page("decide", "<!-- begin: printed by experiments.decide_sets -->", "<!-- end: sets -->")


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
    return [name, one.answer, two.answer, same, best(one), best(two), f"{max(differs):.1%}"]


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


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true", help="put the table into the page")
    parser.add_argument("--columns", action="store_true", help="the table of columns")
    rows = []
    args = parser.parse_args()
    if args.columns:
        COLUMNS.tell(columns(), args)
        return
    for name, table in tables():
        rows.append(row(name, table))
        print(rows[-1], flush=True)
    head = (
        "table | five draws | five others | same | best of five | best of others | bytes differ by"
    )
    PAGE.tell(markdown(head, rows), args)


if __name__ == "__main__":
    main()
