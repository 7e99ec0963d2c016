"""SplitNN with each party in a process of its own, which has only its own data.

    torchrun --nproc-per-node 2 examples/torchrun_split.py      # alice: images, bob: labels
    torchrun --nproc-per-node 3 examples/torchrun_split.py      # bob in between, carol: labels
    python examples/torchrun_split.py                           # the first, in one process

Each process writes its part of the model and a report into --out. A run that was
killed goes on from its last save when it is started again with the same --out. On two machines run,
at alice's (10.0.0.1), and at bob's the same with --node-rank 1 (see docs/engines.md first):

    torchrun --nnodes 2 --node-rank 0 --nproc-per-node 1 --master-addr 10.0.0.1 \\
        --master-port 29500 examples/torchrun_split.py
"""

import argparse
import itertools
import json
import os
from contextlib import nullcontext
from pathlib import Path

import torch
from torch import Tensor, nn

from fltoolkit import SGD, Batches, Channel, Party, load, splitnn_mlp, train_split
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
    parser.add_argument("--out", type=Path, default=Path("runs/torchrun_split"))
    args = parser.parse_args()
    torch.set_num_threads(1)

    distributed, num_parties = "RANK" in os.environ, int(os.environ.get("WORLD_SIZE", 2))
    names, cuts = NAMES[:num_parties], CUTS[num_parties]
    ranks = {name: rank for rank, name in enumerate(names)}
    settings = {"lr": LR, "batch_size": BATCH_SIZE, "epochs": args.epochs}
    channel = DistributedChannel(ranks, settings=settings) if distributed else Channel()
    with channel if distributed else nullcontext():
        here = channel.here if distributed else set(names)
        model = splitnn_mlp(64, 10, seed=0)
        parties = [
            build(name, model[start:end], here, last=name == names[-1])
            for name, (start, end) in zip(names, itertools.pairwise(cuts), strict=True)
        ]
        x, x_test, y, y_test = own_data(here, names)
        folder = args.out / "-".join(sorted(here))
        folder.mkdir(parents=True, exist_ok=True)
        batches = Batches(x, y, BATCH_SIZE, seed=0).epochs(args.epochs)
        step, loss = channel.resume(folder, parties) if distributed else 0, None
        todo = itertools.islice(batches, step, None)
        for record in without_nan(train_split(parties, todo, channel)):
            loss = record.get("loss")  # only where the labels are
            if distributed and channel.step % 100 == 0:
                channel.save(folder, parties)
        report = {"steps": channel.step, "loss": loss}
        report["nbytes_sent"] = sum(channel.nbytes(sender=name) for name in here)
        report["accuracy"] = accuracy(parties, x_test, y_test, channel)
    own = [party for party in parties if party.name in here]
    torch.save([party.state_dict() for party in own], folder / "model.pt")
    (folder / "report.json").write_text(json.dumps(report))
    print(f"{' and '.join(sorted(here))}: {json.dumps(report)}", flush=True)


if __name__ == "__main__":
    main()
