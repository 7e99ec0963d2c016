"""Which links, how long, how often. Not here: running them (run.py), the table (report.py)."""

from dataclasses import dataclass

from benchmarks.links.methods import METHODS

MBIT = 125_000.0  # bytes per second
REPEATS = 3
SECONDS = 5.0  # about so long a run takes, by the simple model
UNITS = (4, 40)  # at least and at most


@dataclass(frozen=True)
class Setting:
    """One link. Rates in bytes per second; latency in seconds, one way."""

    up: float
    down: float
    latency: float
    seeds: tuple[int, ...] = tuple(range(REPEATS))  # the repeats' numbers

    @property
    def name(self) -> str:
        """As the table says it."""
        up, down = f"{self.up / MBIT:g}", f"{self.down / MBIT:g}"
        rates = up if up == down else f"{up} up, {down} down"
        return f"{rates} Mbit/s, {1000 * self.latency:g} ms"

    def key(self, task: object, seed: int) -> str:
        """The repeat's number is in place of a seed."""
        return f"{self.name}, repeat {seed}"

    def counts(self) -> dict[str, int]:
        """How many units of each method are run."""
        found = {}
        for name, method in METHODS.items():
            unit = method.unit_nbytes / min(self.up, self.down) + 2 * self.latency + 0.005
            found[name] = min(max(int(SECONDS / unit), UNITS[0]), UNITS[1])
        return found


def settings() -> list[Setting]:
    """From 1 Mbit/s to 1 Gbit/s, near and far, and a home's link with a slower way up."""
    even = [
        Setting(rate * MBIT, rate * MBIT, latency)
        for latency in (0.001, 0.05)
        for rate in (1, 10, 100, 1000)
    ]
    return [*even, Setting(5 * MBIT, 50 * MBIT, 0.01)]
