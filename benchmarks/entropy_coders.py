"""How few bits, and how fast: our entropy coders and other lossless ones, on real updates.

    python -m benchmarks.entropy_coders --digits           # the table of docs/codecs.md
    python -m benchmarks.entropy_coders                    # all situations, about four minutes
    python -m benchmarks.entropy_coders --coders nncodec Entropy   # only these and ContextEntropy

All coders get the same symbols of the same updates: 8, 4 and 2 bits per value (``s`` stochastically
rounded, ``d`` to the nearest), and the places of the largest 10, 1 and 0.1 %. ``order 0`` is the
empirical entropy of each tensor's symbols taken one by one (of places: log2 of n over k), which
no coder without contexts can go below. Deflate, zstd and lzma code packed symbols or whole bytes,
whichever is shorter.

``nncodec`` is the reference software of ISO/IEC 15938-17 (MPEG-7 part 17), DeepCABAC. It is called
directly, the compiled coder of integer tensors, with the settings of the fewest bits here (the
probability estimators chosen for each tensor, rows of zeros skipped, 10 greater-than flags).
Symbols become integers around that of the value zero, places become zeros and ones; shapes are not
charged to it. It is optional, and its requirements would replace torch, so install it without:

    pip install --no-deps nncodec      # needs a C++ compiler

Speed is process CPU time, the least of three runs (nncodec, lzma and deflate: of one), one thread,
in MB/s of float32. The last table shows how many of nncodec's bits `ContextEntropy` takes, and how
many times faster it is, on McMahan's CNN and on the small new networks (where calls, not symbols,
take most of our time). The constants of `ContextEntropy` were chosen on other seeds of McMahan's
CNN and of other networks on MNIST and digits; the situations called new took no part in that.
"""

import argparse
import lzma
import math
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from experiments.replications.deflate import Deflate
from experiments.replications.zstandard import Zstd
from fltoolkit.codecs import BitPack, Entropy, Pipeline, Quantize, TopK, entropy
from fltoolkit.codecs.stage import Indices, Part, Symbols, side
from fltoolkit.data import load
from fltoolkit.models import mcmahan_cnn, seeded, splitnn_mlp
from fltoolkit_research.codecs import ContextEntropy, contexts

STAGES: dict[str, Quantize | TopK] = {
    f"{bits}{'s' if s else 'd'}": Quantize(bits, s) for bits in (8, 4, 2) for s in (True, False)
}
STAGES |= {f"{100 * fraction:g} %": TopK(fraction) for fraction in (0.1, 0.01, 0.001)}
Update = dict[str, Tensor]
Coded = Any


class Coder(NamedTuple):
    """Anything that turns parts into bytes and back."""

    encode: Callable[[dict[str, Part]], Coded]
    decode: Callable[[Coded], object]
    nbytes: Callable[[Coded], int]
    repeats: int = 3


class Lzma(Deflate):
    """Like Deflate, with lzma; only for this measurement."""

    def _squeeze(self, entry: bytearray) -> bytearray:
        return bytearray(lzma.compress(entry))


def ours(stage: BitPack, repeats: int = 3) -> Coder:
    return Coder(stage.apply, stage.undo, lambda coded: sum(map(len, coded.values())), repeats)


def unlzma(coded: dict[str, Tensor]) -> None:
    for entry in coded.values():
        raw = entry.numpy().tobytes()
        raw = lzma.decompress(raw) if raw.startswith(b"\xfd7zXZ") else raw
        BitPack().undo({side("w", "#"): torch.frombuffer(bytearray(raw), dtype=torch.uint8)})


