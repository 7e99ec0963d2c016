"""What a channel asks of a codec, and what a codec may offer besides."""

from dataclasses import dataclass

import pytest
import torch

from fltoolkit.channel import Channel
from fltoolkit.codecs import Codec, Difference, Identity, Only, Pipeline, Quantize
from fltoolkit.codecs.base import (
    Composed,
    Echoing,
    LinkState,
    Masked,
    Weighed,
    encode_and_decode,
    walk,
    weigh,
)
from fltoolkit.wire import pack, unpack


class Bare:
    """The least that a codec must have."""

    def encode(self, tree):
        return pack(tree)

    def decode(self, message):
        return unpack(message)


def test_a_codec_needs_two_methods_and_may_offer_more():
    bare, tree = Bare(), {"w": torch.ones(3)}
    assert isinstance(bare, Codec)
    assert not isinstance(bare, LinkState | Masked | Weighed | Echoing | Composed)
    assert isinstance(Identity(), Masked)
    assert not isinstance(Identity(), LinkState | Composed)
    for what in (LinkState, Masked, Weighed, Echoing, Composed):
        assert isinstance(Pipeline(Quantize(8)), what)
    channel = Channel({"model": bare})
    received, masks = channel.send_masked("server", "a", "model", tree)
    assert torch.equal(received["w"], tree["w"])
    assert masks == {}
    assert channel.state_dict()["links"] == [("server", "a", "model", {}, {})]


def test_a_codec_that_cannot_tell_what_arrives_is_asked_to_decode():
    tree = {"w": torch.ones(3)}
    message, arrives = encode_and_decode(Bare(), tree)
    assert message == pack(tree)
    assert arrives["w"].tolist() == [1, 1, 1]
    assert arrives["w"].data_ptr() != tree["w"].data_ptr()


def test_what_cannot_be_weighed_is_none():
    tree = {"w": torch.ones(3)}
    assert weigh(Bare(), tree) is None
    assert weigh(Identity(), tree) == (12, 12)


def test_the_walk_goes_through_all_that_is_composed():
    class Either:
        """Somebody else's codec of two codecs, which says so."""

        def __init__(self, *codecs):
            self.codecs = codecs

        def parts(self):
            return self.codecs

        encode = decode = None

    bare, pipeline = Bare(), Pipeline(Quantize(8))
    either = Either(bare, pipeline)
    assert [*walk(either)] == [either, bare, pipeline, Quantize(8)]
    codec = Difference(Only(pipeline), first=Identity())
    assert [*walk(codec)] == [codec, Only(pipeline), pipeline, Quantize(8), Identity()]


def test_equal_is_what_is_written_alike():
    assert Identity() == Identity() != Pipeline()
    assert hash(Identity()) == hash(Identity())
    assert Pipeline(Quantize(8)) == Pipeline(Quantize(8)) != Pipeline(Quantize(4))
    with pytest.raises(TypeError, match="unhashable"):
        hash(Pipeline())


def test_a_dataclass_may_extend_identity():
    @dataclass
    class Scaled(Identity):
        factor: float = 2.0

        def encode(self, tree):
            return super().encode({name: self.factor * tensor for name, tensor in tree.items()})

    codec = Scaled(3.0)
    assert codec.decode(codec.encode({"w": torch.ones(1)}))["w"] == 3.0
