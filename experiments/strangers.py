"""The digits of people whom nobody trained on: what the rows of the main table are worth there.

    python -m experiments.strangers              # 160 runs, about ten minutes in one process
    python -m experiments.strangers --report     # the table, from the stored results
    python -m experiments.strangers --write      # the same into docs/one_sum.md

Each draw takes three of the 14 writers away. A row is trained on the other eleven and tested on the
three (strangers); and it is trained and tested on as many images drawn from all 14 (acquaintances).
The draw is the seed of the run, so the two are paired by draw.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from statistics import mean
from time import perf_counter
from typing import Any

import numpy as np
import torch

from experiments import runs as bench
from experiments.null_rows import ALONE, SEND, megabytes, times
from experiments.pareto.settings import SOLVED, by_name
from experiments.tables import markdown
from fltoolkit.data.datasets import DIGITS, WRITERS_END, Samples, load, standardize
from fltoolkit.data.partitions import generator
from fltoolkit_research import Experiment, run

RESULTS = bench.STORED / "strangers.jsonl"
PAGE = bench.Page(
    "one_sum", "<!-- begin: printed by experiments.strangers -->", "<!-- end: strangers -->"
)
DRAWS = tuple(range(10))
ROWS = (
    *("one sum, 252 features, 8 bits", "one sum, 252 features, 10 bits, under a secure sum"),
    f"{SEND}, 2 bits per pixel, 1,800 {SOLVED}",
    *(SEND, ALONE, "FedAvg, float32", "STC 1 % both ways", "SplitNN, 4 bits all ways"),
)


def acquaintances(draw: int) -> Samples:
    """As many test images as in the test on strangers of the same draw, but from all people."""
    with np.load(DIGITS) as file:  # writer by writer
        pixels, y = file["pixels"], torch.from_numpy(file["labels"].astype(np.int64))
    x = standardize(pixels.reshape(-1, 1, 8, 8) / np.float32(16), "digits")
    random, writers = generator(draw), np.searchsorted(WRITERS_END, np.arange(len(y)), side="right")
    strangers = random.choice(len(WRITERS_END), 3, replace=False)  # as `load` draws them
    test = torch.from_numpy(np.isin(writers, strangers)[random.permutation(len(y))])
    return Samples(x[~test], y[~test], x[test], y[test], 10, "digits")


@dataclass(frozen=True)
class Setting:
    """A row of the main tables on other seeds; a line of the file holds all of ``about`` it."""

    about: Mapping[str, Any]
    of: Callable[[int], Experiment]
    seeds: tuple[int, ...] = DRAWS

    @property
    def name(self) -> str:
        """As in the main table."""
        return str(self.about["name"])

    def key(self, task: None, seed: int) -> str:
        """Of a result."""
        return self.of(seed).key


def drawn(name: str, unseen: bool, draw: int) -> Experiment:
    """The experiment of one draw of writers."""
    data = partial(load, "digits", strangers=draw) if unseen else partial(acquaintances, draw)
    return replace(by_name("digits", "IID")[name], data=data, seed=draw)


def settings() -> Iterator[Setting]:
    """Both tests of each row."""
    for name in ROWS:
        for unseen in (True, False):
            yield Setting({"name": name, "unseen": unseen}, partial(drawn, name, unseen))


def measured(task: None, setting: Setting, seed: int) -> bench.Result:
    """One run, as a line of the file."""
    began, last = perf_counter(), run(setting.of(seed))[-1]
    what = {**setting.about, "seed": seed} | {name: last[name] for name in ("accuracy", "nbytes")}
    return {"key": setting.key(task, seed), **what, "seconds": round(perf_counter() - began, 1)}


def table(rows: Iterable[tuple[Setting, bench.Runs]]) -> str:
    """A row for each method, the best on strangers first."""
    both: dict[str, dict[bool, bench.Runs]] = {}
    for setting, runs in rows:
        both.setdefault(setting.name, {})[setting.about["unseen"]] = runs
    ranked = sorted(both, key=lambda name: -mean(r["accuracy"] for r in both[name][True].values()))
    first, lines = both.get(ROWS[0], {}).get(True, {}), []
    for name in ranked:
        tests, sent = both[name], bench.mean_nbytes(both[name][True])
        behind = "" if name == ROWS[0] or not first else bench.gain_of(tests[True], first)
        less = bench.gain_of(tests[True], tests[False])
        words = (bench.accuracies(tests[True]), behind, bench.accuracies(tests[False]), less)
        lines.append([name, *words, megabytes(sent, 2), times(sent, "digits")])
    return markdown(
        "row | strangers [%] | minus the first row of one sum [points] | acquaintances [%] | "
        "strangers minus acquaintances [points] | MB sent | times the data",
        lines,
    )


if __name__ == "__main__":
    bench.command(__doc__, RESULTS, PAGE, settings(), measured, table)
