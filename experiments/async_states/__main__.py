"""Accuracy against real bytes when the client may fall silent: which gate, at which price?

    python -m experiments.async_states                 # MNIST, all settings; goes on where it was
    python -m experiments.async_states --only freeze   # settings whose name or part holds this
    python -m experiments.async_states --report        # tables and figure from what is there
    python -m experiments.async_states --write         # the same into docs/async_states.md
    python -m experiments.async_states --data digits --epochs 5 --out runs/digits.jsonl
    python -m experiments.async_states --data cifar10  # VGG-11, on a GPU if there is one
    python -m experiments.async_states --data cifar10 --time 20  # bytes and seconds of 20 steps

Each finished run is one line of JSON in ``--out`` and is not run again; Ctrl-C loses only the
runs in progress. What came out: docs/async_states.md.
"""

import argparse
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch

from experiments.async_states.report import BEGIN, END, draw, report
from experiments.async_states.run import run, time_of_steps
from experiments.async_states.settings import CUTS, MODELS, NUM_CLIENTS, SIZES, Task, settings
from experiments.runs import read, rows_of, sweep, write_between

RESULTS = Path(__file__).parents[1] / "results" / "async_states.jsonl"
FIGURE = Path(__file__).parents[2] / "docs" / "images" / "async_states.png"
PAGE = Path(__file__).parents[2] / "docs" / "async_states.md"


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", choices=SIZES, default="mnist")
    parser.add_argument("--model", choices=CUTS, help="by default vgg11 for cifar10, else mlp")
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--clients", type=int, default=NUM_CLIENTS, help="where there are several")
    parser.add_argument("--seeds", type=int, nargs="+", help="instead of each setting's own")
    parser.add_argument("--only", default="", help="settings whose table or name holds this")
    parser.add_argument("--device", help="by default cuda for vgg11 if there is one, else cpu")
    parser.add_argument("--workers", type=int, default=1, help="processes, one torch thread each")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--figure", type=Path, default=FIGURE)
    parser.add_argument("--report", action="store_true", help="print tables, draw the figure")
    parser.add_argument("--write", action="store_true", help="put the tables into the page, draw")
    parser.add_argument("--time", type=int, default=0, metavar="STEPS", help="of vanilla, no data")
    args = parser.parse_args()
    torch.set_num_threads(1)
    task = Task(args.data, args.model or MODELS[args.data], args.epochs, args.clients)
    gpu = task.model == "vgg11" and torch.cuda.is_available()
    device = args.device or ("cuda" if gpu else "cpu")
    if args.time:
        print(time_of_steps(task, args.time, device))
        return
    chosen = [s for s in settings(task) if args.only in f"{s.part}: {s.name}"]
    if args.seeds is not None:
        chosen = [replace(setting, seeds=tuple(args.seeds)) for setting in chosen]
    if args.report or args.write:
        rows = rows_of(task, chosen, read(args.out))
        if args.write:
            write_between(PAGE, BEGIN, END, report(rows))
        else:
            print(report(rows))
        draw(rows, args.figure)
        return
    jobs = [(task, s, seed) for s in chosen for seed in s.seeds]
    sweep(partial(run, device=device), jobs, args.out, workers=args.workers)


if __name__ == "__main__":
    main()
