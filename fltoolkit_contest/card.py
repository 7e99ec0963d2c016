"""The card of an entry: what was sent, what it brought, what leaked, and how to check it again."""

import json
import math
import platform
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch

import fltoolkit
from fltoolkit.units import amount

NUM_RUNS = 5
_T95 = {1: math.inf, 2: 6.314, 3: 2.920, 4: 2.353, 5: 2.132}  # Student, one-sided, n - 1 degrees


def bound(scores: Sequence[float], *, higher_is_better: bool = True) -> float:
    """The bound of the mean that must reach the target: mean -/+ t s / sqrt(n), one-sided 95 %.

    s is the standard deviation of the scores (n - 1 in the denominator) and t the quantile of
    Student's distribution with n - 1 degrees of freedom, 2.132 for five runs. One run has no bound.

    >>> round(bound([0.96, 0.95, 0.97, 0.96, 0.96]), 4)
    0.9533
    """
    n = len(scores)
    if n not in _T95:
        raise ValueError(f"{n} scores: 1 to {max(_T95)} runs are possible")
    if not np.isfinite(scores).all():
        raise ValueError(f"scores {[*scores]}: finite numbers are wanted")
    if n == 1:
        return -math.inf if higher_is_better else math.inf
    half = _T95[n] * statistics.stdev(scores) / math.sqrt(n)
    return statistics.mean(scores) + (-half if higher_is_better else half)


