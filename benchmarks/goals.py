"""Where people wait: one table of goals, each compared with other code in the same run.

    python -m benchmarks.goals                  # all of it; `make peers` first, for FedJAX
    python -m benchmarks.goals --only entropy   # one part

All works of a part take turns in one process, in random order, one thread each. Times are process
CPU time, except where a row says *wall*. *Shortest* compares the shortest times of all turns, and
*median* is the median of the ratios within each turn: a busy machine slows both works of a turn
alike. A goal that only the shortest times meet is met on a quiet machine. FedJAX has a process of
its own and takes turns, too.
"""

import argparse
import copy
import itertools
import os
import platform
import statistics
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks import round_speed
from benchmarks.alone import measured
from benchmarks.entropy_coders import update
from benchmarks.split_speed import (
    Work,
    batch_works,
    import_seconds,
    interleaved,
    step_works,
)
from fltoolkit import compiled
from fltoolkit.channel import Channel
from fltoolkit.codecs import (
    Entropy,
    ErrorFeedback,
    Float8,
    Pipeline,
    Quantize,
    TopK,
    floats,
    quantize,
)
from fltoolkit.codecs.places import largest
from fltoolkit.data import load
from fltoolkit.federated import Local, fedavg
from fltoolkit.federated.many_at_once import local_updates
from fltoolkit.models import mcmahan_cnn, seeded
from fltoolkit_research.codecs import DRIVE, EDEN, ContextEntropy, Rotate


class Row(NamedTuple):
    """One line of the table; shortest and median may differ in which of them is larger."""

    work: str
    unit: str
    shortest: float
    median: float
    goal: float = 0  # 0: none
    at_least: bool = False  # else at most

    def met(self) -> str:
        """Whether the goal is met by both measures, by the shortest times only, or not."""
        met = [(x >= self.goal) == self.at_least for x in (self.shortest, self.median)]
        return "" if not self.goal else "yes" if all(met) else "shortest" if met[0] else "no"


def compared(seconds: dict[str, list[float]], work: str, peer: str) -> tuple[float, float]:
    pairs = zip(seconds[work], seconds[peer], strict=True)
    shortest = min(seconds[work]) / min(seconds[peer])
    return shortest, statistics.median(a / b for a, b in pairs)


