"""Seconds on links whose rate and delay are set, between two processes of this machine.

    python -m experiments.links              # what is missing; needs Linux, root and iproute2
    python -m experiments.links --report     # the tables from what is there

Each finished link is one line of JSON in ``--out`` and is not run again. Run it on a quiet machine:
what else computes there is measured as well.
"""

import argparse
from pathlib import Path

from experiments.links.report import report
from experiments.links.run import run
from experiments.links.settings import REPEATS, settings
from experiments.runs import Result, read, rows_of, sweep

RESULTS = Path(__file__).parents[1] / "results" / "links.jsonl"


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
    args = parser.parse_args()
    chosen = [s for s in settings(args.repeats) if args.only in s.name]
    if args.report:
        print(report(rows_of(None, chosen, read(args.out))))
        return
    jobs = [(None, setting, n) for n in range(args.repeats) for setting in chosen]
    try:
        sweep(run, jobs, args.out, told=told)
    except KeyboardInterrupt:
        print("stopped: what is finished is kept, run again to go on")


if __name__ == "__main__":
    main()
