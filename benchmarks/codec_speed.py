"""How fast codecs encode and decode, beside a copy of the memory and the obvious naive form.

    python -m benchmarks.codec_speed                        # 1,663,370 values, McMahan's CNN
    python -m benchmarks.codec_speed --values 25_000_000

Process CPU time, minimum of several repeats, one thread; MB/s of float32 input.
"""

import argparse
import time
from collections.abc import Callable

import torch

from fltoolkit.codecs import Codec, Pipeline
from fltoolkit.entropy import Deflate, Entropy
from fltoolkit.levels import Float8, Half
from fltoolkit.quantize import QSGD, Quantize, Sign, Ternary
from fltoolkit.sparse import STC, RandomK, TopK


def seconds(work: Callable[[], object], repeats: int) -> float:
    """The least CPU time of several runs: the machine was never faster than this."""
    best = float("inf")
    for _ in range(repeats):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


def naive_quantize(x: torch.Tensor) -> bytes:
    """Eight bits as one would write it first."""
    low, high = x.min(), x.max()
    return ((x - low) / (high - low) * 255).round().to(torch.uint8).numpy().tobytes()


def naive_topk(x: torch.Tensor) -> bytes:
    """One per cent as one would write it first, with 64-bit indices."""
    _, indices = torch.topk(x.abs(), len(x) // 100)
    return indices.numpy().tobytes() + x[indices].numpy().tobytes()


CODECS: list[Codec] = [
    Pipeline(Half()),
    Pipeline(Float8()),
    Pipeline(Quantize(8)),
    Pipeline(Quantize(8, stochastic=True)),
    Pipeline(Quantize(4)),
    Pipeline(Quantize(8), Entropy()),
    Pipeline(Quantize(8), Deflate()),
    Pipeline(Quantize(4), Entropy()),
    Pipeline(QSGD(4)),
    Pipeline(Ternary(), Entropy()),
    Pipeline(Sign()),
    Pipeline(TopK(0.01)),
    Pipeline(TopK(0.01), Quantize(8), Entropy()),
    Pipeline(TopK(0.1)),
    Pipeline(STC(0.01), Entropy()),
    Pipeline(RandomK(0.01)),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--values", type=int, default=1_663_370, help="how many float32 values")
    parser.add_argument("--repeats", type=int, default=7)
    args = parser.parse_args()
    torch.set_num_threads(1)
    x = torch.randn(args.values, generator=torch.Generator().manual_seed(0))
    nbytes = 4 * args.values
    target = torch.empty_like(x)
    copy = seconds(lambda: target.copy_(x), args.repeats)
    print(f"{args.values:,} values from N(0, 1); a copy takes {1e3 * copy:.2f} ms CPU\n")
    print(f"{'':50s}{'bits/value':>11s}{'encode MB/s':>13s}{'x copy':>8s}{'decode MB/s':>13s}")

    def row(name: str, size: int, encode: float, decode: float | None) -> None:
        back = f"{nbytes / decode / 1e6:13,.0f}" if decode else ""
        speed = f"{nbytes / encode / 1e6:13,.0f}{encode / copy:8.1f}{back}"
        print(f"{name:50s}{8 * size / args.values:11.3f}{speed}")

    row("naive 8-bit quantize", args.values, seconds(lambda: naive_quantize(x), args.repeats), None)
    size = len(naive_topk(x))
    row("naive top-k 1 %", size, seconds(lambda: naive_topk(x), args.repeats), None)
    for codec in CODECS:
        message = codec.encode({"w": x})
        encode = seconds(lambda codec=codec: codec.encode({"w": x}), args.repeats)
        decode = seconds(lambda codec=codec, m=message: codec.decode(m), args.repeats)
        row(repr(codec).removeprefix("Pipeline")[1:-1], len(message), encode, decode)


if __name__ == "__main__":
    main()
