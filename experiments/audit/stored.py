"""Runs of the other experiments that are in the repository, found again by their keys.

A claim that names one of their settings is measured without training it again. What is not stored
is run, and not added there.
"""

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

from experiments.newer.setting import Group
from experiments.pareto import settings as pareto_settings
from experiments.pareto.report import read_kept
from experiments.runs import STORED, Result, read
from fltoolkit import History
from fltoolkit_research import Experiment


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
    return read(STORED / f"{name}.jsonl")


def setting(settings: Iterable[Any], part: str, name: str) -> Any:
    """The setting with this name, in this part of a page."""
    return next(each for each in settings if (each.part, each.name) == (part, name))


def run(
    file: str, train: Callable[[Any, Any, int], Result], task: Any, setting: Any, seed: int
) -> Result:
    """A run of another experiment: stored, or trained now."""
    return kept(file).get(setting.key(task, seed)) or train(task, setting, seed)


def newer(group: Group, name: str, seed: int, quick: bool) -> dict[str, float]:
    """Accuracy and bytes of a run of docs/newer_methods.md: stored, or run now."""
    results = kept("newer")
    setting = next(s for s in group.settings(results) if s.name == name)
    seed = setting.seeds[0] if quick else seed
    found = results.get(setting.key(None, seed)) or group.run(setting, seed)
    score = next(iter(group.scores))
    return {"accuracy": float(found[score]), "nbytes": float(found["nbytes"])}
