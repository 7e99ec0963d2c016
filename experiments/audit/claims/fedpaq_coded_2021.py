"""Quantized updates behind a lossless coder."""

from dataclasses import replace

from experiments.audit.claim import Claim, Runs, judge_saving
from experiments.audit.stored import method
from fltoolkit.codecs import Pipeline
from fltoolkit_research.codecs import QSGD, ContextEntropy

COARSE = replace(
    method("FedPAQ + Entropy"),
    name="one level, one norm a tensor",
    codecs={"update": Pipeline(QSGD(1, bucket=1_000_000), ContextEntropy())},
)


def judge(runs: Runs):
    """A loss of half a point counts as none."""
    return judge_saving(
        runs,
        "one level",
        "FedAvg, float32",
        claimed=1557,
        points=0.5,
        of="nbytes_up",
        why="With one norm for a whole tensor nearly all values become zero.",
    )


CLAIM = Claim(
    title="FedPAQ with gzip: 1,557 times less; Federated QSGD: 2,809",
    group="federated learning",
    says="The same updates behind a lossless coder are 1,557 times smaller on the way up, those of "
    "Federated QSGD 2,809 times (FEMNIST).",
    source="Hönig et al. 2021, arXiv 2111.00465, table 2, in a conversion to text",
    known="read",
    ours="Digits, ten clients, 25 rounds; one level and one norm a tensor, which is coarser than "
    "docs/results.md uses, and our entropy coder.",
    judge=judge,
    measures={"FedAvg, float32": method("FedAvg, float32"), "one level": COARSE},
    seeds=range(10, 15),
)
