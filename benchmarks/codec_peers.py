"""Our codecs beside those of other systems: one table of bits, error and time, and one of PowerSGD.

    python -m benchmarks.codec_peers

Quantizers code an update of McMahan's CNN as one vector, and numbers from N(0, 1); coders without
loss code the symbols of the update, layer by layer, as protocols send it. ``error`` is
|decoded - x|^2 / |x|^2. Times are CPU times as multiples of a warm copy of the values, the median
of pairs in one process with one thread. Ours are whole messages with header and checksum; the bytes
of others are those of their buffers. ``zstd`` and ``blosc2`` (level 1) compress the message of
`Quantize`; `Zstd` compresses each entry, packed or in whole bytes. ``make peers`` puts the others
into a folder, without their requirements, which would replace torch.

The hook of torch's DistributedDataParallel runs in two processes over gloo, and so does each
link's `PowerSGD`; both get the same gradients of one training, with no residual.
"""

import os
import site
import statistics
import tempfile
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import Tensor, nn

from benchmarks.entropy_coders import update
from benchmarks.split_speed import Work, interleaved
from experiments.replications.lowrank import PowerSGD
from experiments.replications.zstandard import Zstd
from fltoolkit.codecs import Entropy, Float8, Pipeline, Quantize
from fltoolkit.codecs.stage import Stage
from fltoolkit.data import load
from fltoolkit.models import mcmahan_cnn
from fltoolkit.trees import Tree
from fltoolkit_research.codecs import EDEN, ContextEntropy

FOLDER = ".venv-codecs"  # of the other systems
STEPS = 12  # of training beside the hook; the first six are the warm start


class Rival(NamedTuple):
    """Anything that makes bytes of a tree, and the tree of these."""

    encode: Callable[[Tree], Any]
    decode: Callable[[Any], Tree]
    nbytes: Callable[[Any], int] = len


def ours(*stages: Stage) -> Rival:
    codec = Pipeline(*stages)
    return Rival(codec.encode, codec.decode)


def squeezed(codec: Pipeline, squeeze: Callable[..., Any], expand: Callable[..., Any]) -> Rival:
    return Rival(lambda tree: squeeze(codec.encode(tree)), lambda m: codec.decode(expand(m)))


def zstd(bits: int) -> Rival:
    package = import_module("zstandard")
    squeeze, expand = package.ZstdCompressor(level=1), package.ZstdDecompressor()
    return squeezed(Pipeline(Quantize(bits)), squeeze.compress, expand.decompress)


def blosc2(bits: int) -> Rival:
    package = import_module("blosc2")
    package.set_nthreads(1)
    settings = {"codec": package.Codec.ZSTD, "clevel": 1, "typesize": 1}
    squeeze = partial(package.compress2, **settings)
    return squeezed(Pipeline(Quantize(bits)), squeeze, package.decompress2)


def bitsandbytes(bits: int) -> Rival:
    package = import_module("bitsandbytes.functional")
    encode, decode = (
        partial(package.quantize_blockwise, blocksize=4096),
        package.dequantize_blockwise,
    )
    if bits == 4:
        encode = partial(package.quantize_4bit, blocksize=64, quant_type="nf4")
        decode = package.dequantize_4bit
    return Rival(
        lambda tree: encode(tree["w"]),
        lambda coded: {"w": decode(*coded)},
        lambda coded: coded[0].numel() + 4 * coded[1].absmax.numel(),
    )


def hivemind(kind: str) -> Rival:
    package = import_module("hivemind.compression")
    package.quantization.int = np.ndarray.item  # int() of an array [1] is an error in numpy 2.4
    made, info = getattr(package, kind)(), package.CompressionInfo.from_tensor
    return Rival(
        lambda tree: made.compress(tree["w"], info(tree["w"])),
        lambda m: {"w": made.extract(m)},
        lambda m: len(m.buffer),
    )


QUANTIZERS: dict[str, Callable[[], Rival]] = {
    "Quantize(8)": lambda: ours(Quantize(8)),
    "Quantize(8, per=4096)": lambda: ours(Quantize(8, per=4096)),
    "bitsandbytes, 8 bits, blocks of 4096": lambda: bitsandbytes(8),
    "hivemind, uniform, 8 bits": lambda: hivemind("Uniform8BitQuantization"),
    "hivemind, quantiles, 8 bits": lambda: hivemind("Quantile8BitQuantization"),
    "Float8": lambda: ours(Float8()),
    "EDEN(8)": lambda: ours(EDEN(8)),
    "Quantize(4, per=64)": lambda: ours(Quantize(4, per=64)),
    "bitsandbytes, nf4, blocks of 64": lambda: bitsandbytes(4),
    "EDEN(4)": lambda: ours(EDEN(4)),
}
CODERS: dict[str, Callable[[], Rival]] = {}
for _bits in (8, 4):
    CODERS |= {
        f"Quantize({_bits})": partial(ours, Quantize(_bits)),
        f"Quantize({_bits}), Entropy": partial(ours, Quantize(_bits), Entropy()),
        f"Quantize({_bits}), ContextEntropy": partial(ours, Quantize(_bits), ContextEntropy()),
        f"Quantize({_bits}), Zstd": partial(ours, Quantize(_bits), Zstd()),
        f"Quantize({_bits}), zstd of the message": partial(zstd, _bits),
        f"Quantize({_bits}), blosc2 of the message": partial(blosc2, _bits),
    }


