"""Which values are sent tells more than what they are."""

from experiments.audit.claim import Claim, Finding, Runs, Values, Verdict, spread
from experiments.audit.measures import leakage
from experiments.runs import Result


def read(result: Result) -> Values:
    return {"share": result["positions"] / result["explained_variance"]}


def judge(runs: Runs) -> Finding:
    """What values alone tell is not measured."""
    shares = runs.all("top-k 10%", "share") + runs.all("RandTopK 10%", "share")
    words = (
        f"Places alone explain {spread(shares)} of what places and values explain together. What "
        "values alone explain is not measured."
    )
    return Finding(Verdict.UNTESTED, words)


PART = "codecs on the activations"
CLAIM = Claim(
    title="The places of a sparse message leak more than its values",
    group="split learning",
    says="Of sparse activations the places tell an attacker more about the input than the values.",
    source="Hoefler et al. 2026, on sparse collaborative inference",
    known="quoted",
    ours="MNIST, a tenth of 640 activations; a decoder that sees places only beside one that sees "
    "everything (docs/leakage.md).",
    judge=judge,
    measures={name: leakage("mnist", PART, name, read) for name in ("top-k 10%", "RandTopK 10%")},
)
