"""Compression that changes during the run: how many levels or values, decided for each round.

A rule reads a record and makes the codec of the next updates: ``Server(tune=rule)``. The
memory of the links' codecs, such as residuals, is kept. Not here: the codecs (the room
codecs), the rounds (rounds.py).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from fltoolkit.codecs.base import Codec
from fltoolkit.history import Record


@dataclass
class AdaptiveLevels:
    """More levels as the loss falls: ``ceil(sqrt(first_loss / loss) * first)``.

    Coarse steps are good enough while the model is bad. ``make(levels)`` makes the codec, e.g.
    ``lambda levels: Pipeline(QSGD(levels), ContextEntropy())``; begin with ``make(first)``.
    Source: AdaQuantFL, Jhunjhunwala et al. 2021, arXiv 2102.04487.

    >>> rule = AdaptiveLevels(make=print, first=2)
    >>> for loss in (2.0, 0.5, 0.02):
    ...     _ = rule({"loss": loss})
    2
    4
    20
    """

    make: Callable[[int], Codec]
    first: int
    most: int = 255  # levels; larger = less compression in the end
    first_loss: float | None = None  # the loss of the first record

    def __post_init__(self) -> None:
        if not 1 <= self.first <= self.most:
            raise ValueError(f"first={self.first} levels: must be 1 to most={self.most}")

    def __call__(self, record: Record) -> Codec | None:
        """The codec for this loss; None for a round without a loss."""
        if "loss" not in record:
            return None
        loss = float(record["loss"])
        self.first_loss = loss if self.first_loss is None else self.first_loss
        ratio = max(self.first_loss, 0.0) / loss if loss > 0 else math.inf
        # a loss may have rounding errors: ceil(2.0000000001) would be one level too many
        levels = math.sqrt(min(ratio, self.most**2)) * self.first
        return self.make(min(max(math.ceil(levels - 1e-9), 1), self.most))


@dataclass
class ByteBudget:
    """Spend a given number of bytes, both directions together, by changing the kept fraction.

    The share of the next updates is the rest of the budget, divided by the number of rounds left,
    minus the cost of sending the model down. ``fraction`` is multiplied by the ratio of this share
    to the size of the last updates. ``make(fraction)`` makes the codec, e.g.
    ``lambda fraction: ErrorFeedback(Pipeline(TopK(fraction), Quantize(8), Entropy()))``; begin
    with ``make(fraction)``. Bytes should grow roughly as the fraction does.

    >>> rule = ByteBudget(make=lambda fraction: print(round(fraction, 3)), nbytes=10_000, rounds=10)
    >>> _ = rule({"step": 1, "nbytes_up": 2000, "nbytes_down": 100, "nbytes": 2100})
    0.004
    """

    make: Callable[[float], Codec]
    nbytes: int  # on all links, at the end
    rounds: int
    fraction: float = 0.01  # of the next round
    _before: dict[str, int] = field(default_factory=dict)  # totals of the last record

    def __post_init__(self) -> None:
        if not 0 < self.fraction <= 1:
            raise ValueError(f"fraction={self.fraction}: to begin with, above 0 and at most 1")

    def __call__(self, record: Record) -> Codec | None:
        """The codec of the next round; None after the last round.

        Raises ValueError if the rest of the budget is not enough to send the model down.
        """
        up, down = (self._since(record, key) for key in ("nbytes_up", "nbytes_down"))
        if (num_left := self.rounds - int(record["step"])) < 1:
            return None
        left = self.nbytes - int(record["nbytes"])
        if (share := left / num_left - down) <= 0:
            raise ValueError(
                f"{left:,} bytes are left for {num_left} rounds, and a round costs {down:,} on the "
                "way down alone: compress the kind 'model' too, or raise nbytes"
            )
        if up:
            self.fraction *= min(max(share / up, 0.25), 4.0)
            self.fraction = min(max(self.fraction, 1e-6), 1.0)
        return self.make(self.fraction)

    def _since(self, record: Record, key: str) -> int:
        total = int(record[key])
        spent = total - self._before.get(key, 0)
        self._before[key] = total
        return spent
