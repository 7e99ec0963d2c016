"""How fast codecs encode and decode, compared with copying the memory and with naive code.

    python -m benchmarks.codec_speed                        # 1,663,370 and 25,000,000 values
    python -m benchmarks.codec_speed --values 1_663_370     # McMahan's CNN alone

Process CPU time, one thread, MB/s of float32 input. All rows are measured in turns, in random
order, and compared to the copies measured in the same round: medians. Each call gets the next of
several tensors that together are larger than any cache, as an update comes from training.

There are three kinds of copies. ``x warm`` copies to memory that was used before; the targets are
multiples of it. ``x fresh`` copies to memory that is allocated for it, as for each message: large
memory then comes from the system page by page, small memory was just freed and is still in the
cache. The third kind copies from and to the same place again and again (only shown: a small tensor
then stays in the cache). A busy machine slows copies most, so ratios of medians look too good. So
the last table compares the targets with ratios of the least times.
"""

import argparse
import itertools
import math
import statistics
from collections.abc import Callable

import torch
from torch import Tensor

from benchmarks.split_speed import interleaved
from experiments.replications.deflate import Deflate
from experiments.replications.lowrank import PowerSGD
from fltoolkit.codecs import Codec, Float8, Half, Pipeline, Quantize, TopK
from fltoolkit.codecs.places import largest
from fltoolkit_research.codecs import (
    DRIVE,
    EDEN,
    QSGD,
    STC,
    ContextEntropy,
    RandomK,
    Rotate,
    Sign,
    Ternary,
)

TOGETHER = 25_000_000  # values in memory for each test: 100 MB
COPY, FRESH = "copy, memory to memory", "copy, new memory"
LARGEST = "which 1 % are largest, and they"


def naive_quantize(x: Tensor) -> bytes:
    """Eight bits, the simplest code."""
    low, high = x.min(), x.max()
    return ((x - low) / (high - low) * 255).round().to(torch.uint8).numpy().tobytes()


def naive_stochastic(x: Tensor) -> bytes:
    """Eight bits, rounded up with the probability of the fraction."""
    low, high = x.min(), x.max()
    y = (x - low) / (high - low) * 255
    return (y + torch.rand_like(y)).floor().clamp(max=255).to(torch.uint8).numpy().tobytes()


