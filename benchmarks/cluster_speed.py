"""Averaging with very many clients: memory of a round, and clients per second on a Dask cluster.

    python -m benchmarks.cluster_speed                                  # clients per second
    python -m benchmarks.cluster_speed --simulated 1 2 16               # clients that only wait
    python -m benchmarks.cluster_speed --memory                         # takes long
    python -m benchmarks.cluster_speed --memory --where "two workers"   # one part
    python -m benchmarks.cluster_speed --link                           # memory of one link
    python -m benchmarks.cluster_speed --draw docs/performance.md       # draw the figure

The model has 4,810 parameters (19 kB). Each client has 20 samples and takes one step. Memory is the
most that a process held (VmHWM) in two rounds, the first of which makes every client's memory.
"""

import argparse
import gc
import os
import re
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.links_in_files import LinksInFiles
from fltoolkit.channel import Channel
from fltoolkit.codecs import ErrorFeedback, Pipeline, Quantize, TopK
from fltoolkit.federated import Local, fedavg
from fltoolkit.models import seeded
from fltoolkit_engines.dask import DaskChannel

SPARSE = ErrorFeedback(Pipeline(TopK(0.05), Quantize(8)))
UPDATES = {"as they are": {}, "top-k 5 %, 8 bits, residual": {"update": SPARSE}}


def samples(client: str) -> tuple[Tensor, Tensor]:
    """A client's samples, made from its name."""
    draw = torch.Generator().manual_seed(int(client))
    return torch.rand(20, 64, generator=draw), torch.randint(10, (20,), generator=draw)


def network() -> nn.Sequential:
    with seeded(0):
        return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10), nn.LogSoftmax(dim=1))


class Waiting(nn.Module):
    """The loss of a client on another machine: it only waits, and uses no processor time here."""

    def __init__(self, seconds: float):
        super().__init__()
        self.seconds = seconds

    def forward(self, output: Tensor, y: Tensor) -> Tensor:
        time.sleep(self.seconds)
        return nn.functional.nll_loss(output, y)


def peak(pid: int | str = "self") -> float:
    """The most memory that a process has held so far, in MB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1e3


def seconds_of(channel: Any, clients: Any, num_rounds: int, loss: nn.Module) -> list:
    """The seconds of each round."""
    local = Local(batch_size=20, lr=0.1, epochs=1, loss_fn=loss)
    run = fedavg(network(), clients, channel, rounds=num_rounds, cohort=len(clients), local=local)
    times = [time.perf_counter()]
    times += [time.perf_counter() for _ in run]
    return [end - start for start, end in pairwise(times)]


def memory(num_clients: int, updates: str, where: str) -> None:
    """One line of the table, in a process of its own."""
    torch.set_num_threads(1)
    names, loss = [str(k) for k in range(num_clients)], nn.NLLLoss()
    codecs, workers = UPDATES[updates], ""
    with TemporaryDirectory() as folder:
        # two links for each of the 1,000 clients that `fedavg` trains at a time
        links = LinksInFiles(codecs, max_links=2000, folder=folder)
        if where.startswith("two workers"):
            from distributed import Client, LocalCluster

            machines = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
            with machines, Client(machines) as dask:
                channel = DaskChannel(dask, samples, codecs)
                channel.links = links if "files" in where else channel.links
                seconds = seconds_of(channel, channel.fleet(names), 2, loss)
                pids = dask.run(__import__("os").getpid).values()
                workers = f"{max(map(peak, pids)):14.0f}"
        else:
            clients = {name: samples(name) for name in names}
            channel = Channel(codecs)
            channel.links = links if "files" in where else channel.links
            seconds = seconds_of(channel, clients, 2, loss)
        print(
            f"{num_clients:8,d}  {where:28s}{peak():12.0f}{seconds[-1]:10.1f}{workers}", flush=True
        )


def link(number: int = 3_000) -> None:
    """The mean memory of a client's link in one process, after its first message."""
    torch.set_num_threads(1)
    channel, model, before = Channel({"update": SPARSE}), network().state_dict(), 0
    for k in range(50 + number):
        if k == 50:  # by then all that links share is there
            before = resident()
        update = {name: torch.randn_like(weights) for name, weights in model.items()}
        channel.send(str(k), "server", "update", update)
    print(f"a link with top-k 5 %, 8 bits, residual: {(resident() - before) / number / 1e3:.0f} kB")


