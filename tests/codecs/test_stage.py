"""Stages: what they hand on, what it weighs, and who answers whom."""

import math

import pytest
import torch

from fltoolkit.codecs import (
    DGC,
    Answered,
    Answering,
    Indices,
    Quantize,
    SameMask,
    Stage,
    Symbols,
    TopK,
    floats,
    is_main,
    side,
)


def test_a_stage_weighs_what_it_hands_on():
    """By hand: 4 symbols of 2 bits, 2 of 10 places at 4 bits, 8 bytes of side information."""
    parts = {
        "w": Symbols(torch.tensor([0, 0, 1, 1]).byte(), 4),
        side("w", "|"): Indices(torch.tensor([2, 7]), 10),
        side("w", "r"): torch.zeros(2),
    }
    sizes = Stage().weigh(parts)
    assert sizes.nominal == (4 * 2 + 2 * 4) / 8 + 8
    assert sizes.entropy == pytest.approx((4 * 1 + math.log2(45)) / 8 + 8)
    assert Stage().weigh({}) == (0, 0)


def test_who_answers_and_who_is_answered():
    assert isinstance(SameMask(), Answering)
    assert SameMask().answers == "activations"
    assert isinstance(TopK(0.5), Answered)
    for neither in (Quantize(8), Stage()):
        assert not isinstance(neither, Answering | Answered)


def test_what_is_sent_later_is_said_by_the_stage():
    assert DGC(0.1).sends_later
    assert not TopK(0.1).sends_later


def test_stages_work_on_main_entries_in_float32():
    parts = {"w": torch.ones(2), side("w", "r"): torch.ones(1), "n": torch.ones(2).long()}
    assert [*floats(parts)] == ["w"]
    assert [is_main(name) for name in parts] == [True, False, True]
    assert not floats({"h": torch.ones(2).half(), "e": torch.zeros(0)})
    with pytest.raises(NotImplementedError, match="Stage has no apply"):
        Stage().apply(parts)
