"""What test_secrecy.py runs in several processes: a server and a process for each client."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
from distributed_scenarios import PATIENCE, end_of, network_and_workers

from fltoolkit.channel import Channel
from fltoolkit.codecs import Pipeline
from fltoolkit.engines.torch_distributed import DistributedChannel
from fltoolkit.federated import Exchange, Local, ddp, diloco
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
    """One process's part: final weights and ledger."""
    model, workers = network_and_workers(channel, CLIENTS)
    list(PROTOCOLS[protocol](model, workers, channel, HOW[how]))
    return end_of(model, channel)


def together(rank: int, tell: Callable[[Any], None]) -> None:
    """One process's part in all runs, one after the other."""
    torch.distributed.init_process_group("gloo", timeout=timedelta(seconds=PATIENCE))
    for protocol in PROTOCOLS:
        for how in HOW:
            with DistributedChannel(RANKS, timeout=PATIENCE) as channel:
                tell((rank, protocol, how, run(protocol, how, channel)))
