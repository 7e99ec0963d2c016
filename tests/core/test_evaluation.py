"""Predictions of the whole network, as the experimenter sees it."""

import copy

import pytest
import torch
from core.split.networks import assert_equal_weights, party, small_net, toy_data
from torch import nn

from fltoolkit.channel import Channel
from fltoolkit.codecs import Pipeline
from fltoolkit.data import load
from fltoolkit.evaluation import evaluate, forward
from fltoolkit.models import splitnn_mlp
from fltoolkit_research.codecs import RandTopK


def test_evaluation_leaves_no_trace():
    model = small_net()
    parts = [party("alice", model[:4]), party("bob", model[4:], nn.NLLLoss())]
    channel = Channel()
    x, y = toy_data(2500)
    model[1].eval()  # a mode set by hand must come back too
    before = copy.deepcopy(model.state_dict())
    result = evaluate(parts, x, y)
    assert_equal_weights(model, type("Frozen", (), {"state_dict": lambda self: before})())
    assert [m.training for m in model] == [True, False] + [True] * 8
    assert channel.transfers == []
    model.eval()
    whole = nn.functional.nll_loss(model(x), y)
    assert result["test_loss"] == pytest.approx(whole.item(), rel=1e-5)
    assert result["accuracy"] == pytest.approx((model(x).argmax(1) == y).double().mean().item())


def test_evaluation_through_a_codec():
    """As in use: the top sees what the codec leaves. Nothing is counted, no state moves."""
    model, data = splitnn_mlp(64, seed=0), load("digits").flat()
    alice, bob = party("alice", model[:4]), party("bob", model[4:], nn.NLLLoss())
    exact = evaluate([alice, bob], data.x_test, data.y_test)
    assert evaluate([alice, bob], data.x_test, data.y_test, through=Pipeline()) == exact
    coarse = Pipeline(RandTopK(0.01, training=False))
    lossy = evaluate([alice, bob], data.x_test, data.y_test, through=coarse)
    assert lossy["test_loss"] != exact["test_loss"]
    h = coarse.decode(coarse.encode({"h": alice.module(data.x_test)}))["h"]
    out = forward([alice, bob], data.x_test, through=coarse)
    assert torch.equal(out, bob.module(h))
