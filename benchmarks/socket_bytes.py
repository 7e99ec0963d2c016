"""Bytes that the hook of DistributedDataParallel counts, beside those that the kernel sent.

    python -m benchmarks.socket_bytes    # Linux, some seconds

Two processes train a network in a network namespace of their own, where no other program sends:
the counter of its loopback interface (/proc/net/dev) is what really crossed, TCP and IP headers
included. The difference between a long and a short run is divided by its steps, so that the start
of the process group does not count.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from fltoolkit import Channel
from fltoolkit.codecs import Codec, Entropy, ErrorFeedback, Pipeline, Quantize, TopK
from fltoolkit_engines.ddp_hook import metered

SIZE, SHORT, LONG = 2, 20, 120
CODECS: dict[str, dict[str, Codec]] = {
    "float32": {},
    "8 bits": {"update": Pipeline(Quantize(8), Entropy())},
    "top-k 1 %, 8 bits, residual": {
        "update": ErrorFeedback(Pipeline(TopK(0.01), Quantize(8), Entropy()))
    },
}


def sent() -> int:
    """Bytes that the loopback interface of this namespace has sent."""
    lines = Path("/proc/net/dev").read_text().splitlines()
    return int(next(line for line in lines if line.strip().startswith("lo:")).split()[9])


def train(rank: int, where: str) -> None:
    """One of the processes; the first one prints a row for each codec."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=where, rank=rank, world_size=SIZE)
    for name, codecs in CODECS.items():
        counted = []
        for steps in (SHORT, LONG):
            torch.manual_seed(0)
            network = nn.Sequential(nn.Linear(784, 200), nn.ReLU(), nn.Linear(200, 10))
            model, channel = DistributedDataParallel(network), Channel(codecs)
            model.register_comm_hook(None, metered(channel))
            dist.barrier()
            before = sent()
            for _ in range(steps):
                loss = nn.functional.cross_entropy(
                    model(torch.randn(32, 784)), torch.arange(32) % 10
                )
                model.zero_grad()
                loss.backward()
            dist.barrier()
            counted.append((channel.nbytes(), sent() - before))
        (short, short_real), (long, long_real) = counted
        ours, real = (long - short) / (LONG - SHORT), (long_real - short_real) / (LONG - SHORT)
        if not rank:
            more = f"{real - ours:,.0f} ({100 * (real / ours - 1):.1f} %)"
            print(f"| {name} | {ours:,.0f} | {real:,.0f} | {more} |", flush=True)


def main() -> None:
    """Start both processes in a namespace; without arguments, make the namespace first."""
    if len(sys.argv) > 1:
        torch.multiprocessing.spawn(train, (sys.argv[1],), nprocs=SIZE)
        return
    print(
        "| gradients of 159,010 values | counted a step | sent a step | more |\n|---|---|---|---|",
        flush=True,
    )
    with tempfile.TemporaryDirectory() as folder:
        again = (
            f"ip link set lo up && {sys.executable} -m benchmarks.socket_bytes file://{folder}/meet"
        )
        subprocess.run(
            ["unshare", "--user", "--map-root-user", "--net", "sh", "-c", again], check=True
        )


if __name__ == "__main__":
    main()
