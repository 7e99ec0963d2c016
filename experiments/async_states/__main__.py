"""Accuracy against real bytes when the client may fall silent: which gate, at which price?

    python -m experiments.async_states                 # MNIST, all settings; goes on where it was
    python -m experiments.async_states --only freeze   # settings whose name or part holds this
    python -m experiments.async_states --report        # the tables from what is there
    python -m experiments.async_states --write         # the same into docs/async_states.md

Each finished run is one line of JSON in ``--out`` and is not run again; Ctrl-C loses only the
runs in progress. What came out: docs/async_states.md.
"""

from experiments import runs as bench
from experiments.async_states.report import PAGE, report
from experiments.async_states.run import run
from experiments.async_states.settings import Task, settings

RESULTS = bench.STORED / "async_states.jsonl"


def main() -> None:
    """The command line."""
    parser = bench.options(__doc__, RESULTS)
    bench.seeds_and_workers(parser)
    args = parser.parse_args()
    task = Task()
    mine = bench.chosen(settings(task), args)
    if args.report or args.write:
        PAGE.tell(report(bench.rows_of(task, mine, bench.read(args.out))), args)
    else:
        bench.sweep(run, bench.jobs_of(task, mine), args.out, workers=args.workers)


if __name__ == "__main__":
    main()
