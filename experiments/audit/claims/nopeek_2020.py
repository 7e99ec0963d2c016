"""A loss that makes activations unlike the images."""

from experiments.audit.claim import Claim, Finding, Runs, Values, Verdict, spread
from experiments.audit.measures import leakage
from experiments.runs import Result


def read(result: Result) -> Values:
    return {name: result[name] for name in ("accuracy", "dcor", "explained_variance")}


def judge(runs: Runs) -> Finding:
    """It prevents reconstruction if less than half of the variance is explained."""
    dcor = runs.points("NoPeek 3", "float32", "dcor")
    explained = runs.all("NoPeek 3", "explained_variance")
    words = (
        f"Distance correlation falls by {-sum(dcor) / len(dcor) / 100:.2f}, accuracy changes by "
        f"{spread(runs.points('NoPeek 3', 'float32'), '+.2f')} points, and a trained decoder still "
        f"explains {spread(explained)} of the variance "
        f"({spread(runs.all('float32', 'explained_variance'))} without NoPeek)."
    )
    return Finding(Verdict.REPRODUCED if max(explained) < 0.5 else Verdict.REFUTED, words)


CLAIM = Claim(
    title="NoPeek: reconstruction is prevented, and the accuracy is kept",
    group="split learning",
    says="Adding the distance correlation of images and activations to the loss reduces leakage "
    "and prevents reconstruction of the images, at little loss of accuracy.",
    source="Vepakomma et al. 2020, arXiv 2008.09161, abstract",
    known="abstract",
    ours="Digits, weight 3, and a decoder that is trained against it (docs/leakage.md).",
    judge=judge,
    measures={
        "float32": leakage("digits", "codecs on the activations", "float32", read),
        "NoPeek 3": leakage("digits", "defences", "NoPeek 3", read),
    },
)
