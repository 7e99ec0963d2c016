"""Sending how an activation has changed, or only those that have moved."""

from collections.abc import Mapping
from typing import Any

from experiments.audit import rule
from experiments.audit.claim import Claims, Finding, Runs, factors, judged, on_seeds, spread
from experiments.audit.measures import split_language
from fltoolkit.codecs import Codec, Pipeline, Quantize
from fltoolkit.split import AlwaysA
from fltoolkit_research import Experiment
from fltoolkit_research.codecs import ContextEntropy

CLAIMS = Claims(group="split learning")
AQ_SGD: Mapping[str, Any] = {
    "source": "Wang et al. 2022, AQ-SGD, arXiv 2206.01299, abstract",
    "quote": "We evaluated AQ-SGD to fine-tune language models with up to 1.5 billion parameters, "
    "compressing activation to 2-4 bits. AQ-SGD provides up to 4.3x end-to-end speed-up in slower "
    "networks, without sacrificing model quality.",
    "quoted_from": "abstract, NeurIPS 2022",
}
SPLITCOM: Mapping[str, Any] = {
    "source": "SplitCom 2026, arXiv 2602.10564, abstract",
    "quote": "SplitCom reduces uplink communication costs by up to 98.6 % in its standard "
    "configuration and total communication costs by up to 95.8 % in its U-shape variant without "
    "noticeably compromising model performance.",
    "quoted_from": "abstract, arXiv 2602.10564v1",
    "lacks": "The threshold that adapts itself (bang-bang control or reinforcement learning), and "
    "the U-shape, in which the figure for both ways was found: the cut is plain.",
}
IN_2_BITS = "2 bits"
CHANGES_IN_2 = "changes in 2 bits"
DENSE = "float32"
PLAIN = "rotated, 2 bits (EDEN)"
CHANGES = "differences, 2 bits (EDEN)"
MOVED_10 = "moved by 10 %"
MOVED_30 = "sent if moved by 30%"

BITS = {
    "activations": Pipeline(Quantize(2), ContextEntropy()),
    "gradients": Pipeline(Quantize(4, stochastic=True), ContextEntropy()),
}


def trained(name: str, codecs: Mapping[str, Codec] = {}, **settings: object) -> Experiment:
    """Two parties on MNIST."""
    return Experiment(
        "split_async",
        data="mnist",
        num_samples=8000,
        rounds=15,
        batch_size=64,
        lr=0.05,
        gate=AlwaysA(),
        codecs=codecs,
        settings=settings,
        name=name,
    )


@CLAIMS.add(
    title="Activations in 2 to 4 bits at no loss, if what is sent is their change",
    says="Activations in 2 to 4 bits train as well as in float32 if both sides keep a sample's "
    "last activation and its change is sent; 4.3 times faster end to end on slow networks.",
    **AQ_SGD,
    ours="8,000 images of MNIST, 15 passes, two parties; activations in 2 bits, gradients in 4 "
    "bits with random rounding, both behind an entropy coder. The claim of time is not measured.",
    measures={
        "float32": trained("float32"),
        IN_2_BITS: trained(IN_2_BITS, BITS),
        CHANGES_IN_2: trained(CHANGES_IN_2, BITS, delta=True),
    },
    seeds=range(5),
)
def aq_sgd_2022(runs: Runs) -> Finding:
    """As good as float32, where both directions are in few bits."""
    lost, gained = runs.points(CHANGES_IN_2, "float32"), runs.points(CHANGES_IN_2, IN_2_BITS)
    words = (
        f"Changes in 2 bits and gradients in 4 are {spread(lost, '+.2f')} points from float32, and "
        f"{spread(gained, '+.2f')} from the same bits without memory, both tested without "
        "rounding: a new sample has no earlier activation whose change could be sent."
    )
    verdict = judged(rule.at_least(lost, -rule.POINTS))
    return Finding(verdict, words, *factors(runs, CHANGES_IN_2, "float32"))


@CLAIMS.add(
    title="The same in fine-tuning a transformer: changes in 2 bits at no loss",
    **AQ_SGD,
    ours="A pretrained transformer of 111,425 parameters in two parts learns capital letters, "
    "eight passes (docs/language_results.md). Both directions in 2 bits behind a rotation.",
    version=2,
    **split_language("tune", DENSE, PLAIN, CHANGES),
)
def aq_sgd_2022_language(runs: Runs) -> Finding:
    """As good as float32 after training; what it costs in use is reported beside it."""
    more, used = (runs.nats(CHANGES, DENSE, key) for key in ("nats", "nats_coded"))
    plain, plain_used = (runs.nats(PLAIN, DENSE, key) for key in ("nats", "nats_coded"))
    words = (
        f"Trained with differences and gradients in 2 bits and tested without rounding: "
        f"{spread(more, '+.3f')} nats per character from float32, plain 2 bits "
        f"{spread(plain, '+.3f')}, {on_seeds(runs)}. In use, with the cut in 2 bits as it is sent: "
        f"{spread(used, '+.3f')} and {spread(plain_used, '+.3f')}. A new sample has no earlier "
        "activation whose change could be sent."
    )
    verdict = judged(rule.at_most(more, rule.NATS))
    return Finding(verdict, words, *factors(runs, CHANGES, DENSE))


@CLAIMS.add(
    title="95.8 % less by sending only what has moved",
    says="98.6 % less on the way up (71 times) in its standard form, and 95.8 % less in all "
    "(23.8 times) in a U-shape, both without a loss that one notices: an activation is sent only "
    "if it has moved since its last time.",
    **SPLITCOM,
    ours="8,000 images of MNIST, 15 passes; an activation is sent if it has moved by a tenth of "
    "its length. Their task is fine-tuning, where activations move little.",
    measures={"float32": trained("float32"), MOVED_10: trained("moved", moved=0.1)},
)
def splitcom_2026(runs: Runs) -> Finding:
    """71 times less on the way up, which is claimed for a plain cut; half a point is no loss."""
    lost = runs.points(MOVED_10, "float32")
    up = runs.fewer(MOVED_10, "float32", "nbytes_up")
    words = (
        f"{spread(lost, '+.2f')} points of accuracy, of which {rule.POINTS:g} may be lost. "
        "Gradients are sent with every batch here."
    )
    verdict = judged(rule.at_least(lost, -rule.POINTS), rule.saves(up, 1 / (1 - 0.986)))
    return Finding(verdict, words, *factors(runs, MOVED_10, "float32"))


@CLAIMS.add(
    title="The same in fine-tuning: 95.8 % less by sending only what has moved",
    **SPLITCOM,
    ours="A pretrained transformer of 111,425 parameters in two parts learns capital letters, "
    "eight passes (docs/language_results.md). An activation is sent if it has moved by 30 %, and "
    "then its gradient comes back.",
    version=2,
    **split_language("tune", DENSE, MOVED_30),
)
def splitcom_2026_language(runs: Runs) -> Finding:
    """71 times less on the way up, which is claimed for a plain cut, and as good as float32."""
    more = runs.nats(MOVED_30, DENSE)
    up = runs.fewer(MOVED_30, DENSE, "nbytes_up")
    words = f"{spread(more, '+.3f')} nats per character above float32, {on_seeds(runs)}."
    verdict = judged(rule.at_most(more, rule.NATS), rule.saves(up, 1 / (1 - 0.986)))
    return Finding(verdict, words, *factors(runs, MOVED_30, DENSE))
