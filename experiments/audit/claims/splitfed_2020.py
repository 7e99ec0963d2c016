"""SplitFed against the relay and against federated averaging."""

from experiments.audit import rule
from experiments.audit.claim import Claim, Finding, Runs, judged, spread, times
from experiments.audit.stored import method

SPLITFED, RELAY, FEDAVG = "SplitFed, Float8", "SplitNN, Float8", "FedAvg, float32"


def judge(runs: Runs) -> Finding:
    """Similar is within a point, and within a tenth of the bytes."""
    points = runs.points(SPLITFED, RELAY)
    words = (
        f"SplitFed is {spread(points, '+.2f')} points from the relay after as many passes, and "
        f"{spread(runs.points(SPLITFED, FEDAVG), '+.2f')} from federated averaging. Factors: "
        "bytes against the relay's. Similar is within a point. (The "
        "shorter time that is claimed as well is not measured.)"
    )
    return Finding(
        judged(rule.within(points, 1), rule.saves(runs.fewer(SPLITFED, RELAY), 1)),
        words,
        times(runs.fewer(SPLITFED, RELAY, "nbytes_up")),
        times(runs.fewer(SPLITFED, RELAY)),
    )


CLAIM = Claim(
    title="SplitFed: as accurate and as cheap to send as split learning",
    group="split learning",
    says="Test accuracy and communication are similar to split learning with several clients, "
    "and the time is much shorter.",
    source="Thapa et al. 2020, arXiv 2004.12088, abstract",
    known="abstract",
    quote="Our analysis and empirical results demonstrate that (pure) SFL provides similar test "
    "accuracy and communication efficiency as SL while significantly decreasing its computation "
    "time per global epoch than in SL for multiple clients.",
    quoted_from="abstract, arXiv 2004.12088, version of 2022",
    ours="MNIST, ten clients, IID, 3 passes, 8-bit floats at the cut (docs/results.md).",
    judge=judge,
    seeds=range(5),
    measures={name: method(name, "mnist") for name in (SPLITFED, RELAY, FEDAVG)},
)
