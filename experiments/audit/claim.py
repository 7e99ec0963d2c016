"""A claim as a value: what is said and where, what we measure, and how the verdict follows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from math import exp, log
from statistics import mean
from typing import Any

from experiments.audit import rule
from experiments.audit.rule import Answer
from fltoolkit_research import Experiment
from fltoolkit_research.intervals import interval, mean_ci, paired

Values = dict[str, float]
"""What one run measured, by name. Every value is a finite number."""
Measure = Experiment | Callable[[int, bool], Values]
"""An experiment, which is run with each seed; or ``measure(seed, quick)`` of the claim's own."""


class Verdict(Enum):
    """What became of a claim here."""

    REPRODUCED = "reproduced on its task"
    AGREES = "agrees on ours"
    DISAGREES = "disagrees on ours"
    NOT_SHOWN = "not shown"
    UNTESTED = "cannot be tested"


MEANING = {
    Verdict.REPRODUCED: "the words of the claim cover what we measured, and we measured what it "
    "says",
    Verdict.AGREES: "what we measured agrees; but our task, network or size is another one, so "
    "that this reproduces nothing",
    Verdict.DISAGREES: "what we measured disagrees; the claim may hold on its own task, if its "
    "section does not say that its words cover ours",
    Verdict.NOT_SHOWN: "we measured it, and the interval holds both answers, or there are fewer "
    "than three seeds",
    Verdict.UNTESTED: "we have not run it with a part that matters (the method's, its tuning, the "
    "system itself); or nothing printed promises it, and the page shows what is sent or lost",
}

GROUPS = ("split learning", "federated learning", "codecs", "language models", "systems")

KNOWN = {
    "read": "read where it is printed",
    "abstract": "read in the abstract; the body was not at hand",
    "quoted": "quoted by others: the paper itself was not at hand",
    "code": "read in the source code, or seen by running it",
}
"""How we know what is claimed."""

UNQUOTED = {
    "read": "what is claimed are figures of a table or of an output",
    "quoted": "paraphrased by others",
    "code": "no sentence was found that says it; the source code does it",
}
"""Why a claim has no quote, by how it is known."""


class Runs(Mapping[str, list[Values]]):
    """What was measured: for each name of `Claim.measures` the values of its seeds, in order."""

    def __init__(self, values: Mapping[str, Mapping[int, Values]]):
        self._by_seed = values

    def __getitem__(self, name: str) -> list[Values]:
        return [self._by_seed[name][seed] for seed in sorted(self._by_seed[name])]

    def __iter__(self):  # type: ignore[no-untyped-def]
        return iter(self._by_seed)

    def __len__(self) -> int:
        return len(self._by_seed)

    def all(self, name: str, key: str) -> list[float]:
        """One value of every seed."""
        return [values[key] for values in self[name]]

    def fewer(self, name: str, reference: str, key: str = "nbytes") -> list[float]:
        """How many times fewer bytes than the reference, seed by seed."""
        one, other = self._values(name, key), self._values(reference, key)
        return [other[seed] / one[seed] for seed in sorted(one.keys() & other.keys())]

    def points(self, name: str, reference: str, key: str = "accuracy") -> list[float]:
        """Points of accuracy above the reference, seed by seed."""
        one, other = (self._values(each, key) for each in (name, reference))
        return [100 * difference for difference in paired(one, other)]

    def nats(self, name: str, reference: str, key: str = "nats") -> list[float]:
        """Nats above the reference, seed by seed; ``key`` is of the run, not of its reference."""
        return paired(self._values(name, key), self._values(reference, "nats"))

    def in_points(self, name: str, reference: str) -> str:
        """The same points, as a sentence has them."""
        return spread(self.points(name, reference), "+.2f")

    def in_nats(self, name: str, reference: str) -> str:
        """The same nats, as a sentence has them."""
        return spread(self.nats(name, reference), "+.3f")

    def _values(self, name: str, key: str) -> dict[int, float]:
        """One value by seed."""
        return {seed: values[key] for seed, values in self._by_seed[name].items()}


FIXED = "Nothing: one setting, fixed before its runs."
"""What was chosen by trials, of most claims."""


@dataclass(frozen=True)
class Finding:
    """What came out: the verdict, and the numbers behind it in words."""

    verdict: Verdict
    words: str  # one or two sentences
    up: str = ""  # how many times fewer bytes on the way up
    total: str = ""  # and both ways together