def naive_pack(x: Tensor) -> bytes:
    """Four bits, two neighbours in a byte."""
    low, high = x.min(), x.max()
    q = ((x - low) / (high - low) * 15).round().to(torch.uint8)
    return (q[: len(q) // 2 * 2 : 2] | q[1::2] << 4).numpy().tobytes()


def naive_topk(x: Tensor) -> bytes:
    """One per cent, with 64-bit indices."""
    _, indices = torch.topk(x.abs(), len(x) // 100)
    return indices.numpy().tobytes() + x[indices].numpy().tobytes()


def naive_sort(x: Tensor) -> bytes:
    """One per cent, by sorting everything."""
    indices = x.abs().argsort(descending=True)[: len(x) // 100]
    return indices.numpy().tobytes() + x[indices].numpy().tobytes()


NAIVE = {
    "naive 8 bits: temporaries": naive_quantize,
    "naive 8 bits, stochastic: rand_like": naive_stochastic,
    "naive 4 bits: neighbours packed": naive_pack,
    "naive top-k 1 %: torch.topk": naive_topk,
    "naive top-k 1 %: argsort": naive_sort,
}
CODECS = {
    "Quantize(8)": Pipeline(Quantize(8)),
    "Quantize(8, stochastic)": Pipeline(Quantize(8, stochastic=True)),
    "Quantize(4)": Pipeline(Quantize(4)),
    "TopK(0.01)": Pipeline(TopK(0.01)),
    "Quantize(8), contexts": Pipeline(Quantize(8), ContextEntropy()),
    "Quantize(8, stochastic), contexts": Pipeline(Quantize(8, stochastic=True), ContextEntropy()),
    "Quantize(4), contexts": Pipeline(Quantize(4), ContextEntropy()),
    "TopK(0.01), Quantize(8), contexts": Pipeline(TopK(0.01), Quantize(8), ContextEntropy()),
}
MORE = {
    "Half": Pipeline(Half()),
    "Float8": Pipeline(Float8()),
    "QSGD(4)": Pipeline(QSGD(4)),
    "Ternary, contexts": Pipeline(Ternary(), ContextEntropy()),
    "Sign": Pipeline(Sign()),
    "TopK(0.1)": Pipeline(TopK(0.1)),
    "STC(0.01), contexts": Pipeline(STC(0.01), ContextEntropy()),
    "RandomK(0.01)": Pipeline(RandomK(0.01)),
    "Quantize(8), Deflate": Pipeline(Quantize(8), Deflate()),
    "Rotate, Quantize(8)": Pipeline(Rotate(), Quantize(8)),
    "DRIVE": Pipeline(DRIVE()),
    "EDEN(4)": Pipeline(EDEN(4)),
    "PowerSGD(4), of a square matrix": Pipeline(PowerSGD(4)),
}
TARGETS = {  # times a warm copy at most, or MB/s at least
    "Quantize(8)": 4.0,
    "Quantize(8, stochastic)": 4.0,
    "Quantize(4)": 4.0,
    LARGEST: 2.5,
    "TopK(0.01)": 2.5,
}
ENTROPY_MB = 100


def measure(num_values: int, repeats: int) -> None:
    """One table."""
    generator = torch.Generator().manual_seed(0)
    num_tensors = max(1, round(TOGETHER / num_values))
    tensors = [torch.randn(num_values, generator=generator) for _ in range(num_tensors)]
    targets = [x.clone() for x in tensors]  # the system has handed over these pages
    codecs: dict[str, Codec] = {**CODECS, **(MORE if num_values < 5_000_000 else {})}
    pairs, inputs = itertools.cycle(zip(tensors, targets, strict=True)), itertools.cycle(tensors)

    def copy() -> None:
        x, target = next(pairs)
        target.copy_(x)

    side = math.isqrt(num_values)

    def shaped(text: str, x: Tensor) -> Tensor:
        return x[: side * side].view(side, side) if "matrix" in text else x

    works: dict[str, Callable[[], object]] = {
        COPY: copy,
        FRESH: lambda: next(inputs).clone(),
        "copy, same place": lambda: targets[0].copy_(tensors[0]),
        **{text: lambda naive=naive: naive(next(inputs)) for text, naive in NAIVE.items()},
        LARGEST: lambda: largest([next(inputs)], num_values // 100),
    }
    messages = {}
    for text, codec in codecs.items():
        works[text] = lambda t=text, codec=codec: codec.encode({"w": shaped(t, next(inputs))})
        messages[text] = [codec.encode({"w": shaped(text, x)}) for x in tensors]
        turn = itertools.cycle(messages[text])
        works[f"decode {text}"] = lambda codec=codec, turn=turn: codec.decode(next(turn))
    seconds = interleaved(works, repeats)

    def ratio(text: str, peer: str) -> float:
        pairs = zip(seconds[text], seconds[peer], strict=True)
        return statistics.median(a / b for a, b in pairs)

    def speed(text: str) -> float:
        return 4 * num_values / statistics.median(seconds[text]) / 1e6

    def figures(text: str) -> str:
        if text not in seconds:
            return ""
        return f"{speed(text):11,.0f}{ratio(text, COPY):9.2f}{ratio(text, FRESH):9.2f}"

    warm, fresh = (1e3 * statistics.median(seconds[text]) for text in (COPY, FRESH))
    print(
        f"\n{num_values:,} values from N(0, 1); a copy takes {warm:.2f} ms to warm memory, "
        f"{fresh:.2f} ms to fresh\n{'':38s}{'bits/value':>11s}"
        + "".join(f"{way + ' MB/s':>11s}{'x warm':>9s}{'x fresh':>9s}" for way in ("enc.", "dec."))
    )
    for text in works:
        if not text.startswith("decode "):
            bits = f"{8 * len(messages[text][0]) / num_values:.3f}" if text in messages else ""
            print(f"{text:38s}{bits:>11s}{figures(text)}{figures('decode ' + text)}", flush=True)
    print("\nTargets, by the least time of each")
    least = {text: min(times) for text, times in seconds.items()}
    for text, most in TARGETS.items():
        warm, fresh = least[text] / least[COPY], least[text] / least[FRESH]
        verdict = "yes" if warm <= most else "no"
        print(
            f"{text:38s}at most {most:.1f} times a warm copy: {warm:5.2f}  {verdict:3s}"
            f"  (a fresh one: {fresh:.2f})"
        )
    for text in codecs:
        if "contexts" in text and text in CODECS:
            way = min(speed(text), speed(f"decode {text}"))
            verdict = "yes" if way >= ENTROPY_MB else "no"
            print(f"{text:38s}at least {ENTROPY_MB} MB/s both ways: {way:5,.0f}  {verdict}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--values", type=int, nargs="*", default=[1_663_370, 25_000_000])
    parser.add_argument("--seconds", type=float, default=1, help="a factor for all repeats")
    args = parser.parse_args()
    torch.set_num_threads(1)
    for num_values in args.values:
        measure(num_values, max(3, round(args.seconds * min(20, 75_000_000 / num_values))))


if __name__ == "__main__":
    main()
