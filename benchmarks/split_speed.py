"""How fast is split training with real bytes? One command, one table: make bench.

Every figure is a ratio to a named peer measured in the same process, one short piece of work at a
time, in random order, so that a busy machine slows all alike. CPU time, median and quartiles.
"""

import argparse
import io
import pickle
import random
import statistics
import subprocess
import sys
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterator

import torch
import xxhash
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from fltoolkit import SGD, Batches, Channel, Party, pack, splitnn_mlp, train_split, unpack
from fltoolkit.channel import Delivery
from fltoolkit.links import Link
from fltoolkit.trees import Tree

LR = 0.03
Work = Callable[[], object]


def interleaved(works: dict[str, Work], repeats: int, seed: int = 0) -> dict[str, list[float]]:
    """CPU seconds of each piece of work, in rounds of random order."""
    rng, order = random.Random(seed), list(works)
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for work in works.values():
        work()
    for _ in range(repeats):
        rng.shuffle(order)
        for name in order:
            start = time.process_time()
            works[name]()
            seconds[name].append(time.process_time() - start)
    return seconds


def report(title: str, seconds: dict[str, list[float]], unit: str, per: float) -> None:
    """Print a table; the first row is the peer that the ratios are taken against."""
    peer = next(iter(seconds.values()))
    print(f"\n{title}\n{'':34s}{unit:>14s}  ratio to the first [quartiles]")
    for name, values in seconds.items():
        ratios = sorted(a / b for a, b in zip(values, peer, strict=True))
        low, mid, high = statistics.quantiles(ratios, n=4)
        print(
            f"{name:34s}{per / statistics.median(values):14,.0f}  {mid:.3f} [{low:.3f}, {high:.3f}]"
        )


def unsplit_steps(batches: list[tuple[Tensor, Tensor]]) -> Work:
    model, loss_fn = splitnn_mlp(seed=0), nn.NLLLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=LR)

    def train():  # an iterator, as train_split is one
        while True:
            for x, y in batches:
                optimizer.zero_grad()
                loss = loss_fn(model(x), y)
                loss.backward()
                optimizer.step()
                yield {"loss": loss.item()}

    run = train()
    return lambda: next(run)


class WithoutBytes(Channel):
    """Passes tensors on without bytes: the time of a step without messages."""

    def cross(self, link: Link, tree: Tree) -> Delivery:
        return Delivery({name: tensor.detach() for name, tensor in tree.items()}, b"")


def split_steps(
    batches: list[tuple[Tensor, Tensor]], optimizer: type, channel: type[Channel] = Channel
) -> Work:
    model = splitnn_mlp(seed=0)
    alice = Party("alice", model[:4], optimizer(model[:4].parameters(), lr=LR))
    bob = Party("bob", model[4:], optimizer(model[4:].parameters(), lr=LR), nn.NLLLoss())
    forever = (batch for _ in iter(int, 1) for batch in batches)
    run = train_split([alice, bob], forever, channel())
    return lambda: next(run)


def step_works() -> dict[str, Work]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(6400, 784, generator=generator)
    y = torch.randint(10, (6400,), generator=generator)
    batches = list(Batches(x, y, 64, seed=0).epoch(0))
    return {
        "unsplit network, torch SGD": unsplit_steps(batches),
        "split, real bytes, plain SGD": split_steps(batches, SGD),
        "split, no bytes, plain SGD": split_steps(batches, SGD, WithoutBytes),
        "split, real bytes, torch SGD": split_steps(batches, torch.optim.SGD),
    }


def step_table(repeats: int) -> None:
    title = "One training step of the seed model, batch 64"
    report(title, interleaved(step_works(), repeats), "samples/s", 64)


def message_table(repeats: int) -> None:
    h = torch.randn(64, 640)
    memory = memoryview(h.numpy()).cast("B")

    def torch_file() -> Tensor:
        buffer = io.BytesIO()
        torch.save({"h": h}, buffer)
        buffer.seek(0)
        return torch.load(buffer, weights_only=True)

    many = 50  # one alone is too short for the clock
    works: dict[str, Work] = {
        "copy the memory twice": lambda: [bytearray(bytes(memory)) for _ in range(many)],
        "pack + unpack (with checksum)": lambda: [unpack(pack({"h": h})) for _ in range(many)],
        "XXH3 of the message, once": lambda: [xxhash.xxh3_64_digest(memory) for _ in range(many)],
        "zlib.crc32 of it, once": lambda: [zlib.crc32(memory) for _ in range(many)],
        "pickle": lambda: [pickle.loads(pickle.dumps({"h": h})) for _ in range(many)],
        "torch.save + torch.load": lambda: [torch_file() for _ in range(many)],
    }
    title = "One 64 x 640 float32 message (163,840 bytes) to bytes and back"
    report(title, interleaved(works, repeats // 10), "messages/s", many)


def batch_works() -> dict[str, Work]:
    """A batch is dropped before the next one is fetched, as in training."""
    x, y = torch.randn(6400, 784), torch.randint(10, (6400,))

    def slices() -> Iterator[tuple[Tensor, Tensor]]:
        for i in torch.randperm(len(y)).split(64):
            yield x.index_select(0, i), y.index_select(0, i)

    batches = Batches(x, y, 64, seed=0)
    loader = DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True)
    return {
        "randperm + index_select": lambda: deque(slices(), maxlen=0),
        "fltoolkit Batches": lambda: deque(batches.epoch(0), maxlen=0),
        "DataLoader(TensorDataset)": lambda: deque(loader, maxlen=0),
    }


def thread_table() -> None:
    """The same run in fresh processes with one and with two torch threads, taking turns."""
    code = (
        "import sys, time, torch; torch.set_num_threads(int(sys.argv[1])); "
        "sys.path.insert(0, '.'); from benchmarks.split_speed import *; "
        "x, y = torch.randn(6400, 784), torch.randint(10, (6400,)); "
        "b = list(Batches(x, y, 64, seed=0).epoch(0)); "
        "w = split_steps(b, SGD); [w() for _ in range(50)]; t = time.perf_counter(); "
        "[w() for _ in range(300)]; print((time.perf_counter() - t) / 300)"
    )
    wall: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(5):
        for threads, values in wall.items():
            command = [sys.executable, "-c", code, str(threads)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            values.append(float(done.stdout) * 1e6)
    print("\nWall time of a split step by torch threads, five fresh processes each, microseconds")
    for threads, values in wall.items():
        spread = f"min {min(values):.0f}, median {statistics.median(values):.0f}"
        print(f"{threads} thread(s): {spread}, max {max(values):.0f}")


IMPORTS = {
    "import fltoolkit": "import fltoolkit",
    "the names of notebook 01": "from fltoolkit import SGD, Batches, Channel, Party, load, "
    "splitnn_mlp, train_split",
    "all public names": "from fltoolkit import *",
}


def import_seconds(repeats: int) -> dict[str, list[float]]:
    """CPU seconds in fresh processes, after torch was imported."""
    code = (
        "import sys, time, torch; t = time.process_time(); exec(sys.argv[1]); "
        "print(time.process_time() - t)"
    )
    seconds: dict[str, list[float]] = {name: [] for name in IMPORTS}
    for _ in range(repeats):
        for name, line in IMPORTS.items():
            command = [sys.executable, "-c", code, line]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            seconds[name].append(float(done.stdout))
    return seconds


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=2000, help="training steps of each kind")
    repeats = parser.parse_args().repeats
    torch.set_num_threads(1)
    torch.manual_seed(0)
    print(f"torch {torch.__version__}, one thread unless a line names another number")
    step_table(repeats)
    message_table(repeats)
    thread_table()
