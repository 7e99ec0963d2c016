"""Seconds on links whose rate and delay are set, between two processes of this machine.

    python -m experiments.links              # what is missing; needs Linux, root and iproute2
    python -m experiments.links --report     # the tables from what is there
    python -m experiments.links --write      # the same, into docs/links.md

Each finished link is one line of JSON in ``--out`` and is not run again. Run it on a quiet machine:
what else computes there is measured as well.
"""

import argparse
from pathlib import Path

from experiments.links.report import BEGIN, END, report
from experiments.links.run import run
from experiments.links.settings import REPEATS, settings
from experiments.runs import Result, read, rows_of, sweep, write_between

RESULTS = Path(__file__).parents[1] / "results" / "links.jsonl"
PAGE = Path(__file__).parents[2] / "docs" / "links.md"


def told(result: Result) -> str:
    """A result in one line."""
    return ", ".join(f"{t['method']} {t['wall']:.2f} s" for t in result["methods"])


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="links whose name holds this")
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--report", action="store_true", help="print the tables")
    parser.add_argument("--write", action="store_true", help="write the tables into the page")
    args = parser.parse_args()
    chosen = [s for s in settings(args.repeats) if args.only in s.name]
    if args.report or args.write:
        rows = rows_of(None, chosen, read(args.out))
        if args.write:
            write_between(PAGE, BEGIN, END, report(rows))
        else:
            print(report(rows))
        return
    jobs = [(None, setting, n) for n in range(args.repeats) for setting in chosen]
    sweep(run, jobs, args.out, told=told)


if __name__ == "__main__":
    main()
