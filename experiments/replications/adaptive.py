"""Compression that changes during the run: how many values, decided for each round.

A rule reads a record and makes the codec of the next updates: ``Server(tune=rule)``. The memory of
the links' codecs, such as residuals, is kept.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from fltoolkit.codecs.base import Codec
from fltoolkit.history import Record


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
