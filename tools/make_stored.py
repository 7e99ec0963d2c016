"""Write tests/stored anew: messages, runs, a sweep and saved runs of the code as it is now.

    python tools/make_stored.py               # all
    python tools/make_stored.py messages      # or some: messages, runs, sweep, checkpoint
    python tools/make_stored.py decoded       # what the stored messages decode to now; keeps these

To be run only when a format or a number changes on purpose; the CHANGELOG then says which.
"""

import json
import platform
import shutil
import sys
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

ROOT = Path(__file__).parents[1]
STORED = ROOT / "tests" / "stored"
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import stored_runs  # noqa: E402

from fltoolkit import __version__  # noqa: E402
from fltoolkit.checkpoint import save_run  # noqa: E402
from fltoolkit_research import (  # noqa: E402
    Store,
    read,
    sweep,
)


def write(name: str, value: Any) -> None:
    """As JSON, one line per entry, so that a difference can be read."""
    rows = [f"{json.dumps(key)}: {json.dumps(each)}" for key, each in value.items()]
    (STORED / name).write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")


def messages() -> None:
    here = {"torch": torch.__version__, "numpy": np.__version__, "machine": platform.machine()}
    stored: dict[str, Any] = {"made_with": {"fltoolkit": __version__, **here}}
    for codec in stored_runs.CODECS:
        stored[repr(codec)] = stored_runs.exchanged(codec)
    stored[repr(stored_runs.ANSWER)] = stored_runs.answered()
    write("messages.json", stored)


def decoded() -> None:
    stored = json.loads((STORED / "messages.json").read_text(encoding="utf-8"))
    for codec in stored_runs.CODECS:
        receiver = stored_runs.begun(codec)
        for row in stored[repr(codec)]:
            row["decoded"] = stored_runs.dumped(receiver.decode(bytes.fromhex(row["message"])))
    write("messages.json", stored)


def runs() -> None:
    write("runs.json", {n: stored_runs.summary(run()) for n, run in stored_runs.RUNS.items()})


def a_sweep() -> None:
    (STORED / "sweep.jsonl").unlink(missing_ok=True)
    experiments = read(STORED / "experiments.json")
    results = sweep(experiments, store=Store(STORED / "sweep.jsonl"), progress=False)
    assert not any(result.error for result in results)
    write("keys.json", {f"{e.name}, seed {e.seed}": e.key for e in experiments})


def checkpoint() -> None:
    folder, stored = STORED / "checkpoint", {}
    shutil.rmtree(folder, ignore_errors=True)
    for name, make in stored_runs.RESUMABLE.items():
        whole = make()
        run = stored_runs.finished(whole.train(0), whole.channel, whole.parties)
        stored[name] = stored_runs.summary(run)
        half = make()
        list(islice(half.train(0), half.stop))
        save_run(folder / name, half.saved, half.channel)
        if name == "fedavg":
            assert half.saved[1].late, "nothing would be late when this run goes on"
    write("checkpoint/records.json", stored)


PARTS: dict[str, Callable[[], None]] = {
    "messages": messages,
    "runs": runs,
    "sweep": a_sweep,
    "checkpoint": checkpoint,
}

if __name__ == "__main__":
    torch.set_num_threads(1)
    for part in sys.argv[1:] or PARTS:
        {**PARTS, "decoded": decoded}[part]()
