"""What claims measure, where several measure alike."""

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from experiments.audit import stored
from experiments.audit.claim import Measure, Values
from experiments.fedavg_results import run as fedavg_run
from experiments.fedavg_results import settings as fedavg_settings
from experiments.language import data_parallel
from experiments.language import split as language_split
from experiments.language.task import Task as LanguageTask
from experiments.leakage import run as leakage_run
from experiments.leakage import settings as leakage_settings
from experiments.runs import Result
from fltoolkit_research import Experiment, records

OF_LANGUAGE = (
    "Steps and codecs by one trial each on seeds 0 and 1, AdamW's rate as the better of two, all "
    "on the held-out tenth on which the result is measured; these trials are not stored. Later "
    "four trials of the rate for each of sixteen methods (docs/language_results.md) found half the "
    "rate used here better for MuLoCo and Muon alone, twice for DeMo, Streaming DiLoCo, local "
    "AdamW and local SGD, a quarter for signs, and this rate for the others. Nothing was tuned "
    "for NoLoCo, SPARTA, DES-LOC and Dion."
)
OF_SPLIT_LANGUAGE = (
    "The codecs, by trials on seed 100 and the same held-out text, which are not stored. All have "
    "the rate of float32."
)
OF_ASYNC_STATES = (
    "Thresholds, by trials with some of the seeds 0 to 4 on the test images; their number is not "
    "stored. So these seeds flatter the settings."
)
OF_NEWER = "Each method's rate, by six trials on two other seeds and held-out training images."
OF_ROUNDS = {
    "quote": "Communication costs are the principal constraint, and we show a reduction in "
    "required communication rounds by 10–100× as compared to synchronized stochastic gradient "
    "descent.",
    "quoted_from": "abstract, arXiv 1602.05629; the rounds of this claim are figures of a table",
}
KEPT = ("accuracy", "nbytes", "nbytes_up", "nbytes_down")


def measure(what: Measure, seed: int, quick: bool) -> Values:
    """The values of one run. A quick one is only to see that the claim runs at all."""
    if not isinstance(what, Experiment):
        return what(seed, quick)
    if quick:
        return _values(_last(_short(replace(what, seed=seed))))
    experiment = replace(what, seed=seed)
    found = stored.history(experiment)
    return _values(dict(found[-1]) if found else _last(experiment))


def fedavg(part: str, name: str, goal: float, seed: int, quick: bool) -> Values:
    """Rounds until an accuracy, of a setting of docs/fedavg_results.md; 0 where it never is."""
    task = fedavg_settings.Task()
    setting = stored.setting(fedavg_settings.settings(), part, name)
    curve = stored.run("fedavg", fedavg_run.run, task, setting, seed)["curve"]
    reached = (n for n, (_, _, accuracy) in enumerate(curve, 1) if accuracy >= goal)
    return {"rounds": float(next(reached, 0)), "length": float(len(curve))}


def leakage(
    read: Callable[[Result], Values], where: tuple[str, str, str], seed: int, quick: bool
) -> Values:
    """What `read` takes from a run of docs/leakage.md: of these data, this part, and this name."""
    data, part, name = where
    setting = stored.setting(leakage_settings.settings(), part, name)
    return read(stored.run("leakage", leakage_run.run, leakage_settings.TASKS[data], setting, seed))


def language(*names: str) -> Mapping[str, Any]:
    """``measures``, ``seeds`` and ``chosen`` of a claim about runs of docs/language_results.md.

    What is up is what workers say, each message once.
    """
    keys = {"nats": "nats", "nbytes": "nbytes", "nbytes_up": "uplink"}
    found = _of_text("language", data_parallel, LanguageTask(), names, keys)
    return {**found, "chosen": OF_LANGUAGE}


def split_language(title: str, *names: str) -> Mapping[str, Any]:
    """The same of a transformer in two parts; up is what the party with the text sends."""
    keys = {key: key for key in ("nats", "nats_coded", "nbytes", "nbytes_up")}
    found = _of_text("language_split", language_split, language_split.TASKS[title], names, keys)
    return {**found, "chosen": OF_SPLIT_LANGUAGE}


def _of_text(
    file: str, part: Any, task: Any, names: Sequence[str], keys: Mapping[str, str]
) -> Mapping[str, Any]:
    """Measures and the seeds of which all of them are stored; a quick one is the first of these."""
    settings = {setting.name: setting for setting in part.settings(task)}
    there, chosen = stored.kept(file), [settings[name] for name in names]
    seeds = tuple(
        seed for seed in chosen[0].seeds if all(s.key(task, seed) in there for s in chosen)
    )

    def measure_of(setting: Any) -> Measure:
        def run(seed: int, quick: bool) -> Values:
            result = stored.run(file, part.run, task, setting, seeds[0] if quick else seed)
            return {mine: float(result[theirs]) for mine, theirs in keys.items()}

        return run

    return {"measures": {s.name: measure_of(s) for s in chosen}, "seeds": seeds}


def installed(module: str, requirement: str, quick: bool) -> bool:
    """Whether a system is there, which has to be installed; the quick edition does without it."""
    if importlib.util.find_spec(module) is None and not quick:
        raise ModuleNotFoundError(
            f"this claim is measured with {module}, which is not installed: pip install "
            f"{requirement}, best into an environment of its own"
        )
    return importlib.util.find_spec(module) is not None


def _short(experiment: Experiment) -> Experiment:
    """The same on few samples of the embedded data, for a round or two."""
    return replace(experiment, data="digits", num_samples=200, rounds=2, evaluations=1)


def _last(experiment: Experiment) -> Values:
    last: Values = {}
    for record in records(experiment):
        last = dict(record)  # type: ignore[arg-type]
    return last


def _values(record: Values) -> Values:
    """What is kept of a record, ``seconds`` of the virtual clock among it if there is one."""
    return {key: float(record[key]) for key in (*KEPT, "seconds") if key in record}