def plain(coder: BitPack) -> Coder:
    """A coder without ``constriction``: its range coder in Python."""

    def with_it(work: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def call(parts: Any) -> Any:
            chosen = entropy.range_coder
            entropy.range_coder = contexts.range_coder = lambda: entropy.Plain
            try:
                return work(parts)
            finally:
                entropy.range_coder = contexts.range_coder = chosen

        return call

    stage = ours(coder)
    return stage._replace(encode=with_it(stage.encode), decode=with_it(stage.decode))


def nncodec(best: bool) -> Coder:
    """Its compiled coder, with the settings that cost the fewest bits, or the least time."""
    from nncodec.extensions import deepCABAC

    off = deepCABAC.HdspMode.AlwaysOff, np.zeros(2, np.int8)

    def encode(parts: dict[str, Part]) -> tuple[np.ndarray, list[tuple[int, ...]]]:
        encoder, tensors = deepCABAC.Encoder(), [*integers(parts)]
        for tensor in tensors:
            zeros = np.zeros(len(tensor), np.int32)
            if tensor.ndim > 1 and best:
                zeros = (~tensor.reshape(len(tensor), -1).any(1)).astype(np.int32)
            encoder.initCtxModels(10, int(best))
            encoder.encodeLayer(tensor, 0, 0, 1, 0, int(zeros.any()), zeros, *off, 0, 0)
        return encoder.finish(), [tensor.shape for tensor in tensors]

    def decode(coded: tuple[np.ndarray, list[tuple[int, ...]]]) -> list[np.ndarray]:
        decoder, out = deepCABAC.Decoder(), []
        decoder.setStream(coded[0])
        for shape in coded[1]:
            decoder.initCtxModels(10)
            out.append(np.zeros(shape, np.int32))
            decoder.decodeLayer(out[-1], 0, 0, 1, 0, *off, 0, 0)
        return out

    return Coder(encode, decode, lambda coded: len(coded[0]), 1)


def integers(parts: dict[str, Part]) -> Iterator[np.ndarray]:
    """Tensors of whole numbers around zero."""
    for name, part in parts.items():
        if isinstance(part, Symbols):
            low, high = parts[side(name, "r")].reshape(-1).tolist()  # type: ignore[union-attr]
            zero = round(-low / (high - low) * (part.num_levels - 1)) if high > low else 0
            yield part.values.numpy().astype(np.int32) - np.int32(zero)
        elif isinstance(part, Indices):
            mask = np.zeros(part.size, np.int32)
            mask[part.values.numpy()] = 1
            ends = np.cumsum([math.prod(shape) for shape in part.shapes])
            for piece, shape in zip(np.split(mask, ends[:-1]), part.shapes, strict=True):
                yield piece.reshape(shape)


def coders(only: list[str] | None) -> dict[str, Coder]:
    """The coders that are installed; ours last."""
    found = {"BitPack": ours(BitPack()), "deflate": ours(Deflate(), 1)}
    try:
        ours(Zstd()).encode({"w": Symbols(torch.zeros(9).byte(), 2)})
        found["zstd"] = ours(Zstd())
    except ImportError as error:
        print(error)
    found["Entropy"] = ours(Entropy())
    found["plain Entropy"] = plain(Entropy())
    found["plain contexts"] = plain(ContextEntropy())
    found["lzma"] = ours(Lzma(), 1)._replace(decode=unlzma)
    try:
        found |= {"nncodec quick": nncodec(False), "nncodec": nncodec(True)}
    except ImportError:
        print("no nncodec here: pip install --no-deps nncodec (needs a C++ compiler)")
    if only is not None:
        found = {name: coder for name, coder in found.items() if name in only}
    return {**found, "ContextEntropy": ours(ContextEntropy())}


def train(model: nn.Module, x: Tensor, y: Tensor, steps: int, batch: int, seed: int) -> None:
    """Plain SGD with learning rate 0.05."""
    parameters, loss_fn = list(model.parameters()), nn.NLLLoss()
    generator = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        rows = torch.randint(len(x), (batch,), generator=generator)
        loss = loss_fn(model(x[rows]), y[rows])
        for p, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
            p.data.sub_(gradient, alpha=0.05)


def small_cnn(seed: int) -> nn.Sequential:
    """For images of 8 x 8: 40,374 parameters."""
    with seeded(seed):
        return nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(512, 68),
            nn.ReLU(),
            nn.Linear(68, 10),
            nn.LogSoftmax(dim=1),
        )


def situations() -> Iterator[tuple[str, list[Update]]]:
    """A client's few local steps, early and late, from all classes and from two."""
    mnist = load("mnist")
    for late in (False, True):
        for classes in (10, 2):
            updates = [update(mcmahan_cnn(seed=s), mnist, late, classes, s) for s in (100, 101)]
            yield f"McMahan CNN {'late' if late else 'early'}, {classes} classes", updates
    flat, digits = mnist.flat(), load("digits")
    mlp = [update(splitnn_mlp(seed=s), flat, s == 201, 10, s) for s in (200, 201)]
    yield "new: SplitNN MLP, 10 classes", mlp
    yield "new: SplitNN MLP, 2 classes", [update(splitnn_mlp(seed=202), flat, True, 2, 202)]
    cnn = [update(small_cnn(s), digits, s == 301, 10, s) for s in (300, 301)]
    yield "new: small CNN, digits", cnn


def update(model: nn.Module, data: Any, late: bool, classes: int, seed: int) -> Update:
    """60 local steps of 10 samples, from 600 of these classes; late: after 400 steps on all."""
    if late:
        train(model, data.x_train, data.y_train, 400, 20, seed)
    generator = torch.Generator().manual_seed(seed)
    chosen = torch.randperm(10, generator=generator)[:classes]
    rows = torch.isin(data.y_train, chosen).nonzero().squeeze(1)
    rows = rows[torch.randperm(len(rows), generator=generator)[:600]]
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    train(model, data.x_train[rows], data.y_train[rows], 60, 10, seed)
    return {name: tensor - before[name] for name, tensor in model.state_dict().items()}


def order0(parts: dict[str, Part]) -> float:
    """Bits of each symbol by itself, without contexts."""
    bits = 0.0
    for part in parts.values():
        if isinstance(part, Symbols):
            counts = np.bincount(part.values.numpy().reshape(-1))
            counts = counts[counts > 0]
            bits += float(counts @ np.log2(counts.sum() / counts))
        elif isinstance(part, Indices):
            n, k = part.size, len(part.values)
            ways = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
            bits += ways / math.log(2)
    return bits


def seconds(work: Callable[[], object], repeats: int) -> float:
    best = float("inf")
    for _ in range(repeats):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


