"""The settings: clients, bits, in the clear or in secret, who drops out."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace

from experiments.replications.shared_places import SharedMask
from experiments.runs import digest
from fltoolkit.codecs import Codec, Pipeline
from fltoolkit.codecs.stage import Stage
from fltoolkit_research.secrecy import Grid, SharedRotation

SEEDS = (0, 1, 2)
TOPS = {1: 1.5, 2: 3.0, 4: 4.0, 8: 6.0}
"""The largest value of a grid, by bits, in root mean squares of an update of the typical length."""


@dataclass(frozen=True)
class Task:
    """Who has what, and how the network is trained."""

    data: str
    num_hidden: int
    num_images: int  # of each client
    batch_size: int
    steps: int
    rounds: int
    lr: float
    num_values: int  # of the network
    length: float = 1.0  # of a client's update, about


TASKS = {
    "mnist": Task("mnist", 32, 300, 20, 15, 12, 0.2, 25_450),
    "digits": Task("digits", 32, 14, 7, 8, 5, 0.2, 2_410),
}


@dataclass(frozen=True)
class Setting:
    """How updates travel."""

    name: str
    num_clients: int
    codec: Codec | None  # None: float32 in the clear
    secret: bool = False
    neighbours: int | None = None
    bits: int | None = None  # of the sum
    gone: float = 0.1  # the share of the clients that drops out of each round
    seeds: tuple[int, ...] = SEEDS

    def key(self, task: Task, seed: int) -> str:
        """The same for the same run, whatever it is called."""
        what = asdict(task) | {"seed": seed, "codec": repr(self.codec), "gone": self.gone}
        what |= {"num_clients": self.num_clients, "secret": self.secret}
        what |= {"neighbours": self.neighbours, "bits": self.bits}
        return digest(what)


def grid(task: Task, bits: int, *before: Stage) -> Pipeline:
    """A shared rotation and a grid; 24 bits are the precision of float32, and need no rotation."""
    if bits == 24:
        return Pipeline(Grid(24, top=1.0))
    top = TOPS[bits] * task.length / task.num_values**0.5
    return Pipeline(*before, SharedRotation(), Grid(bits, top=top, stochastic=bits > 1))


def settings(task: Task) -> list[Setting]:
    """All settings, in the order of the tables: ten clients, then a hundred."""
    return [*widths(task, 10), *widths(task, 100), *others(task, 100)]


def widths(task: Task, num_clients: int) -> Iterator[Setting]:
    """Float32 in the clear; then 24, 8, 4 and 2 bits in the clear and in secret.

    The secret runs have one seed with a hundred clients: their weights are those of the clear runs,
    to the last bit, and that is checked.
    """
    yield Setting("float32, plain FedAvg", num_clients, None)
    for bits in (2, 4, 8, 24):
        codec = grid(task, bits)
        yield Setting(f"{bits} bits, clear", num_clients, codec)
        seeds = SEEDS if num_clients < 100 else (0,)
        yield Setting(f"{bits} bits, secret", num_clients, codec, secret=True, seeds=seeds)


def others(task: Task, num_clients: int) -> Iterator[Setting]:
    """Sparse graphs, fewer bits by modulus, votes, fewer values."""
    sparse = Setting("", num_clients, grid(task, 2), True, neighbours=54, seeds=(0,))
    yield replace(sparse, name="2 bits, secret, 54 neighbours")
    yield replace(sparse, name="2 bits, secret, sums modulo 2^7", bits=7)
    for name, codec in (
        ("1 bit (votes), clear", grid(task, 1)),
        ("2 bits, shared mask 25 %, clear", grid(task, 2, SharedMask(0.25))),
    ):
        yield Setting(name, num_clients, codec)
