"""The law beside stored runs: bytes that were predicted before a run, and those that were sent.

A round of averaging has 2 K messages of P values with so many bits each, so R rounds send about
2 K R P bits / 8; a method is cheaper than the data if that is below N b.
"""

import math
from statistics import mean
from typing import NamedTuple

from experiments.language import pooled
from experiments.null_rows import data_nbytes
from experiments.pareto.report import read_kept
from experiments.pareto.settings import task_of
from experiments.runs import STORED, read
from experiments.tables import markdown


def of_sparse(fraction: float, value_bits: float = 1) -> float:
    """Bits for each of all values if this fraction is sent: its places as entropy, and its values.

    >>> round(of_sparse(0.01), 3)
    0.091
    """
    places = -sum(p * math.log2(p) for p in (fraction, 1 - fraction))
    return places + fraction * value_bits


class Predicted(NamedTuple):
    """A stored kind of runs, and what its settings say before it is run."""

    task: str
    name: str
    links: float  # messages of a round, both ways
    rounds: int
    values: int  # of a message
    bits: float  # of a value, the mean of both ways

    @property
    def nbytes_per_round(self) -> float:
        """M of the law."""
        return self.links * self.values * self.bits / 8

    @property
    def nbytes(self) -> float:
        """Of the whole run."""
        return self.rounds * self.nbytes_per_round


def _both(up: float, down: float, rounds: int, first: float | None = None) -> float:
    """Mean bits of both ways; the first message down may have others."""
    if first is not None:
        down = (first + (rounds - 1) * down) / rounds
    return (up + down) / 2


def predictions() -> list[Predicted]:
    """Runs of three pages, from settings alone."""
    found = []
    for task, rounds, values in (("digits", 25, 97_290), ("mnist", 15, 189_450)):
        stc = of_sparse(0.01)
        for name, bits in (
            ("FedAvg, float32", 32.0),
            ("EF-sign", _both(1, 32, rounds)),
            ("EF-sign, model 8 bits", _both(1, 8, rounds)),
            ("3 bits + EF both ways", 3.0),
            ("STC 1 % both ways", _both(stc, stc, rounds, first=8)),
        ):
            found.append(Predicted(task, name, 20, rounds, values, bits))
    for name, links, rounds, bits in (
        ("AdamW, every step, float32", 8, 600, 32.0),
        ("Muon, H = 10, 2 bits", 8, 60, 2.0),
        ("Muon, H = 10, top 2 %, 2 bits", 12, 60, of_sparse(0.02, 2)),
    ):
        found.append(Predicted("shakespeare", name, links, rounds, 111_425, bits))
    runs = [r for r in read(STORED / "send_data.jsonl").values() if r["kind"] == "Together"]
    name, bits = runs[0]["name"], _both(of_sparse(0.01), of_sparse(0.02), 1)
    rounds, values = round(mean(r["rounds"] for r in runs)), runs[0]["num_parameters"]
    found.append(Predicted("CIFAR-10 (JPEG)", name, 10, rounds, values, bits))
    return found


def _measured() -> dict[tuple[str, str], list[float]]:
    """Bytes of the stored runs, by task and name."""
    found: dict[tuple[str, str], list[float]] = {}
    for result in read_kept():
        e = result.experiment
        if e.name.endswith(" (IID)"):
            key = task_of(e), e.name.removesuffix(" (IID)")
            found.setdefault(key, []).append(result.history[-1]["nbytes"])
    for name, task in (("language", "shakespeare"), ("send_data", "CIFAR-10 (JPEG)")):
        for row in read(STORED / f"{name}.jsonl").values():
            found.setdefault((task, row["name"]), []).append(row["nbytes"])
    return found


def _sizes() -> dict[str, float]:
    """All training samples of each task, compressed."""
    pictures = read(STORED / "send_data.jsonl").values()
    return {
        **{task: data_nbytes(task) for task in ("digits", "mnist")},
        "shakespeare": mean(result["data"] for result in read(pooled.PATH).values()),
        "CIFAR-10 (JPEG)": mean(r["nbytes_data"] for r in pictures if "nbytes_data" in r),
    }


def table() -> str:
    """Predictions beside measurements, as Markdown."""
    found, measured, sizes = [], _measured(), _sizes()
    for p in predictions():
        sent, data = mean(measured[p.task, p.name]), sizes[p.task]
        most_rounds = data / p.nbytes_per_round
        factors = p.nbytes / data, sent / data
        same = "yes" if (factors[0] > 1) == (factors[1] > 1) else "no"
        numbers = map(short, (most_rounds, p.nbytes / 1e6, sent / 1e6, *factors))
        found.append([p.task, p.name, p.rounds, *numbers, same])
    return markdown(
        "task | method | rounds | rounds at which it would equal the data | MB, predicted "
        "| MB, measured | times the data, predicted | measured | same side",
        found,
    )


def short(value: float) -> str:
    """Two digits, without an exponent."""
    return f"{float(f'{value:.2g}'):,g}"
