"""Federated averaging on MNIST: rounds to a goal, and accuracy against real bytes both ways.

    python -m experiments.fedavg_results                  # all settings; goes on where it was
    python -m experiments.fedavg_results --only "seed 10" # settings whose table or name holds this
    python -m experiments.fedavg_results --report         # tables and figure from what is there
    python -m experiments.fedavg_results --data digits --rounds 5 --out runs/digits.jsonl

Each finished run is one line of JSON in ``--out`` and is not run again; Ctrl-C loses only the
runs in progress. What came out: docs/fedavg_results.md.
"""

import argparse
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch

from experiments.fedavg_results.report import BEGIN, END, draw, report
from experiments.fedavg_results.run import run
from experiments.fedavg_results.settings import Task, settings
from experiments.runs import read, rows_of, sweep, write_between

RESULTS = Path(__file__).parents[1] / "results" / "fedavg.jsonl"
FIGURE = Path(__file__).parents[2] / "docs" / "images" / "fedavg_results.png"


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", choices=["mnist", "fashion_mnist", "digits"], default="mnist")
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--rounds", type=int, help="at most so many, for a trial")
    parser.add_argument("--seeds", type=int, nargs="+", help="instead of each setting's own")
    parser.add_argument("--only", default="", help="settings whose table or name holds this")
    parser.add_argument("--device", default="cpu", help="cpu, cuda, ...")
    parser.add_argument("--workers", type=int, default=1, help="processes, one torch thread each")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--figure", type=Path, default=FIGURE)
    parser.add_argument("--report", action="store_true", help="print tables, draw the figure")
    parser.add_argument("--page", type=Path, help="with --report: put the tables into this file")
    args = parser.parse_args()
    torch.set_num_threads(1)
    task = Task(args.data, args.clients, args.rounds)
    chosen = [s for s in settings() if args.only in f"{s.part}: {s.name}"]
    if args.seeds is not None:
        chosen = [replace(setting, seeds=tuple(args.seeds)) for setting in chosen]
    if args.report:
        rows = rows_of(task, chosen, read(args.out))
        print(report(rows))
        draw(rows, args.figure)
        if args.page:
            write_between(args.page, BEGIN, END, report(rows))
        return
    # all settings on one seed before the next seed: whenever it is stopped, rows can be compared
    turns = sorted((turn, n) for n, s in enumerate(chosen) for turn, _ in enumerate(s.seeds))
    jobs = [(task, chosen[n], chosen[n].seeds[turn]) for turn, n in turns]
    sweep(partial(run, device=args.device), jobs, args.out, workers=args.workers)


if __name__ == "__main__":
    main()
