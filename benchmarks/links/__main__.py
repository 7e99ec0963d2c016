"""Seconds on links whose rate and delay are set, between two processes of this machine.

    python -m benchmarks.links              # what is missing; needs Linux, root and iproute2
    python -m benchmarks.links --report     # the tables from what is there
    python -m benchmarks.links --write      # the same, into docs/links.md

Each finished link is one line of JSON in ``--out`` and is not run again. Run it on a quiet machine:
what else computes there is measured as well.
"""

from benchmarks.links.report import PAGE, report
from benchmarks.links.run import run
from benchmarks.links.settings import REPEATS, settings
from experiments.runs import STORED, Result, chosen, options, read, rows_of, sweep

RESULTS = STORED / "links.jsonl"


def summary(result: Result) -> str:
    """A result in one line."""
    return ", ".join(f"{t['method']} {t['wall']:.2f} s" for t in result["methods"])


def main() -> None:
    """The command line."""
    args = options(__doc__, RESULTS).parse_args()
    mine = chosen(settings(), args)
    if args.report or args.write:
        PAGE.tell(report(rows_of(None, mine, read(args.out))), args)
    else:
        jobs = [(None, setting, n) for n in range(REPEATS) for setting in mine]
        sweep(run, jobs, args.out, summary=summary)


if __name__ == "__main__":
    main()
