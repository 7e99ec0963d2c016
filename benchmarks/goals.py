"""Where people wait: one table of goals, each a ratio to a peer measured in the same run.

    python -m benchmarks.goals                  # all of it; `make peers` first, for FedJAX
    python -m benchmarks.goals --only entropy   # one part

All works of a part take turns in one process, in random order, one thread each. A ratio is the
median of the ratios within each turn, of process CPU time: so a busy machine disturbs both alike.
Multiples of a copy, and MB/s, are those of the shortest times. Rounds of FedAvg are measured in
CPU time and by the clock; FedJAX has a process of its own and takes turns, too.
"""

import argparse
import itertools
import statistics
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import torch

from benchmarks import round_speed
from benchmarks.split_speed import (
    Work,
    batch_works,
    import_seconds,
    interleaved,
    step_works,
)
from fltoolkit.codecs import DRIVE, Entropy, Float8, Pipeline, Quantize, Rotate, TopK
from fltoolkit.codecs import _contexts as contexts
from fltoolkit.federated.many_at_once import local_updates


class Row(NamedTuple):
    """One line of the table."""

    work: str
    unit: str
    measured: float
    goal: float
    at_least: bool = False  # else at most


def ratio(seconds: dict[str, list[float]], work: str, peer: str) -> float:
    pairs = zip(seconds[work], seconds[peer], strict=True)
    return statistics.median(a / b for a, b in pairs)


def split() -> Iterator[Row]:
    works = step_works()
    plain, ours, *_ = works
    seconds = interleaved({work: works[work] for work in (plain, ours)}, 600)
    yield Row(ours, "x unsplit", ratio(seconds, ours, plain), 1.03)


def entropy() -> Iterator[Row]:
    num_values = 1_663_370
    x = torch.randn(num_values, generator=torch.Generator().manual_seed(0))
    works: dict[str, Work] = {}
    lengths: dict[int, float] = {}
    for bits in (8, 4):
        codec = Pipeline(Quantize(bits), Entropy())
        message = codec.encode({"w": x})
        works[f"{bits} bits"] = partial(codec.decode, message)
        num_lanes, contexts.num_lanes = contexts.num_lanes, lambda bits: 0  # the range coder alone
        try:
            plain = codec.encode({"w": x})
        finally:
            contexts.num_lanes = num_lanes
        works[f"{bits} bits, no lanes"] = partial(codec.decode, plain)
        lengths[bits] = len(message) / len(plain)
    seconds = interleaved(works, 9)
    for bits, length in lengths.items():
        for work, goal in ((f"{bits} bits", 200), (f"{bits} bits, no lanes", 0)):
            speed = 4 * num_values / min(seconds[work]) / 1e6
            yield Row(f"Entropy decodes {work}, N(0,1)", "MB/s", speed, goal, True)
        yield Row(f"its message, {bits} bits", "x no lanes", length, 1.005)


def codecs(num_values: int, chosen: dict[str, Pipeline], goals: dict[str, float]) -> Iterator[Row]:
    """Ratios of the shortest times to those of a copy to memory that was used before."""
    generator = torch.Generator().manual_seed(0)
    tensors = [torch.randn(num_values, generator=generator) for _ in range(5 * 10**7 // num_values)]
    turn, target = itertools.cycle(tensors), torch.zeros(num_values)
    works: dict[str, Work] = {"copy": lambda: target.copy_(next(turn))}
    for text, codec in chosen.items():
        works[text] = lambda codec=codec: codec.encode({"w": next(turn)})
        message = codec.encode({"w": tensors[0]})
        if num_values < 5_000_000:
            works[f"decode {text}"] = partial(codec.decode, message)
    seconds = interleaved(works, 7)
    for work in list(works)[1:]:
        least = min(seconds[work]) / min(seconds["copy"])
        goal = goals[work.removeprefix("decode ")]
        yield Row(f"{work}, {num_values:,} values", "x warm copy", least, goal)


def large() -> Iterator[Row]:
    chosen = {
        "TopK(0.01)": Pipeline(TopK(0.01)),
        "Quantize(8, stochastic)": Pipeline(Quantize(8, stochastic=True)),
    }
    return codecs(25_000_000, chosen, dict(zip(chosen, (2.5, 3.5), strict=True)))


def rotations() -> Iterator[Row]:
    chosen = {
        "Rotate, Quantize(8)": Pipeline(Rotate(), Quantize(8)),
        "DRIVE": Pipeline(DRIVE()),
        "Float8": Pipeline(Float8()),
    }
    return codecs(1_663_370, chosen, dict.fromkeys(chosen, 8.0))


def batches() -> Iterator[Row]:
    works = batch_works()
    plain, ours, *_ = works
    seconds = interleaved({work: works[work] for work in (plain, ours)}, 60)
    yield Row(ours, "x index_select", ratio(seconds, ours, plain), 1.1)


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
    for peer, goal in [("plain loop", 1.0), *((peer, 0.9) for peer in peers)]:
        for column, clock in enumerate(("wall", "CPU")):
            ratios = [
                min(ours)[column] / min(theirs)[column]
                if column == 0
                else statistics.median(s[1] for s in ours) / statistics.median(s[1] for s in theirs)
                for ours, theirs in zip(seconds["as it chooses"], seconds[peer], strict=True)
            ]
            yield Row(
                f"FedAvg round, {name}, {clock}", f"x {peer}", statistics.median(ratios), goal
            )


def imports() -> Iterator[Row]:
    for line, seconds in import_seconds(3).items():
        yield Row(line, "s, with torch there", seconds, 0.15)


PARTS: dict[str, Callable[[], Iterator[Row]]] = {
    "imports": imports,
    "batches": batches,
    "split": split,
    "entropy": entropy,
    "large": large,
    "rotations": rotations,
    "2NN": lambda: rounds("2NN", 7, 3, ["FedJAX"]),
    "CNN": lambda: rounds("CNN", 3, 1, []),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", default=list(PARTS), choices=list(PARTS))
    only = parser.parse_args().only
    torch.set_num_threads(1)
    torch.manual_seed(0)
    print(f"torch {torch.__version__}, one thread\n")
    print(f"{'work':44s}{'measured':>10s}  {'':20s}{'goal':>7s}  met")
    for part in only:
        for work, unit, measured, goal, at_least in PARTS[part]():
            met = "" if not goal else "yes" if (measured >= goal) == at_least else "no"
            aim = f"{goal:7g}" if goal else " " * 7
            digits = 0 if measured >= 50 else 3
            print(f"{work:44s}{measured:10.{digits}f}  {unit:20s}{aim}  {met}", flush=True)


if __name__ == "__main__":
    main()
