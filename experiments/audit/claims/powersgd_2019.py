"""Updates of rank two."""

from dataclasses import replace

from experiments.audit.claim import Claim, Runs, judge_saving
from experiments.audit.stored import method
from fltoolkit.codecs import ErrorFeedback, Pipeline, PowerSGD

FLOAT32 = method("FedAvg, float32")


def judge(runs: Runs):
    """Half a point is "the same accuracy"."""
    return judge_saving(
        runs,
        "rank 2",
        "float32",
        claimed=136,
        points=0.5,
        why="The matrices of this network are small: 128 x 64, 640 x 128 and 10 x 640. The larger "
        "a matrix, the more two columns and two rows save; ResNet-18's are larger.",
    )


CLAIM = Claim(
    title="PowerSGD: 136 times less with rank 2 at the same accuracy",
    group="codecs",
    says="Gradients as products of rank 2: 136 times less, 94.4 % as with SGD, ResNet-18 on "
    "CIFAR-10.",
    source="Vogels et al. 2019, arXiv 1905.13727, table",
    known="memory",
    ours="Digits, ten clients, 25 rounds; updates of rank 2 with error feedback.",
    judge=judge,
    measures={
        "float32": FLOAT32,
        "rank 2": replace(
            FLOAT32, name="rank 2", codecs={"update": ErrorFeedback(Pipeline(PowerSGD(2)))}
        ),
    },
)
