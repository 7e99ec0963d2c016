"""Federated averaging with a server and any number of clients in any number of processes.

    torchrun --nproc-per-node 2 examples/torchrun_fedavg.py                 # three clients
    torchrun --nproc-per-node 4 examples/torchrun_fedavg.py --clients 40
    python examples/torchrun_fedavg.py                                      # all in one process

Each process has the samples of its own clients only. The server's process prints the accuracy, the
bytes of all messages and a fingerprint of the weights: the same for any number of processes.
"""

import argparse
import hashlib
import os
from contextlib import nullcontext
from functools import partial

import torch
from torch import Tensor, nn

from fltoolkit import Channel, Party, evaluate, fedavg, load, pack, splitnn_mlp
from fltoolkit.codecs import ErrorFeedback, Pipeline, Quantize, TopK
from fltoolkit.data import Samples, partition_iid
from fltoolkit.federated import Fleet, Local, local_updates
from fltoolkit_engines.torch_distributed import DistributedChannel

SERVER = "server"
LOCAL = Local(batch_size=32, lr=0.1, epochs=1)


def dealt(data: Samples, names: list[str], channel: Channel) -> dict[str, tuple[Tensor, Tensor]]:
    """The samples of the clients in this process; zeros, which nobody reads, for all others."""
    parts = partition_iid(data.y_train, len(names), seed=0)
    clients = {}
    for name, rows in zip(names, parts, strict=True):
        x, y = data.x_train[rows], data.y_train[rows]
        if not channel.is_here(name):
            x, y = torch.zeros(1, x.shape[1]).expand(len(x), -1), torch.zeros_like(y)
        clients[name] = x, y
    return clients


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--compressed", action="store_true", help="the largest 10 % of each update")
    args = parser.parse_args()
    torch.set_num_threads(1)

    names = [f"client_{k}" for k in range(args.clients)]
    num_processes = int(os.environ.get("WORLD_SIZE", 1))
    ranks = {name: k % num_processes for k, name in enumerate([SERVER, *names])}
    sparse = ErrorFeedback(Pipeline(TopK(0.1), Quantize(8)))
    codecs = {"update": sparse, "model": Pipeline(Quantize(8))} if args.compressed else None
    distributed = "RANK" in os.environ
    channel = DistributedChannel(ranks, codecs) if distributed else Channel(codecs)
    with channel if distributed else nullcontext():
        data, model = load("digits").flat(), splitnn_mlp(64, 10, seed=0)
        clients = dealt(data, names, channel)
        one_by_one = partial(local_updates, chunk=1)  # many at once are rounded in another way
        how = {"rounds": args.rounds, "cohort": len(clients), "local": LOCAL}
        for _ in fedavg(model, Fleet(clients, one_by_one), channel, **how):
            pass
    if channel.is_here(SERVER):
        server = Party(SERVER, model, loss_fn=nn.NLLLoss())
        accuracy = evaluate([server], data.x_test, data.y_test)["accuracy"]
        weights = hashlib.sha256(pack(model.state_dict())).hexdigest()[:16]
        print(f"accuracy {accuracy:.4f}, {channel.nbytes():,} bytes, weights {weights}")


if __name__ == "__main__":
    main()