def measure(
    found: dict[str, Coder], update: Update, kind: str
) -> tuple[dict[str, float], dict[str, tuple[float, float]]]:
    """Bits per value (a place), and seconds for a million float32 each way, of each coder."""
    parts = STAGES[kind].apply(dict(update))
    coded = {n: p for n, p in parts.items() if isinstance(p, Symbols | Indices)}
    total = sum(tensor.numel() for tensor in update.values())
    count = sum(p.values.numel() for p in coded.values())
    bits, times = {"order 0": order0(coded) / count}, {}
    for name, coder in found.items():
        given = parts if name.startswith("nncodec") else coded
        message = coder.encode(given)
        bits[name] = 8 * coder.nbytes(message) / count
        times[name] = tuple(
            1e6 * seconds(work, coder.repeats) / total
            for work in (
                lambda c=coder, g=given: c.encode(g),
                lambda c=coder, m=message: c.decode(m),
            )
        )
    return bits, times


def mean(rows: list[Any]) -> np.ndarray:
    return np.array(rows).mean(0)


def compare(ratios: dict[str, list[tuple[float, float, float]]]) -> None:
    """One line per kind, and one for all: bits and speed as multiples of nncodec's."""
    print(
        f"{'':8s}{'bits':>8s}{'(most)':>9s}{'encode':>9s}{'(least)':>10s}{'decode':>9s}{'(least)':>10s}"
    )
    every = [row for rows in ratios.values() for row in rows]
    for kind, rows in {**ratios, "all": every}.items():
        bits, encode, decode = np.exp(mean(np.log(rows)))
        most, (_, slowest, slowest_back) = max(r[0] for r in rows), np.min(rows, axis=0)
        print(
            f"{kind:8s}{bits:8.3f}  ({most:.3f}){encode:8.2f}x  ({slowest:5.2f}x)"
            f"{decode:8.2f}x  ({slowest_back:5.2f}x)"
        )


def digits_table() -> None:
    """Bytes of whole messages, and CPU milliseconds to encode and to decode them, as Markdown."""
    client = update(small_cnn(300), load("digits"), False, 10, 300)
    stages = {f"{bits} bits": (Quantize(bits),) for bits in (8, 4, 2)}
    stages |= {"the largest 5 %": (TopK(0.05),), "these in 8 bits": (TopK(0.05), Quantize(8))}
    print(
        "| update of 40,374 values | `BitPack` | `Zstd` | `Entropy` | `ContextEntropy` |\n"
        "|---|---|---|---|---|"
    )
    for name, first in stages.items():
        cells = []
        for coder in (BitPack(), Zstd(), Entropy(), ContextEntropy()):
            codec = Pipeline(*first, coder)
            message = codec.encode(client)
            times = (partial(codec.encode, client), partial(codec.decode, message))
            encode, decode = (1e3 * seconds(work, 9) for work in times)
            cells.append(f"{len(message):,} bytes, {encode:.1f} + {decode:.1f} ms")
        print(f"| {name} | {' | '.join(cells)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--situations", type=int, default=7, help="how many of the 7")
    parser.add_argument("--coders", nargs="*", help="only these beside ours")
    parser.add_argument("--digits", action="store_true", help="only our coders, on digits")
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.digits:
        digits_table()
        return
    found = coders(args.coders)
    columns = ["order 0", *found]
    ratios: dict[bool, dict[str, list[tuple[float, float, float]]]] = {True: {}, False: {}}
    speeds: dict[str, list[Any]] = {kind: [] for kind in STAGES}
    heads = "".join(f"{name:>15s}" for name in columns)
    for number, (title, updates) in enumerate(situations()):
        if number == args.situations:
            break
        large = title.startswith("McMahan")
        print(f"\n{title} ({len(updates)} seeds): bits per value, or a place\n{'':8s}{heads}")
        for kind in STAGES:
            measured = [measure(found, update, kind) for update in updates]
            bits = mean([[b[name] for name in columns] for b, _ in measured])
            print(f"{kind:8s}" + "".join(f"{b:15.3f}" for b in bits), flush=True)
            for b, t in measured if "nncodec" in found else []:
                faster = (n / e for n, e in zip(t["nncodec"], t["ContextEntropy"], strict=True))
                row = b["ContextEntropy"] / b["nncodec"], *faster
                ratios[large].setdefault(kind, []).append(row)
            if large:
                speeds[kind] += [[t[name] for name in found] for _, t in measured]
    print("\nMcMahan CNN, MB/s of float32, encode / decode\n" + " " * 8, end="")
    print("".join(f"{name:>15s}" for name in found))
    for kind, rows in speeds.items():
        cells = [f"{4 / encode:.0f} / {4 / decode:.0f}" for encode, decode in mean(rows)]
        print(f"{kind:8s}" + "".join(f"{cell:>15s}" for cell in cells))
    for large, rows in ratios.items():
        if rows:
            print(
                f"\nEntropy beside nncodec, {'McMahan CNN' if large else 'new networks'}: "
                "geometric means over updates (and the worst)"
            )
            compare(rows)


if __name__ == "__main__":
    main()
