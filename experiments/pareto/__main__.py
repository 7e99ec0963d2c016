"""The headline: split and federated methods, their codecs and schedules, on one axis of bytes.

    python -m experiments.pareto --data digits            # five seeds; goes on where it was
    python -m experiments.pareto --data mnist --seeds 0   # estimated: under two hours
    python -m experiments.pareto --only STC               # methods whose name holds this
    python -m experiments.pareto --report                 # docs/results.md and its figures

Results go to ``runs/pareto.jsonl``. What is there, or in the file that goes with the repository, is
not run again.
"""

import argparse
from pathlib import Path

from experiments.pareto.report import MODULES, read_kept, write
from experiments.pareto.settings import PARTITIONS, TASKS, experiments
from fltoolkit_research import Store, sweep

STORE = Path("runs") / "pareto.jsonl"


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", choices=TASKS, default="digits")
    parser.add_argument("--seeds", type=int, nargs="+", default=[*range(5)], help="default: 0 to 4")
    parser.add_argument("--only", default="", help="methods whose name holds this")
    parser.add_argument("--workers", type=int, default=1, help="processes (default: 1)")
    parser.add_argument("--report", action="store_true", help="write docs/results.md, run nothing")
    args = parser.parse_args()
    store = Store(STORE, MODULES)
    if args.report:
        write(store)
        return
    words = [w for w in PARTITIONS if f"({w})" in args.only] or PARTITIONS
    kept = {result.experiment.key for result in read_kept()}
    todo = [e for e in experiments(args.data, args.seeds, words) if args.only in e.name]
    todo = [e for e in todo if e.key not in kept]
    for result in sweep(todo, store=store, workers=args.workers):
        e, last = result.experiment, result.history[-1] if len(result.history) else {}
        words = result.error.strip().splitlines()[-1] if result.error else ""
        score = f"{100 * last['accuracy']:6.2f} % {last['nbytes'] / 1e6:9.2f} MB" if last else ""
        print(f"{e.name:46s} seed {e.seed} {score} {result.seconds:6.1f} s {words}")


if __name__ == "__main__":
    main()
