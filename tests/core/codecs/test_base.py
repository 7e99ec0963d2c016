"""What a channel asks of a codec, and what a codec of one's own has from its base class."""

import pytest
import torch

from fltoolkit.channel import Channel
from fltoolkit.codecs import Codec, ErrorFeedback
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
    for method in (lambda: Codec().encode(tree), lambda: Codec().decode(b"")):
        with pytest.raises(NotImplementedError, match="Codec has no"):
            method()
