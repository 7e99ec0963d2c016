"""What leaks at the cut, and at which price in bytes and accuracy does it leak less?

    python -m experiments.leakage                  # digits, 3 seeds; goes on where it was
    python -m experiments.leakage --data mnist     # the same on a subset: 10,000 images
    python -m experiments.leakage --only NoPeek    # settings whose table or name holds this
    python -m experiments.leakage --report         # tables and figures from what is there

Each finished run is one line of JSON in ``--out`` and is not run again; Ctrl-C loses only the
run in progress. What came out: docs/leakage.md.
"""

import argparse
from pathlib import Path

import torch

from experiments.leakage.report import draw, report
from experiments.leakage.run import run, summary
from experiments.leakage.settings import TASKS, settings
from experiments.runs import STORED, read, sweep

RESULTS = STORED / "leakage.jsonl"
IMAGES = Path(__file__).parents[2] / "docs" / "images"


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", choices=TASKS, default="digits")
    parser.add_argument("--seeds", type=int, nargs="+", help="instead of the task's own")
    parser.add_argument("--only", default="", help="settings whose table or name holds this")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--report", action="store_true", help="print tables, draw the figures")
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.report:
        results = read(args.out)
        print(report(results))
        draw(results, IMAGES)
        return
    task = TASKS[args.data]
    chosen = [s for s in settings() if args.only in f"{s.part}: {s.name}"]
    jobs = [(task, s, seed) for seed in args.seeds or task.seeds for s in chosen]
    sweep(run, jobs, args.out, summary=summary)


if __name__ == "__main__":
    main()
