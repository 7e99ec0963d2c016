"""One of the two parties of a run: it trains every method in turn, and says what each took.

    python -m benchmarks.links.party FILE COUNTS     (in a namespace, with torchrun's environment)

COUNTS is JSON: units by name of method. FILE gets a list of JSON, an entry a method.
"""

import itertools
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import torch
import torch.distributed as dist

from benchmarks.links.methods import CLIENT, METHODS, SERVER
from fltoolkit.channel import Transfer
from fltoolkit_engines.torch_distributed import DistributedChannel

WARM = 2  # units before the clock starts: the first ones allocate memory and open connections


def main(out: Path, counts: dict[str, int]) -> None:
    """Train all methods that are named."""
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo"
    )  # one for all methods: each channel makes a group of its own in it
    here = (CLIENT, SERVER)[int(os.environ["RANK"])]
    methods = [train(name, here, count) for name, count in counts.items()]
    out.write_text(json.dumps(methods))


def train(name: str, here: str, count: int) -> dict[str, float | str]:
    """So many units after the warm ones: begin and end, computing time, bytes, messages."""
    method = METHODS[name]
    with DistributedChannel({CLIENT: 0, SERVER: 1}, method.codecs, timeout=300) as channel:
        records = method.train(channel, here, count + WARM)  # type: ignore[arg-type]
        for _ in range(WARM):
            next(records)
        dist.barrier()  # what the warm units sent has come, on both sides
        first = len(channel.transfers)
        start, cpu = time.time(), time.thread_time()
        for _ in range(count):
            next(records)
        end, cpu = time.time(), time.thread_time() - cpu  # without gloo's own threads
        transfers = list(channel.transfers)[first:]
        return {
            **{"method": name, "count": count, "start": start, "end": end, "cpu": cpu},
            "messages": len(transfers),
            "following": sum(a.sender == b.sender for a, b in itertools.pairwise(transfers)),
            "outgrown": outgrown(channel.transfers)[first:].count(True),
            "nbytes_up": sum(t.nbytes for t in transfers if t.sender == CLIENT),
            "nbytes_down": sum(t.nbytes for t in transfers if t.sender == SERVER),
        }


def outgrown(transfers: Sequence[Transfer]) -> list[bool]:
    """Which messages do not fit into the receiver's buffer: it asks for these a second time.

    The buffer is a quarter longer than the sender's longest message so far, as in
    `fltoolkit_engines.torch_distributed`.
    """
    longest: dict[str, int] = {}
    found = []
    for sent in transfers:
        before = longest.get(sent.sender, 0)
        found.append(sent.nbytes > before + before // 4)
        longest[sent.sender] = max(before, sent.nbytes)
    return found


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
