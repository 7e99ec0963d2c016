"""Nats a character against bytes really sent, for language models trained by several parties.

    python -m experiments.language                      # all settings; goes on where it was
    python -m experiments.language --only DiLoCo        # settings whose name holds this
    python -m experiments.language --seeds 10           # one seed of each first
    python -m experiments.language --send-text          # the bytes of the text, sent away
    python -m experiments.language --report             # the tables, from what is there
    python -m experiments.language --write              # the same, into docs/language_results.md

Each finished run is a line of JSON in ``--out`` and is not run again; Ctrl-C loses only the run in
progress.
"""

from experiments.language import data_parallel, pooled
from experiments.language.report import PAGE, report
from experiments.language.task import Task
from experiments.runs import STORED, Result, chosen, jobs_of, options, read, rows_of, sweep

RESULTS = STORED / "language.jsonl"


def summary(result: Result) -> str:
    """Nats and bytes in one line."""
    return f"{result['nats']:.3f} nats {result['nbytes'] / 1e6:9.2f} MB"


def main() -> None:
    """The command line."""
    parser = options(__doc__, RESULTS)
    parser.add_argument("--seeds", type=int, nargs="+", help="instead of each setting's own")
    parser.add_argument("--send-text", action="store_true", help="what sending the text takes")
    args = parser.parse_args()
    task = Task()
    settings = data_parallel.settings(task)
    if args.send_text:
        pooled.measure(task)
    elif args.report or args.write:
        PAGE.tell(report(rows_of(task, settings, read(args.out))), args)
    else:
        jobs = jobs_of(task, chosen(settings, args))
        sweep(data_parallel.run, jobs, args.out, summary=summary)


if __name__ == "__main__":
    main()
