"""Stages: what they hand on, what it weighs; a stranger's side information."""

import math
from dataclasses import dataclass

import pytest
import torch

from fltoolkit.codecs import Pipeline, Quantize, TopK
from fltoolkit.codecs.stage import (
    Indices,
    Parts,
    Stage,
    Symbols,
    floats,
    is_main,
    side,
    take_side,
    weighed,
    with_side,
)
from fltoolkit.testing import Conformance
from fltoolkit_research.codecs import QSGD


def test_a_stage_weighs_what_it_hands_on():
    """By hand: 4 symbols of 2 bits, 2 of 10 places at 4 bits, 8 bytes of side information."""
    parts = {
        "w": Symbols(torch.tensor([0, 0, 1, 1]).byte(), 4),
        side("w", "|"): Indices(torch.tensor([2, 7]), 10),
        side("w", "r"): torch.zeros(2),
    }
    nominal, entropy = weighed(parts)
    assert nominal == 4 * 2 + 2 * 4 + 64
    assert entropy == pytest.approx(4 * 1 + math.log2(45) + 64)
    assert weighed({}) == (0, 0)


def test_stages_work_on_main_entries_in_float32():
    parts = {"w": torch.ones(2), side("w", "r"): torch.ones(1), "n": torch.ones(2).long()}
    assert [*floats(parts)] == ["w"]
    assert [is_main(name) for name in parts] == [True, False, True]
    assert not floats({"h": torch.ones(2).half(), "e": torch.zeros(0)})
    with pytest.raises(NotImplementedError, match="Stage has no apply"):
        Stage().apply(parts)


SCALE = side("w", "scale")


def test_side_information_is_taken_out():
    parts = {"w": torch.zeros(3), SCALE: torch.tensor(2.0), side("v", "scale"): torch.tensor(1.0)}
    assert with_side(parts, "scale") == ["w"]
    assert take_side(parts, "w", "scale") == 2
    assert SCALE not in parts
    codes = {SCALE: torch.tensor([[1, 2]], dtype=torch.uint8)}
    assert take_side(codes, "w", "scale", torch.uint8, None).shape == (1, 2)


@dataclass
class _Largest(Stage):
    """Places are kept, zeros are sent elsewhere; it does not say ``leaves_out``."""

    def apply(self, parts: Parts) -> Parts:
        kept = {n: x.where(x.abs() >= x.abs().max(), 0) for n, x in floats(parts).items()}
        return {**parts, **kept}

    def undo(self, parts: Parts) -> Parts:
        return parts


def test_conformance_finds_a_sparse_stage_that_does_not_say_so() -> None:
    check = Conformance().test_values_that_are_left_out_are_announced
    with pytest.raises(AssertionError, match=r"leaves_out = True .*_Largest"):
        check(Pipeline(_Largest()))
    for codec in (Pipeline(TopK(0.01)), Pipeline(QSGD(4)), Pipeline(Quantize(2))):
        check(codec)


def test_the_suite_says_how_to_draw_and_what_a_repr_needs():
    class Coin(Stage):
        def apply(self, parts):
            return {n: x * torch.rand(x.shape) for n, x in floats(parts).items()}

    suite = Conformance()
    with pytest.raises(AssertionError, match=r"extend RandomStage, and draw by .*draw_key"):
        suite.test_same_seed_same_bytes(Pipeline(Coin()))
    with pytest.raises(AssertionError, match="write @dataclass above the class"):
        suite.test_repr_evaluates_back(Pipeline(Coin()))
