"""What it takes to send the text: to one worker who trains alone, or to everybody.

The receiver holds all windows, so it can compute what the workers compute together at every step in
float32, on the same windows, and gets their model up to rounding. So the loss of these rows is that
of the stored runs, and only the bytes are measured here.
"""

import json
from collections.abc import Mapping
from pathlib import Path

import torch

from experiments.language.data_parallel import deal
from experiments.language.task import FRESH_SEEDS, Task, text_of
from experiments.runs import Result, Row, Runs, read
from fltoolkit import Channel
from fltoolkit_research.pooled import lossless

PATH = Path(__file__).parents[1] / "results" / "language_text.jsonl"


def run(task: Task, seed: int) -> Result:
    """Send every worker's windows, and say what that took, all of it in real messages.

    ``to_one``: all others send theirs to the first worker. ``to_all``: each sends its own to every
    other. ``data``: the training text in one piece, the yardstick of "times the data".
    """
    channel = Channel({"samples": lossless()})
    shares = deal(task, seed, by_role=False)
    for name, (x, y) in shares.items():
        windows = torch.cat([x, y[:, -1:]], dim=1)
        for other in shares:
            if other != name:
                channel.send(name, other, "samples", {"x": windows})
    first = next(iter(shares))
    text, _ = text_of(task.text).windows(task.context)
    return {
        **{"key": str(seed), "seed": seed, "text": task.text, "workers": task.workers},
        "to_one": sum(t.nbytes for t in channel.transfers if t.receiver == first),
        "to_all": channel.nbytes(),
        "data": len(lossless().encode({"x": text.flatten()})),
    }


def holding_all(row: Row) -> Row:
    """The row; where one worker has the whole text, its runs with the bytes that brought it there.

    Stored are the bytes of training, which are none.
    """
    setting, runs = row
    sent = {result["seed"]: result for result in read(PATH).values()}
    return (setting, with_bytes(runs, sent, "to_one")) if setting.whole_text else row


def with_bytes(runs: Runs, sent: Mapping[int, Mapping[str, int]], what: str) -> Runs:
    """The same runs with the bytes of the text in place of their own."""
    return {
        seed: {**result, "nbytes": sent[seed][what], "uplink": sent[seed][what]}
        for seed, result in runs.items()
        if seed in sent
    } or runs


def measure(task: Task, path: Path = PATH) -> None:
    """Send the text for each seed that is not in the file."""
    there = read(path)
    for seed in FRESH_SEEDS:
        if str(seed) not in there:
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(run(task, seed)) + "\n")
