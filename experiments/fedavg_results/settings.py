"""The settings: codecs both ways, who has which samples, how they learn."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from experiments.replications.dgc import DGC
from experiments.runs import digest
from fltoolkit.codecs import Codec, ErrorFeedback, Pipeline, Quantize, TopK
from fltoolkit_research.codecs import QSGD, STC, ContextEntropy, Difference

BATCH_SIZE, COHORT = 10, 0.1  # B and C of the paper
CHOSEN_ON, SEEDS = 10, (0, 1, 2)  # where settings were chosen, and where they are confirmed
MORE_SEEDS = (*SEEDS, 3, 4)  # of what README says; 3 and 4 were run after the others were seen
LAST = 10  # the accuracy of a run is the mean of its last so many rounds


@dataclass(frozen=True)
class Task:
    """What all settings share. ``rounds`` cuts all runs short, for a trial."""

    data: str = "mnist"
    clients: int = 100
    rounds: int | None = None


@dataclass(frozen=True)
class Setting:
    """One way to train: what is sent in which codec, who has which samples, how they learn."""

    part: str  # the table it belongs to
    name: str
    codecs: Mapping[str, Codec] = field(default_factory=dict)
    seeds: tuple[int, ...] = SEEDS
    rounds: int = 100
    lr: float = 0.1
    local_epochs: int = 1
    model: str = "2nn"
    split: str = "iid"  # or "shards": two of them a client

    def key(self, task: Task, seed: int) -> str:
        """The same for the same run, whatever it is called: so a rerun knows what is there."""
        what = {**self.all_settings(task), "seed": seed, "batch_size": BATCH_SIZE, "cohort": COHORT}
        return digest(what)

    def all_settings(self, task: Task) -> dict[str, Any]:
        """Everything that decides a run but its seed."""
        own = ("lr", "local_epochs", "model", "split")
        return {
            **{**asdict(task), "rounds": min(self.rounds, task.rounds or self.rounds)},
            **{name: getattr(self, name) for name in own},
            **{"masked": False, "pixels": "standardized"},  # as in all stored runs
            "codecs": {kind: repr(self.codecs[kind]) for kind in sorted(self.codecs)},
        }


def small(*stages: Any) -> Pipeline:
    """These stages, and an entropy coder."""
    return Pipeline(*stages, ContextEntropy())


UP = {
    "QSGD, 4 levels": small(QSGD(4)),
    "3 bits + EF": ErrorFeedback(small(Quantize(3))),
    "top-k 1 %": small(TopK(0.01), Quantize(8)),
    "top-k 1 % + EF": ErrorFeedback(small(TopK(0.01), Quantize(8))),
    "STC 1 % + EF": ErrorFeedback(small(STC(0.01))),
    "DGC 1 %": small(DGC(0.01), Quantize(8)),
}
"""Codecs for updates. EF is error feedback; all but the 8-bit row are entropy-coded."""
DOWN = {"8 bits": small(Quantize(8)), "differences in 3 bits": Difference(small(Quantize(3)))}
"""Codecs for the model."""


def settings() -> list[Setting]:
    """All settings, in the order of the tables."""
    return [*iid(), *shards(), *cnn()]


def row(part: str, up: str, down: str, **more: Any) -> Setting:
    """A setting named after its codecs."""
    codecs: dict[str, Codec] = {"update": UP[up], "model": DOWN[down]}
    return Setting(part, f"{up} up, {down} down", codecs, **more)


FLOAT32 = "float32"
WINNER = "3 bits + EF", "differences in 3 bits"  # of four few bits, tried on `CHOSEN_ON`


def iid() -> Iterator[Setting]:
    """The results: settings that were fixed before, on fresh seeds."""
    part = "IID"
    yield Setting(part, FLOAT32, seeds=MORE_SEEDS)
    yield row(part, *WINNER, seeds=MORE_SEEDS)
    eight = Pipeline(Quantize(8))
    yield Setting(part, "8 bits both ways, packed", {"update": eight, "model": eight})
    for up in ("QSGD, 4 levels", "top-k 1 %", "top-k 1 % + EF", "STC 1 % + EF", "DGC 1 %"):
        yield row(part, up, "8 bits")


def shards() -> Iterator[Setting]:
    """Each client has two shards of the sorted samples: mostly two digits."""
    part = "two shards per client"
    more: dict[str, Any] = {"split": "shards", "rounds": 200, "seeds": MORE_SEEDS}
    yield Setting(part, FLOAT32, **more)
    yield row(part, *WINNER, **more)


def cnn() -> Iterator[Setting]:
    """The CNN of the paper, E = 5."""
    more: dict[str, Any] = {"model": "cnn", "rounds": 20, "local_epochs": 5, "seeds": (0,)}
    yield Setting("CNN", FLOAT32, **more)