Judge = Callable[[Runs], Finding]


@dataclass(frozen=True)
class Claim:
    """One claim."""

    title: str
    group: str  # one of GROUPS
    source: str  # authors, year, arXiv id, and where it stands
    ours: str  # what we measure, and how it differs from theirs
    judge: Judge
    known: str = "abstract"  # a key of KNOWN
    says: str = ""  # in our words, with its figures, where the quote does not say all
    quote: str = ""  # the sentence that it stands on, word by word, or a few in succession
    quoted_from: str = ""  # the address of the quote; empty: the abstract of the source
    measures: Mapping[str, Measure] = field(default_factory=dict)
    seeds: Sequence[int] = (0, 1, 2)
    chosen: str = FIXED  # how many trials our settings had, and with which seeds
    own_task: bool = False  # whether its own words cover what we measure
    lacks: str = ""  # what the claim speaks of and our run has not: then a no proves nothing
    version: int = 1  # raise it when a measure that is a function changes what it measures

    def __post_init__(self) -> None:
        if self.group not in GROUPS:
            raise ValueError(f"group={self.group!r}: choose one of {', '.join(GROUPS)}")
        if self.known not in KNOWN:
            raise ValueError(f"known={self.known!r}: choose one of {', '.join(KNOWN)}")


class Claims(dict[str, Claim]):
    """The claims of a file by name, and what all of them have in common."""

    def __init__(self, **shared: Any):
        super().__init__()
        self._shared = shared

    def add(self, **said: Any) -> Callable[[Judge], Judge]:
        """Add the claim that the function below judges; ``chen_2021`` judges ``chen-2021``."""

        def of(judge: Judge) -> Judge:
            self[judge.__name__.replace("_", "-")] = Claim(judge=judge, **self._shared, **said)
            return judge

        return of


def times(factors: Sequence[float], form: str = "") -> str:
    """The geometric mean of factors and its interval: ``39.5 [39.1, 39.9]``."""
    found = interval([log(factor) for factor in factors])
    form = form or (".1f" if found.mean < log(100) else ",.0f")
    least, largest = (f"{bound(factors):{form}}" for bound in (min, max))
    middle = f"{exp(found.mean):{form}}"
    if least == largest or not found.known:
        return middle
    return f"{middle} [{exp(found.low):{form}}, {exp(found.high):{form}}]"


def spread(values: Sequence[float], form: str = ".2f") -> str:
    """Mean [lower, upper] of a 95 % interval by Student's t; what is printed alike stands once.

    Differences come seed by seed, so that the interval is of pairs. It needs no more than the
    values: with three seeds it is wide, and says so.
    """
    least, largest = (f"{bound(values):{form}}" for bound in (min, max))
    return f"{mean(values):{form}}" if least == largest else mean_ci(values, form)


def factors(runs: Runs, name: str, reference: str) -> tuple[str, str]:
    """How many times fewer bytes than the reference, up and both ways: the cells of the table."""
    up, total = (runs.fewer(name, reference, key) for key in ("nbytes_up", "nbytes"))
    return times(up), times(total)


def on_seeds(runs: Runs) -> str:
    """On how many seeds a claim was measured, in words."""
    num = max(len(values) for values in runs.values())
    return "on one seed" if num == 1 else f"on {num} seeds"


def judged(*answers: Answer) -> Verdict:
    """The verdict from the answers on the score and on the factor that the claim speaks of."""
    found = rule.every(*answers)
    if found is None:
        return Verdict.NOT_SHOWN
    return Verdict.AGREES if found else Verdict.DISAGREES


def judge_saving(
    name: str, reference: str, *, claimed: float, why: str, of: str = "nbytes"
) -> Judge:
    """The usual verdict on "so many times fewer bytes without a loss", which is half a point.

    ``of`` is ``nbytes_up`` where the claim speaks of the way up alone.
    """

    def judge(runs: Runs) -> Finding:
        kept = rule.at_least(runs.points(name, reference), -rule.POINTS)
        saved = rule.saves(runs.fewer(name, reference, of), claimed)
        lost = f"{runs.in_points(name, reference)} points of accuracy"
        words = f"{lost}, of which {rule.POINTS:g} may be lost. {why}"
        return Finding(judged(kept, saved), words, *factors(runs, name, reference))

    return judge
