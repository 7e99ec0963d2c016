"""What test_secrecy.py runs in several processes: a server and a process for each client."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
from distributed_scenarios import PATIENCE
from torch import nn

from fltoolkit.channel import Channel
from fltoolkit.codecs import Pipeline
from fltoolkit.engines.torch_distributed import DistributedChannel
from fltoolkit.federated import Exchange, Local, ddp, diloco
from fltoolkit.models import seeded
from fltoolkit.secrecy import Grid, PlainSum, RandomDropouts, SecureSum, SharedRotation

CLIENTS = ["w0", "w1", "w2", "w3"]
RANKS = {"server": 0, **{name: k + 1 for k, name in enumerate(CLIENTS)}}
CODEC = Pipeline(SharedRotation(), Grid(4, top=0.5))
SOME = RandomDropouts(0.25, seed=1)
HOW: dict[str, Exchange] = {
    "clear": PlainSum(CODEC, dropouts=SOME),
    "secret": SecureSum(CODEC, dropouts=SOME, threshold=0.5),
    "secret, sparse": SecureSum(CODEC, threshold=0.3, neighbours=2),
}
PROTOCOLS = {
    "ddp": lambda model, workers, channel, how: ddp(
        model, workers, channel, steps=4, local=Local(3, lr=0.1, steps=1), exchange=how
    ),
    "diloco": lambda model, workers, channel, how: diloco(
        model, workers, channel, rounds=4, local=Local(3, lr=0.1, steps=2), exchange=how
    ),
}


def run(protocol: str, how: str, channel: Channel) -> dict[str, Any]:
    """One process's part: final weights and ledger. Clients elsewhere have zeros as samples."""
    with seeded(0):
        model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3), nn.LogSoftmax(1))
    workers = {}
    for k, worker in enumerate(CLIENTS):
        x = torch.randn(9, 6, generator=torch.Generator().manual_seed(k))
        x = x if channel.is_here(worker) else torch.zeros_like(x)
        workers[worker] = (x, x.argmax(1) % 3)
    list(PROTOCOLS[protocol](model, workers, channel, HOW[how]))
    weights = {n: t.tolist() for n, t in model.state_dict().items()}
    return {"weights": weights, "transfers": [tuple(t) for t in channel.transfers]}


def together(rank: int, tell: Callable[[Any], None]) -> None:
    """One process's part in all runs, one after the other."""
    torch.distributed.init_process_group("gloo", timeout=timedelta(seconds=PATIENCE))
    for protocol in PROTOCOLS:
        for how in HOW:
            with DistributedChannel(RANKS, timeout=PATIENCE) as channel:
                tell((rank, protocol, how, run(protocol, how, channel)))
