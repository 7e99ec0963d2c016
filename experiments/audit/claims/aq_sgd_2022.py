"""Few bits for the change of an activation against few bits for the activation."""

from experiments.audit import rule
from experiments.audit.claim import Claim, Finding, Runs, judged, spread, times
from fltoolkit.codecs import Entropy, Pipeline, Quantize
from fltoolkit.research import Experiment
from fltoolkit.split import AlwaysA

BITS = {"activations": Pipeline(Quantize(2), Entropy())}


def trained(name: str, codecs: dict, **settings) -> Experiment:
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


def judge(runs: Runs) -> Finding:
    """As good as float32; only what goes up is coded."""
    lost = runs.points("differences in 2 bits", "float32")
    gained = runs.points("differences in 2 bits", "2 bits")
    words = (
        f"Differences in 2 bits are {spread(lost, '+.2f')} points from float32, and "
        f"{spread(gained, '+.2f')} from plain 2 bits. Gradients travel in "
        "float32 here, so that the factor is the way up's."
    )
    up = runs.fewer("differences in 2 bits", "float32", "nbytes_up")
    total = runs.fewer("differences in 2 bits", "float32")
    verdict = judged(rule.at_least(lost, -rule.POINTS), total=False, up=True)
    return Finding(verdict, words, times(up), times(total))


CLAIM = Claim(
    title="Activations in 2 to 4 bits at no loss, if what is sent is their change",
    group="split learning",
    says="Activations in 2 to 4 bits train as well as in float32 if both sides keep a sample's "
    "last "
    "activation and its change is sent; 4.3 times faster end to end on slow networks.",
    source="Wang et al. 2022, AQ-SGD, arXiv 2206.01299, abstract",
    known="abstract",
    ours="8,000 images of MNIST, 15 passes, two parties; 2 bits and an entropy coder. The claim of "
    "time is not measured.",
    judge=judge,
    measures={
        "float32": trained("float32", {}),
        "2 bits": trained("2 bits", BITS),
        "differences in 2 bits": trained("differences in 2 bits", BITS, delta=True),
    },
)
