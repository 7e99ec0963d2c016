"""The command line that the split part and the fine-tuning part share, and their page."""

from collections.abc import Callable, Mapping
from typing import Any

from experiments.runs import STORED, Page, Result, chosen, jobs_of, options, read, sweep


def main(
    name: str,
    tasks: Mapping[str, Any],
    settings: Callable[[Any], list[Any]],
    run: Callable[[Any, Any, int], Result],
    summary: Callable[[Result], str],
    report: Callable[[Mapping[str, Result]], str],
) -> None:
    """Run what is missing, or print the tables, or write them into the page."""
    parser = options(f"python -m experiments.language.{name}", STORED / f"language_{name}.jsonl")
    parser.add_argument("--seeds", type=int, nargs="+", help="instead of each setting's own")
    args = parser.parse_args()
    if args.report or args.write:
        page_of(name).tell(report(read(args.out)), args)
    else:
        jobs = [
            job for task in tasks.values() for job in jobs_of(task, chosen(settings(task), args))
        ]
        sweep(run, jobs, args.out, summary=summary)


def page_of(name: str) -> Page:
    """The page, and between which marks it holds the tables of this part."""
    begin = f"<!-- begin: python -m experiments.language.{name} --write -->"
    return Page("language_results", begin, f"<!-- end: {name} -->")
