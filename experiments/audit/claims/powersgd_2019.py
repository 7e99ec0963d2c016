"""Updates of rank two."""

from dataclasses import replace

import torch

from experiments.audit.claim import Claim, Finding, Runs, Values, judge_saving, times
from experiments.audit.stored import method
from fltoolkit import pack
from fltoolkit.codecs import ErrorFeedback, Pipeline, PowerSGD
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
    """Half a point is "the same accuracy"."""
    factors = [v["dense"] / v["coded"] for v in runs[SHAPES]]
    return judge_saving(
        runs,
        "rank 2",
        "float32",
        claimed=136,
        points=0.5,
        why="The matrices of this network are small: 128 x 64, 640 x 128 and 10 x 640. A message "
        f"with the shapes of ResNet-18 is {times(factors)} times smaller in rank 2: the paper's "
        "factor is that of the message, one way; an all-reduce has the same one both ways, and our "
        "server sends the model back whole.",
    )


CLAIM = Claim(
    title="PowerSGD: 136 times less with rank 2 at the same accuracy",
    group="codecs",
    says="Gradients as products of rank 2: 136 times less, at the accuracy of SGD, ResNet-18 on "
    "CIFAR-10.",
    source="Vogels et al. 2019, arXiv 1905.13727, table; the factor is recomputed below",
    known="memory",
    ours="Digits, ten clients, 25 rounds; updates of rank 2 with error feedback. And one message "
    "with the shapes of ResNet-18.",
    judge=judge,
    measures={
        "float32": FLOAT32,
        "rank 2": replace(
            FLOAT32, name="rank 2", codecs={"update": ErrorFeedback(Pipeline(PowerSGD(2)))}
        ),
        SHAPES: of_shapes,
    },
)
