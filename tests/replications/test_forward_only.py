"""Clients without a backward pass: the estimate is the gradient, and nothing comes back."""

from itertools import islice

import pytest
import torch
from core.federated.small import FOUR
from torch import nn
from torch.func import functional_call

from experiments.replications.forward_only import Backward, Forward, Lean, local_loss
from experiments.replications.zeroth_order import Directions
from fltoolkit import SGD, Channel, Party
from fltoolkit.federated import Local
from fltoolkit.federated.client import batch_indices
from fltoolkit.federated.workers import client_seed

LOCAL = Local(4, lr=0.05, steps=4)
NLL = nn.functional.nll_loss


def parts():
    torch.manual_seed(0)
    head, top = (nn.Sequential(nn.Linear(4, 3), nn.LogSoftmax(1)) for _ in range(2))
    net = Lean(nn.Sequential(nn.Linear(5, 4), nn.Tanh()), head)
    return net, Party("server", top, SGD(top.parameters(), lr=0.1), nn.NLLLoss())


def trained(learn, clients=FOUR, **how):
    (net, server), channel = parts(), Channel()
    how = {"rounds": 2, "local": LOCAL, "learn": learn, **how}
    return net, channel, list(local_loss(net, server, clients, channel, **how))


def test_the_mean_over_many_directions_points_along_the_gradient():
    net, _ = parts()
    x, y = next(iter(FOUR.values()))
    w = {name: p.detach() for name, p in net.named_parameters()}
    (true, h, loss), (found, h2, loss2) = (
        learn(net, w, x, y, NLL, 0) for learn in (Backward(1.0), Forward(1.0, Directions(2000)))
    )
    assert torch.equal(h, h2) and loss == pytest.approx(loss2)  # noqa: PT018
    a, b = (torch.cat([(w[n] - t[n]).flatten() for n in w]) for t in (true, found))
    assert nn.functional.cosine_similarity(a, b, dim=0) > 0.97
    assert b.norm() == pytest.approx(float(a.norm()), rel=0.1)


def test_no_client_computes_a_gradient_and_none_is_sent(monkeypatch):
    graphs, call = [], Lean.forward
    seen = lambda self, x: graphs.append(torch.is_grad_enabled()) or call(self, x)  # noqa: E731
    monkeypatch.setattr(Lean, "forward", seen)
    net, channel, _ = trained(Forward(0.01, Directions(3)))
    assert graphs == [False] * (2 * 4 * 4 * (1 + 3))  # a step: 1 + 3 forward passes
    assert all(p.grad is None for p in net.parameters())
    assert [t.kind for t in channel.transfers if t.receiver in FOUR] == ["model"] * 2 * 4


def test_bytes_of_both_twins_agree_and_a_part_that_stays_sends_no_weights():
    (_, _, one), (_, _, other) = trained(Forward(0.01)), trained(Backward(0.01))
    assert one[-1]["nbytes"] == other[-1]["nbytes"]
    net, channel, records = trained(None)
    assert {t.kind for t in channel.transfers} == {"activations", "labels"}
    assert torch.equal(net.bottom[0].weight, parts()[0].bottom[0].weight)
    assert records[-1]["nbytes_down"] == 0
    assert records[-1]["step"] == 2 * 4 * 4
    assert trained(Forward(0.01), steps_per_upload=2)[2][-1]["step"] == 2 * 4 * 2


def test_the_twin_with_gradients_is_the_plain_loop():
    net, ends, lr = parts()[0], [], 0.3
    for k, (x, y) in FOUR.items():
        w = {name: p.detach().clone().requires_grad_() for name, p in net.named_parameters()}
        for rows in islice(batch_indices(len(y), LOCAL, client_seed(0, 0, k)), 4):
            NLL(functional_call(net, w, (x[rows],))[1], y[rows]).backward()
            w = {n: (t - lr * t.grad).detach().requires_grad_() for n, t in w.items()}
        ends.append((len(y), w))
    total = sum(n for n, _ in ends)
    for name, t in trained(Backward(lr), rounds=1)[0].state_dict().items():
        torch.testing.assert_close(t, sum(n * w[name] for n, w in ends).detach() / total)


@pytest.mark.parametrize("learn", [Forward(0.1), Backward(0.1)])
def test_nan_names_the_client(learn):
    last, (x, y) = list(FOUR.items())[-1]
    with pytest.raises(FloatingPointError, match=f"client '{last}', round 0"):
        trained(learn, {**FOUR, last: (torch.full_like(x, float("nan")), y)})
