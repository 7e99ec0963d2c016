"""What test_averaging.py runs in several processes: workers that train one model."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from typing import Any

import torch
from distributed_scenarios import PATIENCE, end_of, network_and_workers
from torch import nn

from fltoolkit.channel import Channel
from fltoolkit.codecs import EDEN, Entropy, ErrorFeedback, Pipeline, Quantize, TopK
from fltoolkit.engines.torch_distributed import DistributedChannel
from fltoolkit.federated import (
    AllGather,
    Arrivals,
    Local,
    Polynomial,
    Ring,
    Scripted,
    Server,
    Stream,
    ThroughServer,
    ddp,
    demo,
    diloco,
    fedavg,
    mean_of_senders,
    streaming_diloco,
)

SERVED = {"server": 0, "w0": 1, "w1": 2, "w2": 2}
DEALT = {"server": 0, "w0": 0, "w1": 1, "w2": 1}  # two processes
PEERS = {"w0": 0, "w1": 1, "w2": 2}  # without a server, a process needs a worker
ADAM, SGD = partial(torch.optim.AdamW, lr=0.02), partial(torch.optim.SGD, lr=0.02)
STEP = Local(3, optimizer=ADAM, steps=1, clip_norm=1.0)
ROUND = Local(3, optimizer=ADAM, steps=2, keep_state=True)
RUNS: dict[str, Callable[..., Iterator[dict]]] = {
    "ddp, server": partial(ddp, steps=4, local=STEP, exchange=ThroughServer()),
    "ddp, ring": partial(ddp, steps=4, local=STEP, exchange=Ring()),
    "diloco, server": partial(
        diloco, rounds=3, local=ROUND, exchange=ThroughServer(multicast=True)
    ),
    "diloco, all to all": partial(diloco, rounds=3, local=ROUND, exchange=AllGather()),
    "streaming, server": partial(streaming_diloco, rounds=4, local=ROUND, stream=Stream(2)),
    "demo": partial(demo, steps=4, local=Local(3, optimizer=SGD, steps=1), chunk=8),
}
LATE = Arrivals(
    wait_for=2, staleness=Polynomial(), clock=Scripted({"w0": [1], "w1": [2], "w2": [3]})
)
RUNS_OF_TWO: dict[str, Callable[..., Iterator[dict]]] = {
    "fedavg": partial(fedavg, rounds=4, cohort=2, local=ROUND),
    "fedavg, late": partial(
        fedavg, rounds=5, cohort=3, local=ROUND, server=Server(arrivals=LATE, mean=mean_of_senders)
    ),
    "diloco, dealt": partial(diloco, rounds=3, local=ROUND),
}
ALL_RUNS = RUNS | RUNS_OF_TWO


def codecs(name: str) -> dict[str, Any]:
    codec = ErrorFeedback(Pipeline(EDEN(3), Entropy()))
    if "fedavg" in name:  # whose server sends weights
        return {"update": ErrorFeedback(Pipeline(TopK(0.3))), "model": Pipeline(Quantize(8))}
    return {"update": codec, "model": codec}


def run(name: str, channel: Channel) -> dict[str, Any]:
    """One process's part: final weights, ledger and steps."""
    model, workers = network_and_workers(channel, ["w0", "w1", "w2"])
    records = list(ALL_RUNS[name](model, workers, channel))
    return {**end_of(model, channel), "steps": [r["step"] for r in records]}


def together(rank: int, tell: Callable[[Any], None], names: list[str]) -> None:
    """One process's part in these runs, one after the other."""
    torch.distributed.init_process_group("gloo", timeout=timedelta(seconds=PATIENCE))
    for name in names:
        for compressed in (False, True):
            coded = codecs(name) if compressed else None
            with DistributedChannel(ranks_of(name), coded, timeout=PATIENCE) as channel:
                tell((rank, name, compressed, run(name, channel)))


def ranks_of(name: str) -> dict[str, int]:
    """Who lives in which process."""
    if name in RUNS_OF_TWO:
        return DEALT
    return SERVED if "server" in name else PEERS


def failing(rank: int, tell: Callable[[Any], None]) -> None:
    """A run in which the samples of one client hold NaN."""
    try:
        with DistributedChannel({"server": 0, "w0": 1}, timeout=PATIENCE) as channel:
            x = torch.full((9, 6), torch.nan if rank else 0.0)
            clients = {"w0": (x, torch.zeros(9, dtype=torch.int64))}
            model = nn.Sequential(nn.Linear(6, 3), nn.LogSoftmax(1))
            list(fedavg(model, clients, channel, rounds=2, cohort=1, local=ROUND))
    except Exception as error:
        tell((rank, type(error).__name__, str(error)))
