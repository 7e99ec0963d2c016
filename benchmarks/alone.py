"""What is measured in a fresh process: first rounds, and peaks of memory. Goals.py starts these.

    python -m benchmarks.alone thousand     # prints its figures as JSON

A peak is VmHWM of /proc/self/status (Linux), less what was there before.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from torch import nn

from fltoolkit.channel import Channel
from fltoolkit.codecs import Codec, Entropy, ErrorFeedback, Pipeline, Quantize
from fltoolkit.federated import Local, fedavg
from fltoolkit.models import mcmahan_cnn, seeded
from fltoolkit_research.codecs import ContextEntropy

LARGE = 124_000_000  # values of one update


def first_round() -> dict[str, float]:
    """CPU seconds of the first round that a process computes: ten clients, a model of 19 kB."""
    clients = {str(k): (torch.rand(20, 64), torch.randint(10, (20,))) for k in range(10)}
    with seeded(0):
        network = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10), nn.LogSoftmax(1))
    start = time.process_time()
    local = Local(batch_size=20, lr=0.1, epochs=1)
    next(fedavg(network, clients, Channel(), rounds=1, cohort=10, local=local))
    return {"seconds": time.process_time() - start}


def participants(num: int, codecs: dict[str, Codec]) -> dict[str, float]:
    """Peak, in models, and CPU time for each participant of a round with McMahan's CNN, 6.6 MB."""
    samples = torch.rand(1, 1, 28, 28), torch.zeros(1, dtype=torch.int64)
    model = mcmahan_cnn(seed=0)
    nbytes = sum(4 * p.numel() for p in model.parameters())
    local, clients = Local(batch_size=1, lr=0.1, epochs=1), {str(k): samples for k in range(num)}
    run = fedavg(model, clients, Channel(codecs), rounds=1, cohort=num, local=local)
    most, seconds = peak(lambda: next(run))
    return {"models": most / nbytes / num, "GB": most / 1e9, "ms": 1e3 * seconds / num}


def large(coder: Entropy) -> dict[str, float]:
    """One update of many values, 4 bits, a coder, a residual: copies, and the peak in models.

    The peak counts the residual that was there before, and not the update itself.
    """
    x, target = torch.randn(LARGE, generator=torch.Generator().manual_seed(0)), torch.zeros(LARGE)
    copy = min(peak(partial(target.copy_, x))[1] for _ in range(3))
    del target
    codec = ErrorFeedback(Pipeline(Quantize(4), coder))
    codec.encode({"w": x})  # there is no residual yet
    most, seconds = peak(lambda: codec.encode({"w": x}))
    return {"copies": seconds / copy, "models": most / (4 * LARGE) + 1}


def memory(name: str) -> int:
    """Bytes of this process: now (VmRSS), or at most so far (VmHWM)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(name))


def peak(work: Callable[[], object]) -> tuple[int, float]:
    """Bytes that some work added at its peak, and its CPU seconds."""
    Path("/proc/self/clear_refs").write_text("5")  # VmHWM begins anew
    before, start = memory("VmRSS"), time.process_time()
    work()
    return memory("VmHWM") - before, time.process_time() - start


RESIDUAL: dict[str, Codec] = {"update": ErrorFeedback(Pipeline(Quantize(8)))}
WORKS: dict[str, Callable[[], dict[str, float]]] = {
    "first round": first_round,
    "thousand": partial(participants, 1000, {}),
    "residuals": partial(participants, 200, RESIDUAL),
    "Entropy": partial(large, Entropy()),
    "ContextEntropy": partial(large, ContextEntropy()),
}


def measured(name: str) -> dict[str, float]:
    """The figures of one work, from a process of its own."""
    command = [sys.executable, "-m", "benchmarks.alone", name]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps(WORKS[sys.argv[1]]()))
