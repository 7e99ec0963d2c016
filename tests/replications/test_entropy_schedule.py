"""Ranks that follow an entropy: what is measured, what is chosen, what travels."""

import math

import pytest
import torch
from every_codec import for_conformance

from experiments.replications.entropy_schedule import (
    EntropySchedule,
    FixedSchedule,
    entropy,
    left_out,
)
from fltoolkit.channel import Channel
from fltoolkit.testing import Conformance, normal

SCHEDULES = [EntropySchedule(2, 1.0, 4, window=2, warm_up=1), FixedSchedule((2, 1), window=1)]


@pytest.mark.parametrize("codec", for_conformance(SCHEDULES))
class TestSchedules(Conformance):
    pass


@pytest.mark.parametrize("deviation", [1e-3, 1.0, 50.0])
def test_the_entropy_of_normal_values(deviation):
    found = entropy([deviation * normal(200, 300), deviation * normal(100, 400, seed=1)])
    assert found == pytest.approx(math.log(deviation * math.sqrt(2 * math.pi * math.e)), abs=0.01)


def ranks_of(factors, codec, window=2):
    """The ranks that travel if the gradient of the k-th window is so many times as large."""
    trees = [{"w": factor * normal(64, 256)} for factor in factors for _ in range(window)]
    return [round((len(codec.encode(tree)) - 30) / (64 + 256)) for tree in trees][::window]


def test_the_rank_follows_the_entropy_and_stays_within_limits():
    """The window after a change has the rank for it: only what was seen can be followed."""
    factors = [1.0, 1.0, 0.97, 1.04, 0.1, 10.0, 1.0]
    assert left_out(64, 256)[4] == pytest.approx(0.874, abs=1e-3)
    # 0.874 / 0.97^2 = 0.929 and 0.874 / 1.04^2 = 0.808 may be left out: ranks 3 and 7
    assert ranks_of(factors, EntropySchedule(4, 1.0, 8, window=2)) == [4, 4, 4, 3, 7, 1, 8]


def test_the_rank_travels_and_is_counted():
    codec = FixedSchedule((3, 1), window=1)
    messages = [codec.encode({"w": normal(40, 60)}) for _ in range(2)]
    assert len(messages[0]) - len(messages[1]) == pytest.approx(2 * 100, abs=2)
    for message, rank in zip(messages, (3, 1), strict=True):
        got = FixedSchedule((7,)).decode(message)["w"]  # which never had this rank
        assert torch.linalg.matrix_rank(got, atol=1e-3) == rank
    channel = Channel({"update": FixedSchedule((3, 1), window=1)})
    for _ in range(2):
        channel.send("ann", "server", "update", {"w": normal(40, 60)})
    assert [t.nbytes for t in channel.transfers] == [*map(len, messages)]


def test_errors_say_what_to_do():
    bad = normal(40, 60)
    bad[3, 4] = torch.nan
    with pytest.raises(ValueError, match="'w'"):
        EntropySchedule(4, 1.0, 8).encode({"w": bad})
    with pytest.raises(ValueError, match="a rank from 1"):
        EntropySchedule(9, 1.0, 8)
