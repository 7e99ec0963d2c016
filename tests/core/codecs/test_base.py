"""What a channel asks of a codec, and what a codec of one's own has from its base class."""

from dataclasses import dataclass

import pytest
import torch

from fltoolkit.channel import Channel
from fltoolkit.codecs import Codec, ErrorFeedback, Identity, Only, Pipeline, Quantize
from fltoolkit.codecs.base import walk
from fltoolkit.testing import Conformance
from fltoolkit.wire import pack, unpack


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
    assert bare.weigh(tree) is None
    assert Identity().weigh(tree) == (12, 12)
    for method in (lambda: Codec().encode(tree), lambda: Codec().decode(b"")):
        with pytest.raises(NotImplementedError, match="Codec has no"):
            method()


def test_the_walk_goes_through_all_that_a_codec_is_made_of():
    class Either(Bare):
        """Somebody else's codec of two codecs."""

        def __init__(self, *codecs):
            self.codecs = codecs

        def parts(self):
            return self.codecs

    bare, pipeline = Bare(), Pipeline(Quantize(8))
    either = Either(bare, Only(pipeline))
    assert [*walk(either)] == [either, bare, Only(pipeline), pipeline, Quantize(8)]


def test_equal_is_what_is_written_alike():
    assert Identity() == Identity() != Pipeline()
    assert Pipeline(Quantize(8)) == Pipeline(Quantize(8)) != Pipeline(Quantize(4))
    assert ErrorFeedback(Pipeline()) != Only(Pipeline())


def test_a_dataclass_may_extend_identity():
    @dataclass
    class Scaled(Identity):
        factor: float = 2.0

        def encode(self, tree):
            return super().encode({name: self.factor * tensor for name, tensor in tree.items()})

    codec = Scaled(3.0)
    assert codec.decode(codec.encode({"w": torch.ones(1)}))["w"] == 3.0
