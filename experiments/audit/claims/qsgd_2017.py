"""Bits per value of QSGD with as many levels as the root of the dimension."""

import math

from torch import nn

from experiments.audit import rule
from experiments.audit.claim import Claim, Finding, Runs, Values, judged, spread
from fltoolkit import load
from fltoolkit.codecs import Pipeline
from fltoolkit.models import splitnn_mlp
from fltoolkit_research.codecs import QSGD, ContextEntropy


def measure(seed: int, quick: bool) -> Values:
    """Bits per value of a real gradient as one vector, and the squared error of its decoding."""
    data, model = load("digits").flat(), splitnn_mlp(64, seed=seed)
    loss = nn.NLLLoss()(model(data.x_train[: 64 * (seed + 1)]), data.y_train[: 64 * (seed + 1)])
    loss.backward()
    gradients = [p.grad.flatten() for p in model.parameters() if p.grad is not None]
    import torch

    vector = torch.cat(gradients)
    num = vector.numel()
    codec = Pipeline(QSGD(math.isqrt(num), bucket=num, seed=seed), ContextEntropy())
    message = codec.encode({"g": vector})
    decoded = codec.decode(message)["g"]
    error = float(((decoded - vector) ** 2).sum() / (vector**2).sum())
    return {"bits": 8 * len(message) / num, "error": error}


def judge(runs: Runs) -> Finding:
    """2.8 bits per value is the bound, and the squared error is at most that of the input."""
    bits, error = runs.all("a gradient", "bits"), runs.all("a gradient", "error")
    words = (
        f"{spread(bits)} bits per value, with a squared error of {spread(error, '.3f')} of the "
        "gradient's own square (the paper's bound is 1)."
    )
    return Finding(judged(rule.every(rule.at_most(bits, 2.8), rule.at_most(error, 1))), words)


CLAIM = Claim(
    title="QSGD: at most 2.8 bits per value with the root of n levels",
    group="codecs",
    says="With as many levels as the root of the dimension n, a gradient takes at most 2.8 n + 32 "
    "bits in expectation, at twice the variance.",
    source="Alistarh et al. 2017, arXiv 1610.02132, corollary 3.3, in a conversion to text",
    known="read",
    ours="A gradient of the network of notebook 01 on digits (97,290 values) as one vector, with "
    "our "
    "entropy coder in place of Elias codes.",
    own_task=True,
    judge=judge,
    seeds=range(5),
    measures={"a gradient": measure},
)
