"""What all experiments share: a sweep whose finished runs are rows of a file, and words for tables.

A run that is in the file is not run again; Ctrl-C loses only the runs in progress.
"""

import argparse
import hashlib
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

import torch

from fltoolkit_research.intervals import interval, mean_ci, paired
from fltoolkit_research.store import add_row as add
from fltoolkit_research.store import read_rows as read
from fltoolkit_research.sweeps import finished

STORED = Path(__file__).parent / "results"
DOCS = Path(__file__).parents[1] / "docs"
Result = dict[str, Any]
Runs = dict[int, Result]  # by seed
Row = tuple[Any, Runs]  # a setting and its runs
Job = tuple[Any, Any, int]  # task, setting with `key`, seed


def digest(what: Any) -> str:
    """The key of a run: the same for the same ``what``, which JSON can write."""
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:16]


def options(doc: str, out: Path) -> argparse.ArgumentParser:
    """The options of all experiments; the first line of ``doc`` says what a command does."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--only", default="", help="settings whose table or name holds this")
    parser.add_argument("--out", type=Path, default=out, help="the file of results")
    parser.add_argument("--report", action="store_true", help="print the tables, run nothing")
    parser.add_argument("--write", action="store_true", help="put the tables into the page")
    return parser


def seeds_and_workers(parser: argparse.ArgumentParser) -> None:
    """Two options more, of experiments that train."""
    parser.add_argument("--seeds", type=int, nargs="+", help="instead of each setting's own")
    parser.add_argument("--workers", type=int, default=1, help="processes, one torch thread each")


def chosen(settings: Iterable[Any], args: argparse.Namespace) -> list[Any]:
    """The settings that ``--only`` names, with the seeds of ``--seeds`` if there are any."""
    found = [s for s in settings if args.only in f"{getattr(s, 'part', '')}: {s.name}"]
    seeds = getattr(args, "seeds", None)
    return found if seeds is None else [replace(s, seeds=tuple(seeds)) for s in found]


def jobs_of(task: Any, settings: Iterable[Any]) -> list[Job]:
    """A job for each seed of each setting; all settings on one seed, then on the next."""
    turns = [(turn, s, seed) for s in settings for turn, seed in enumerate(s.seeds)]
    return [(task, setting, seed) for _, setting, seed in sorted(turns, key=lambda t: t[0])]


@contextmanager
def stoppable() -> Iterator[None]:
    """Ctrl-C ends the command in a line."""
    try:
        yield
    except KeyboardInterrupt:
        sys.exit("stopped: what is finished is kept, run again to go on")


def score(result: Result) -> str:
    """Accuracy and bytes in one line."""
    return f"{100 * result['accuracy']:6.2f} % {result['nbytes'] / 1e6:9.2f} MB"


@stoppable()
def sweep(
    run: Callable[[Any, Any, int], Result],
    jobs: Iterable[Job],
    path: Path,
    *,
    workers: int = 1,
    summary: Callable[[Result], str] = score,
) -> None:
    """``run`` what is not in the file yet, and add a line for each run as soon as it is finished.

    Args:
        run: called with the task, the setting and the seed of a job; gives a result.
        jobs: what there is to run.
        path: of the file.
        workers: processes, one torch thread each; with several ``run`` must be picklable.
        summary: a result in one line.
    """
    there = read(path)
    todo = {setting.key(task, seed): (task, setting, seed) for task, setting, seed in jobs}
    todo = {key: job for key, job in todo.items() if key not in there}
    print(f"{len(todo)} runs to do, {len(there)} in {path}", flush=True)
    done = finished(partial(_one, run), todo.values(), workers=workers)
    for number, (_, future) in enumerate(done, 1):
        add(path, result := future.result())
        name = todo[result["key"]][1].name
        print(
            f"{number:4d}/{len(todo)} {name:32s} seed {result['seed']:2d} "
            f"{summary(result)} {result['seconds']:6.1f} s",
            flush=True,
        )


@stoppable()
def fill(todo: Mapping[str, Callable[[], Result]], path: Path) -> None:
    """Like `sweep`, of results that are no runs of a setting: each under its key."""
    there = read(path)
    for key, run in todo.items():
        if key not in there:
            add(path, result := {"key": key, **run()})
            print(result, flush=True)


def _one(run: Callable[[Any, Any, int], Result], job: Job) -> Result:
    torch.set_num_threads(1)
    return run(*job)


def rows_of(task: Any, settings: Sequence[Any], results: Mapping[str, Result]) -> list[Row]:
    """Each setting with the runs of its seeds, if there are any."""
    rows = []
    for setting in settings:
        keys = {seed: setting.key(task, seed) for seed in setting.seeds}
        runs = {seed: results[key] for seed, key in keys.items() if key in results}
        if runs:
            rows.append((setting, runs))
    return rows


def put_between(page: str, begin: str, end: str, inside: str) -> str:
    """The text of a page with something new between its two marks.

    >>> put_between("<a>old<b> rest", "<a>", "<b>", "new").split()
    ['<a>', 'new', '<b>', 'rest']
    """
    for mark in (begin, end):
        if page.count(mark) != 1:
            raise ValueError(f"the page must hold the line {mark!r} once: tables go between two")
    before, rest = page.split(begin)
    return f"{before}{begin}\n\n{inside}\n\n{end}{rest.split(end)[1]}"


def write_between(page: Path, begin: str, end: str, inside: str) -> None:
    """Put something new between the two marks of a page in a file."""
    text = put_between(page.read_text(encoding="utf-8"), begin, end, inside)
    page.write_text(text, encoding="utf-8")


class Page(NamedTuple):
    """A page of docs/, and the two marks between which it holds what a command prints."""

    name: str
    begin: str
    end: str

    @property
    def path(self) -> Path:
        """Of the file."""
        return DOCS / f"{self.name}.md"

    def tell(self, printed: str, args: argparse.Namespace) -> None:
        """Print what a report says, or with ``--write`` put it into the page."""
        if args.write:
            write_between(self.path, self.begin, self.end, printed)
        else:
            print(printed)

    def command(self, table: Callable[[], str], about: str | None) -> None:
        """The command line of an experiment that computes one table."""
        parser = argparse.ArgumentParser(description=(about or "").splitlines()[0])
        parser.add_argument("--write", action="store_true", help="put the table into the page")
        self.tell(table(), parser.parse_args())

    def shows(self, printed: str) -> bool:
        """Whether `write_between` would change nothing."""
        text = self.path.read_text(encoding="utf-8")
        return put_between(text, self.begin, self.end, printed) == text


def command(
    doc: str | None,
    out: Path,
    page: Page,
    settings: Iterable[Any],
    run: Callable[[Any, Any, int], Result],
    report: Callable[[list[Row]], str],
    task: Any = None,
) -> None:
    """The command line of an experiment: run what is missing, or print or write its tables."""
    parser = options(doc or "", out)
    seeds_and_workers(parser)
    args = parser.parse_args()
    mine = chosen(settings, args)
    if args.report or args.write:
        page.tell(report(rows_of(task, mine, read(args.out))), args)
    else:
        sweep(run, jobs_of(task, mine), args.out, workers=args.workers)


def converged(rows: Iterable[Row]) -> list[Row]:
    """The rows without the runs that diverged, and without rows of no other runs."""
    kept = [(s, {k: run for k, run in runs.items() if "diverged" not in run}) for s, runs in rows]
    return [(setting, runs) for setting, runs in kept if runs]


def accuracies(runs: Runs) -> str:
    """In percent: their mean, and its interval as `share_ci` has it."""
    return share_ci([100 * result["accuracy"] for result in runs.values()])


def share_ci(
    values: Sequence[float], form: str = ".2f", *, least: float = 0.0, most: float = 100.0
) -> str:
    """Mean and 95 % interval of shares. Its ends are cut to what is possible: 0 to 100 %.

    >>> share_ci([99.0, 99.5, 100.0]), share_ci([0.5, 1.0], ".1f", most=1.0), share_ci([99.0])
    ('99.50 [98.26, 100.00]', '0.8 [0.0, 1.0]', '99.00')
    """
    if len(values) < 2:
        return mean_ci(values, form)
    found = interval(values)
    return f"{found.mean:{form}} [{max(found.low, least):{form}}, {min(found.high, most):{form}}]"


def differences(
    runs: Runs, reference: Runs, key: str = "accuracy", scale: float = 100.0
) -> list[float]:
    """Points of accuracy above the reference, seed by seed; or of another value."""
    one, other = ({s: scale * r[key] for s, r in each.items()} for each in (runs, reference))
    return paired(one, other)


def gain_of(
    runs: Runs, reference: Runs, form: str = "+.2f", key: str = "accuracy", scale: float = 100.0
) -> str:
    """The mean of `differences` and its 95 % interval, in words; empty without a reference.

    How many seeds are in common is said where it is not all of them.

    >>> gain_of({1: {"accuracy": 0.9}}, {2: {"accuracy": 0.8}})
    'no seed in common'
    >>> gain_of({1: {"accuracy": 0.75}, 2: {"accuracy": 1.0}}, {1: {"accuracy": 0.5}})
    '+25.00 (1 seed in common)'
    """
    if not reference:
        return ""
    return gain_words(differences(runs, reference, key, scale), len(runs), form)


def gain_words(found: Sequence[float], num_seeds: int, form: str = "+.2f") -> str:
    """Differences that are paired by seed, in words; ``num_seeds``: how many the row has.

    >>> gain_words([], 3), gain_words([1.0], 1), gain_words([], 0)
    ('no seed in common', '+1.00', '')
    """
    if not found:
        return "no seed in common" * bool(num_seeds)
    some = f" ({len(found)} seed{'s' * (len(found) > 1)} in common)"
    return mean_ci(found, form) + some * (len(found) < num_seeds)


def nats_above(runs: Runs, reference: Runs) -> list[float]:
    """Nats above the reference, seed by seed."""
    return differences(runs, reference, "nats", 1.0)


def factor_of(runs: Runs, reference: Runs) -> float:
    """How many times fewer bytes than the reference; 0 without one."""
    return mean_nbytes(reference) / mean_nbytes(runs) if reference else 0.0


def mean_nbytes(runs: Runs) -> float:
    """Of all seeds."""
    return mean(result["nbytes"] for result in runs.values())
