"""Which settings for so many bytes? Successive halving over a space of experiments.

Here: `space`, which draws settings at random, and `suggest`, which trains all of them for a short
time and then only the good ones for longer: a run is an iterator of records, so it can be paused
and continued, and nothing is trained twice. In notebook 07 you compete with it.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import takewhile
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from fltoolkit.codecs.base import Codec
from fltoolkit.codecs.pipeline import Pipeline
from fltoolkit.codecs.quantize import Quantize
from fltoolkit.codecs.sparse import TopK
from fltoolkit.codecs.wrappers import ErrorFeedback
from fltoolkit.history import History, Record
from fltoolkit_research.analysis import metric_of
from fltoolkit_research.codecs.contexts import ContextEntropy
from fltoolkit_research.codecs.difference import Difference
from fltoolkit_research.codecs.scales import QSGD
from fltoolkit_research.codecs.sparsifiers import STC
from fltoolkit_research.experiment import Experiment
from fltoolkit_research.runs import records

NUM_JUDGED = 3
"""A run is judged by the median of this number of last evaluations within the budget."""


class Tried(NamedTuple):
    """One candidate of a search, with the result at the point where its training stopped."""

    title: str
    spent: int  # bytes that the search sent for it, also those beyond the budget
    value: float | None  # the median of its last evaluations; None if none, or if it diverged
    nbytes: int  # bytes sent at the last of these evaluations, which is within the budget


class Suggestion(NamedTuple):
    """The result of a search, and how many bytes the search itself has sent."""

    best: Experiment  # run it with `fltoolkit_research.spend`, which stops at the budget
    value: float  # the task's metric on the held-out samples, as in `Tried`
    nbytes: int  # bytes that the best experiment had sent then
    spent: int  # bytes that the whole search sent
    tried: list[Tried]  # the best comes first


def suggest(
    task: Experiment,
    nbytes: float,
    *,
    candidates: Sequence[Experiment] | None = None,
    num_candidates: int = 12,
    validation: float = 0.2,
    seed: int = 0,
    progress: Callable[[Sequence[Any]], Iterable[Any]] = iter,
) -> Suggestion:
    """Search for the settings with the best metric within ``nbytes``; a small search.

    All candidates train until they have spent a quarter of the budget (or all their rounds). The
    better half trains on to one half of the budget, and the better half of these to the whole
    budget. Candidates are compared by the median of the task's metric at the last three evaluations
    within the budget (a run that oscillates may be good once by chance), on held-out training
    samples. The same seed finds the same settings. A candidate whose training ends in an error, for
    example because it diverges, is left out.

    Source: successive halving, Jamieson & Talwalkar 2016, arXiv 1502.07943.

    Args:
        task: data, model, clients, partition, learning rate, and the largest number of ``rounds``.
            The task's protocol, codecs and gate are not used. With several clients write the
            protocol "relay", because "split" allows only one client.
        nbytes: the budget in bytes, all directions together.
        candidates: the settings to choose from; by default `space` draws ``num_candidates``.
        num_candidates: with more candidates the search finds better ones, and costs more.
        validation: the share of the training samples that is held out.
        seed: the seed for drawing candidates.
        progress: is called with the list of each of the three heats and iterates over it, such as
            tqdm's bar. By default nothing is shown.
    """
    if not nbytes > 0 or not 0 < validation < 1:
        raise ValueError(
            f"nbytes={nbytes}, validation={validation}: nbytes must be above 0, and validation "
            "between 0 and 1"
        )
    chosen = space(task, num_candidates, seed=seed) if candidates is None else list(candidates)
    if not chosen:
        raise ValueError("no candidates to choose from")
    metric_of(chosen)  # raises ValueError if they are not all measured alike
    runs = [_Run(replace(e, validation=validation)) for e in chosen]
    racing = list(runs)
    for share in (0.25, 0.5, 1.0):
        for run in progress(racing):
            run.spend(share * nbytes)
        racing.sort(key=_Run.rank)  # stable: of equals, the first
        racing = racing[: max(1, -(-len(racing) // 2))] if share < 1 else racing
    best = racing[0]
    if best.value is None:
        least = min(run.spent for run in runs)
        raise ValueError(
            f"{nbytes:,.0f} bytes pay for no evaluation of any candidate; the first evaluation "
            f"comes after {least:,} bytes. Allow more bytes, fewer clients or more evaluations "
            "per round"
            + "".join(f". {r.experiment.title}: {r.error}" for r in runs if r.error)[:500]
        )
    rest = sorted((run for run in runs if run not in racing), key=_Run.rank)
    tried = [Tried(r.experiment.title, r.spent, r.value, r.nbytes) for r in (*racing, *rest)]
    won = replace(best.experiment, validation=task.validation)
    return Suggestion(won, best.value, best.nbytes, sum(run.spent for run in runs), tried)


def spend(experiment: Experiment, nbytes: float) -> History:
    """Train until the next record would have cost more than ``nbytes``, or to the end.

    >>> history = spend(Experiment(rounds=9, evaluations=5), 5_000_000)
    >>> int(history[-1]["nbytes"]) <= 5_000_000
    True
    """
    if not nbytes > 0:
        raise ValueError(f"nbytes={nbytes}: the budget must be above 0")
    return History(takewhile(lambda r: int(r["nbytes"]) <= nbytes, records(experiment)))


class _Run:
    """A training that runs until it has spent the bytes it is allowed to spend, and then waits."""

    def __init__(self, experiment: Experiment):
        self.experiment = experiment
        self._records: Iterator[Record] = records(experiment)
        self._next: Record | None = None  # a record that cost more than was allowed so far
        self._values: list[float] = []  # the metric at all evaluations within the allowed bytes
        self.nbytes = 0  # bytes sent at the last of these evaluations
        self.spent, self.error = 0, ""

    @property
    def value(self) -> float | None:
        """The median of the last evaluations; None if there is none, or training failed."""
        return median(self._values[-NUM_JUDGED:]) if self._values and not self.error else None

    def rank(self) -> float:
        """The value with the sign that makes less better; infinity without a value."""
        if self.value is None:
            return math.inf
        return -self.value if self.experiment.metric.higher_is_better else self.value

    def spend(self, allowed: float) -> None:
        """Go on until the next record would cost more than ``allowed``, or until the end."""
        while not self.error:
            try:
                record = self._next or next(self._records, None)
            except (FloatingPointError, ValueError) as error:  # of codecs: they refuse NaN
                self.error = str(error) or type(error).__name__
                return
            self._next = None
            if record is None:
                return
            self.spent = int(record["nbytes"])
            if self.spent > allowed:
                self._next = record
                return
            self.nbytes = self.spent
            self._values.append(float(record[self.experiment.metric.name]))


def space(task: Experiment, num_candidates: int, *, seed: int = 0) -> list[Experiment]:
    """Settings drawn at random for one task: split and, with several clients, federated ones."""
    random = np.random.default_rng(seed)

    def pick(*choices: Any) -> Any:
        return choices[random.integers(len(choices))]

    found: dict[str, Experiment] = {}
    for _ in range(20 * num_candidates):  # more tries than candidates: settings may repeat
        if len(found) == num_candidates:
            break
        federated = task.num_clients > 1 and bool(pick(False, False, True))
        drawn = _federated(task, pick) if federated else _split(task, pick)
        found.setdefault(drawn.key, drawn)
    return list(found.values())


_MODELS = (
    (Pipeline(Quantize(8), ContextEntropy()), "8 bits"),
    (Difference(Pipeline(Quantize(3), ContextEntropy())), "differences"),
)
"""Codecs for a whole model, or for a bottom that the next client gets.

