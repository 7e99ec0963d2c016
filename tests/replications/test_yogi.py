"""FedYogi's server optimizer, number by number."""

import math

import pytest
import torch
from core.federated.small import One

from experiments.replications.yogi import Yogi


def test_yogi_by_hand():
    """Three moves with g = -1, then 1/2; by the formulas, number by number."""
    model, m, v, w = One(), 0.0, 0.01, 0.0
    optimizer = Yogi(model.parameters(), lr=0.3, betas=(0.8, 0.9), tau=0.1)
    for g in (-1.0, -1.0, 0.5):
        model.w.grad = torch.tensor(g)
        optimizer.step()
        m = 0.8 * m + 0.2 * g
        v = v - 0.1 * g * g * math.copysign(1, v - g * g)
        w = w - 0.3 * m / (math.sqrt(v) + 0.1)
        assert model.w.item() == pytest.approx(w, rel=1e-6)
    assert v == pytest.approx(0.01 + 0.1 + 0.1 + 0.025)
    with pytest.raises(ValueError, match="tau=0"):
        Yogi(model.parameters(), tau=0)
