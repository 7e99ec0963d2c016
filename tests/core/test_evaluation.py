"""Predictions of the whole network, as the experimenter sees it."""

import copy

import pytest
from core.split.networks import assert_equal_weights, party, small_net, toy_data
from torch import nn

from fltoolkit.channel import Channel
from fltoolkit.evaluation import evaluate


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
