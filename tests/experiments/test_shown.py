"""Each page of results shows what its command prints from the stored runs; a key is one run's.

A new experiment is a line in `PRINTED` and one in `KEYED`.
"""

from collections.abc import Callable, Iterable
from functools import partial
from importlib import import_module
from typing import Any

import pytest

from benchmarks.links import __main__ as links_command
from benchmarks.links import report as links_report
from benchmarks.links import settings as links
from experiments import budget, fresh
from experiments.async_states import __main__ as async_command
from experiments.async_states import report as async_report
from experiments.async_states import settings as async_states
from experiments.fedavg_results import __main__ as fedavg_command
from experiments.fedavg_results import report as fedavg_report
from experiments.fedavg_results import settings as fedavg
from experiments.language import __main__ as language_command
from experiments.language import data_parallel, finetune, inversion, split, tuned
from experiments.language import report as language_report
from experiments.language.command import page_of
from experiments.language.task import Task as LanguageTask
from experiments.leakage import __main__ as leakage_command
from experiments.leakage import report as leakage_report
from experiments.leakage import settings as leakage
from experiments.newer import __main__ as newer_command
from experiments.newer import report as newer_report
from experiments.pareto import report as pareto_report
from experiments.pareto import tuned as pareto_tuned
from experiments.runs import DOCS, Page, read, rows_of
from experiments.secrecy import __main__ as secrecy_command
from experiments.secrecy import report as secrecy_report
from experiments.secrecy import settings as secrecy
from experiments.send_data import report as send_data_report
from experiments.send_data import settings as send_data

MNIST, WORKERS = async_states.Task(), LanguageTask()


def holds(name: str, blocks: Iterable[str]) -> bool:
    """Whether a page without marks holds all of these."""
    text = (DOCS / f"{name}.md").read_text(encoding="utf-8")
    return not [block for block in blocks if block not in text]


def rows_shown(report: Any, task: Any, settings: Iterable[Any], results: Any) -> bool:
    """Whether a report's page shows the table of these settings."""
    return report.PAGE.shows(report.report(rows_of(task, settings, read(results))))


def text(part: str) -> bool:
    results = read(tuned.RESULTS.with_name(f"language_{part}.jsonl"))
    return page_of(part).shows(import_module(f"experiments.language.{part}").report(results))


def study(name: str) -> bool:
    return page_of(f"tuned --study {name}").shows(tuned.report(name, read(tuned.RESULTS)))


def newer() -> bool:
    results = read(newer_command.RESULTS)
    printed = [newer_report.table(group, results) for group in newer_command.GROUPS.values()]
    return holds("newer_methods", [each.split("\n\n", 1)[1] for each in printed])


def one_plot() -> bool:
    page = Page("results", pareto_report.BEGIN, pareto_report.END)
    return page.shows(pareto_report.report(pareto_report.parts_of(pareto_report.read_kept())))


PRINTED: dict[str, Callable[[], bool]] = {
    "async_states": lambda: rows_shown(
        async_report, MNIST, async_states.settings(MNIST), async_command.RESULTS
    ),
    "fedavg_results": lambda: rows_shown(
        fedavg_report, fedavg.Task(), fedavg.settings(), fedavg_command.RESULTS
    ),
    "language": lambda: rows_shown(
        language_report, WORKERS, data_parallel.settings(WORKERS), language_command.RESULTS
    ),
    **{f"language {part}": partial(text, part) for part in ("split", "finetune", "inversion")},
    **{f"language, study {name}": partial(study, name) for name in tuned.STUDIES},
    "leakage": lambda: leakage_command.PAGE.shows(
        leakage_report.report(read(leakage_command.RESULTS))
    ),
    "links": lambda: rows_shown(links_report, None, links.settings(), links_command.RESULTS),
    "newer": newer,
    "pareto": one_plot,
    "pareto, tuned": lambda: pareto_tuned.SHOWN.shows(
        pareto_tuned.report(read(pareto_tuned.RESULTS))
    ),
    "secrecy": lambda: holds(
        "secrecy", secrecy_report.report(read(secrecy_command.RESULTS)).split("\n\n")
    ),
    "send_data": lambda: send_data_report.PAGE.shows(send_data_report.tables()),
    "fresh": lambda: fresh.PAGE.shows(fresh.report()),
    "budget": lambda: budget.PAGE.shows(budget.table()),
}


@pytest.mark.later
@pytest.mark.parametrize("name", PRINTED)
def test_the_page_shows_what_is_printed(name: str) -> None:
    assert PRINTED[name](), "run its command with --write, or put in what it prints with --report"


KEYED: dict[str, list[tuple[Any, Iterable[Any]]]] = {
    "async_states": [(MNIST, async_states.settings(MNIST))],
    "fedavg_results": [(fedavg.Task(), fedavg.settings())],
    "language": [(WORKERS, data_parallel.settings(WORKERS))],
    "language split": [(task, split.settings(task)) for task in split.TASKS.values()],
    "language finetune": [(task, finetune.settings(task)) for task in finetune.TASKS.values()],
    "language inversion": [(task, inversion.settings(task)) for task in inversion.TASKS.values()],
    "leakage": [(task, leakage.settings()) for task in leakage.TASKS.values()],
    "send_data": [(None, send_data.SETTINGS)],
    "links": [(None, links.settings())],
    "secrecy": [(task, secrecy.settings(task)) for task in secrecy.TASKS.values()],
}
IN_TWO_TABLES = {"async_states": 2, "leakage": 1}  # so many settings


@pytest.mark.parametrize("name", KEYED)
def test_each_run_has_a_key_of_its_own(name: str) -> None:
    for task, settings in KEYED[name]:
        keys = [s.key(task, seed) for s in settings for seed in (0, 1)]
        assert len({*keys}) == len(keys) - 2 * IN_TWO_TABLES.get(name, 0)
