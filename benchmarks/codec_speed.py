"""How fast codecs encode and decode, beside a copy of the memory and the obvious naive forms.

    python -m benchmarks.codec_speed                        # 1,663,370 and 25,000,000 values
    python -m benchmarks.codec_speed --values 1_663_370     # McMahan's CNN alone

Process CPU time, one thread, MB/s of float32 input. All rows are measured in turns, in random
order, and compared to the copy measured in the same round: medians. Each call gets the next of
several tensors that together are larger than any cache, as an update comes from training. There
are three copies: from such memory to such memory (what ratios are taken against), from and to the
same place again and again (a small tensor then never leaves the cache), and to memory allocated
for it, as each message is (beyond some size the system hands it over page by page).
"""

import argparse
import itertools
import statistics
from collections.abc import Callable

import torch
from torch import Tensor

from benchmarks.split_speed import interleaved
from fltoolkit.codecs import Codec, Pipeline
from fltoolkit.entropy import Deflate, Entropy
from fltoolkit.levels import Float8, Half
from fltoolkit.quantize import QSGD, Quantize, Sign, Ternary
from fltoolkit.sparse import STC, RandomK, TopK

TOGETHER = 25_000_000  # values in memory for each test: 100 MB
COPY = "copy, memory to memory"


def naive_quantize(x: Tensor) -> bytes:
    """Eight bits as one would write it first."""
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
    "Quantize(8), Entropy": Pipeline(Quantize(8), Entropy()),
    "Quantize(8, stochastic), Entropy": Pipeline(Quantize(8, stochastic=True), Entropy()),
    "Quantize(4), Entropy": Pipeline(Quantize(4), Entropy()),
    "TopK(0.01), Quantize(8), Entropy": Pipeline(TopK(0.01), Quantize(8), Entropy()),
}
MORE = {
    "Half": Pipeline(Half()),
    "Float8": Pipeline(Float8()),
    "QSGD(4)": Pipeline(QSGD(4)),
    "Ternary, Entropy": Pipeline(Ternary(), Entropy()),
    "Sign": Pipeline(Sign()),
    "TopK(0.1)": Pipeline(TopK(0.1)),
    "STC(0.01), Entropy": Pipeline(STC(0.01), Entropy()),
    "RandomK(0.01)": Pipeline(RandomK(0.01)),
    "Quantize(8), Deflate": Pipeline(Quantize(8), Deflate()),
}


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

    works: dict[str, Callable[[], object]] = {
        COPY: copy,
        "copy, same place": lambda: targets[0].copy_(tensors[0]),
        "copy, new memory": lambda: next(inputs).clone(),
        **{text: lambda naive=naive: naive(next(inputs)) for text, naive in NAIVE.items()},
    }
    messages = {}
    for text, codec in codecs.items():
        works[text] = lambda codec=codec: codec.encode({"w": next(inputs)})
        messages[text] = [codec.encode({"w": x}) for x in tensors]
        turn = itertools.cycle(messages[text])
        works[f"decode {text}"] = lambda codec=codec, turn=turn: codec.decode(next(turn))
    seconds = interleaved(works, repeats)

    def figures(text: str) -> str:
        if text not in seconds:
            return ""
        ratio = statistics.median(a / b for a, b in zip(seconds[text], seconds[COPY], strict=True))
        return f"{4 * num_values / statistics.median(seconds[text]) / 1e6:11,.0f}{ratio:11.2f}"

    milliseconds = 1e3 * statistics.median(seconds[COPY])
    print(
        f"\n{num_values:,} values from N(0, 1); a copy takes {milliseconds:.2f} ms\n{'':38s}",
        end="",
    )
    print(
        "".join(
            f"{head:>11s}" for head in ("bits/value", "enc. MB/s", "x copy", "dec. MB/s", "x copy")
        )
    )
    for text in works:
        if not text.startswith("decode "):
            bits = f"{8 * len(messages[text][0]) / num_values:.3f}" if text in messages else ""
            print(f"{text:38s}{bits:>11s}{figures(text)}{figures('decode ' + text)}", flush=True)


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
