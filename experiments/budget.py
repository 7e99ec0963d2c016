"""The tuning budget: with how many trials the settings of each table were chosen, by stored runs.

    python -m experiments.budget            # print the table
    python -m experiments.budget --write    # put it into docs/results.md

A trial is a stored run whose only use was a choice, or one of several learning rates that stand in
a table. A table is marked as unequal if its methods had different numbers of trials. What was tried
and not stored cannot be counted: the table says so.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

from experiments.async_states import settings as silence
from experiments.fedavg_results import settings as averaging
from experiments.language import data_parallel, finetune, split, tuned
from experiments.language import task as language_task
from experiments.newer import __main__ as newer
from experiments.newer.setting import CHOICE_SEEDS
from experiments.pareto import tuned as pareto_tuned
from experiments.pareto.report import is_null, read_kept
from experiments.runs import STORED, Page, read
from experiments.tables import markdown

PAGE = Page("results", "<!-- begin: experiments.budget --write -->", "<!-- end: budget -->")


class Trials(NamedTuple):
    """The trials of the methods of one table."""

    table: str
    counts: Counter[str]  # by method; 0: nothing of it is stored
    chosen_on: str
    more: str = ""  # what else was tried, but not stored


def one_axis() -> Iterator[Trials]:
    """This page: one learning rate for a family of methods, but codecs that were looked at."""
    names = {r.experiment.name.partition(" (")[0] for r in read_kept() if not is_null(r)}
    few = {name for name in names if "few bits" in name or name == "delta-coded cache, 2 bits"}
    chosen = few | {name for name in names if name.startswith("freeze")}
    words = "nothing: one learning rate for a family of methods"
    yield Trials("this page", Counter(dict.fromkeys(names - chosen, 1)), words)
    words = (
        "test images: few bits as in [silence](async_states.md); budgets, periods and the codec of "
        "the bottom by data set"
    )
    yield Trials("this page", Counter(dict.fromkeys(chosen, 0)), words)


def one_axis_tuned() -> Iterator[Trials]:
    """This page's second tables: as many learning rates for every method."""
    stored = read(pareto_tuned.RESULTS)
    for data, plan in pareto_tuned.PLANS.items():
        counts: Counter[str] = Counter()
        for name, mine in pareto_tuned.methods(data).items():
            scores = pareto_tuned.validated(data, mine, stored)
            counts[name] = len(scores) * len(plan.trial_seeds)
        seeds = pareto_tuned.listed(plan.trial_seeds)
        words = f"a fifth of the training images, seed{'s' * (len(plan.trial_seeds) > 1)} {seeds}"
        page = f"[this page, {data}, tuned](#a-learning-rate-for-each-method)"
        yield Trials(page, +counts, words)


def silent() -> Iterator[Trials]:
    """Silence and byte budgets: thresholds, periods, budgets and bits, tried and not stored."""
    task = silence.Task()
    names = {s.name for s in silence.settings(task) if s.codecs}
    words = "test images, some of the seeds 0 to 4; few bits are measured on 5 to 9"
    yield Trials("[silence](async_states.md)", Counter(dict.fromkeys(names, 0)), words)


def averaged() -> Iterator[Trials]:
    """100 clients: learning rates of float32, and which few bits; the others stand as they are."""
    tried = [r for r in read(STORED / "fedavg.jsonl").values() if r["seed"] == averaging.CHOSEN_ON]
    counts = Counter(
        "few bits up and down" if run["codecs"] else "FedAvg, float32" for run in tried
    )
    confirmed = {averaging.FLOAT32, "{} up, {} down".format(*averaging.WINNER)}
    counts |= Counter({s.name: 1 for s in averaging.iid() if s.name not in confirmed})
    yield Trials("[100 clients](fedavg_results.md)", counts, "test images, seed 10")


