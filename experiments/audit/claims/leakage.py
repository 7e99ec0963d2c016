"""What the other side learns from a cut: the runs of docs/leakage.md."""

from functools import partial

from experiments.audit import rule
from experiments.audit.claim import Claims, Finding, Runs, Values, Verdict, judged, spread
from experiments.audit.measures import leakage
from experiments.leakage.settings import BINARY, DOWN
from experiments.runs import Result

CLAIMS = Claims(group="split learning", seeds=range(5))
PART = "codecs on the activations"


def read_labels(result: Result) -> Values:
    return {"length": max(result["norm_auc"]), "direction": max(result["direction_auc"])}


@CLAIMS.add(
    title="Gradients at the cut give the labels away",
    says="The length of a gradient tells a rare label from a common one, and its direction tells "
    "classes apart; an attack that needs no auxiliary labels can be perfect.",
    source="Li et al. 2022, arXiv 2102.08504; Erdogan et al. 2022 (UnSplit), arXiv 2108.09033",
    quote="We then show that there exist two simple yet effective methods within the threat model "
    "that can allow one party to accurately recover private ground-truth labels owned by the other "
    "party.",
    quoted_from="abstract, arXiv 2102.08504v3",
    ours="MNIST, gradients in float32; one known sample of each class for the direction "
    "(docs/leakage.md).",
    measures={
        "a rare label": partial(leakage, read_labels, ("mnist", BINARY, "float32")),
        "ten labels": partial(leakage, read_labels, ("mnist", DOWN, "float32")),
    },
)
def label_leakage_2022(runs: Runs) -> Finding:
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


PARTS = {"float32": "codecs on the activations", "NoPeek 3": "defences"}
MEASURES = {
    f"{data}, {name}": (data, part, name)
    for data in ("digits", "mnist")
    for name, part in PARTS.items()
}


def read_nopeek(result: Result) -> Values:
    return {name: result[name] for name in ("accuracy", "dcor", "explained_variance")}


@CLAIMS.add(
    title="NoPeek: reconstruction is prevented, and the accuracy is kept",
    source="Vepakomma et al. 2020, arXiv 2008.09161, abstract",
    quote="We demonstrate that our method is resilient to such reconstruction attacks and is based "
    "on reduction of distance correlation between raw data and learned representations during "
    "training and inference with image datasets. We prevent such reconstruction of raw data while "
    "maintaining information required to sustain good classification accuracies.",
    ours="Digits and MNIST, weight 3, and a decoder that is trained against it (docs/leakage.md).",
    measures={name: partial(leakage, read_nopeek, where) for name, where in MEASURES.items()},
)
def nopeek_2020(runs: Runs) -> Finding:
    """Less leaks, and at most a point of accuracy is lost, on both data sets."""
    words, answers = [], []
    for data in ("digits", "mnist"):
        names = (f"{data}, NoPeek 3", f"{data}, float32")
        less = runs.points(*names, "explained_variance")
        kept = rule.at_least(runs.points(*names), -1)
        answers += [rule.at_most(less, 0.0), kept]
        before, after = (spread(runs.all(name, "explained_variance")) for name in names[::-1])
        words.append(
            f"{data}: a trained decoder explains {after} of the variance, and {before} without "
            f"NoPeek; accuracy changes by {runs.in_points(*names)} points"
        )
    last = (
        "Less leaks, as is claimed; most of it still does, and the abstract prints no threshold "
        "for what prevented means. The accuracy counts as kept if the whole interval is above -1."
    )
    return Finding(judged(rule.every(*answers)), f"{'; '.join(words)}. {last}")


def read_explained(result: Result) -> Values:
    return {"explained": result["explained_variance"], "accuracy": result["accuracy"]}


@CLAIMS.add(
    title="Raw data never leave the client: what does?",
    says="Raw data are not shared. That is true of every implementation; that they therefore stay "
    "private is a conclusion which readers draw, and which no sentence quoted here prints.",
    source="tutorials and introductions since Gupta & Raskar 2018, arXiv 1810.06060",
    known="quoted",
    ours="A decoder that is trained on the attacker's own images and what crossed for them "
    "(docs/leakage.md).",
    measures={
        "digits": partial(leakage, read_explained, ("digits", PART, "float32")),
        "MNIST": partial(leakage, read_explained, ("mnist", PART, "float32")),
    },
)
def split_is_private(runs: Runs) -> Finding:
    """No sentence is tested: what is seen is shown."""
    digits, mnist = runs.all("digits", "explained"), runs.all("MNIST", "explained")
    words = (
        f"An attacker with images of its own explains {spread(digits)} of the variance of the "
        f"digits, and {spread(mnist)} of MNIST's, from the activations. 1 would be a copy."
    )
    return Finding(Verdict.UNTESTED, words)
