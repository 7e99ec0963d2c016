"""What it takes to send the text to one worker, who trains alone.

The receiver holds all windows, so it can compute what the workers compute together at every step in
float32, on the same windows, and gets their model up to rounding. So the loss of these rows is that
of the stored runs, and only the bytes are measured here.
"""

from collections.abc import Mapping
from functools import partial

import torch

from experiments.language.data_parallel import deal
from experiments.language.task import FRESH_SEEDS, Task, text_of
from experiments.runs import STORED, Result, Row, Runs, fill, read
from fltoolkit import Channel
from fltoolkit_research.pooled import lossless

PATH = STORED / "language_text.jsonl"


def run(task: Task, seed: int) -> Result:
    """The others send their windows to the first worker: what that took, in real messages.

    ``data``: the training text in one piece, the yardstick of "times the data".
    """
    channel = Channel({"samples": lossless()})
    first, *others = deal(task, seed, by_role=False).items()
    for name, (x, y) in others:
        windows = torch.cat([x, y[:, -1:]], dim=1)
        channel.send(name, first[0], "samples", {"x": windows})
    text, _ = text_of(task.text).windows(task.context)
    return {
        **{"seed": seed, "text": task.text, "workers": task.workers},
        "to_one": channel.nbytes(),
        "data": len(lossless().encode({"x": text.flatten()})),
    }


def holding_all(row: Row) -> Row:
    """The row; where one worker has the whole text, its runs with the bytes that brought it there.

    Stored are the bytes of training, which are none.
    """
    setting, runs = row
    sent = {result["seed"]: result for result in read(PATH).values()}
    return (setting, with_bytes(runs, sent)) if setting.whole_text else row


def with_bytes(runs: Runs, sent: Mapping[int, Mapping[str, int]]) -> Runs:
    """The same runs with the bytes of the text in place of their own."""
    return {
        seed: {**result, "nbytes": sent[seed]["to_one"], "uplink": sent[seed]["to_one"]}
        for seed, result in runs.items()
        if seed in sent
    } or runs


def measure(task: Task) -> None:
    """Send the text for each seed that is not in the file."""
    fill({str(seed): partial(run, task, seed) for seed in FRESH_SEEDS}, PATH)
