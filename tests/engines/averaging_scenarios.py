from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from typing import Any

import torch
from core.federated.small import network
from core.federated.small import workers as workers_of
from distributed_scenarios import PATIENCE
from torch import nn

from experiments.secrecy.dropouts import RandomDropouts
from fltoolkit.channel import Channel
from fltoolkit.codecs import Entropy, ErrorFeedback, Pipeline, Quantize, TopK
from fltoolkit.federated import (
    Arrivals,
    Local,
    Polynomial,
    Scripted,
    Server,
    fedavg,
    mean_of_senders,
)
from fltoolkit_engines.torch_distributed import DistributedChannel
from fltoolkit_research.codecs import EDEN
from fltoolkit_research.federated import AllGather, Ring, ThroughServer, ddp, diloco
from fltoolkit_research.secrecy import Grid, PlainSum, SecureSum, SharedRotation

SERVED = {"server": 0, "w0": 1, "w1": 2, "w2": 2}
DEALT = {"server": 0, "w0": 0, "w1": 1, "w2": 1}  # two processes
PEERS = {"w0": 0, "w1": 1, "w2": 2}  # without a server, a process needs a worker
FIVE = {"server": 0, "w0": 1, "w1": 2, "w2": 3, "w3": 4}  # a process for each
ADAM = partial(torch.optim.AdamW, lr=0.02)
STEP = Local(3, optimizer=ADAM, steps=1, clip_norm=1.0)
ROUND = Local(3, optimizer=ADAM, steps=2, keep_state=True)
CLOCK = Scripted({"w0": [1], "w1": [2], "w2": [3]})
ARRIVALS = Arrivals(wait_for=2, staleness=Polynomial(), clock=CLOCK)
LATE = Server(arrivals=ARRIVALS, mean=mean_of_senders)
SUM, SOME = Pipeline(SharedRotation(), Grid(4, top=0.5)), RandomDropouts(0.25, seed=1)
WITH_SUM = partial(diloco, rounds=4, local=Local(3, lr=0.1, steps=2))
RUNS: dict[str, tuple[dict[str, int], Callable[..., Iterator[dict]]]] = {
    "ddp, server": (SERVED, partial(ddp, steps=4, local=STEP, exchange=ThroughServer())),
    "ddp, ring": (PEERS, partial(ddp, steps=4, local=STEP, exchange=Ring())),
    "diloco, all to all": (PEERS, partial(diloco, rounds=3, local=ROUND, exchange=AllGather())),
    "diloco": (DEALT, partial(diloco, rounds=3, local=ROUND)),
    "fedavg": (DEALT, partial(fedavg, rounds=4, cohort=2, local=ROUND)),
    "fedavg, late": (DEALT, partial(fedavg, rounds=5, cohort=3, local=ROUND, server=LATE)),
    "clear sum": (FIVE, partial(WITH_SUM, exchange=PlainSum(SUM, dropouts=SOME))),
    "secret sum": (FIVE, partial(WITH_SUM, exchange=SecureSum(SUM, dropouts=SOME, threshold=0.5))),
    "sparse sum": (FIVE, partial(WITH_SUM, exchange=SecureSum(SUM, threshold=0.3, neighbours=2))),
}
CODED = [(name, coded) for name in RUNS for coded in (False, True) if not (coded and "sum" in name)]


def codecs(name: str) -> dict[str, Any]:
    codec = ErrorFeedback(Pipeline(EDEN(3), Entropy()))
    if "fedavg" in name:  # whose server sends weights
        return {"update": ErrorFeedback(Pipeline(TopK(0.3))), "model": Pipeline(Quantize(8))}
    return {"update": codec, "model": codec}


def run(name: str, channel: Channel) -> dict[str, Any]:
    """One process's part: final weights, ledger and steps; samples of others are zeros here."""
    model, workers = network(), workers_of(len(RUNS[name][0].keys() - {"server"}), each=9)
    for worker, (x, y) in workers.items():
        if not channel.is_here(worker):
            workers[worker] = torch.zeros_like(x), torch.zeros_like(y)
    steps = [record["step"] for record in RUNS[name][1](model, workers, channel)]
    weights = {n: t.tolist() for n, t in model.state_dict().items()}
    transfers = [tuple(t) for t in channel.transfers]
    return {"weights": weights, "transfers": transfers, "steps": steps}


def together(rank: int, tell: Callable[[Any], None], num: int) -> None:
    """One process's part in the runs of ``num`` processes, one after the other."""
    torch.distributed.init_process_group("gloo", timeout=timedelta(seconds=PATIENCE))
    for name, compressed in CODED:
        ranks, coded = RUNS[name][0], codecs(name) if compressed else None
        if max(ranks.values()) == num - 1:
            with DistributedChannel(ranks, coded, timeout=PATIENCE) as channel:
                tell((rank, name, compressed, run(name, channel)))


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
