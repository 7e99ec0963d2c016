"""A client that learns from a loss of her own."""

import pytest
import torch
from core.split.digits_runs import DATA, LR, batches, parties, same, weights
from torch import nn

from experiments.replications.local_loss import train_local_loss
from fltoolkit import SGD, Channel, Party, evaluate


@pytest.mark.later
def test_a_loss_of_her_own_needs_no_gradient_from_outside():
    alice, bob = parties()
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Linear(640, 10), nn.LogSoftmax(dim=1))
    head = Party("alice0", layers, SGD(layers.parameters(), LR), nn.NLLLoss())
    channel, before = Channel(), weights(alice)
    records = list(train_local_loss(alice, head, bob, batches(1437).epochs(6), channel))
    assert {t.kind for t in channel.transfers} == {"activations", "labels"}
    assert records[-1]["nbytes_down"] == 0
    assert not same(weights(alice), before)
    assert evaluate([alice, bob], DATA.x_test, DATA.y_test)["accuracy"] > 0.85
    stranger = Party("bob", layers, None, nn.NLLLoss())
    with pytest.raises(ValueError, match="belongs to 'bob'"):
        next(train_local_loss(alice, stranger, bob, batches().epochs(1), channel))
