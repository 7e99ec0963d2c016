"""The one rule of inference: what an interval says about a bound, and which verdict follows."""

from collections.abc import Sequence
from math import log

from fltoolkit_research.intervals import interval

FEWEST = 3  # seeds; fewer answer no question
SHARE = 0.9  # of a claimed factor that is enough
POINTS, NATS = 0.5, 0.02  # the losses that count as none where a claim names no other margin

Answer = bool | None
"""Yes, no, or undecided."""

RULE = f"""**The rule of every verdict.** A claim is one question or a few, each with a bound. Is \
the loss of accuracy at most so large? Are there so many times fewer bytes?

- Two settings are compared seed by seed, and the differences have a 95 % confidence interval by \
Student's t. Factors of bytes, rounds or time are compared as logarithms, so that their mean is a \
geometric one and no end of an interval is below 0.
- The answer is *yes* if the whole interval lies on the right side of the bound, *no* if the whole \
interval lies on the wrong side, and *undecided* if the bound lies within. So a mean on the right \
side is not enough.
- *As good as* means: worse by at most a margin, which is {POINTS:g} points of accuracy or \
{NATS:g} nats where the claim's section names no other. *Better* means a margin of 0.
- *So many times fewer* means: at least nine tenths of the claimed factor, both ways together; or \
of the way up, where the claim itself speaks of the way up. The tables show both.
- Fewer than three seeds answer no question. Sizes of messages and formulas have no noise, and are \
compared as they are.
- If all answers are yes, our measurement *agrees on ours*: on our task. It is *reproduced on its \
task* only where the words of the claim cover our task: a yes on another task reproduces nothing, \
as a no on another task refutes nothing. If an answer is no, it *disagrees on ours*. In all other \
cases it is *not shown*.

Where a part of the method, its tuning or the system itself is missing in our run, a *no* says \
nothing about the claim: it then *cannot be tested*. What is missing stands in the line \
*Missing here* or beside the verdict, with our numbers. And what no printed sentence or figure \
says, because we read it in a source code, *cannot be tested* either: its section shows what is \
sent or lost."""


def at_least(values: Sequence[float], bound: float) -> Answer:
    """Whether the values' mean is at least the bound: by the whole interval, or undecided."""
    if len(values) < FEWEST:
        return None
    found = interval(values)
    if found.low >= bound:
        return True
    return False if found.high < bound else None


def at_most(values: Sequence[float], bound: float) -> Answer:
    """The same for "at most"."""
    return at_least([-value for value in values], -bound)


def within(values: Sequence[float], margin: float) -> Answer:
    """Whether the mean is as near to 0 as the margin."""
    return every(at_least(values, -margin), at_most(values, margin))


def saves(factors: Sequence[float], claimed: float, share: float = SHARE) -> Answer:
    """Whether the geometric mean of factors is at least a share of the claimed one."""
    return at_least([log(factor) for factor in factors], log(share * claimed))


def every(*answers: Answer) -> Answer:
    """Yes if all are; no if one is; else undecided."""
    if False in answers:
        return False
    return None if None in answers else True


def either(*answers: Answer) -> Answer:
    """Yes if one is; no if all are; else undecided."""
    if True in answers:
        return True
    return None if None in answers else False
