"""Nats a character against bytes really sent, for language models trained by several parties.

    python -m experiments.language                      # all settings; goes on where it was
    python -m experiments.language --only DiLoCo        # settings whose name holds this
    python -m experiments.language --seeds 10           # one seed of each first
    python -m experiments.language --layers 4 --width 128 --seeds 10 --report  # another size
    python -m experiments.language --send-text          # the bytes of the text, sent away
    python -m experiments.language --report             # the tables, from what is there
    python -m experiments.language --write              # the same, into docs/language_results.md

Each finished run is a line of JSON in ``--out`` and is not run again; Ctrl-C loses only the run in
progress. A part of the experiment is a module with ``settings(task)``, ``run(task, setting, seed)``
and a table in report.py; `PARTS` names them.
"""

import argparse
from dataclasses import replace
from pathlib import Path

import torch

from experiments.language import data_parallel, pooled
from experiments.language.report import BEGIN, END, tables
from experiments.language.task import Task
from experiments.runs import Result, read, rows_of, sweep, write_between

RESULTS = Path(__file__).parents[1] / "results" / "language.jsonl"
PAGE = Path(__file__).parents[2] / "docs" / "language_results.md"
PARTS = {data_parallel.PART: data_parallel}


def told(result: Result) -> str:
    """Nats and bytes in one line."""
    return f"{result['nats']:.3f} nats {result['nbytes'] / 1e6:9.2f} MB"


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", choices=PARTS, help="only this part of the experiment")
    parser.add_argument("--only", default="", help="settings whose name holds this")
    parser.add_argument("--seeds", type=int, nargs="+", help="instead of each setting's own")
    parser.add_argument("--limit", type=int, help="at most so many runs, then end")
    parser.add_argument("--steps", type=int, default=Task.steps)
    parser.add_argument("--layers", type=int, default=Task.layers, help="of another model size")
    parser.add_argument("--width", type=int, default=Task.width, help="of another model size")
    parser.add_argument("--text", default=Task.text, choices=("shakespeare", "topics"))
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--send-text", action="store_true", help="what sending the text takes")
    parser.add_argument("--report", action="store_true", help="print the tables")
    parser.add_argument("--write", action="store_true", help="write the tables into the page")
    args = parser.parse_args()
    torch.set_num_threads(1)
    task = Task(text=args.text, steps=args.steps, layers=args.layers, width=args.width)
    stored = read(args.out)
    if args.send_text:
        pooled.measure(task)
        return
    if args.report or args.write:
        found = {n: rows_of(task, part.settings(task), stored) for n, part in PARTS.items()}
        if args.write:
            write_between(PAGE, BEGIN, END, tables(found))
        else:
            print(tables(found))
        return
    for name, part in PARTS.items():
        if args.part not in (None, name):
            continue
        chosen = [s for s in part.settings(task) if args.only in s.name]
        if args.seeds is not None:
            chosen = [replace(setting, seeds=tuple(args.seeds)) for setting in chosen]
        jobs = [(task, setting, seed) for setting in chosen for seed in setting.seeds]
        jobs = [job for job in jobs if job[1].key(task, job[2]) not in stored][: args.limit]
        sweep(part.run, jobs, args.out, told=told)


if __name__ == "__main__":
    main()
