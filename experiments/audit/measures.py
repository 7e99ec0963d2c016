"""What claims measure, where several measure alike."""

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from experiments.audit import stored
from experiments.audit.claim import Measure, Values
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


def fedavg(part: str, name: str, goal: float) -> Callable[[int, bool], Values]:
    """Rounds until an accuracy, of a setting of docs/fedavg_results.md; 0 where it never is."""

    def run(seed: int, quick: bool) -> Values:
        curve = stored.fedavg(part, name, seed)["curve"]
        reached = (n for n, (_, _, accuracy) in enumerate(curve, 1) if accuracy >= goal)
        return {"rounds": float(next(reached, 0)), "length": float(len(curve))}

    return run


def leakage(
    data: str, part: str, name: str, read: Callable[[Result], Values]
) -> Callable[[int, bool], Values]:
    """What `read` takes from a run of docs/leakage.md."""
    return lambda seed, quick: read(stored.leakage(data, part, name, seed))


def language(*names: str) -> Mapping[str, Any]:
    """``measures``, ``seeds`` and ``chosen`` of a claim about runs of docs/language_results.md.

    The seeds are those of which all runs are stored; without one there is nothing to measure. What
    is up is what workers say, each message once.
    """

    def measure_of(name: str) -> Measure:
        def run(seed: int, quick: bool) -> Values:
            result = stored.language(name, seeds[0] if quick else seed)
            sent = {"nbytes": float(result["nbytes"]), "nbytes_up": float(result["uplink"])}
            return {"nats": float(result["nats"]), **sent}

        return run

    seeds = stored.language_seeds(*names)
    measures = {name: measure_of(name) for name in names if seeds}
    return {"measures": measures, "seeds": seeds, "chosen": OF_LANGUAGE}


def split_language(task: str, *names: str) -> Mapping[str, Any]:
    """The same of a transformer in two parts; up is what the party with the text sends."""

    def measure_of(name: str) -> Measure:
        def run(seed: int, quick: bool) -> Values:
            result = stored.split_language(task, name, seeds[0] if quick else seed)
            kept = ("nats", "nats_coded", "nbytes", "nbytes_up")
            return {key: float(result[key]) for key in kept}

        return run

    seeds = stored.split_language_seeds(task, *names)
    measures = {name: measure_of(name) for name in names if seeds}
    return {"measures": measures, "seeds": seeds, "chosen": OF_SPLIT_LANGUAGE}


def of_system(
    module: str, requirement: str, names: Sequence[str], count: Callable[[], Values]
) -> Measure:
    """What ``count`` finds in another system, which has to be installed.

    The quick edition does without it: then each value is 1.
    """

    def run(seed: int, quick: bool) -> Values:
        if quick and not there(module):
            return dict.fromkeys(names, 1.0)
        needs(module, requirement)
        return count()

    return run


def there(module: str) -> bool:
    """Whether a system is installed."""
    return importlib.util.find_spec(module) is not None


def needs(module: str, requirement: str) -> None:
    """Raise ModuleNotFoundError, with what to do, where a system is not installed."""
    if not there(module):
        raise ModuleNotFoundError(
            f"this claim is measured with {module}, which is not installed: pip install "
            f"{requirement}, best into an environment of its own"
        )


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
