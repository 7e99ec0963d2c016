"""Runs of the other experiments that are in the repository, found again by their keys.

A claim that names one of their settings is measured without training it again. What is not stored
is run, and not added there.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from experiments.fedavg_results import run as fedavg_run
from experiments.fedavg_results import settings as fedavg_settings
from experiments.language import data_parallel
from experiments.language import split as language_split
from experiments.language.task import Task as LanguageTask
from experiments.leakage import run as leakage_run
from experiments.leakage import settings as leakage_settings
from experiments.newer.setting import Group
from experiments.pareto import settings as pareto_settings
from experiments.pareto.report import read_kept
from experiments.runs import Result, read
from fltoolkit import History
from fltoolkit_research import Experiment

RESULTS = Path(__file__).parents[1] / "results"


def method(name: str, data: str = "digits", partition: str = "iid") -> Experiment:
    """The method of docs/results.md with this name; seed 0."""
    found = pareto_settings.methods(pareto_settings.TASKS[data], partition)
    return next(each for each in found if each.name == name)


@lru_cache(maxsize=1)
def _histories() -> dict[str, History]:
    return {result.experiment.key: result.history for result in read_kept()}


def history(experiment: Experiment) -> History | None:
    """The stored run of this experiment, or None; all but its last record hold the curve only."""
    return _histories().get(experiment.key)


@lru_cache(maxsize=8)
def kept(name: str) -> dict[str, Result]:
    """Finished runs of another experiment by key: "async_states", "fedavg", "leakage", ..."""
    return read(RESULTS / f"{name}.jsonl")


def fedavg(part: str, name: str, seed: int) -> Result:
    """A run of docs/fedavg_results.md: stored, or run now."""
    found = (s for s in fedavg_settings.settings() if (s.part, s.name) == (part, name))
    setting, task = next(found), fedavg_settings.Task()
    stored = kept("fedavg").get(setting.key(task, seed))
    return stored or fedavg_run.run(task, setting, seed)


def leakage(data: str, part: str, name: str, seed: int) -> Result:
    """A run of docs/leakage.md: stored, or run now."""
    found = (s for s in leakage_settings.settings() if (s.part, s.name) == (part, name))
    setting, task = next(found), leakage_settings.TASKS[data]
    stored = kept("leakage").get(setting.key(task, seed))
    return stored or leakage_run.run(task, setting, seed)


def newer(group: Group, name: str, seed: int, quick: bool) -> dict[str, float]:
    """Accuracy and bytes of a run of docs/newer_methods.md: stored, or run now."""
    results = kept("newer")
    setting = next(s for s in group.settings(results) if s.name == name)
    seed = setting.seeds[0] if quick else seed
    found = results.get(setting.key(None, seed)) or group.run(setting, seed)
    score = next(iter(group.scores))
    return {"accuracy": float(found[score]), "nbytes": float(found["nbytes"])}


def language(name: str, seed: int) -> Result:
    """A data-parallel run of docs/language_results.md: stored, or run now."""
    task = LanguageTask()
    setting = next(s for s in data_parallel.settings(task) if s.name == name)
    found = kept("language").get(setting.key(task, seed))
    return found or data_parallel.run(task, setting, seed)


def language_seeds(*names: str) -> tuple[int, ...]:
    """The seeds of which all these runs are stored; none if a name is no setting any more."""
    task = LanguageTask()
    return _seeds(data_parallel.settings(task), task, kept("language"), names)


def split_language(title: str, name: str, seed: int) -> Result:
    """A run of a transformer in two parts, of docs/language_results.md: stored, or run now."""
    task = language_split.TASKS[title]
    setting = next(s for s in language_split.settings(task) if s.name == name)
    found = kept("language_split").get(setting.key(task, seed))
    return found or language_split.run(task, setting, seed)


def split_language_seeds(title: str, *names: str) -> tuple[int, ...]:
    """The seeds of which all these runs of a task are stored."""
    task = language_split.TASKS[title]
    return _seeds(language_split.settings(task), task, kept("language_split"), names)


def _seeds(
    settings: Sequence[Any], task: Any, there: Mapping[str, Result], names: Sequence[str]
) -> tuple[int, ...]:
    chosen = {setting.name: setting for setting in settings if setting.name in names}
    if len(chosen) < len(names):
        return ()
    seeds = next(iter(chosen.values())).seeds
    return tuple(seed for seed in seeds if all(s.key(task, seed) in there for s in chosen.values()))
