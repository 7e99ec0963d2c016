"""What does it cost that the server sees no single update?

    python -m experiments.secrecy                  # MNIST, ten and a hundred clients; goes on
    python -m experiments.secrecy --data digits    # a small data set, in a minute or two
    python -m experiments.secrecy --only "2 bits"  # settings whose name holds this
    python -m experiments.secrecy --attack         # what is reconstructed from what the server sees
    python -m experiments.secrecy --intersection   # what finding shared samples costs
    python -m experiments.secrecy --language       # a small GPT, few steps
    python -m experiments.secrecy --noise          # accuracy over bytes over epsilon
    python -m experiments.secrecy --figure         # docs/images/secrecy.png, of what is there
    python -m experiments.secrecy --report         # the tables of what is there

Each finished run is one line of JSON in ``--out`` and is not run again; Ctrl-C loses only the
run in progress. What came out: docs/secrecy.md.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from experiments.runs import add, read, sweep
from experiments.secrecy.attack import attack
from experiments.secrecy.figure import draw
from experiments.secrecy.intersection import SIZES, intersection
from experiments.secrecy.language import WAYS, language
from experiments.secrecy.noise import NAMES, noise
from experiments.secrecy.report import report
from experiments.secrecy.run import run
from experiments.secrecy.settings import SEEDS, TASKS, settings
from experiments.secrecy.under_mask import under_mask

RESULTS = Path(__file__).parents[1] / "results" / "secrecy.jsonl"


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", choices=TASKS, default="mnist")
    parser.add_argument("--only", default="", help="settings whose name holds this")
    parser.add_argument("--clients", type=int, help="only settings with so many clients")
    parser.add_argument("--seeds", type=int, nargs="+", help="instead of each setting's own")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--attack", action="store_true", help="attacks instead of training")
    parser.add_argument("--intersection", action="store_true", help="whom two owners share")
    parser.add_argument("--language", action="store_true", help="a small GPT")
    parser.add_argument("--noise", action="store_true", help="accuracy, bytes and epsilon")
    parser.add_argument("--figure", action="store_true", help="draw bytes by kind")
    parser.add_argument("--report", action="store_true", help="print the tables")
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.figure:
        print(draw(read(args.out)))
        return
    if args.report:
        print(report(read(args.out)))
        return
    task, seeds = TASKS[args.data], args.seeds or SEEDS
    try:
        if args.attack:
            attacks(args.data, args.out, seeds)
            return
        if args.language:
            languages(args.out, seeds)
            return
        if args.noise:
            noises(args.out, seeds)
            return
        if args.intersection:
            intersections(args.out, seeds)
            return
        chosen = [
            s
            for s in settings(task)
            if args.only in s.name and args.clients in (None, s.num_clients)
        ]
        jobs = [(task, s, seed) for s in chosen for seed in args.seeds or s.seeds]
        sweep(run, jobs, args.out)
    except KeyboardInterrupt:
        print("stopped: what is finished is kept, run again to go on")


def attacks(data: str, path: Path, seeds: Sequence[int]) -> None:
    """Attacks, and compression under a mask; what is there already is not run again."""
    there = read(path)
    if (key := f"under mask, {data}") not in there:
        keep(path, key, {"what": "under mask", "found": under_mask(data)})
    for seed in seeds:
        for bits in (24, 2, 8, 4):
            if (key := f"attack, {data}, {bits} bits, seed {seed}") not in there:
                keep(path, key, {"what": "attack", **attack(data, bits, 600, 200, seed)})


def intersections(path: Path, seeds: Sequence[int]) -> None:
    """Bytes of ``align`` beside those of the training; what is there is not run again."""
    there = read(path)
    for num_ids in SIZES:
        for seed in seeds:
            if (key := f"intersection, {num_ids} ids, seed {seed}") not in there:
                keep(path, key, intersection(num_ids, seed))


def languages(path: Path, seeds: Sequence[int]) -> None:
    """Nats and bytes of a small GPT; what is there is not run again."""
    there = read(path)
    for seed in seeds:
        for name in WAYS:
            if (key := f"language, {name}, seed {seed}") not in there:
                keep(path, key, language(name, seed))


def noises(path: Path, seeds: Sequence[int]) -> None:
    """Accuracy, bytes and epsilon of each row; what is there is not run again."""
    there = read(path)
    for seed in seeds:
        for name in NAMES:
            if (key := f"noise, {name}, seed {seed}") not in there:
                keep(path, key, noise(name, seed))


def keep(path: Path, key: str, result: dict[str, Any]) -> None:
    """One more line of the file."""
    add(path, {"key": key, **result})
    print(result, flush=True)


if __name__ == "__main__":
    main()
