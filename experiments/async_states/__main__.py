"""Accuracy against real bytes when the client may fall silent: which gate, at which price?

    python -m experiments.async_states                 # MNIST, all settings; goes on where it was
    python -m experiments.async_states --only freeze   # settings whose name or part holds this
    python -m experiments.async_states --report        # tables and figure from what is there
    python -m experiments.async_states --write         # the same into docs/async_states.md
    python -m experiments.async_states --data digits --epochs 5 --out runs/digits.jsonl
    python -m experiments.async_states --data cifar10  # VGG-11, on a GPU if there is one

Each finished run is one line of JSON in ``--out`` and is not run again; Ctrl-C loses only the
runs in progress. What came out: docs/async_states.md.
"""

from functools import partial
from pathlib import Path

import torch

from experiments.async_states.report import PAGE, draw, report
from experiments.async_states.run import run
from experiments.async_states.settings import MODELS, SIZES, Task, settings
from experiments.runs import (
    DOCS,
    STORED,
    chosen,
    jobs_of,
    options,
    read,
    rows_of,
    seeds_and_workers,
    sweep,
)

RESULTS = STORED / "async_states.jsonl"
FIGURE = DOCS / "images" / "async_states.png"


def main() -> None:
    """The command line."""
    parser = options(__doc__, RESULTS)
    seeds_and_workers(parser)
    parser.add_argument("--data", choices=SIZES, default="mnist")
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--device", help="by default cuda for vgg11 if there is one, else cpu")
    parser.add_argument("--figure", type=Path, default=FIGURE)
    args = parser.parse_args()
    torch.set_num_threads(1)
    task = Task(args.data, MODELS[args.data], args.epochs)
    gpu = task.model == "vgg11" and torch.cuda.is_available()
    device = args.device or ("cuda" if gpu else "cpu")
    mine = chosen(settings(task), args)
    if args.report or args.write:
        rows = rows_of(task, mine, read(args.out))
        PAGE.tell(report(rows), args)
        draw(rows, args.figure)
    else:
        sweep(partial(run, device=device), jobs_of(task, mine), args.out, workers=args.workers)


if __name__ == "__main__":
    main()
