"""The tuning budget: with how many trials the settings of each table were chosen, by stored runs.

    python -m experiments.budget            # print the table
    python -m experiments.budget --write    # put it into docs/results.md

A trial is a stored run whose only use was a choice, or one of several learning rates that stand in
a table. A table is marked as unequal if its methods had different numbers of trials.
"""

import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from experiments.fedavg_results import settings as averaging
from experiments.language import data_parallel, finetune, large
from experiments.language import task as language_task
from experiments.pareto.report import is_null, read_kept
from experiments.runs import put_between, read

RESULTS = Path(__file__).parent / "results"
PAGE = Path(__file__).parents[1] / "docs" / "results.md"
BEGIN = "<!-- begin: printed by experiments.budget --write -->"
END = "<!-- end: budget -->"


class Trials(NamedTuple):
    """The trials of the methods of one table."""

    table: str
    counts: Counter[str]  # by method
    chosen_on: str


def one_axis() -> Iterator[Trials]:
    """This page: a setting for each method, written down before the sweep."""
    names = {r.experiment.name.partition(" (")[0] for r in read_kept() if not is_null(r)}
    words = "nothing: one learning rate for a family of methods"
    yield Trials("this page", Counter(dict.fromkeys(names, 1)), words)


def averaged() -> Iterator[Trials]:
    """100 clients: learning rates of float32, and which few bits."""
    task, stored = averaging.Task(), read(RESULTS / "fedavg.jsonl")
    counts: Counter[str] = Counter()
    for setting in averaging.settings():
        if setting.seeds == averaging.CHOSEN_ON and setting.key(task, 10) in stored:
            counts["few bits up and down" if setting.codecs else "FedAvg, float32"] += 1
    yield Trials("[100 clients](fedavg_results.md)", counts, "test images, seed 10")


def four_workers() -> Iterator[Trials]:
    """The small language model: learning rates that stand in its table."""
    task, stored = language_task.Task(), read(RESULTS / "language.jsonl")
    rates: dict[str, set[float]] = {}
    for setting in data_parallel.settings(task):
        if any(setting.key(task, seed) in stored for seed in setting.seeds):
            same = replace(setting, lr=1.0).key(task, 0)
            rates.setdefault(same, set()).add(setting.rate)
    names = {
        replace(s, lr=1.0).key(task, 0): s.name for s in reversed(data_parallel.settings(task))
    }
    counts = Counter({names[same]: len(each) for same, each in rates.items()})
    yield Trials("[language models](language_results.md)", counts, "held-out tenth, seeds 0, 1")


def ten_million() -> Iterator[Trials]:
    """The larger language model: three rates for each method."""
    stored = read(RESULTS / "language_large.jsonl")
    for title, task in large.TASKS.items():
        counts = Counter(
            setting.name
            for setting in large.trials(task)
            if setting.key(large.shorter(task), large.CHOOSING_SEED) in stored
        )
        yield Trials(f"ten million parameters, {title}", counts, "first half of the tenth, seed 9")


def tuned_text() -> Iterator[Trials]:
    """Fine-tuning: rates of each kind of parameters, in float32."""
    stored = read(RESULTS / "language_finetune.jsonl")
    for title, task in finetune.TASKS.items():
        counts = Counter(
            setting.kind
            for setting in finetune.candidates(task)
            if setting.key(task, setting.seeds[0]) in stored
        )
        yield Trials(f"fine-tuning, {title}", counts, "held-out tenth, seed 100")


def table() -> str:
    """All of them as Markdown; methods with equally many trials share a row."""
    lines = [
        "| table | methods | stored trials each | chosen on | equal? |",
        "|---|---|---|---|---|",
    ]
    parts = (one_axis, averaged, four_workers, ten_million, tuned_text)
    for trials in (each for part in parts for each in part() if each.counts):
        numbers = sorted(set(trials.counts.values()), reverse=True)
        for number in numbers:
            names = sorted(name for name, n in trials.counts.items() if n == number)
            many = len(names) > 4
            words = f"{len(names)} {'others' if len(numbers) > 1 else 'methods'}" if many else ""
            equal = "yes" if len(numbers) == 1 else "**no**"
            cells = [trials.table, words or "; ".join(names), str(number), trials.chosen_on, equal]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    if "--write" in sys.argv[1:]:
        page = put_between(PAGE.read_text(encoding="utf-8"), BEGIN, END, table())
        PAGE.write_text(page, encoding="utf-8")
    else:
        print(table())
