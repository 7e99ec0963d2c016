"""What does it cost that the server sees no single update?

    python -m experiments.secrecy                  # MNIST, ten and a hundred clients; goes on
    python -m experiments.secrecy --data digits    # a small data set, in a minute or two
    python -m experiments.secrecy --only "2 bits"  # settings whose name holds this
    python -m experiments.secrecy --attack         # what is reconstructed from what the server sees
    python -m experiments.secrecy --noise          # accuracy over bytes over epsilon
    python -m experiments.secrecy --report         # the tables of what is there

Each finished run is one line of JSON in ``--out`` and is not run again; Ctrl-C loses only the
run in progress. What came out: docs/secrecy.md.
"""

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch

from experiments.runs import STORED, Result, fill, read, sweep
from experiments.secrecy.attack import attack, before
from experiments.secrecy.noise import NAMES, noise
from experiments.secrecy.report import report
from experiments.secrecy.run import run
from experiments.secrecy.settings import SEEDS, TASKS, settings

RESULTS = STORED / "secrecy.jsonl"


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", choices=TASKS, default="mnist")
    parser.add_argument("--only", default="", help="settings whose name holds this")
    parser.add_argument("--seeds", type=int, nargs="+", help="instead of each setting's own")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--attack", action="store_true", help="attacks instead of training")
    parser.add_argument("--noise", action="store_true", help="accuracy, bytes and epsilon")
    parser.add_argument("--report", action="store_true", help="print the tables")
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.report:
        print(report(read(args.out)))
        return
    if todo := special(args):
        fill(todo, args.out)
        return
    task = TASKS[args.data]
    chosen = [s for s in settings(task) if args.only in s.name]
    sweep(run, [(task, s, seed) for s in chosen for seed in args.seeds or s.seeds], args.out)


def special(args: argparse.Namespace) -> dict[str, Callable[[], Result]]:
    """What is run instead of training on images, if anything was asked for, by key."""
    each: dict[str, Callable[[int], Result]] = {}
    if args.attack:
        each[f"before, {args.data}"] = partial(before, args.data, 600, 200)
        for bits in (24, 2):
            each[f"attack, {args.data}, {bits} bits"] = partial(attack, args.data, bits, 600, 200)
    elif args.noise:
        each = {f"noise, {name}": partial(noise, name) for name in NAMES}
    return {f"{k}, seed {n}": partial(f, n) for n in args.seeds or SEEDS for k, f in each.items()}


if __name__ == "__main__":
    main()
