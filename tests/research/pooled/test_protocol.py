"""Sending the data is a protocol like any other: what is decoded is trained on, all bytes count."""

import pytest
import torch
from torch import nn

from fltoolkit import Channel, Party, evaluate, load, splitnn_mlp
from fltoolkit.codecs import Pipeline
from fltoolkit.party import SGD
from fltoolkit_research.leakage import Listener
from fltoolkit_research.pooled import at_random, lossless, pool

CODECS = {"samples": lossless(), "labels": lossless()}


@pytest.fixture(scope="module")
def digits():
    return load("digits_known_writers").flat()


def receiver(seed=0):
    model = splitnn_mlp(64, 10, seed=seed)
    return Party("server", model, SGD(model.parameters(), lr=0.05), nn.NLLLoss())


def shares(data, num_owners):
    rows = [range(k, len(data.y_train), num_owners) for k in range(num_owners)]
    return {
        f"owner_{k}": (data.x_train[list(r)], data.y_train[list(r)]) for k, r in enumerate(rows)
    }


@pytest.mark.slow
def test_the_receiver_has_exactly_the_samples_and_learns(digits):
    server, listener = receiver(), Listener(CODECS, kinds=["samples", "labels"])
    list(pool(shares(digits, 3), server, listener, rounds=5, batch_size=32, seed=0))
    x = torch.cat([m.tree["x"] for m in listener.heard if m.kind == "samples"])
    y = torch.cat([m.tree["y"] for m in listener.heard if m.kind == "labels"])
    came = sorted([*row.tolist(), label] for row, label in zip(x, y.tolist(), strict=True))
    sent = zip(digits.x_train, digits.y_train.tolist(), strict=True)
    assert came == sorted([*row.tolist(), label] for row, label in sent)
    assert evaluate([server], digits.x_test, digits.y_test)["accuracy"] > 0.93


def test_sorted_labels_cost_next_to_nothing(digits):
    channel = Channel(CODECS)
    list(pool(shares(digits, 1), receiver(), channel, rounds=1, batch_size=64, seed=0))
    assert channel.nbytes(kind="labels") < 80 < len(Pipeline().encode({"y": digits.y_train})) / 8


@pytest.mark.later
def test_the_model_can_be_sent_back(digits):
    channel = Channel(CODECS)
    how = {"rounds": 2, "batch_size": 100, "seed": 0, "send_back": True}
    *_, last = pool(shares(digits, 3), receiver(), channel, **how)
    back = [t for t in channel.transfers if t.kind == "model"]
    assert [t.receiver for t in back] == ["owner_0", "owner_1", "owner_2"]
    assert last["nbytes_down"] == sum(t.nbytes for t in back) > 0
    assert last["num_samples"] == 1437


def test_bad_arguments_are_refused_at_the_call(digits):
    channel, how = Channel(), {"rounds": 1, "batch_size": 1, "seed": 0}
    x, y = digits.x_train, digits.y_train
    with pytest.raises(ValueError, match="owner 'ann' has 0 samples"):
        pool({"ann": (x[:0], y[:0])}, receiver(), channel, **how)
    with pytest.raises(ValueError, match="sends samples to itself"):
        list(pool({"server": (x, y)}, receiver(), channel, **how))
    assert not channel.transfers


def test_fewer_samples(digits):
    fewer, labels = at_random(digits.x_train, digits.y_train, 100, seed=3)
    assert len(labels) == 100
    assert len(torch.unique(fewer, dim=0)) > 95
