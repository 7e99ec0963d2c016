"""EF21-Muon: Muon when nothing is lost, copies that agree, and bytes that are counted."""

from functools import partial

import pytest
import torch
from core.federated.small import same, three_layers, weights, workers
from torch import nn

from experiments.replications.ef21_muon import Estimates, ef21_muon
from fltoolkit.channel import Channel
from fltoolkit.codecs import Pipeline, Quantize
from fltoolkit.federated import Local
from fltoolkit_research.federated import muon_for
from fltoolkit_research.federated.muon import orthogonalized

LOCAL = Local(8, optimizer=muon_for(three_layers(), lr=0.05, momentum=None), steps=1)
train = partial(ef21_muon, steps=6, local=LOCAL, seed=3)
FEW = dict.fromkeys(("update", "model"), Pipeline(Quantize(2)))


def test_without_a_codec_it_is_muon_with_the_momentum_of_the_mean_gradient():
    """Three workers with 8 samples each against one model with all 24."""
    model, plain, three = three_layers(), three_layers(), workers(3)
    list(train(model, three, Channel()))
    x, y = (torch.cat(parts) for parts in zip(*three.values(), strict=True))
    hidden, momentum = plain[2].weight, torch.zeros(7, 12)
    rest = [p for p in plain.parameters() if p is not hidden]
    adamw = torch.optim.AdamW(rest, lr=6e-3, betas=(0.9, 0.95), weight_decay=0.0)
    for _ in range(6):
        plain.zero_grad()
        nn.functional.nll_loss(plain(x), y).backward()
        momentum = 0.95 * momentum + hidden.grad  # its length does not matter
        with torch.no_grad():
            hidden -= 0.05 * orthogonalized(momentum)
        adamw.step()
    assert not torch.allclose(weights(plain), weights(three_layers()), atol=0.01)
    assert torch.allclose(weights(model), weights(plain), atol=1e-4)


def test_copies_agree_and_every_byte_is_counted():
    """What the shifts on the wire add up to is W; what the updates add up to is each G_j."""
    model, channel, memory, seen = three_layers(), Channel(FEW), Estimates(), {}
    first = {n: p.detach().clone() for n, p in model.named_parameters()}
    cross = channel.cross

    def watched(link, tree):
        arrival, name = cross(link, tree), (link.sender, link.receiver)
        old = seen.get(name) or (first if link.kind == "model" else dict.fromkeys(first, 0.0))
        seen[name] = {n: old[n] + arrival.tree[n] for n in first}
        return arrival

    channel.cross = watched
    records = list(train(model, workers(3), channel, memory=memory))
    for worker in ("w0", "w1", "w2"):
        assert same(seen["server", worker], dict(model.state_dict()))
        assert same(seen[worker, "server"], memory.known[worker])
    left = weights(model) - torch.cat([x.flatten() for x in memory.model.values()])
    assert 0 < left.abs().max() < 0.1
    assert set(records[-1]) == {"step", "loss", "nbytes_up", "nbytes_down", "nbytes"}
    assert len(channel.transfers) == 6 * 2 * 3
    assert records[-1]["nbytes"] == channel.nbytes() < channel.transfers[0].nbytes_dense * 36 / 2


def test_a_worker_whose_gradient_is_nan_is_named():
    class Endless(nn.Linear):
        def forward(self, x):
            return super().forward(x) + (0 * self.weight.sum()).sqrt()  # gradient: 0 * inf

    model = three_layers()
    model[2] = Endless(12, 7)
    with pytest.raises(FloatingPointError, match="worker 'w0', step 1: its gradient"):
        list(train(model, workers(3), Channel()))
