"""DeMo: the transform by its definition, a step by hand, and a momentum that keeps what is left."""

import math
from functools import partial

import pytest
import torch
from core.federated.small import three_layers
from core.federated.small import workers as some
from torch import nn

from experiments.replications.decoupled_momentum import Momenta, cosines, demo, dion, from_cosines
from fltoolkit.channel import Channel
from fltoolkit.codecs import Pipeline, TopK
from fltoolkit.federated import Local
from fltoolkit.testing import normal
from fltoolkit_research.federated import muon_for


@pytest.mark.parametrize("n", [1, 2, 5, 64])
def test_the_transform_by_its_definition(n):
    x = normal(3, n).double()
    expected = torch.zeros(3, n, dtype=torch.float64)
    for k in range(n):
        scale = math.sqrt((1 if k == 0 else 2) / n)
        for j in range(n):
            expected[:, k] += scale * x[:, j] * math.cos(math.pi * (j + 0.5) * k / n)
    assert torch.allclose(cosines(x, n), expected)


def test_the_inverse_for_any_shape():
    x = normal(5, 7, 3)
    c = cosines(x, 16)
    assert c.shape == (7, 16)
    assert torch.allclose(from_cosines(c, x.shape), x, atol=1e-5)
    assert c.square().sum() == pytest.approx(float(x.square().sum()), rel=1e-5)


LOCAL = Local(
    None,
    optimizer=partial(torch.optim.SGD, lr=0.25),
    steps=1,
    loss_fn=lambda output, y: output.sum(),
)


def test_two_steps_by_hand():
    """One worker, gradient (3, 1), chunks of 2: cosines (4, 2) / sqrt(2); one of two is sent.

    Sent: (4, 0) / sqrt(2), which is (2, 2): signs (1, 1). The momentum keeps (1, -1). Then
    m = (1, -1) / 2 + (3, 1) = (3.5, 0.5), cosines (4, 3) / sqrt(2): sent (2, 2), left (1.5, -1.5).
    """
    model = nn.Linear(2, 1, bias=False)  # the gradient of the loss of a sample x is x
    nn.init.ones_(model.weight)
    workers = {name: (torch.tensor([[3.0, 1.0]]), torch.zeros(1, 1)) for name in ("a", "b")}
    channel, memory, left = Channel({"update": Pipeline(TopK(0.5))}), Momenta(), []
    how = {"local": LOCAL, "decay": 0.5, "chunk": 2, "memory": memory}
    for _ in demo(model, workers, channel, steps=2, **how):
        left.append([round(v, 4) for v in memory.of["b"]["weight"][0].tolist()])
    assert left == [[1.0, -1.0], [1.5, -1.5]]
    assert model.weight.tolist() == [[0.5, 0.5]]
    assert channel.totals(workers)()["nbytes"] == channel.nbytes() > 0


# ---- Dion ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("rank", [2, 7])
def test_narrow_means_are_dion_with_the_mean_gradient(rank):
    """Three workers with 8 samples each against the algorithm on one matrix with all 24."""
    model, plain, three, memory = three_layers(), three_layers(), some(3), Momenta()
    how = {"rank": rank}
    muon = muon_for(model, lr=0.05, momentum=None)
    how["local"] = Local(8, optimizer=muon, steps=1)
    start = torch.randn(12, rank, generator=torch.Generator().manual_seed(3))
    list(dion(model, three, Channel(), steps=6, seed=3, memory=memory, **how))
    x, y = (torch.cat(parts) for parts in zip(*three.values(), strict=True))
    hidden, q, momentum = plain[2].weight, start, torch.zeros(7, 12)
    rest = [p for p in plain.parameters() if p is not hidden]
    adamw = torch.optim.AdamW(rest, lr=6e-3, betas=(0.9, 0.95), weight_decay=0.0)
    for _ in range(6):
        plain.zero_grad()
        nn.functional.nll_loss(plain(x), y).backward()
        momentum += hidden.grad
        p = torch.linalg.qr(momentum @ q).Q
        r = momentum.T @ p
        momentum -= 0.05 * p @ r.T
        q = r / r.norm(dim=0)
        with torch.no_grad():
            hidden -= 0.05 * (7 / 12) ** 0.5 * p @ q.T
        adamw.step()
    assert not torch.allclose(plain[2].weight, three_layers()[2].weight, atol=0.01)
    for one, other in zip(model.parameters(), plain.parameters(), strict=True):
        assert torch.allclose(one, other, atol=1e-4)
    mean = sum(m["2.weight"] for m in memory.of.values()) / 3
    assert torch.allclose(mean, momentum, atol=1e-5)
