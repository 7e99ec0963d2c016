"""A claim as a value: what is said and where, what we measure, and how the verdict follows.

Not here: measuring (run), the page (page), the claims themselves (claims/).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from statistics import mean

from fltoolkit.research import Experiment, interval, mean_ci, paired

Values = dict[str, float]
"""What one run measured, by name. Every value is a finite number."""
Measure = Experiment | Callable[[int, bool], Values]
"""An experiment, which is run with each seed; or ``measure(seed, quick)`` of the claim's own."""


class Verdict(Enum):
    """What became of a claim here."""

    REPRODUCED = "reproduced"
    UPLINK_ONLY = "uplink only"
    ELSEWHERE = "holds elsewhere"
    REFUTED = "refuted here"
    SHOWN = "shown, not claimed"
    UNTESTED = "cannot be tested here"


MEANING = {
    Verdict.REPRODUCED: "what we measured agrees with the claim, or is better for it",
    Verdict.UPLINK_ONLY: "true of the bytes that clients send; of all bytes, both ways, it is not",
    Verdict.ELSEWHERE: "not seen on our task; the claim is about another one, and may hold there",
    Verdict.REFUTED: "a printed sentence, which is quoted, and on a task that its own words cover, "
    "we measured otherwise",
    Verdict.SHOWN: "no printed sentence promises it, so that there is nothing to refute; the page "
    "shows what is sent or lost",
    Verdict.UNTESTED: "we have not measured it; the reason is given",
}

GROUPS = ("split learning", "federated learning", "codecs", "language models", "systems")

KNOWN = {
    "read": "read where it is printed",
    "abstract": "read in the abstract; the body was not at hand",
    "quoted": "quoted by others: the paper itself was not at hand",
    "code": "read in the source code, or seen by running it",
    "memory": "from memory, not looked up yet",
}
"""How we know what is claimed."""


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

    def scatter(self, name: str, key: str = "nats") -> float:
        """How far the seeds of one setting lie apart: its largest value minus its least."""
        values = self.all(name, key)
        return max(values) - min(values)

    def _values(self, name: str, key: str) -> dict[int, float]:
        """One value by seed."""
        return {seed: values[key] for seed, values in self._by_seed[name].items()}


@dataclass(frozen=True)
class Finding:
    """What came out: the verdict, and the numbers behind it in words."""

    verdict: Verdict
    words: str  # one or two sentences
    up: str = ""  # how many times fewer bytes on the way up
    total: str = ""  # and both ways together


@dataclass(frozen=True)
class Claim:
    """One claim. Its name is the name of its file."""

    title: str
    group: str  # one of GROUPS
    says: str  # in our words, with its figures
    source: str  # authors, year, arXiv id, and where it stands
    known: str  # a key of KNOWN
    ours: str  # what we measure, and how it differs from theirs
    judge: Callable[[Runs], Finding]
    measures: Mapping[str, Measure] = field(default_factory=dict)
    seeds: Sequence[int] = (0, 1, 2)
    version: int = 1  # raise it when a measure that is a function changes what it measures

    def __post_init__(self) -> None:
        if self.group not in GROUPS:
            raise ValueError(f"group={self.group!r}: choose one of {', '.join(GROUPS)}")
        if self.known not in KNOWN:
            raise ValueError(f"known={self.known!r}: choose one of {', '.join(KNOWN)}")


def untested(why: str) -> Callable[[Runs], Finding]:
    """The judge of a claim that we have not measured."""
    return lambda runs: Finding(Verdict.UNTESTED, why)


def by_hand(verdict: Verdict, words: str) -> Callable[[Runs], Finding]:
    """The judge of a system that was measured by hand: say its version, and when it was."""
    return lambda runs: Finding(verdict, words)


def times(factors: Sequence[float]) -> str:
    """The mean of factors and its interval: ``39.5 [39.1, 39.9]``."""
    return spread(factors, ".1f" if mean(factors) < 100 else ",.0f")


def spread(values: Sequence[float], form: str = ".2f") -> str:
    """Mean [lower, upper] of a 95 % interval by Student's t; what is printed alike stands once.

    Differences and factors come seed by seed, so that the interval is of pairs. It needs no more
    than the values: with three seeds it is wide, and says so.
    """
    least, largest = (f"{bound(values):{form}}" for bound in (min, max))
    return f"{mean(values):{form}}" if least == largest else mean_ci(values, form)


def upper(values: Sequence[float]) -> float:
    """The upper end of that interval; infinite for a single value."""
    return interval(values).high


def on_seeds(runs: Runs) -> str:
    """On how many seeds a claim was measured, in words."""
    num = max(len(values) for values in runs.values())
    return "on one seed" if num == 1 else f"on {num} seeds"


def judge_saving(
    runs: Runs,
    name: str,
    reference: str,
    *,
    claimed: float,
    points: float,
    of_any_task: bool = False,
    why: str = "",
) -> Finding:
    """The usual verdict on "so many times fewer bytes, at a loss of at most so many points".

    A claim whose mean loss here is larger than ``points`` is *refuted here* if it is made of any
    task, and *holds elsewhere* if it is made of another one. Otherwise, it is *reproduced* when the
    factor of all bytes together is at least 0.9 of the claimed one, *uplink only* when that of the
    bytes on the way up is, and *holds elsewhere* when neither is.
    """
    up, total = (runs.fewer(name, reference, key) for key in ("nbytes_up", "nbytes"))
    lost = runs.points(name, reference)
    words = f"{spread(lost, '+.2f')} points of accuracy. {why}".strip()
    if mean(lost) < -points:
        verdict = Verdict.REFUTED if of_any_task else Verdict.ELSEWHERE
    elif mean(total) >= 0.9 * claimed:
        verdict = Verdict.REPRODUCED
    elif mean(up) >= 0.9 * claimed:
        verdict = Verdict.UPLINK_ONLY
    else:
        verdict = Verdict.ELSEWHERE
    return Finding(verdict, words, times(up), times(total))
