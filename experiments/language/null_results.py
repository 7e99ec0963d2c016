"""The null rows of the language tables as they are stored, for the tables to show."""

from collections.abc import Mapping
from statistics import mean

from experiments.runs import STORED, Result, Runs, read

PATH = STORED / "language_null.jsonl"
SEND, ALONE = "send the text", "owner alone"
MEAN, WORST = "each owner alone, mean", "each owner alone, worst"
COMMONEST, BEFORE = "nothing: how common each character is", "nothing: the model before"


def rows(part: str, title: str) -> dict[str, Runs]:
    """What is there of a task, by name and seed; single owners become their mean and the worst."""
    found: dict[str, Runs] = {}
    owners: dict[int, list[Result]] = {}
    for result in read(PATH).values():
        if (result["part"], result["title"]) != (part, title):
            continue
        if result["name"] == ALONE:
            owners.setdefault(result["seed"], []).append(result)
        else:
            found.setdefault(result["name"], {})[result["seed"]] = result
    for seed, each in owners.items():
        nats = [result["nats"] for result in each]
        for name, value in ((MEAN, mean(nats)), (WORST, max(nats))):
            found.setdefault(name, {})[seed] = {**each[0], "nats": value}
    return found


def data_nbytes(part: str, title: str) -> dict[int, int]:
    """The bytes of a task's windows without loss, by seed."""
    known = (r for r in read(PATH).values() if (r["part"], r["title"]) == (part, title))
    return {result["seed"]: result["data"] for result in known}


def times(runs: Runs, data: Mapping[int, int]) -> str:
    """Bytes over those of the data without loss; three digits of it are known."""
    return three_digits(mean(run["nbytes"] / data[seed] for seed, run in runs.items()))


def three_digits(factor: float) -> str:
    """In words.

    >>> three_digits(131505.4), three_digits(35.52)
    ('132,000', '35.5')
    """
    return f"{float(f'{factor:.3g}'):,g}"
