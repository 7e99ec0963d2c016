"""The law beside stored runs: bytes that were predicted before a run, and those that were sent.

A round of averaging has 2 K messages of P values with so many bits each, so R rounds send about
2 K R P bits / 8; a method is cheaper than the data if that is below N b.
"""

import json
import math
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from statistics import mean
from typing import NamedTuple

from experiments.language import pooled
from experiments.pareto.report import read_kept
from experiments.runs import read
from experiments.tables import markdown

RESULTS = Path(__file__).parents[1] / "results"
NBYTES_DATA = {"digits": 28_954, "mnist": 7_930_947}
"""All training samples and labels without loss, by
`fltoolkit_research.pooled.lossless_nbytes`; a test measures those of digits again. Other tasks are
read from stored results."""


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
    averaged = [r for r in read(RESULTS / "send_data.jsonl").values() if r["kind"] == "Together"]
    for name in dict.fromkeys(r["name"] for r in averaged):
        runs = [r for r in averaged if r["name"] == name]
        up, down = (float(w.split(" %")[0].split()[-1]) / 100 for w in name.split(", ")[-2:])
        bits, links = _both(of_sparse(up), of_sparse(down), 1), 2 * int(name.split()[0])
        rounds, values = round(mean(r["rounds"] for r in runs)), runs[0]["num_parameters"]
        found.append(Predicted("CIFAR-10 (JPEG)", name, links, rounds, values, bits))
    return found


@lru_cache(maxsize=1)
def _measured() -> dict[tuple[str, str], list[float]]:
    """Bytes of the stored runs, by task and name."""
    found: dict[tuple[str, str], list[float]] = {}
    for result in read_kept():
        e = result.experiment
        if e.name.endswith(" (IID)"):
            key = e.data, e.name.removesuffix(" (IID)")
            found.setdefault(key, []).append(result.history[-1]["nbytes"])
    for name, task in (("language", "shakespeare"), ("send_data", "CIFAR-10 (JPEG)")):
        for line in (RESULTS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            if row.get("kind") != "Sent":
                found.setdefault((task, row["name"]), []).append(row["nbytes"])
    return found


@lru_cache(maxsize=1)
def nbytes_data() -> dict[str, float]:
    """All training samples of each task, compressed."""
    text = [result["data"] for result in read(pooled.PATH).values()]
    pictures = [
        r["nbytes_data"] for r in read(RESULTS / "send_data.jsonl").values() if "nbytes_data" in r
    ]
    other = {"shakespeare": text, "CIFAR-10 (JPEG)": pictures}
    return NBYTES_DATA | {task: mean(sizes) for task, sizes in other.items() if sizes}


class Row(NamedTuple):
    """A prediction beside its measurement."""

    predicted: Predicted
    measured: float  # bytes, the mean of the seeds
    data: float
    most_rounds: float  # after so many it would have sent as much as the data, by prediction

    @property
    def times_predicted(self) -> float:
        """Times the data, before the run."""
        return self.predicted.nbytes / self.data

    @property
    def times_measured(self) -> float:
        """Times the data, of messages that were sent."""
        return self.measured / self.data

    @property
    def agrees(self) -> bool:
        """Whether both lie on the same side of the line."""
        return (self.times_predicted > 1) == (self.times_measured > 1)


def rows() -> Iterator[Row]:
    """Every prediction that has stored runs."""
    data, measured = nbytes_data(), _measured()
    for each in predictions():
        if (each.task, each.name) not in measured or each.task not in data:
            continue
        size = data[each.task]
        most = size / each.nbytes_per_round
        yield Row(each, mean(measured[each.task, each.name]), size, most)


def table() -> str:
    """Predictions beside measurements, as Markdown."""
    found = []
    for row in rows():
        p = row.predicted
        sizes = (row.most_rounds, p.nbytes / 1e6, row.measured / 1e6)
        numbers = map(short, (*sizes, row.times_predicted, row.times_measured))
        found.append([p.task, p.name, p.rounds, *numbers, "yes" if row.agrees else "no"])
    return markdown(
        "task | method | rounds | rounds at which it would equal the data | MB, predicted "
        "| MB, measured | times the data, predicted | measured | same side",
        found,
    )


def short(value: float) -> str:
    """Two digits, without an exponent."""
    return f"{float(f'{value:.2g}'):,g}"
