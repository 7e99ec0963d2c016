"""Three values."""

from dataclasses import replace

from experiments.audit.claim import Claim, Runs, judge_saving
from experiments.audit.stored import method
from fltoolkit.codecs import Entropy, Pipeline, Ternary

FLOAT32 = method("FedAvg, float32")


def judge(runs: Runs):
    """The factor is that of DGC's table."""
    return judge_saving(
        runs,
        "ternary",
        "float32",
        claimed=8,
        points=0.9,
        why="Updates of a local epoch, where the paper sends gradients of a step. Its own abstract "
        "claims no loss on AlexNet; the loss is another paper's measurement.",
    )


CLAIM = Claim(
    title="TernGrad: 8 times less at a loss of 0.9 points",
    group="codecs",
    says="Gradients of three values: 232.56 to 29.18 MB (8 times), and 57.28 % on AlexNet, 0.89 "
    "points below.",
    source="Wen et al. 2017, arXiv 1705.07878; measured in Lin et al. 2018, table 3",
    known="quoted",
    ours="Digits, ten clients, 25 rounds; the updates in three values, entropy-coded.",
    judge=judge,
    measures={
        "float32": FLOAT32,
        "ternary": replace(
            FLOAT32, name="ternary", codecs={"update": Pipeline(Ternary(), Entropy())}
        ),
    },
)
