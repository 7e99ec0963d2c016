"""The command line that the split part and the fine-tuning part share, and their page.

Not here: what they run (split.py, finetune.py).
"""

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from experiments.runs import Result, read, sweep, write_between

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "language_results.md"


def main(
    name: str,
    tasks: Mapping[str, Any],
    settings: Callable[[Any], list[Any]],
    run: Callable[[Any, Any, int], Result],
    told: Callable[[Result], str],
    report: Callable[[Mapping[str, Result]], str],
    candidates: Callable[[Any], list[Any]],
) -> None:
    """Run what is missing, or print the tables, or write them into the page."""
    parser = argparse.ArgumentParser(prog=f"python -m experiments.language.{name}")
    parser.add_argument("--task", choices=tasks, help="only this task")
    parser.add_argument("--only", default="", help="settings whose name holds this")
    parser.add_argument("--seeds", type=int, nargs="+", help="instead of each setting's own")
    parser.add_argument("--choose", action="store_true", help="the runs that chose learning rates")
    default = ROOT / "experiments" / "results" / f"language_{name}.jsonl"
    parser.add_argument("--out", type=Path, default=default)
    parser.add_argument("--report", action="store_true", help="print the tables")
    parser.add_argument("--write", action="store_true", help="write the tables into the page")
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.report:
        print(report(read(args.out)))
    elif args.write:
        write_between(PAGE, *marks(name), report(read(args.out)))
    else:
        jobs = [
            (task, setting, seed)
            for title, task in tasks.items()
            for setting in (candidates if args.choose else settings)(task)
            for seed in args.seeds or setting.seeds
            if args.task in (None, title) and args.only in setting.name
        ]
        sweep(run, jobs, args.out, told=told)


def marks(name: str) -> tuple[str, str]:
    """Between which the page holds the tables of this part."""
    return f"<!-- begin: python -m experiments.language.{name} --write -->", f"<!-- end: {name} -->"