Which of them is better depends on how much the model changes between two messages.
"""


def _split(task: Experiment, pick: Callable[..., Any]) -> Experiment:
    up, down = pick(2, 3, 4), pick(0.02, 0.1, 1.0)
    gate = pick("", "", "Periodic(2)", "Periodic(4)", "FreezeAfter(2)", "LossGate(0.2)")
    kept = [TopK(down)] if down < 1 else []
    model, handed_on = pick(*_MODELS) if task.num_clients > 1 else (None, "")
    codecs: dict[str, Codec] = {
        "activations": Pipeline(Quantize(up), ContextEntropy()),
        "gradients": Pipeline(*kept, Quantize(4, stochastic=True), ContextEntropy()),
    }
    if model is not None:
        codecs["model"] = model
    protocol = "split_async" if gate else "relay" if task.num_clients > 1 else "split"
    name = f"{protocol} {gate}: {up} bits up, {100 * down:g} % in 4 bits down".replace(" :", ":")
    name += f", {handed_on} across" if handed_on else ""
    return replace(
        task,
        protocol=protocol,
        gate=gate,
        codecs=codecs,
        settings={},
        evaluations=max(4, task.evaluations),
        name=name,
    )


def _federated(task: Experiment, pick: Callable[..., Any]) -> Experiment:
    update, words = pick(
        (Pipeline(QSGD(1), ContextEntropy()), "QSGD 1"),
        (Pipeline(QSGD(4), ContextEntropy()), "QSGD 4"),
        (ErrorFeedback(Pipeline(TopK(0.01), Quantize(8), ContextEntropy())), "top 1 %"),
        (ErrorFeedback(Pipeline(TopK(0.05), Quantize(4), ContextEntropy())), "top 5 %"),
        (ErrorFeedback(Pipeline(STC(0.02), ContextEntropy())), "STC 2 %"),
    )
    model, down = pick(*_MODELS)
    epochs, cohort = pick(1, 2, 5), pick(0.3, 1.0)
    size = max(1, round(cohort * task.num_clients))
    return replace(
        task,
        protocol="fedavg",
        gate="",
        codecs={"update": update, "model": model},
        settings={"local_epochs": epochs, "cohort_size": size},
        evaluations=1,
        name=f"fedavg, {epochs} epochs, {size} clients: {words} up, {down} down",
    )
