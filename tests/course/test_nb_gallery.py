import math

import torch
from course.answers import Case

from fltoolkit.codecs import Entropy, Pipeline, Quantize, TopK

X = torch.randn(2000, generator=torch.Generator().manual_seed(0))
X[7] *= 50
UPDATE = X / 100
SENT, TOTAL = UPDATE * (X.abs() > 2), 30 * UPDATE
OWED = 40 * UPDATE - TOTAL


def arrives(x: torch.Tensor) -> torch.Tensor:
    codec = Pipeline(Quantize(4))
    return codec.decode(codec.encode({"x": x}))["x"]


def clipped(sigmas: float, unbiased: bool = True) -> torch.Tensor:
    limit = sigmas * X.std(unbiased=unbiased)
    return arrives(X.clamp(-limit, limit))


CASES = {
    "bits per value": Case(right=[1.5], wrong=[math.log2(3), 2, 0.5, -1.5]),
    "what is still owed": Case(
        facts={"update": UPDATE, "total": TOTAL, "sent": SENT},
        right=[OWED, 10 * UPDATE, OWED.clone()],
        wrong=[UPDATE - SENT, TOTAL, SENT, torch.zeros(2000)],
    ),
    "Clip, then Quantize": Case(
        facts={"x": X},
        right=[clipped(3), clipped(3, unbiased=False), clipped(3).clone()],
        wrong=[
            arrives(X),
            arrives(X.clamp(0, float(3 * X.std()))),
            clipped(1),
            clipped(2),
            clipped(3) * math.nan,
        ],
    ),
    "at most one bit per value": Case(
        facts={"compete": lambda codec: float(codec.stages[0].bits)},
        right=[
            Pipeline(Quantize(1)),
            Pipeline(Quantize(1), Entropy()),
            Pipeline(Quantize(1, stochastic=True)),
        ],
        wrong=[Pipeline(Quantize(2)), "ten", 0.7, Pipeline, Pipeline(TopK(0.1))],
    ),
}
