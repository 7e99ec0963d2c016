"""Masks on random noise that a seed makes."""

from functools import partial

from experiments.audit import rule, stored
from experiments.audit.claim import Claim, Finding, Runs, judged, spread
from experiments.audit.measures import OF_NEWER
from experiments.newer.masked import ONE_BIT_EACH
from experiments.newer.setting import SEEDS

MASKS, AVERAGING = "FedMRN, masks of 0 and 1", "FedAvg"
LEARNED, DRAWN = "FedMRN, masks of -1 and 1", "masks of -1 and 1, after training"
BASELINES = ("signs, with error feedback", "DRIVE, which is EDEN of 1 bit")


def judge(runs: Runs) -> Finding:
    """As good as averaging; which baselines are relevant the abstract does not say."""
    lost = runs.points(MASKS, AVERAGING)
    listed = ", ".join(f"{n}: {spread(runs.points(MASKS, n), '+.2f')}" for n in BASELINES)
    words = (
        f"{spread(lost, '+.2f')} points from averaging in float32, of which {rule.POINTS:g} may be "
        f"lost. From codecs that send one bit per value, too, {listed}. The abstract does not "
        "name its baselines, and the verdict is on averaging. Masks of -1 and 1 that are learned "
        f"are {spread(runs.points(LEARNED, DRAWN), '+.2f')} from those drawn after training."
    )
    return Finding(judged(rule.at_least(lost, -rule.POINTS)), words)


CLAIM = Claim(
    title="FedMRN: one bit per value is as good as averaging",
    group="federated learning",
    says="Clients learn a mask of one bit per parameter on noise that a seed makes. The accuracy "
    "is that of averaging, and above that of other methods.",
    source="Li et al. 2024, arXiv 2408.03220v1, abstract, and the authors' program",
    known="abstract",
    quote="The results show that FedMRN exhibits superior convergence speed and test accuracy "
    "compared to relevant baselines, while attaining a similar level of accuracy as FedAvg.",
    quoted_from="abstract, arXiv 2408.03220v1",
    ours="Digits, four owners with equal shares, a network of 2,410 parameters, 30 rounds "
    "(docs/newer_methods.md).",
    judge=judge,
    chosen=OF_NEWER,
    measures={
        n: partial(stored.newer, ONE_BIT_EACH, n)
        for n in (MASKS, AVERAGING, *BASELINES, LEARNED, DRAWN)
    },
    seeds=SEEDS,
)
