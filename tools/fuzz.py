"""Give damaged and forged messages to every codec, under a limit of memory and of time.

    python tools/fuzz.py --seconds 60
    python tools/fuzz.py --seconds 3600 --seed 7

A message of a stranger must end in a tree or in a WireError: no other exception, no decoding that
takes longer than `MAX_SECONDS`, none that needs more memory than `MEMORY` beyond what the process
had before (``RLIMIT_AS``). Each try takes the honest message of one codec, forges it, gives it a
right checksum, and hands it to that codec or to another one. In half of the tries the receiver says
how many values it expects (`at_most`). In one of ten tries the message is that of a large tree,
with its shape changed wherever it is written: some of these become 2^24 values. The same seed makes
the same tries, as many as time allows.

Prints what was tried, and leaves with 1 after the first failure, which it prints in full.
"""

import argparse
import collections
import copy
import random
import resource
import sys
import time
import traceback
import zlib
from contextlib import nullcontext
from pathlib import Path

import torch
from torch import Tensor

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import every_codec  # noqa: E402

from experiments.replications.deflate import Deflate  # noqa: E402
from experiments.replications.lowrank import PowerSGD  # noqa: E402
from experiments.replications.zstandard import Zstd  # noqa: E402
from fltoolkit.codecs import Codec, Entropy, Identity, Pipeline, Quantize, TopK  # noqa: E402
from fltoolkit.wire import (  # noqa: E402
    DTYPES,
    WireError,
    at_most,
    most_values,
    pack,
    read_layout,
    unpack,
    varint,
)
from fltoolkit_research.codecs import STC, ContextEntropy, RandomK, difference  # noqa: E402

# bytes: 2^24 values are free (wire.py), and decoding them takes some 60 bytes each
MEMORY = 1 << 31
MAX_SECONDS = 30.0  # of CPU time
LARGE = 512  # rows and columns of the large honest tree
LARGE_ONCE_IN = 10  # tries
ENOUGH = 4_000  # values of the largest honest tree here, with some to spare

CODECS: list[Codec] = [
    *every_codec.CODECS,
    *(Pipeline(Quantize(16), coder) for coder in (Entropy(), ContextEntropy())),  # of two bytes
    Pipeline(Quantize(8), Zstd()),
    Pipeline(PowerSGD(2), Quantize(8), Deflate()),
    *(Pipeline(stage(0.001)) for stage in (TopK, RandomK, STC)),  # short messages, large trees
]


def trees(generator: torch.Generator) -> list[dict[str, Tensor]]:
    """Small honest trees of several kinds."""

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    return [
        {"w": normal(40, 50), "b": normal(50), "steps": torch.tensor([3])},
        {"w": torch.zeros(30, 40), "v": torch.full((70,), 0.25)},
        {"w": normal(9, 5, 3).half(), "v": normal(33).double(), "s": torch.tensor(1.5)},
        {"w": normal(3), "e": torch.zeros(0), "": normal(2, 2)},
    ]


def large() -> dict[str, Tensor]:
    """A matrix that each coder makes short, with a few values that are not zero."""
    matrix = torch.zeros(LARGE, LARGE)
    matrix[::7, ::13] = 0.25
    return {"w": matrix}


# ------------------------------------------------------------------------------------- forgeries


def number(rng: random.Random) -> int:
    """A number that a careless reader may believe."""
    near = rng.choice([0, 1, 2, 3, 255, 256, 1 << 16, 1 << 24, 1 << 31, 1 << 40, 1 << 55, 1 << 62])
    return max(0, near + rng.choice([-1, 0, 0, 1]))


def changed_bytes(raw: bytes, rng: random.Random) -> bytes:
    """Bytes replaced, cut out, repeated or made longer; now and then a varint in the middle."""
    out = bytearray(raw)
    for _ in range(rng.choice([1, 1, 1, 2, 4, 8])):
        place = rng.randrange(min(len(out), rng.choice([8, 16, len(out) + 1])) + 1)
        kind = rng.randrange(6)
        if kind == 0 and place < len(out):
            out[place] = rng.choice([rng.randrange(256), 0, 1, 255, 128])
        elif kind == 1 and place < len(out):
            out[place] ^= 1 << rng.randrange(8)
        elif kind == 2:
            del out[place : place + rng.randrange(1, 9)]
        elif kind == 3:
            out[place:place] = out[place : place + rng.randrange(1, 40)]
        elif kind == 4:
            out[place : place + rng.randrange(3)] = varint(number(rng))
        else:
            out += bytes(rng.choice([1, 10, 300, 20_000]))
    return bytes(out)


