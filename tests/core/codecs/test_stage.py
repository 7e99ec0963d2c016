"""Stages: what they weigh; what a codec or a stage of one's own has, and what the suite says."""

import math
from dataclasses import dataclass

import pytest
import torch

from fltoolkit.channel import Channel
from fltoolkit.codecs import Codec, ErrorFeedback, Pipeline, Quantize, TopK
from fltoolkit.codecs.stage import Indices, Parts, Stage, Symbols, floats, side, weighed
from fltoolkit.testing import Conformance
from fltoolkit.wire import pack, unpack
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


class Bare(Codec):
    """The least that a codec must have."""

    def encode(self, tree):
        return pack(tree)

    def decode(self, message):
        return unpack(message)

    def __repr__(self):
        return "Bare()"


@pytest.mark.parametrize("codec", [Bare(), ErrorFeedback(Bare())], ids=repr)
class TestBare(Conformance):
    """Two methods are enough for all that is asked of a codec."""


def test_a_codec_needs_two_methods():
    bare, tree = Bare(), {"w": torch.ones(3)}
    channel = Channel({"model": bare})
    received, masks = channel.send_masked("server", "a", "model", tree)
    assert torch.equal(received["w"], tree["w"])
    assert masks == {}
    assert channel.state_dict()["links"] == [("server", "a", "model", {}, {})]
    message, arrives = bare.encode_and_decode(tree)
    assert message == pack(tree)
    assert torch.equal(arrives["w"], tree["w"])
    assert arrives["w"].data_ptr() != tree["w"].data_ptr()
    for method in (Codec().encode, Codec().decode, Stage().apply, Stage().undo):
        with pytest.raises(NotImplementedError, match=r"(Codec|Stage) has no"):
            method({})