def installed(rivals: dict[str, Callable[[], Rival]]) -> dict[str, Rival]:
    found = {}
    for name, make in rivals.items():
        try:
            found[name] = make()
        except ImportError as error:
            print(f"{name}: not here ({error})")
    return found


def table(title: str, tree: Tree, rivals: dict[str, Callable[[], Rival]]) -> None:
    size = sum(x.numel() for x in tree.values())
    whole, target = torch.cat([x.reshape(-1) for x in tree.values()]), torch.zeros(size)
    works: dict[str, Work] = {"copy": lambda: target.copy_(whole)}
    figures = {}
    for name, rival in installed(rivals).items():
        coded = rival.encode(tree)
        decoded = torch.cat([x.reshape(-1) for x in rival.decode(coded).values()])
        error = (decoded - whole).square().sum() / whole.square().sum()
        figures[name] = f"{8 * rival.nbytes(coded) / size:8.3f}{error:10.1e}"
        works[f"encode {name}"] = partial(rival.encode, tree)
        works[f"decode {name}"] = partial(rival.decode, coded)
    seconds = interleaved(works, 9)

    def ratio(work: str) -> float:
        pairs = zip(seconds[work], seconds["copy"], strict=True)
        return statistics.median(a / b for a, b in pairs)

    print(f"\n{title}, {size:,} values\n{'':38s}{'bits':>8s}{'error':>10s}", end="")
    print(f"{'encode':>9s}{'decode':>9s}")
    for name, text in figures.items():
        print(f"{name:38s}{text}{ratio(f'encode {name}'):9.1f}{ratio(f'decode {name}'):9.1f}")


def gradients(rank: int) -> Iterator[tuple[nn.Module, Tensor, Tensor]]:
    """A network, and a batch for each step; the caller leaves the network's mean gradients."""
    data, network = load("mnist"), mcmahan_cnn(seed=0)
    generator = torch.Generator().manual_seed(rank)
    for _ in range(STEPS):
        rows = torch.randint(len(data.x_train), (50,), generator=generator)
        yield network, data.x_train[rows], data.y_train[rows]


def worker(rank: int, low: int, folder: str) -> None:
    """The hook's and our mean gradients beside the exact one, in each of two processes."""
    from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as hooks

    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    codec, errors, nbytes = Pipeline(PowerSGD(low)), [], 0
    state = hooks.PowerSGDState(
        None, low, start_powerSGD_iter=2, use_error_feedback=False, warm_start=True
    )
    wrapped, loss_fn = None, nn.NLLLoss()
    for step, (network, x, y) in enumerate(gradients(rank)):
        if wrapped is None:
            # one bucket: over gloo the hooks of two meet in another order in each process
            wrapped = nn.parallel.DistributedDataParallel(network, bucket_cap_mb=100)
            wrapped.register_comm_hook(state, hooks.powerSGD_hook)
        parameters = dict(network.named_parameters())
        values = torch.autograd.grad(loss_fn(network(x), y), list(parameters.values()))
        exact = {n: g.contiguous() for n, g in zip(parameters, values, strict=True)}
        message = codec.encode(exact)
        low_rank = codec.decode(message)
        for mean in (exact, low_rank):
            for gradient in mean.values():
                dist.all_reduce(gradient)
                gradient /= 2
        wrapped.zero_grad()
        loss_fn(wrapped(x), y).backward()
        hook = {n: p.grad for n, p in parameters.items()}
        square = sum(g.square().sum() for g in exact.values())
        pair = [sum((m[n] - g).square().sum() for n, g in exact.items()) for m in (hook, low_rank)]
        if step >= STEPS // 2:
            errors.append([float(e / square) for e in pair])
            nbytes = len(message)
        for name, parameter in parameters.items():
            parameter.data.sub_(exact[name], alpha=0.1)
    if rank == 0:
        before, after = state.compression_stats()[1:]
        sent = 4 * sum(g.numel() for g in exact.values()) * after / before
        hook, mine = (statistics.median(column) for column in zip(*errors, strict=True))
        line = f"{low:4d}{sent:16,.0f}{nbytes:12,d}{hook:14.3f}{mine:10.3f}"
        Path(folder, "line").write_text(line)
    dist.destroy_process_group()


def power_sgd() -> None:
    print("\nPowerSGD of a worker's gradient, McMahan's CNN, two workers; error of the mean")
    print(f"{'rank':>4s}{'hook, bytes':>16s}{'ours, bytes':>12s}{'hook, error':>14s}{'ours':>10s}")
    for low in (1, 4):
        with tempfile.TemporaryDirectory() as folder:
            mp.spawn(worker, (low, folder), nprocs=2)
            print(Path(folder, "line").read_text(), flush=True)


def main() -> None:
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    site.addsitedir(FOLDER)
    tree = update(mcmahan_cnn(seed=100), load("mnist"), False, 10, 100)
    vector = torch.cat([x.reshape(-1) for x in tree.values()])
    normal = torch.randn(len(vector), generator=torch.Generator().manual_seed(0))
    table("An update of McMahan's CNN as one vector", {"w": vector}, QUANTIZERS)
    table("N(0, 1)", {"w": normal}, QUANTIZERS)
    table("The update, layer by layer", tree, CODERS)
    power_sgd()


if __name__ == "__main__":
    main()