@dataclass
class Card:
    """The result of a verification. All but ``measured`` is the same for the same salt.

    >>> runs = [{"score": 0.96, "nbytes": 1001, "exchanges": 1, "ledger": {}, "leak": {}}]
    >>> card = Card("digits", "open", "ana", "ab", "cd", 0.95, "accuracy", runs, 0.955, True, 7,
    ...             {"zipped": 400}, 29_000, {"cpu_seconds": 6.0})
    >>> card.nbytes, card.score, card.value(card.bound)
    (1008, 0.96, '95.50 %')
    """

    track: str
    league: str
    name: str
    sha256: str  # of the entry's file
    salt: str  # all seeds are made of it and of the hash
    target: float
    metric: str
    runs: list[dict[str, Any]]  # score, nbytes, exchanges, ledger by direction and kind, leak
    bound: float  # of the mean: what must reach the target
    accepted: bool
    charge: int  # bytes that the file itself costs
    code: dict[str, int]  # zipped bytes, characters of constants and of names
    data_nbytes: int  # the training samples, compressed without loss
    measured: dict[str, Any]  # processor time, memory, versions, machine

    @property
    def nbytes(self) -> int:
        """What counts: the mean of the runs, rounded up, and the charge for the file."""
        return -int(-statistics.mean(run["nbytes"] for run in self.runs) // 1) + self.charge

    @property
    def score(self) -> float:
        """The mean of the runs."""
        return statistics.mean(run["score"] for run in self.runs)

    @property
    def leak(self) -> dict[str, float]:
        """The mean of the runs, by attack."""
        names = self.runs[0]["leak"]
        return {name: statistics.mean(run["leak"][name] for run in self.runs) for name in names}

    def result(self) -> dict[str, Any]:
        """What the same salt must reproduce, on the same machine to the last digit."""
        whole = asdict(self)
        del whole["measured"], whole["name"]
        return whole

    def write(self, path: Path) -> None:
        """Write the card as JSON."""
        path.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")

    def value(self, score: float) -> str:
        """A score with its unit."""
        return f"{100 * score:.2f} %" if self.metric == "accuracy" else f"{score:.3f} nats"

    def __str__(self) -> str:
        sign = "-" if self.metric == "accuracy" else "+"
        above = "at least" if self.metric == "accuracy" else "at most"
        lines = [
            f"{self.name}: track {self.track}, league {self.league}",
            f"{'ACCEPTED' if self.accepted else 'not accepted'}: {self.nbytes:,} bytes",
            f"  {self.metric} {self.value(self.score)} (mean of {len(self.runs)}); mean {sign} "
            f"t s / sqrt(n) = {self.value(self.bound)}, wanted {above} {self.value(self.target)}",
        ]
        ledger = sum((Counter(run["ledger"]) for run in self.runs), Counter[str]())
        lines += [f"  {name}: {n / len(self.runs):,.1f} bytes" for name, n in ledger.items()]
        lines.append(f"  the file: {self.charge} bytes (zipped {self.code['zipped']:,})")
        times = self.nbytes / self.data_nbytes
        lines.append(f"  {times:.3g} times the data ({amount('nbytes', self.data_nbytes)})")
        lines += [f"  leak: {name} {value:.3f}" for name, value in self.leak.items()]
        minutes = self.measured["cpu_seconds"] / 60
        lines.append(f"  {minutes:.1f} minutes of processor time; entry {self.sha256[:12]}")
        return "\n".join(lines)


def read_card(path: Path) -> Card:
    """Read a card; ValueError if the file is none."""
    try:
        whole = json.loads(path.read_text(encoding="utf-8"))
        card = Card(**{each.name: whole[each.name] for each in fields(Card)})
        _check(card)
        return card
    except OSError:
        raise
    except Exception as error:  # whatever a forged card holds
        raise ValueError(f"{path} is no card of `fltoolkit cup verify`: {error!r}") from None


def _check(card: Card) -> None:
    """Raise an error for numbers and names that no verification writes."""
    str(card)
    texts = [card.track, card.league, card.name, card.sha256, card.salt, card.metric]
    texts += [name for run in card.runs for name in (*run["ledger"], *run["leak"])]
    for text in texts:
        if not isinstance(text, str) or not text or text != printable(text, 80):
            raise ValueError(f"{text!r} where a short text of visible characters is wanted")
    scores = [run["score"] for run in card.runs]
    leaks = [value for run in card.runs for value in run["leak"].values()]
    numbers = [card.target, *scores, *leaks]
    counts = [card.charge, card.data_nbytes, *(run["nbytes"] for run in card.runs)]
    for number in (*numbers, *counts):
        bad = isinstance(number, bool) or not isinstance(number, int | float)
        if bad or not math.isfinite(number):
            raise ValueError(f"{number!r} where a finite number is wanted")
    if min(counts) < 0 or card.data_nbytes < 1:
        raise ValueError("it holds a negative number of bytes")
    low = bound(scores, higher_is_better=(higher := card.metric == "accuracy"))
    reached = low >= card.target if higher else low <= card.target
    right = [sum(run["ledger"].values()) for run in card.runs] == counts[2:]
    right = right and math.isclose(low, card.bound)
    if not right or card.accepted is not (reached and len(scores) == NUM_RUNS):
        raise ValueError("its bytes, its bound or its acceptance do not follow from its runs")


_BLANK = "\u115f\u1160\u2800\u3164\uffa0"  # letters without ink


def printable(text: str, most: int = 2000) -> str:
    r"""A text in one line that draws no table: letters, digits and ASCII; the rest is cut off.

    Other characters and bars are escaped, and of spaces side by side one is left.

    >>> printable("a\x1b[2J   \u200bb|")
    'a\\x1b[2J \\u200bb\\x7c'
    """
    shown = (c not in _BLANK and (c.isalnum() or " " <= c <= "~") for c in text[:most])
    escaped = [c if ok else ascii(c)[1:-1] for c, ok in zip(text, shown, strict=False)]
    return " ".join("".join(escaped).replace("|", r"\x7c").split())


def about_machine() -> dict[str, str]:
    """Versions, and the kind of machine."""
    processor = torch.backends.cpu.get_cpu_capability()
    return {
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "numpy": np.__version__,
        "fltoolkit": fltoolkit.__version__,
        "machine": f"{platform.system()} {platform.machine()}, {processor}",
    }


def board(cards: Iterable[Card]) -> str:
    """A table of cards for each track and league, fewest bytes first, and entries that failed last.

    >>> board([])
    ''
    """
    groups: dict[tuple[str, str], list[Card]] = {}
    for card in cards:
        groups.setdefault((card.track, card.league), []).append(card)
    parts = []
    for (track, league), mine in sorted(groups.items()):
        mine.sort(key=lambda card: (not card.accepted, card.nbytes, card.name))
        head = "| | entry | bytes | mean | bound | times the data |"
        lines = [f"### {track}, {league}", "", head, "|---|---|---|---|---|---|"]
        for place, card in enumerate(mine, 1):
            rank = str(place) if card.accepted else "not accepted"
            times = f"{card.nbytes / card.data_nbytes:.3g}"
            row = [rank, card.name, f"{card.nbytes:,}", card.value(card.score)]
            lines.append("| " + " | ".join([*row, card.value(card.bound), times]) + " |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def read_records(folder: Path) -> list[Card]:
    """The records below a folder: ``TRACK/NAME/card.json``.

    A record with a file ``refuted.md`` counts as not accepted.

    >>> read_records(Path("no such folder"))
    []
    """
    found = []
    for path in sorted(folder.glob("*/*/card.json")):
        found.append(card := read_card(path))
        if (refuted := path.parent / "refuted.md").exists():
            date = printable(refuted.read_text(encoding="utf-8", errors="replace"), 10)
            card.name += f" (refuted {date})"
            card.accepted = False
    return found
