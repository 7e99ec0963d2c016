"""The claim in words: the other side does not see the data."""

from experiments.audit.claim import Claim, Finding, Runs, Values, Verdict, spread
from experiments.audit.measures import leakage
from experiments.runs import Result


def read(result: Result) -> Values:
    return {"explained": result["explained_variance"], "accuracy": result["accuracy"]}


def judge(runs: Runs) -> Finding:
    """No sentence is tested: what is seen is shown."""
    digits, mnist = runs.all("digits", "explained"), runs.all("MNIST", "explained")
    words = (
        f"An attacker with images of its own explains {spread(digits)} of the variance of the "
        f"digits, and {spread(mnist)} of MNIST's, from the activations. 1 would be a copy."
    )
    return Finding(Verdict.UNTESTED, words)


PART = "codecs on the activations"
CLAIM = Claim(
    title="Raw data never leave the client: what does?",
    group="split learning",
    says="Raw data are not shared. That is true of every implementation; that they therefore stay "
    "private is a conclusion which readers draw, and which no sentence quoted here prints.",
    source="tutorials and introductions since Gupta & Raskar 2018, arXiv 1810.06060",
    known="quoted",
    ours="A decoder that is trained on the attacker's own images and what crossed for them "
    "(docs/leakage.md).",
    judge=judge,
    seeds=range(5),
    measures={
        "digits": leakage("digits", PART, "float32", read),
        "MNIST": leakage("mnist", PART, "float32", read),
    },
)
