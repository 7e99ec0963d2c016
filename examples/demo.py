"""Train SplitNN in three shapes, print accuracy and bytes of each, and draw them.

    python examples/demo.py                             # digits, three seeds, under a minute
    python examples/demo.py --data mnist --epochs 15 --seeds 1 --only vanilla   # the classic run

Writes accuracy_over_bytes.png and one JSON-lines history per run into --out.
"""

import argparse
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import torch
from torch import nn

from fltoolkit import (
    SGD,
    Batches,
    Channel,
    History,
    Party,
    evaluate,
    evaluated,
    load,
    plots,
    splitnn_mlp,
    train_split,
    train_splitfed,
)
from fltoolkit.data import Samples, partition_iid
from fltoolkit.history import Record
from fltoolkit_course.plots import watch
from fltoolkit_research.intervals import mean_ci

LR, BATCH_SIZE = 0.03, 64
Run = tuple[Iterator[Record], Channel, int]  # the training, its ledger, its number of steps


def cut_in_two(data: Samples, seed: int, name: str = "alice") -> list[Party]:
    model = splitnn_mlp(data.x_train.shape[1], data.num_classes, seed=seed)
    bottom, top = model[:4], model[4:]
    alice = Party(name, bottom, SGD(bottom.parameters(), lr=LR))
    return [alice, Party("bob", top, SGD(top.parameters(), lr=LR), nn.NLLLoss())]


def along_chain(parties: list[Party], data: Samples, epochs: int, seed: int) -> Run:
    channel, batches = Channel(), Batches(data.x_train, data.y_train, BATCH_SIZE, seed=seed)
    records = train_split(parties, batches.epochs(epochs), channel)
    score = partial(evaluate, parties, data.x_test, data.y_test)
    return evaluated(records, score, every=len(batches)), channel, epochs * len(batches)


def vanilla(data: Samples, epochs: int, seed: int) -> Run:
    return along_chain(cut_in_two(data, seed), data, epochs, seed)


def u_shaped(data: Samples, epochs: int, seed: int) -> Run:
    model = splitnn_mlp(data.x_train.shape[1], data.num_classes, seed=seed)
    head, middle, tail = model[:2], model[2:4], model[4:]
    parties = [
        Party("alice", head, SGD(head.parameters(), lr=LR)),
        Party("bob", middle, SGD(middle.parameters(), lr=LR)),
        Party("alice", tail, SGD(tail.parameters(), lr=LR), nn.NLLLoss()),
    ]
    return along_chain(parties, data, epochs, seed)


def splitfed(data: Samples, epochs: int, seed: int, num_clients: int = 5) -> Run:
    names = [f"alice_{k}" for k in range(num_clients)]
    alices = [cut_in_two(data, seed, name)[0] for name in names]
    bob, channel = cut_in_two(data, seed)[1], Channel()
    parts = partition_iid(data.y_train, num_clients, seed=seed)
    batches = [Batches(data.x_train[i], data.y_train[i], BATCH_SIZE, seed=seed) for i in parts]
    records = train_splitfed(alices, bob, batches, channel, num_rounds=epochs, version=1)
    steps = sum(map(len, batches))
    score = partial(evaluate, [alices[0], bob], data.x_test, data.y_test)
    return evaluated(records, score, every=steps), channel, epochs * steps


METHODS = {
    "vanilla": (vanilla, "vanilla SplitNN"),
    "u_shaped": (u_shaped, "U-shaped, labels stay"),
    "splitfed": (splitfed, "SplitFed v1, 5 Alices"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="digits", help="digits, mnist, fashion_mnist")
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", choices=METHODS, help="one method instead of all")
    parser.add_argument("--out", type=Path, default=Path("runs/demo"))
    args = parser.parse_args()
    torch.set_num_threads(1)
    data = load(args.data).flat()
    args.out.mkdir(parents=True, exist_ok=True)
    histories: dict[str, list[History]] = {}
    print(data, f"\n{args.epochs} epochs, {args.seeds} seed(s), batch {BATCH_SIZE}, lr {LR}\n")
    print(f"{'method':24s}{'accuracy':>24s}{'MB up':>10s}{'MB down':>10s}{'MB sent':>10s}{'s':>7s}")
    for name in [args.only] if args.only else METHODS:
        (train, title), start, runs = METHODS[name], time.perf_counter(), []
        for seed in range(args.seeds):
            records, channel, steps = train(data, args.epochs, seed)
            history = History()
            for record in watch(records, steps, title=f"{name}, seed {seed}"):
                history.append(record)
            history.save(args.out / f"{name}-{seed}.jsonl")
            runs.append(history.having("accuracy"))
        histories[title] = runs
        finals = [100 * run[-1]["accuracy"] for run in runs]
        spread = f"{mean_ci(finals)} %"  # in brackets the 95 % interval by Student's t
        sizes = [runs[0][-1][key] / 1e6 for key in ("nbytes_up", "nbytes_down")]
        seconds = (time.perf_counter() - start) / args.seeds
        print(
            f"{title:24s}{spread:>24s}{sizes[0]:10.2f}{sizes[1]:10.2f}"
            f"{channel.nbytes() / 1e6:10.2f}{seconds:7.1f}"
        )
    ax = plots.accuracy_over_bytes(histories)
    seeds = f", band: {args.seeds} seeds" if args.seeds > 1 else ""
    ax.set_title(f"{data.name}: accuracy over bytes really sent{seeds}", fontsize=10)
    ax.figure.savefig(args.out / "accuracy_over_bytes.png", dpi=144)
    print(f"\nwrote {args.out}/accuracy_over_bytes.png and a history for each run")


if __name__ == "__main__":
    main()
