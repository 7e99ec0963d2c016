"""The command line that the split part and the fine-tuning part share, and their page.

Not here: what they run (split.py, finetune.py).
"""

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from experiments.runs import Result, put_between, read, sweep

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
        text = between_marks(PAGE.read_text(encoding="utf-8"), name, report(read(args.out)))
        PAGE.write_text(text, encoding="utf-8")
    else:
        jobs = [
            (task, setting, seed)
            for title, task in tasks.items()
            for setting in (candidates if args.choose else settings)(task)
            for seed in args.seeds or setting.seeds
            if args.task in (None, title) and args.only in setting.name
        ]
        sweep(run, jobs, args.out, told=told)


def between_marks(text: str, name: str, tables: str) -> str:
    """The page with new tables between the marks of this part."""
    begin = f"<!-- begin: python -m experiments.language.{name} --write -->"
    end = f"<!-- end: {name} -->"
    return put_between(text, begin, end, tables)
