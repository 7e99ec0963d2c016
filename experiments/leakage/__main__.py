"""What leaks at the cut, and at which price in bytes and accuracy does it leak less?

    python -m experiments.leakage                  # digits, 3 seeds; goes on where it was
    python -m experiments.leakage --data mnist     # the same on a subset: 10,000 images
    python -m experiments.leakage --only NoPeek    # settings whose table or name holds this
    python -m experiments.leakage --report         # the tables of what is there
    python -m experiments.leakage --write          # tables and figures into docs

Each finished run is one line of JSON in ``--out`` and is not run again; Ctrl-C loses only the
run in progress. What came out: docs/leakage.md.
"""

from experiments.leakage.report import draw, report
from experiments.leakage.run import run, summary
from experiments.leakage.settings import TASKS, settings
from experiments.runs import DOCS, STORED, Page, options, read, seeds_and_workers, sweep

RESULTS = STORED / "leakage.jsonl"
PAGE = Page("leakage", "<!-- begin: printed by experiments.leakage -->", "<!-- end: printed -->")


def main() -> None:
    """The command line."""
    parser = options(__doc__, RESULTS)
    seeds_and_workers(parser)
    parser.add_argument("--data", choices=TASKS, default="digits")
    args = parser.parse_args()
    if args.report or args.write:
        results = read(args.out)
        PAGE.tell(report(results), args)
        if args.write:
            draw(results, DOCS / "images")
        return
    task = TASKS[args.data]
    mine = [s for s in settings() if args.only in f"{s.part}: {s.name}"]
    jobs = [(task, s, seed) for seed in args.seeds or task.seeds for s in mine]
    sweep(run, jobs, args.out, workers=args.workers, summary=summary)


if __name__ == "__main__":
    main()