def resident() -> int:
    """The memory of this process now, in bytes."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


WHERE = "one process", "two workers", "two workers, memory in files"


def memory_table(chosen: list[str]) -> None:
    code = "import sys; from benchmarks.cluster_speed import memory; "
    code += "memory(int(sys.argv[1]), *sys.argv[2:])"
    for updates in UPDATES:
        print(f"\nUpdates: {updates}")
        print(
            f"{'clients':>8s}  {'where':28s}{'server MB':>12s}{'s/round':>10s}{'a worker MB':>14s}"
        )
        for where in chosen:
            for number in (1_000, 10_000):
                subprocess.run(
                    [sys.executable, "-c", code, str(number), updates, where], check=True
                )


def speed_table(num_rounds: int, real: list[int], waiting: list[int]) -> None:
    from distributed import Client, LocalCluster

    print(f"{'workers':>8s}  {'a client':26s}{'updates':30s}{'clients/s':>10s}{'of ideal':>10s}")
    for simulated, counts in ((0.0, real), (0.1, waiting)):
        for updates, codecs in UPDATES.items():
            first = 0.0
            for count in counts:
                machines = LocalCluster(
                    n_workers=count, threads_per_worker=1, dashboard_address=None
                )
                with machines, Client(machines) as dask:
                    dask.wait_for_workers(count)
                    channel = DaskChannel(dask, samples, codecs)
                    num_clients = 40 * count if simulated else 1_000
                    clients = channel.fleet(str(k) for k in range(num_clients))
                    loss = Waiting(simulated) if simulated else nn.NLLLoss()
                    seconds = seconds_of(channel, clients, num_rounds + 1, loss)[1:]
                rate = num_clients / median(seconds)
                first = first or rate / count
                what = (
                    f"waits {1e3 * simulated:.0f} ms (simulated)" if simulated else "one step, here"
                )
                print(
                    f"{count:8d}  {what:26s}{updates:30s}{rate:10.0f}{rate / first / count:10.0%}",
                    flush=True,
                )


FIGURE = Path(__file__).parents[1] / "docs" / "images" / "cluster_speed.png"
ROW = re.compile(r"^ +(\d+)  waits 100 ms \(simulated\) +(.*?) +(\d+) +\d+%$", re.MULTILINE)


def draw(text: str, path: Path = FIGURE) -> None:
    """Clients per second over workers that wait, from the rows that `speed_table` printed."""
    from fltoolkit import plots

    rows = [(int(count), updates, float(rate)) for count, updates, rate in ROW.findall(text)]
    figure = plots.new_figure()
    ax = figure.subplots()
    for updates in dict.fromkeys(row[1] for row in rows):
        points = [(count, rate) for count, name, rate in rows if name == updates]
        ax.plot(*zip(*points, strict=True), marker="o", label=f"updates {updates}")
    most = max(row[0] for row in rows)
    ax.plot([1, most], [10, 10 * most], color="grey", ls=":", label="10 per worker: no other cost")
    ax.set(xlabel="workers, whose clients wait 100 ms", ylabel="clients per second")
    ax.legend()
    figure.savefig(path, dpi=144)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--memory", action="store_true", help="memory of a round")
    parser.add_argument("--link", action="store_true", help="memory of one link")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--where", nargs="+", choices=WHERE, default=list(WHERE))
    parser.add_argument("--workers", nargs="*", type=int, default=[], help="that train")
    parser.add_argument("--simulated", nargs="*", type=int, default=[], help="workers that wait")
    parser.add_argument("--draw", type=Path, metavar="FILE", help="that holds a printed table")
    args = parser.parse_args()
    if args.draw:
        draw(args.draw.read_text(encoding="utf-8"))
    elif args.link:
        link()
    elif args.memory:
        memory_table(args.where)
    elif args.workers or args.simulated:
        speed_table(args.rounds, args.workers, args.simulated)
    else:
        speed_table(args.rounds, [1, 2], [1, 2, 16])
