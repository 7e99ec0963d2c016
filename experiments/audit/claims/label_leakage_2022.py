"""Labels from the gradients that come back."""

from experiments.audit import rule
from experiments.audit.claim import Claim, Finding, Runs, Values, judged, spread
from experiments.audit.measures import leakage
from experiments.leakage.settings import BINARY, DOWN
from experiments.runs import Result


def read(result: Result) -> Values:
    return {"length": max(result["norm_auc"]), "direction": max(result["direction_auc"])}


def judge(runs: Runs) -> Finding:
    """An AUC of 0.9 gives labels away: the abstract has no figure."""
    length = runs.all("a rare label", "length")
    direction = runs.all("ten labels", "direction")
    words = (
        f"AUC of a rare label by the gradient's length {spread(length)}, and of ten labels by its "
        f"direction {spread(direction)}, in the best epoch; 0.5 is chance. At least 0.9 counts as "
        "given away, which is our figure: the abstract has none."
    )
    leaks = rule.every(rule.at_least(length, 0.9), rule.at_least(direction, 0.9))
    return Finding(judged(leaks), words)


CLAIM = Claim(
    title="Gradients at the cut give the labels away",
    group="split learning",
    says="The length of a gradient tells a rare label from a common one, and its direction tells "
    "classes apart; an attack that needs no auxiliary labels can be perfect.",
    source="Li et al. 2022, arXiv 2102.08504; Erdogan et al. 2022 (UnSplit), arXiv 2108.09033",
    known="abstract",
    quote="We then show that there exist two simple yet effective methods within the threat model "
    "that can allow one party to accurately recover private ground-truth labels owned by the other "
    "party.",
    quoted_from="abstract, arXiv 2102.08504v3",
    ours="MNIST, gradients in float32; one known sample of each class for the direction "
    "(docs/leakage.md).",
    judge=judge,
    seeds=range(5),
    measures={
        "a rare label": leakage("mnist", BINARY, "float32", read),
        "ten labels": leakage("mnist", DOWN, "float32", read),
    },
)
