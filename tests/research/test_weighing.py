"""Nominal, real and entropy bytes of what crosses, and gaps where they are not known."""

import json

import pytest
import torch

from experiments.replications.dgc import DGC
from fltoolkit.codecs import Codec, ErrorFeedback, Identity, Only, Pipeline, Quantize, TopK
from fltoolkit.plots.style import summary
from fltoolkit.wire import pack, unpack
from fltoolkit_research import WeighingChannel, sizes_of
from fltoolkit_research.codecs import ContextEntropy, Difference, SameMask, SameMaskChannel
from fltoolkit_research.plots import three_sizes


def test_weighing_by_hand():
    tree = {"h": torch.tensor([0.0, 0.0, 3.0, 3.0, 1.0, 2.0, 0.0, 0.0])}
    nominal, entropy = Pipeline(Quantize(2), ContextEntropy()).weigh(tree)
    # 8 symbols of 2 bits and a range of 8 bytes; frequencies 4, 2, 1, 1 of 8: 1.75 bits each
    assert (nominal, entropy) == (10.0, 8 + 1.75)
    assert Pipeline().weigh(tree) == (32, 32)
    k = Pipeline(TopK(0.25)).weigh(tree)
    assert k[0] == pytest.approx(2 * 4 + 2 * 3 / 8 + 4, abs=8)  # values, places, layout
    assert Pipeline(ContextEntropy()).weigh(tree) == Identity().weigh(tree) == (32, 32)
    feedback = ErrorFeedback(Pipeline(Quantize(2)))
    feedback.residual = {"h": -tree["h"]}
    assert feedback.weigh(tree)[1] == 8  # nothing is left: a constant has no entropy
    moved = Difference(Pipeline(Quantize(2)))
    moved.known = {"h": tree["h"]}
    assert moved.weigh(tree)[1] == 8  # nothing is new
    both = {**tree, "small": torch.zeros(2)}
    assert Only(Pipeline(Quantize(2)), min_size=8).weigh(both)[0] == 10 + 8


def test_weighing_changes_nothing():
    codecs = {
        "activations": Pipeline(TopK(0.2), Quantize(4, stochastic=True), ContextEntropy()),
        "gradients": Pipeline(SameMask()),
        "update": ErrorFeedback(Pipeline(DGC(0.1))),
    }
    plain, weighing = SameMaskChannel(codecs), WeighingChannel(codecs, clients={"a"}, every=1)
    for seed in range(3):
        h = {"h": torch.randn(5, 20, generator=torch.Generator().manual_seed(seed))}
        for message in (("a", "b", "activations"), ("b", "a", "gradients"), ("a", "b", "update")):
            one, other = (channel.send(*message, h) for channel in (plain, weighing))
            assert torch.equal(one["h"], other["h"])
    assert plain.transfers == weighing.transfers
    sizes = weighing.sizes()
    assert sizes["nbytes_gradients_down"] == plain.nbytes(kind="gradients")
    assert sizes["nominal_gradients_down"] == 3 * 20 * 4
    with pytest.raises(ValueError, match=r"a -> b, activations: .*NaN"):
        weighing.send("a", "b", "activations", {"h": torch.full((5, 20), float("nan"))})


class Foreign(Codec):
    """Somebody else's codec: half the values' bits, and no word about sizes."""

    def encode(self, tree):
        return pack({name: t.half() for name, t in tree.items()})

    def decode(self, message):
        return {name: t.float() for name, t in unpack(message).items()}


@pytest.mark.parametrize(
    "codec",
    [
        Foreign(),
        ErrorFeedback(Foreign()),
        Only(Foreign(), min_size=2),
        Difference(Foreign()),
        Difference(Identity(), first=Foreign()),
    ],
    ids=lambda codec: type(codec).__name__,
)
def test_a_codec_that_cannot_tell_leaves_a_gap(codec):
    """Its values' own size would be a number that nobody measured."""
    tree = {"w": torch.arange(100.0)}
    assert codec.weigh(tree) is None
    channel = WeighingChannel({"update": codec}, clients={"a"}, every=1)
    channel.send("a", "b", "update", tree)
    channel.send("b", "a", "model", tree)
    sizes = json.loads(json.dumps(channel.sizes()))
    names = "nbytes_model_down nominal_model_down entropy_model_down nbytes_update_up"
    assert " ".join(sizes) == names
    model, update = sizes_of({"nbytes_up": 1, "nbytes_down": 2, "nbytes": 3, **sizes})
    assert (model.kind, model.nominal, model.entropy) == ("model", 400, 400)
    assert (update.kind, update.direction) == ("update", "up")
    assert update.real == channel.nbytes(kind="update") < 300
    assert update.nominal != update.nominal  # NaN
    words = f"a: update up: nominal -, real {update.real} B, bound if independent -"
    assert words in summary(three_sizes({"a": sizes}))


def test_one_message_that_was_not_weighed_leaves_a_gap_for_all():
    """Else what an earlier codec weighed would be stretched over messages of another one."""
    channel = WeighingChannel({"update": Identity()}, clients={"a"}, every=1)
    channel.send("a", "b", "update", {"w": torch.ones(100)})
    assert "nominal_update_up" in channel.sizes()
    channel.change_codec("update", Foreign())
    channel.send("a", "b", "update", {"w": torch.ones(100)})
    assert [*channel.sizes()] == ["nbytes_update_up"]


def test_a_message_that_failed_has_no_sizes():
    channel = WeighingChannel({"update": Pipeline(Quantize(8))}, clients={"a"})
    with pytest.raises(ValueError, match=r"a -> b, update: .*NaN"):
        channel.send("a", "b", "update", {"w": torch.tensor([float("nan")])})
    assert channel.sizes() == {}