def processor() -> str:
    """The name that the processor gives itself."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def split() -> Iterator[Row]:
    works = step_works()
    plain, ours, without, *_ = works
    seconds = interleaved({work: works[work] for work in (plain, ours, without)}, 600)
    yield Row(ours, "x unsplit", *compared(seconds, ours, plain), 1.06)
    yield Row(without, "x unsplit", *compared(seconds, without, plain))


def entropy() -> Iterator[Row]:
    num_values = 1_663_370
    x = torch.randn(num_values, generator=torch.Generator().manual_seed(0))
    works: dict[str, Work] = {}
    for coder, bits in (
        (Entropy(), 8),
        (Entropy(), 4),
        (ContextEntropy(), 8),
        (ContextEntropy(), 4),
    ):
        codec, name = Pipeline(Quantize(bits), coder), type(coder).__name__
        works[f"{name} encodes {bits} bits"] = partial(codec.encode, {"w": x})
        works[f"{name} decodes {bits} bits"] = partial(codec.decode, codec.encode({"w": x}))
    for work, times in interleaved(works, 9).items():
        speeds = [4 * num_values / t / 1e6 for t in (min(times), statistics.median(times))]
        goal = 500 if "encodes" in work else 800
        yield Row(f"{work}, N(0,1)", "MB/s", speeds[0], speeds[1], goal, at_least=True)


def codecs(
    num_values: int,
    chosen: dict[str, Pipeline],
    goals: dict[str, float],
    parts: Mapping[str, Callable[[Tensor], object]],
) -> Iterator[Row]:
    """Compared with a copy to memory that was used before; also parts of the work alone."""
    generator = torch.Generator().manual_seed(0)
    tensors = [torch.randn(num_values, generator=generator) for _ in range(5 * 10**7 // num_values)]
    # A process that has once freed so much gets its memory back without the system's help: glibc
    # then keeps up to twice as much. So it is in training, which frees updates all the time
    torch.zeros(30_000_000, dtype=torch.uint8)
    turn, target = itertools.cycle(tensors), torch.zeros(num_values)
    works: dict[str, Work] = {"copy": lambda: target.copy_(next(turn))}
    for text, codec in chosen.items():
        works[text] = lambda codec=codec: codec.encode({"w": next(turn)})
        message = codec.encode({"w": tensors[0]})
        if num_values < 5_000_000:
            works[f"decode {text}"] = partial(codec.decode, message)
    for text, part in parts.items():
        works[text] = lambda part=part: part(next(turn))
    seconds = interleaved(works, 15 if num_values < 5_000_000 else 9)
    for work in list(works)[1:]:
        label = f"  {work}" if work in parts else f"{work}, {num_values:,} values"
        yield Row(label, "x warm copy", *compared(seconds, work, "copy"), goals.get(work, 0))


def large() -> Iterator[Row]:
    chosen = {
        "TopK(0.01)": Pipeline(TopK(0.01)),
        "Quantize(8, stochastic)": Pipeline(Quantize(8, stochastic=True)),
    }
    parts: dict[str, Callable[[Tensor], object]] = {
        "which 1 % are largest, alone": lambda x: largest([x], len(x) // 100),
        "16 random bits for two values, alone": lambda x: random_bits(len(x)),
        "range of all values, alone": torch.aminmax,
    }
    return codecs(25_000_000, chosen, dict(zip(chosen, (2.5, 3.5), strict=True)), parts)


def random_bits(num_values: int) -> None:
    """As many random bits as stochastic rounding takes, in the same blocks."""
    generator = np.random.SFC64(0)
    for _ in range(num_values // quantize.CHUNK):
        generator.random_raw(quantize.CHUNK // 8)


def rotations() -> Iterator[Row]:
    chosen = {
        "Rotate, Quantize(8)": Pipeline(Rotate(), Quantize(8)),
        "DRIVE": Pipeline(DRIVE()),
        "EDEN(8)": Pipeline(EDEN(8)),
        "Float8": Pipeline(Float8()),
    }
    goals = dict.fromkeys([*chosen, *(f"decode {text}" for text in chosen)], 8.0)
    counting = {"classes of values counted, alone": lambda x: floats._classes(x.numpy())}
    return codecs(1_663_370, chosen, goals | {"Float8": 5.0}, counting)


def participant() -> Iterator[Row]:
    """All that a client costs in a round, training included; the model has 19 kB."""
    names = [str(k) for k in range(50)]
    draw = torch.Generator().manual_seed(0)
    clients = {
        name: (torch.rand(20, 64, generator=draw), torch.randint(10, (20,), generator=draw))
        for name in names
    }
    with seeded(0):
        network = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10), nn.LogSoftmax(1))
    local = Local(batch_size=20, lr=0.1, epochs=1)

    def rounds(codecs: dict[str, Any]) -> Work:
        run = fedavg(
            copy.deepcopy(network),
            clients,
            Channel(codecs),
            rounds=10**6,
            cohort=len(clients),
            local=local,
        )
        return lambda: next(run)

    works = {
        "a participant, nothing encoded": rounds({}),
        **{
            f"a participant, top-k 5 %, 8 bits, {type(coder).__name__}": rounds(
                {"update": ErrorFeedback(Pipeline(TopK(0.05), Quantize(8), coder))}
            )
            for coder in (Entropy(), ContextEntropy())
        },
    }
    for (work, times), goal in zip(interleaved(works, 12).items(), (0, 1.5, 1.5), strict=True):
        each = [1e3 * t / len(names) for t in (min(times), statistics.median(times))]
        yield Row(work, "CPU ms", each[0], each[1], goal)


def alone() -> Iterator[Row]:
    """Each in a fresh process: see alone.py."""
    seconds = [measured("first round")["seconds"] for _ in range(5)]
    yield Row("first round, 10 clients", "CPU s", min(seconds), statistics.median(seconds), 0.1)
    many, each = measured("thousand"), measured("residuals")["models"]
    yield Row("1,000 participants of 6.6 MB, peak", "GB", many["GB"], many["GB"], 3)
    yield Row("  each of them", "models", many["models"], many["models"])
    yield Row("  each of 200 with residuals", "models", each, each)
    for coder in ("Entropy", "ContextEntropy"):
        copies, models = measured(coder).values()
        yield Row(f"124 million values, 4 bits, {coder}", "x warm copy", copies, copies, 40)
        yield Row("  with residual, peak", "models", models, models, 2)


def one_vector() -> Iterator[Row]:
    """The error of one range and of blocks on an update in one vector."""
    tree = update(mcmahan_cnn(seed=100), load("mnist"), False, 10, 100)
    x = torch.cat([tensor.reshape(-1) for tensor in tree.values()])
    for stage, goal in ((Quantize(8), 0), (Quantize(8, per=4096), 2.3)):
        codec = Pipeline(stage)
        error = (codec.decode(codec.encode({"w": x}))["w"] - x).square().sum() / x.square().sum()
        name = f"Quantize(8{', per=4096' * (stage.per == 4096)}), a CNN in one vector"
        yield Row(name, "error, 1e-4 |x|^2", 1e4 * float(error), 1e4 * float(error), goal)


def batches() -> Iterator[Row]:
    works = batch_works()
    plain, ours, *_ = works
    seconds = interleaved({work: works[work] for work in (plain, ours)}, 60)
    yield Row(ours, "x index_select", *compared(seconds, ours, plain), 1.1)


def rounds(name: str, passes: int, number: int, peers: list[str]) -> Iterator[Row]:
    works = {
        "plain loop": round_speed.plain_loop(name),
        "as it chooses": round_speed.ours(name, local_updates, "cpu"),
    }
    for peer in peers:
        try:
            works[peer] = round_speed.PEERS[peer][0](name)
        except (ImportError, RuntimeError) as error:
            print(f"{peer} is not here ({error}): {round_speed.PEERS[peer][1]}")
            peers = [other for other in peers if other != peer]
    seconds = round_speed.taking_turns(works, passes, number)
    for peer in ("plain loop", *peers):
        for column, clock in enumerate(("wall", "CPU")):
            ours, theirs = (
                [[round[column] for round in turn] for turn in seconds[work]]
                for work in ("as it chooses", peer)
            )
            pairs = zip(ours, theirs, strict=True)
            median = statistics.median(min(a) / min(b) for a, b in pairs)
            shortest = min(map(min, ours)) / min(map(min, theirs))
            goal = 0.8 if peer == "FedJAX" else 0.9
            yield Row(f"FedAvg round, {name}, {clock}", f"x {peer}", shortest, median, goal)


def imports() -> Iterator[Row]:
    for (line, times), goal in zip(import_seconds(5).items(), (0.15, 0.15, 0.1), strict=True):
        yield Row(line, "s, with torch there", min(times), statistics.median(times), goal)


PARTS: dict[str, Callable[[], Iterator[Row]]] = {
    "batches": batches,
    "split": split,
    "entropy": entropy,
    "large": large,
    "rotations": rotations,
    "participant": participant,
    "imports": imports,
    "one vector": one_vector,
    "alone": alone,
    "2NN": lambda: rounds("2NN", 7, 3, ["FedJAX"]),
    "CNN": lambda: rounds("CNN", 3, 1, []),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", default=list(PARTS), choices=list(PARTS))
    only = parser.parse_args().only
    torch.set_num_threads(1)
    torch.manual_seed(0)
    capability = torch.backends.cpu.get_cpu_capability()
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores at the start")
    loops = "compiled" if compiled.place().exists() else "plain"
    print(f"{processor()} ({capability}), torch {torch.__version__}, one thread, {loops} loops\n")
    print(f"{'work':50s}{'shortest':>9s}{'median':>9s}  {'':20s}{'goal':>6s}  met")
    for part in only:
        for row in PARTS[part]():
            figures = "".join(f"{x:9.{0 if x >= 50 else 3}f}" for x in row[2:4])
            aim = f"{row.goal:6g}" if row.goal else " " * 6
            print(f"{row.work:50s}{figures}  {row.unit:20s}{aim}  {row.met()}".rstrip(), flush=True)


if __name__ == "__main__":
    main()
