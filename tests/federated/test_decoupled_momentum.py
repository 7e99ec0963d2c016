"""DeMo: the transform by its definition, a step by hand, and a momentum that keeps what is left."""

import math
from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import nn

from fltoolkit.channel import Channel
from fltoolkit.codecs import Pipeline, TopK
from fltoolkit.federated import Fleet, Local, cosines, demo, from_cosines
from fltoolkit.testing import normal


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


class Pull(nn.Module):
    """Two weights; the gradient of the loss of a sample x is x."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.tensor([1.0, 1.0]))

    def forward(self, x):
        return x @ self.w


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
    model, fleet = Pull(), Fleet()
    workers = {name: (torch.tensor([[3.0, 1.0]]), torch.zeros(1)) for name in ("a", "b")}
    channel = Channel({"update": Pipeline(TopK(0.5))})
    left = []
    for _ in demo(model, workers, channel, steps=2, local=LOCAL, decay=0.5, chunk=2, fleet=fleet):
        left.append([round(v, 4) for v in fleet.momenta["b"]["w"].tolist()])
    assert left == [[1.0, -1.0], [1.5, -1.5]]
    assert model.w.tolist() == [0.5, 0.5]
    assert channel.totals(workers)()["nbytes"] == channel.nbytes() > 0


def test_it_learns_and_goes_on_where_it_was():
    def network():
        torch_model = nn.Sequential(nn.Linear(5, 3), nn.LogSoftmax(1))
        with torch.no_grad():
            torch_model[0].weight.copy_(normal(3, 5))
            torch_model[0].bias.zero_()
        return torch_model

    x = normal(30, 5, seed=1)
    workers = {"a": (x[:15], x[:15].argmax(1) % 3), "b": (x[15:], x[15:].argmax(1) % 3)}
    local = Local(5, optimizer=partial(torch.optim.SGD, lr=0.03), steps=1)
    codecs = {"update": Pipeline(TopK(0.25))}
    straight, again, fleet = network(), network(), Fleet()
    records = list(demo(straight, workers, Channel(codecs), steps=30, local=local, chunk=8))
    assert records[-1]["loss"] < 0.7 * records[0]["loss"]
    list(demo(again, workers, Channel(codecs), steps=12, local=local, chunk=8, fleet=fleet))
    rest = {"steps": range(12, 30), "local": local, "chunk": 8, "fleet": fleet}
    list(demo(again, workers, Channel(codecs), **rest))
    assert torch.equal(straight[0].weight, again[0].weight)


def test_what_does_not_fit_is_refused():
    workers = {"a": (torch.ones(1, 2), torch.zeros(1))}
    for wrong in ({"decay": 1.1}, {"chunk": 0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            demo(Pull(), workers, Channel(), steps=1, local=LOCAL, **wrong)
    clipped = replace(LOCAL, clip_norm=1.0)
    with pytest.raises(ValueError, match="steps with signs"):
        demo(Pull(), workers, Channel(), steps=1, local=clipped)
