"""Deep gradient compression with a thousandth of the values."""

from dataclasses import replace

from experiments.audit.claim import Claim, Runs, judge_saving
from experiments.audit.stored import method
from experiments.replications.dgc import DGC
from fltoolkit.codecs import Pipeline
from fltoolkit_research.codecs import ContextEntropy

FLOAT32 = method("FedAvg, float32")
CODEC = Pipeline(DGC(0.001, momentum=0.5, warmup=(0.25, 0.06, 0.016, 0.004)), ContextEntropy())


def judge(runs: Runs):
    """Half a point is "no loss"."""
    return judge_saving(
        runs,
        "DGC 0.1 %",
        "float32",
        claimed=270,
        points=0.5,
        why="A thousandth of the values after four rounds of warm-up; the factor is of all rounds.",
    )


CLAIM = Claim(
    title="Deep gradient compression: 270 to 600 times less without a loss",
    group="codecs",
    says="A thousandth of the gradient's values with momentum correction, clipping, factor masking "
    "and warm-up: 270 to 600 times less traffic on four data sets, and no accuracy is lost.",
    source="Lin et al. 2018, arXiv 1712.01887, abstract",
    known="abstract",
    quote="On these scenarios, Deep Gradient Compression achieves a gradient compression ratio "
    "from 270× to 600× without losing accuracy, cutting the gradient size of ResNet-50 from 97MB "
    "to 0.35MB, and for DeepSpeech from 488MB to 0.74MB.",
    quoted_from="abstract, arXiv 1712.01887v2",
    ours="Digits, ten clients, 25 rounds of a local epoch.",
    lacks="Gradients of many thousand steps: 25 updates of a local epoch are sent here, four of "
    "them in the warm-up, so that no factor of 270 is possible. And sparse messages both ways: our "
    "server sends the model back whole.",
    judge=judge,
    measures={
        "float32": FLOAT32,
        "DGC 0.1 %": replace(FLOAT32, name="DGC 0.1 %", codecs={"update": CODEC}),
    },
    seeds=range(10, 15),
)
