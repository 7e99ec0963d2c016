"""Three values."""

from dataclasses import replace

from experiments.audit.claim import Claim, Finding, Runs, Verdict, spread, times
from experiments.audit.stored import method
from fltoolkit.codecs import Pipeline
from fltoolkit_research.codecs import ContextEntropy, Ternary

FLOAT32 = method("FedAvg, float32")


def judge(runs: Runs) -> Finding:
    """The scale that workers share, and what it makes of the way back, are not built here."""
    words = (
        f"{spread(runs.points('ternary', 'float32'), '+.2f')} points of accuracy. In the authors' "
        "code (wenwei202/terngrad, bingrad_common.py at commit 7c1951d0) all workers share the "
        "largest of their scales, and gradients are clipped first. So a mean of N messages has at "
        "most 2 N + 1 levels, and can come back in few bits. Here each client has its own scale, "
        "nothing is clipped, and the model comes back whole. Updates are those of a local epoch, "
        "where the paper sends gradients of a step. Its own abstract claims no loss on AlexNet; "
        "the loss of this claim is another paper's measurement."
    )
    up, total = (runs.fewer("ternary", "float32", key) for key in ("nbytes_up", "nbytes"))
    return Finding(Verdict.UNTESTED, words, times(up), times(total))


CLAIM = Claim(
    title="TernGrad, as others measured it: 8 times less at a loss of 0.9 points",
    group="codecs",
    says="Gradients of three values: 232.56 to 29.18 MB (8 times), and 57.28 % on AlexNet, 0.89 "
    "points below.",
    source="Wen et al. 2017, arXiv 1705.07878; measured in Lin et al. 2018, table 3",
    known="quoted",
    quote="Our experiments show that applying TernGrad on AlexNet does not incur any accuracy loss "
    "and can even improve accuracy.",
    quoted_from="abstract, arXiv 1705.07878; the factor and the loss of this claim are those that "
    "another paper measured",
    ours="Digits, ten clients, 25 rounds; the updates in three values, entropy-coded.",
    judge=judge,
    measures={
        "float32": FLOAT32,
        "ternary": replace(
            FLOAT32, name="ternary", codecs={"update": Pipeline(Ternary(), ContextEntropy())}
        ),
    },
    seeds=range(10, 15),
)
