"""Federated averaging on MNIST: rounds to a goal, and accuracy against real bytes both ways.

    python -m experiments.fedavg_results                  # all settings; goes on where it was
    python -m experiments.fedavg_results --only IID       # settings whose table or name holds this
    python -m experiments.fedavg_results --report         # the tables from what is there
    python -m experiments.fedavg_results --write          # the same into docs/fedavg_results.md

Each finished run is one line of JSON in ``--out`` and is not run again; Ctrl-C loses only the
runs in progress. What came out: docs/fedavg_results.md.
"""

from experiments.fedavg_results.report import PAGE, report
from experiments.fedavg_results.run import run
from experiments.fedavg_results.settings import Task, settings
from experiments.runs import STORED, chosen, options, read, rows_of, seeds_and_workers, sweep

RESULTS = STORED / "fedavg.jsonl"


def main() -> None:
    """The command line."""
    parser = options(__doc__, RESULTS)
    seeds_and_workers(parser)
    args = parser.parse_args()
    task = Task()
    mine = chosen(settings(), args)
    if args.report or args.write:
        PAGE.tell(report(rows_of(task, mine, read(args.out))), args)
        return
    # all settings on one seed before the next seed: whenever it is stopped, rows can be compared
    turns = sorted((turn, n) for n, s in enumerate(mine) for turn, _ in enumerate(s.seeds))
    jobs = [(task, mine[n], mine[n].seeds[turn]) for turn, n in turns]
    sweep(run, jobs, args.out, workers=args.workers)


if __name__ == "__main__":
    main()