def coded_anew(rng: random.Random) -> bytes:
    """An entry as a coder writes it, with a method and sizes of the forger's choice."""
    method = rng.randrange(11)
    if method in (0, 1, 2, 8):  # symbols
        shape = [number(rng) for _ in range(rng.randrange(4))]
        head = varint(rng.choice([1, 2, 3, 16, 256, 65536])) + varint(len(shape))
        head += b"".join(map(varint, shape))
    else:  # places
        size = number(rng)
        head = varint(size) + varint(rng.choice([0, 1, size, size // 2, size // 1000 + 1]))
    payload = rng.choice(
        [b"", bytes(10), bytes(5000), rng.randbytes(50), b"\x01\x01" + bytes(4100)]
    )
    entry = bytes([method]) + head + payload
    if rng.randrange(4) == 0:
        return b"\x06" + zlib.compress(entry + bytes(rng.choice([0, 10**5, 10**6]))) + bytes(200)
    return entry


# a forger knows what both ends hold: then checksums stop nothing
difference.bound_to = lambda *_: nullcontext()  # type: ignore[assignment]


def blown_up(message: bytes, rng: random.Random) -> bytes:
    """The honest message of a large tree, whose shape is another one wherever it is written."""
    side = varint(LARGE)
    a, b = rng.choice([(4096, 4096), (4096, 4095), (16384, 1000), (2000, 2000), (3, 5_000_000)])
    written = {side + side: varint(a) + varint(b), varint(LARGE * LARGE): varint(a * b)}
    entries = unpack(message)
    for name, tensor in entries.items():
        if tensor.dtype == torch.uint8:
            raw = tensor.numpy().tobytes()
            for before, after in written.items():
                raw = raw.replace(before, after, 1)
            raw += bytes(rng.choice([0, 0, a * b // 4096 + 1]))
            entries[name] = torch.frombuffer(bytearray(raw + b"\0"), dtype=torch.uint8)[: len(raw)]
        elif tensor.shape == (LARGE, 1) or (tensor.dim() == 2 and LARGE in tensor.shape):
            rows, columns = (a if tensor.shape[0] == LARGE else tensor.shape[0]), tensor.shape[1]
            entries[name] = torch.zeros(rows, b if columns == LARGE else columns)
    return pack(entries)


def changed_layout(raw: bytes, rng: random.Random) -> bytes:
    """A layout, as in side information, with other dimensions."""
    try:
        entries, _ = read_layout(raw)
    except WireError:
        return changed_bytes(raw, rng)
    out = b""
    for name, dtype, shape, _ in entries:
        shape = tuple(rng.choice([d, d, number(rng)]) for d in shape)
        code = rng.choice([DTYPES.index(dtype)] * 5 + [rng.randrange(len(DTYPES))])
        encoded = name.encode()
        out += varint(len(encoded)) + encoded + bytes([len(shape) << 4 | code])
        out += b"".join(map(varint, shape))
    return out


def changed_values(tensor: Tensor, rng: random.Random) -> Tensor:
    """NaN, infinity, the largest number and others in one place or in all; or other bytes."""
    if tensor.is_floating_point() and rng.randrange(2) and tensor.numel():
        out = tensor.clone().reshape(-1)
        value = rng.choice([float("nan"), float("inf"), -float("inf"), 3.4e38, -1.0, 0.0, 1e-45])
        out[rng.randrange(len(out)) if rng.randrange(2) else slice(None)] = value
        return out.reshape(tensor.shape)
    raw = changed_bytes(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes(), rng)
    raw = raw[: len(raw) // tensor.itemsize * tensor.itemsize]
    if tensor.dtype == torch.bool:
        raw = bytes(byte & 1 for byte in raw)
    out = torch.frombuffer(bytearray(raw), dtype=tensor.dtype) if raw else tensor.reshape(-1)[:0]
    return out.reshape(tensor.shape) if out.numel() == tensor.numel() else out


def forged(message: bytes, other: bytes, rng: random.Random) -> bytes:
    """The honest message with something changed: raw bytes, or entries under a right checksum."""
    if rng.randrange(8) == 0:
        return changed_bytes(message, rng)
    entries, strange = unpack(message), unpack(other)
    for _ in range(rng.choice([1, 1, 2, 3])):
        name = rng.choice([*entries, ""])
        tensor = entries.get(name, torch.zeros(3))
        kind = rng.randrange(9)
        if kind == 0:
            entries.pop(name, None)
        elif kind == 1 and strange:
            name = rng.choice([*strange])
            entries[name] = strange[name]
        elif kind == 2:
            entries[rng.choice([*entries, "x", name + "\x1f#", name + "\x1f@", "\x1fh"])] = tensor
        elif kind == 3:
            dtype = rng.choice(DTYPES)
            entries[name] = torch.zeros(rng.choice([(), (0,), (1,), (3, 2), (100,)]), dtype=dtype)
        elif tensor.dtype == torch.uint8 and name.endswith("\x1f#") and kind < 7:
            entries[name] = torch.frombuffer(bytearray(coded_anew(rng)), dtype=torch.uint8)
        elif tensor.dtype == torch.uint8 and name[-2:] in ("\x1f:", "\x1f~"):
            raw = changed_layout(tensor.numpy().tobytes(), rng)
            entries[name] = torch.frombuffer(bytearray(raw + b"\0"), dtype=torch.uint8)[: len(raw)]
        elif name == "\x1f" and tensor.dtype == torch.uint8 and tensor.numel():  # of Only
            try:
                raw = forged(tensor.numpy().tobytes(), other, rng)
            except WireError:
                raw = other
            entries[name] = torch.frombuffer(bytearray(raw + b"\0"), dtype=torch.uint8)[: len(raw)]
        else:
            entries[name] = changed_values(tensor, rng)
    return pack(entries)


# --------------------------------------------------------------------------------------- the run


def run(seconds: float, seed: int) -> dict[str, float]:
    """Try until the time is over; returns the counts. Raises whatever is no WireError."""
    rng = random.Random(seed)
    generator = torch.Generator().manual_seed(seed)
    honest = [[copy.deepcopy(codec).encode(tree) for tree in trees(generator)] for codec in CODECS]
    wide = [copy.deepcopy(codec).encode(large()) for codec in CODECS]
    counts: collections.Counter[str] = collections.Counter()
    largest = 0
    slowest, end = 0.0, time.process_time() + seconds
    while time.process_time() < end:
        number = rng.randrange(len(CODECS))
        sender = number if rng.randrange(4) else rng.randrange(len(CODECS))
        message = rng.choice(honest[sender])
        other = rng.choice(rng.choice(honest))
        codec, expects = copy.deepcopy(CODECS[number]), bool(rng.randrange(2))
        if rng.randrange(LARGE_ONCE_IN) == 0:
            message, expects = wide[sender], False
            message = blown_up(message, rng) if rng.randrange(4) else forged(message, other, rng)
        elif rng.randrange(50):
            message = forged(message, other, rng)
        before = time.process_time()
        try:
            with at_most(ENOUGH if expects else sys.maxsize):
                tree = codec.decode(message)
            values = sum(tensor.numel() for tensor in tree.values())
            assert isinstance(codec, Identity) or values <= most_values(len(message)), values
            counts["tree"] += 1
            largest = max(largest, values)
            counts["trees of more than a million values"] += values > 1_000_000
        except WireError:
            counts["WireError"] += 1
        except BaseException:
            print(f"{CODECS[number]!r} fails on {message.hex()[:20000]}", flush=True)
            raise
        slowest = max(slowest, taken := time.process_time() - before)
        if taken > MAX_SECONDS:
            print(f"{CODECS[number]!r} takes {taken:.1f} s for {message.hex()[:20000]}", flush=True)
            raise TimeoutError(f"{taken:.1f} s")
    told = {
        "tries": counts["tree"] + counts["WireError"],
        **counts,
        "values of the largest": largest,
    }
    return told | {"slowest_seconds": round(slowest, 2)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="of processor time")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with open("/proc/self/statm", encoding="ascii") as file:
        held = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(
        resource.RLIMIT_AS, (held + MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1])
    )
    try:
        counts = run(arguments.seconds, arguments.seed)
    except BaseException:
        traceback.print_exc()
        return 1
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{len(CODECS)} codecs, seed {arguments.seed}, {arguments.seconds:g} s: "
        + ", ".join(f"{name} {count:,}" for name, count in counts.items())
        + f", largest resident memory {peak:,.0f} MiB"
    )  # of the whole process, torch included
    return 0


if __name__ == "__main__":
    sys.exit(main())