def four_workers() -> Iterator[Trials]:
    """The small language model: learning rates that stand in its table."""
    task, stored = language_task.Task(), read(STORED / "language.jsonl")
    rates: dict[str, set[float]] = {}
    for setting in data_parallel.settings(task):
        if any(setting.key(task, seed) in stored for seed in setting.seeds):
            same = replace(setting, lr=1.0).key(task, 0)
            rates.setdefault(same, set()).add(setting.rate)
    names = {
        replace(s, lr=1.0).key(task, 0): s.name for s in reversed(data_parallel.settings(task))
    }
    counts = Counter({names[same]: len(each) for same, each in rates.items()})
    page, words = "[language models](language_results.md)", "held-out tenth, seeds 0, 1"
    yield Trials(page, counts, words, "; those on the seeds 0 and 1 are not stored")


def cut_text() -> Iterator[Trials]:
    """A transformer in two parts: what was tried on one seed."""
    stored = read(STORED / "language_split.jsonl").values()
    yield Trials(
        "a transformer in two parts: scratch and tune, by trials with twice the text of scratch",
        Counter(run["name"] for run in stored if run["seed"] == split.CHOOSING),
        "held-out windows, seed 100",
        "; the learning rates' are not stored",
    )


def fair_text() -> Iterator[Trials]:
    """Language models whose methods have equally many learning rates each."""
    stored = read(tuned.RESULTS)
    for study in tuned.STUDIES.values():
        counts = Counter(
            setting.name
            for setting in tuned.trials(study)
            if setting.key(tuned.trial_task(study), tuned.TRIAL_SEED) in stored
        )
        words = f"first half of the tenth, seed {tuned.TRIAL_SEED}"
        yield Trials(f"language models: {study.title}", counts, words)


def tuned_text() -> Iterator[Trials]:
    """Fine-tuning: rates of each kind of parameters, in float32."""
    stored = read(STORED / "language_finetune.jsonl").values()
    tried = (run["name"].split()[0] for run in stored if run["part"] == finetune.CHOICE)
    yield Trials("fine-tuning, upper", Counter(tried), "held-out tenth, seed 100")


def newer_methods() -> Iterator[Trials]:
    """Each group of the page on newer methods."""
    stored = read(newer.RESULTS)
    for group in newer.GROUPS.values():
        counts = Counter(
            trial.name for trial in group.trials() if trial.key(None, CHOICE_SEEDS[0]) in stored
        )
        words = "a fifth of the training images, seeds 100, 101"
        table = f"[newer methods](newer_methods.md), {group.title.partition(':')[0]}"
        yield Trials(table, counts, words)


def pictures() -> Iterator[Trials]:
    """CIFAR-10 in send_the_data.md."""
    names = {result["name"] for result in read(STORED / "send_data.jsonl").values()}
    yield Trials("[CIFAR-10](send_the_data.md)", Counter(dict.fromkeys(names, 0)), "not recorded")


PARTS: list[Callable[[], Iterator[Trials]]] = [
    *(one_axis, one_axis_tuned, silent, averaged, four_workers, fair_text),
    *(cut_text, tuned_text, newer_methods, pictures),
]


def table() -> str:
    """All of them as Markdown; methods with equally many trials share a row."""
    found = []
    for trials in (each for part in PARTS for each in part() if each.counts):
        numbers = sorted(set(trials.counts.values()), reverse=True)
        for number in numbers:
            names = sorted(name for name, n in trials.counts.items() if n == number)
            many = len(names) > 4
            words = f"{len(names)} {'others' if len(numbers) > 1 else 'methods'}" if many else ""
            equal = "yes" if len(numbers) == 1 else "**no**"
            equal = equal if number else "not known"
            count = f"{number}{trials.more}" if number else "not stored"
            found.append([trials.table, words or "; ".join(names), count, trials.chosen_on, equal])
    return markdown("table | methods | stored trials each | chosen on | equal?", found)


if __name__ == "__main__":
    PAGE.command(table, __doc__)
