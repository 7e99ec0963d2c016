"""SplitNN with each party in a process of its own, which has only its own data.

    torchrun --nproc-per-node 2 examples/torchrun_split.py      # alice: images, bob: labels
    torchrun --nproc-per-node 3 examples/torchrun_split.py      # bob in between, carol: labels
    python examples/torchrun_split.py                           # the first, in one process

Each process writes its records, its part of the model and its ledger into --out. A run that was
killed goes on from its last save when it is started again with the same --out. On two machines run,
at alice's (10.0.0.1), and at bob's the same with --node-rank 1 (see docs/engines.md first):

    torchrun --nnodes 2 --node-rank 0 --nproc-per-node 1 --master-addr 10.0.0.1 \\
        --master-port 29500 examples/torchrun_split.py
"""

import argparse
import itertools
import json
import os
import time
from contextlib import nullcontext
from pathlib import Path

import torch
from torch import Tensor, nn

from fltoolkit import SGD, Batches, Channel, History, Party, load, splitnn_mlp, train_split
from fltoolkit.codecs import Pipeline, Quantize
from fltoolkit_engines.remote import RemoteParty, absent, without_nan
from fltoolkit_engines.torch_distributed import DistributedChannel

NAMES = ["alice", "bob", "carol"]
CUTS = {2: [0, 4, 6], 3: [0, 2, 4, 6]}  # where the six layers are cut
LR, BATCH_SIZE = 0.03, 64


def build(name: str, layers: nn.Sequential, here: set[str], last: bool) -> Party:
    """The party itself in its own process, and a stand-in in all others."""
    if name not in here:
        return RemoteParty(name)
    loss_fn = nn.NLLLoss() if last else None
    return Party(name, layers, SGD(layers.parameters(), lr=LR), loss_fn)


def own_data(here: set[str], names: list[str]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The data of this process; a real owner would read a file of its own."""
    digits = load("digits").flat()
    x, x_test, y, y_test = digits.x_train, digits.x_test, digits.y_train, digits.y_test
    if names[0] not in here:  # everybody knows how many samples there are
        x, x_test = absent(len(x)), absent(len(x_test))
    if names[-1] not in here:
        y, y_test = absent(len(y)), absent(len(y_test))
    return x, x_test, y, y_test


@torch.no_grad()
def accuracy(parties: list[Party], x: Tensor, y: Tensor, channel: Channel) -> float | None:
    """Of the test samples, whose activations cross the cuts; None where the labels are not."""
    h = x
    for here, there in itertools.pairwise(parties):
        sent = channel.send(here.name, there.name, "activations", {"h": here.forward(h)})
        h = sent["h"]
    output = parties[-1].forward(h)
    known_here = not isinstance(parties[-1], RemoteParty)
    return float((output.argmax(1) == y).float().mean()) if known_here else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--bits", type=int, default=32, help="8: quantize both directions")
    parser.add_argument("--timeout", type=float, default=60, help="seconds, for every wait")
    parser.add_argument("--out", type=Path, default=Path("runs/torchrun_split"))
    args = parser.parse_args()
    torch.set_num_threads(1)

    codec = Pipeline(Quantize(args.bits)) if args.bits < 32 else None
    codecs = {"activations": codec, "gradients": codec} if codec else None
    settings = {"lr": LR, "batch_size": BATCH_SIZE, "seed": args.seed, "epochs": args.epochs}
    num_parties = int(os.environ.get("WORLD_SIZE", 2))
    if num_parties not in CUTS:
        parser.error(f"{num_parties} processes: the network is cut for {[*CUTS]} parties")
    names, cuts = NAMES[:num_parties], CUTS[num_parties]
    ranks = {name: rank for rank, name in enumerate(names)}

    distributed = "RANK" in os.environ
    channel = (
        DistributedChannel(ranks, codecs, timeout=args.timeout, settings=settings)
        if distributed
        else Channel(codecs)
    )
    with channel if distributed else nullcontext():
        here = channel.here if distributed else set(names)
        model = splitnn_mlp(64, 10, seed=args.seed)
        parties = [
            build(name, model[start:end], here, last=name == names[-1])
            for name, (start, end) in zip(names, itertools.pairwise(cuts), strict=True)
        ]
        x, x_test, y, y_test = own_data(here, names)
        folder = args.out / "-".join(sorted(here))
        folder.mkdir(parents=True, exist_ok=True)
        batches = Batches(x, y, BATCH_SIZE, seed=args.seed)
        step = channel.resume(folder, parties) if distributed else 0
        history = History(path=folder / "records.jsonl")
        history.rewind(step)

        start_time = time.perf_counter()
        todo = itertools.islice(batches.epochs(args.epochs), step, None)
        for record in without_nan(train_split(parties, todo, channel)):
            history.append(record)
            if distributed and channel.step % 100 == 0:
                channel.save(folder, parties)
        report = {"steps": channel.step, "seconds": time.perf_counter() - start_time}
        report["nbytes_sent"] = sum(channel.nbytes(sender=name) for name in here)
        report["nbytes_moved"] = channel.nbytes_moved if distributed else 0
        report["loss"] = history[-1].get("loss") if len(history) else None
        report["accuracy"] = accuracy(parties, x_test, y_test, channel)
    own = [party for party in parties if party.name in here]
    torch.save([party.state_dict() for party in own], folder / "model.pt")
    (folder / "report.json").write_text(json.dumps(report))
    print(f"{' and '.join(sorted(here))}: {json.dumps(report)}", flush=True)


if __name__ == "__main__":
    main()
