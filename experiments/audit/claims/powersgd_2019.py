"""Updates of rank two."""

from dataclasses import replace

import torch

from experiments.audit import rule
from experiments.audit.claim import Claim, Finding, Runs, Values, judged, spread, times
from experiments.audit.stored import method
from experiments.replications.lowrank import PowerSGD
from fltoolkit import pack
from fltoolkit.codecs import ErrorFeedback, Pipeline
from fltoolkit.trees import Tree

FLOAT32 = method("FedAvg, float32")
SHAPES = "the shapes of ResNet-18"


def resnet18_for_cifar() -> dict[str, tuple[int, ...]]:
    """The shapes of its parameters: 11,173,962 values."""
    shapes: dict[str, tuple[int, ...]] = {"conv": (64, 3, 3, 3), "linear": (10, 512)}
    shapes |= {"bias": (10,), "norm": (128,)}
    width_in = 64
    for width in (64, 128, 256, 512):
        for block in range(2):
            name = f"{width}.{block}"
            shapes |= {f"{name}.1": (width, width_in, 3, 3), f"{name}.2": (width, width, 3, 3)}
            shapes |= {f"{name}.norm_1": (2 * width,), f"{name}.norm_2": (2 * width,)}
            if width != width_in:
                shapes |= {f"{name}.short": (width, width_in, 1, 1), f"{name}.norm": (2 * width,)}
            width_in = width
    return shapes


def of_shapes(seed: int, quick: bool) -> Values:
    """Bytes of one gradient of ResNet-18, as random numbers, whole and with rank 2."""
    generator = torch.Generator().manual_seed(seed)
    tree: Tree = {
        name: torch.randn(shape, generator=generator)
        for name, shape in resnet18_for_cifar().items()
    }
    coded = Pipeline(PowerSGD(2)).encode(tree)
    values = sum(tensor.numel() for tensor in tree.values())
    return {"dense": float(len(pack(tree))), "coded": float(len(coded)), "values": float(values)}


def judge(runs: Runs) -> Finding:
    """On par: half a point. The abstract prints no factor."""
    lost = runs.points("rank 2", "float32")
    factors = [v["dense"] / v["coded"] for v in runs[SHAPES]]
    words = (
        f"{spread(lost, '+.2f')} points of accuracy, of which {rule.POINTS:g} may be lost. The "
        "factors are ours: the matrices of this network are small (128 x 64, 640 x 128 and "
        "10 x 640), and our server sends the model back whole. A message with the shapes of "
        f"ResNet-18 is {times(factors)} times smaller in rank 2, and an all-reduce has this factor "
        "both ways."
    )
    up, total = (times(runs.fewer("rank 2", "float32", key)) for key in ("nbytes_up", "nbytes"))
    return Finding(judged(rule.at_least(lost, -rule.POINTS)), words, up, total)


CLAIM = Claim(
    title="PowerSGD: gradients of low rank, on par with SGD",
    group="codecs",
    says="Gradients as products of low rank, which an all-reduce adds up, train on par with SGD.",
    source="Vogels et al. 2019, arXiv 1905.13727, abstract",
    known="abstract",
    quote="We propose a new low-rank gradient compressor based on power iteration that can i) "
    "compress gradients rapidly, ii) efficiently aggregate the compressed gradients using "
    "all-reduce, and iii) achieve test performance on par with SGD.",
    quoted_from="abstract, arXiv 1905.13727v3; the factor is a table's",
    ours="Digits, ten clients, 25 rounds; updates of rank 2 with error feedback. And one message "
    "with the shapes of ResNet-18.",
    lacks="Gradients of each step, added up by an all-reduce: updates of a local epoch are sent.",
    judge=judge,
    measures={
        "float32": FLOAT32,
        "rank 2": replace(
            FLOAT32, name="rank 2", codecs={"update": ErrorFeedback(Pipeline(PowerSGD(2)))}
        ),
        SHAPES: of_shapes,
    },
    seeds=range(10, 15),
)
