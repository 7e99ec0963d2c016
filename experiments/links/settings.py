"""Which links, how long, how often. Not here: running them (run.py), the table (report.py)."""

from dataclasses import dataclass, replace

from experiments.links.methods import AHEAD, METHODS

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
    slow_start: bool = True  # TCP begins slowly again after a pause: Linux's default
    methods: tuple[str, ...] = tuple(METHODS)
    seeds: tuple[int, ...] = tuple(range(REPEATS))  # the repeats' numbers

    @property
    def name(self) -> str:
        """As the table says it."""
        up, down = f"{self.up / MBIT:g}", f"{self.down / MBIT:g}"
        rates = up if up == down else f"{up} up, {down} down"
        again = "" if self.slow_start else ", no slow start after a pause"
        return f"{rates} Mbit/s, {1000 * self.latency:g} ms{again}"

    def key(self, task: object, seed: int) -> str:
        """The repeat's number is in place of a seed."""
        which = "" if self.methods == tuple(METHODS) else ", ahead"
        return f"{self.name}{which}, repeat {seed}"

    def counts(self) -> dict[str, int]:
        """How many units of each method are run."""
        found = {}
        for name in self.methods:
            method = {**METHODS, **AHEAD}[name]
            unit = method.unit_nbytes / min(self.up, self.down) + 2 * self.latency + 0.005
            found[name] = min(max(int(SECONDS / unit), UNITS[0]), UNITS[1])
        return found


def settings(repeats: int = REPEATS) -> list[Setting]:
    """From 1 Mbit/s to 1 Gbit/s, near and far, and a home's link with a slower way up."""
    even = [
        Setting(rate * MBIT, rate * MBIT, latency)
        for latency in (0.001, 0.05)
        for rate in (1, 10, 100, 1000)
    ]
    home = Setting(5 * MBIT, 50 * MBIT, 0.01)
    links = [*even, home, replace(home, slow_start=False)]
    ahead = [
        Setting(rate * MBIT, rate * MBIT, latency, methods=tuple(AHEAD))
        for latency in (0.001, 0.05)
        for rate in (1, 10, 100)
    ]
    return [replace(each, seeds=tuple(range(repeats))) for each in (*links, *ahead)]
