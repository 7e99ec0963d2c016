"""A row of a table as a value, and how its settings are chosen."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import mean
from typing import Any

from experiments.null_rows import ALONE, REQUIRED
from experiments.runs import Result, digest

CHOICE_SEEDS = (100, 101)  # on the validation part
SEEDS = (10, 11, 12, 13, 14)  # of the tables, on the test part

Options = Mapping[str, float]


@dataclass(frozen=True)
class Setting:
    """One method with its numbers, in one group of rows."""

    group: str
    name: str
    options: Options = field(default_factory=dict)
    choosing: bool = False  # whether the validation part is scored
    seeds: tuple[int, ...] = SEEDS

    def key(self, _task: Any, seed: int) -> str:
        """The same for the same run."""
        what = [self.group, self.name, dict(self.options), self.choosing, seed]
        return digest(what)


@dataclass(frozen=True)
class Group:
    """What is compared in one table.

    Args:
        name: of the group, in results and on the command line.
        title: of its table.
        data: the name of the data, for the column "times the data".
        scores: what a run measures: its name in results (a share), and its heading.
        reference: the row from which differences are taken.
        grids: of each method, its trials.
        fixed: rows without anything to choose, such as the null rows.
        run: one run of a setting with a seed: scores and ``nbytes``.
        null: which of the rows need no method.
        seeds: of the rows of the table.
        second: the row from which more differences are taken.
    """

    name: str
    title: str
    data: str
    scores: Mapping[str, str]
    reference: str
    grids: Mapping[str, Sequence[Options]]
    fixed: Sequence[str]
    run: Callable[[Setting, int], Result]
    null: frozenset[str] = REQUIRED
    seeds: tuple[int, ...] = SEEDS
    second: str = ALONE

    def trials(self) -> Iterator[Setting]:
        """What is run to choose the numbers of each method."""
        for name, grid in self.grids.items():
            if len(grid) > 1:
                for options in grid:
                    yield Setting(self.name, name, options, True, CHOICE_SEEDS)

    def settings(self, results: Mapping[str, Result]) -> list[Setting]:
        """The rows of the table; of each method, the trial whose first score was highest."""
        found = []
        for name, grid in self.grids.items():
            best = grid[0]
            if len(grid) > 1:
                tried = [s for s in self.trials() if s.name == name]
                best = max(tried, key=lambda setting: self.validated(setting, results)).options
            found.append(Setting(self.name, name, best, seeds=self.seeds))
        return found + [Setting(self.name, name, seeds=self.seeds) for name in self.fixed]

    def validated(self, trial: Setting, results: Mapping[str, Result]) -> float:
        """The mean of a trial's first score; KeyError if it has not been run."""
        score = next(iter(self.scores))
        runs = [results[trial.key(None, seed)] for seed in trial.seeds]
        if any("error" in run for run in runs):
            return float("-inf")
        return mean(float(run[score]) for run in runs)

    @property
    def methods(self) -> list[str]:
        """The names of the rows that are no null rows."""
        return [name for name in self.grids if name not in self.null]


def product(**values: Sequence[float]) -> list[Options]:
    """All combinations.

    >>> product(lr=(1, 2), alpha=(3,))
    [{'lr': 1, 'alpha': 3}, {'lr': 2, 'alpha': 3}]
    """
    found: list[dict[str, float]] = [{}]
    for name, some in values.items():
        found = [{**one, name: value} for one in found for value in some]
    return list(found)
