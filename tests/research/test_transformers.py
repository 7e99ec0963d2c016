"""Transformers cut between their blocks: as the unsplit network, and each way to send by hand."""

import itertools

import pytest
import torch
from core.split.networks import assert_equal_weights, unsplit
from torch import nn

from fltoolkit import Batches, Channel, Party
from fltoolkit.codecs import Pipeline, Quantize
from fltoolkit.split import AlwaysA, Upload, train_async, train_split
from fltoolkit_research.models import gpt

TOKENS, PLACES = 11, 8
CUTS = {"plain": [2], "U-shaped": [2, 3], "three machines": [1, 2], "behind the head": [1]}
NAMES = {
    "plain": ["alice", "bob"],
    "U-shaped": ["alice", "bob", "alice"],
    "three machines": ["alice", "carol", "bob"],
    "behind the head": ["alice", "bob"],
}


def network() -> nn.Sequential:
    return gpt(TOKENS, context=PLACES, width=16, num_heads=2, seed=0)


def data() -> Batches:
    ids = torch.randint(TOKENS, (24, PLACES + 1), generator=torch.Generator().manual_seed(0))
    return Batches(ids[:, :-1], ids[:, 1:], 8, seed=0)


def parties_of(model: nn.Sequential, how: str) -> list[Party]:
    edges = [0, *CUTS[how], len(model)]
    parts = [model[a:b] for a, b in itertools.pairwise(edges)]
    return [
        Party(
            name,
            part,
            torch.optim.AdamW(part.parameters(), lr=1e-2),
            nn.NLLLoss() if part is parts[-1] else None,
        )
        for name, part in zip(NAMES[how], parts, strict=True)
    ]


@pytest.mark.parametrize("how", CUTS)
def test_a_cut_transformer_is_the_unsplit_one_bit_by_bit(how):
    whole, model = network(), network()
    adamw = torch.optim.AdamW(whole.parameters(), lr=1e-2)
    expected = unsplit(whole, data().epochs(2), adamw)
    records = list(train_split(parties_of(model, how), data().epochs(2), Channel()))
    assert [r["loss"] for r in records] == expected
    assert_equal_weights(model, whole)


@pytest.mark.later
def test_differences_are_aq_sgd():
    """Wang et al. 2022, algorithm 1: m <- m + Q(h - m) for each sample, both ends hold m."""
    quantize = Pipeline(Quantize(3))
    model, by_hand = network(), network()
    channel = Channel({"activations": quantize})
    alice, bob = parties_of(model, "plain")
    records = train_async(
        alice, bob, data(), channel, gate=AlwaysA(), num_epochs=3, upload=Upload(delta=True)
    )
    losses = [r["loss"] for r in records]

    bottom, top = by_hand[:2], by_hand[2:]
    optimizers = [torch.optim.AdamW(part.parameters(), lr=1e-2) for part in (bottom, top)]
    batches, memory, expected = data(), torch.zeros(24, PLACES, 16), []
    for epoch in range(3):
        for ids in batches.rows(epoch):
            x, y = batches.at(ids)
            h = bottom(x)
            news = quantize.decode(quantize.encode({"h": h.detach() - memory[ids]}))["h"]
            memory[ids] += news
            m = memory[ids].clone().requires_grad_()
            loss = nn.functional.nll_loss(top(m), y)
            for optimizer in optimizers:
                optimizer.zero_grad()
            loss.backward()
            h.backward(m.grad)
            for optimizer in optimizers:
                optimizer.step()
            expected.append(loss.item())
    assert losses == pytest.approx(expected, abs=1e-5)
    parties, channel = parties_of(network(), "plain"), Channel({"activations": quantize})
    plain = train_async(*parties, data(), channel, gate=AlwaysA(), num_epochs=3)
    assert losses != pytest.approx([r["loss"] for r in plain], abs=1e-3)
