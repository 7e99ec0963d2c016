"""The null rows of the language tables as they are stored, for the tables to show.

Not here: running them (null_rows).
"""

from pathlib import Path
from statistics import mean

from experiments.runs import Result, Runs, read

PATH = Path(__file__).parents[1] / "results" / "language_null.jsonl"
SEND, ALONE = "send the text", "owner alone"
MEAN, WORST = "each owner alone, mean", "each owner alone, worst"
COMMONEST, BEFORE = "nothing: how common each character is", "nothing: the model before"
NOTHING = (BEFORE, COMMONEST)
REQUIRED = {
    "split": (SEND, BEFORE, COMMONEST),  # the owner alone has all of the text
    "finetune": (SEND, BEFORE, COMMONEST, MEAN, WORST),
}
"""What a table must show of the null rows, by part."""


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


def lacking(part: str, title: str) -> str:
    """A line for the table of a task, which null rows it has not got yet; empty if it has all."""
    there = rows(part, title)
    gone = [name for name in REQUIRED[part] if name not in there]
    return f"Not measured yet: {', '.join(gone)}." if gone else ""


def data_nbytes(part: str, title: str) -> dict[int, int]:
    """The bytes of a task's windows without loss, by seed."""
    known = (r for r in read(PATH).values() if (r["part"], r["title"]) == (part, title))
    return {result["seed"]: result["data"] for result in known}
