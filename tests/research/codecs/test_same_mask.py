"""Gradients at the places of the activations that they answer, which are nowhere in the bytes."""

import pytest
import torch

from fltoolkit.channel import Channel
from fltoolkit.codecs import Entropy, Pipeline, Quantize, TopK
from fltoolkit.links import Link
from fltoolkit.testing import normal
from fltoolkit.wire import WireError, pack
from fltoolkit_research.codecs import STC, RandomK, RandTopK, SameMask, SameMaskChannel


def cut_channel(stage, *later):
    codecs = {
        "activations": Pipeline(stage, *later, Entropy()),
        "gradients": Pipeline(SameMask(), *later),
    }
    return SameMaskChannel(codecs)


@pytest.mark.parametrize(
    "stage",
    [RandTopK(0.1), RandTopK(0.1, training=False), TopK(0.1), RandomK(0.1), STC(0.1)],
    ids=repr,
)
def test_the_gradient_comes_back_at_the_places_of_the_activations(stage):
    """Each message answers the last one; its places are nowhere in the bytes."""
    channel = cut_channel(stage)
    for seed in range(3):
        h = channel.send("alice", "bob", "activations", {"h": normal(8, 40, seed=seed)})["h"]
        g = normal(8, 40, seed=seed + 9)
        got = channel.send("bob", "alice", "gradients", {"g": g})["g"]
        if not isinstance(stage, RandomK):  # which may send zeros
            assert torch.equal(got != 0, h != 0)
        assert torch.equal(got[got != 0], g[got != 0])
        assert int((got != 0).sum()) == 32
        assert channel.transfers[-1].nbytes == 4 * 32 + 10  # 32 values and a header


def test_same_mask_by_client_and_with_quantization():
    """Every pair of links has its own places; saved, they go on with the next message."""
    channel = cut_channel(TopK(0.1), Quantize(8))
    kept = {}
    for seed, client in enumerate(["ann", "ben", "cas"]):
        kept[client] = channel.send(client, "bob", "activations", {"h": normal(100, seed=seed)})[
            "h"
        ]
    for client in ["cas", "ann", "ben"]:
        g = channel.send("bob", client, "gradients", {"g": normal(100, seed=7)})["g"]
        assert set(g.nonzero().flatten().tolist()) == set(kept[client].nonzero().flatten().tolist())
    resumed = cut_channel(TopK(0.1), Quantize(8))
    resumed.load_state_dict(channel.state_dict())
    for c in (channel, resumed):
        c.send("ann", "bob", "activations", {"h": normal(100, seed=5)})
    again = [c.send("bob", "ann", "gradients", {"g": normal(100)})["g"] for c in (channel, resumed)]
    assert torch.equal(*again)


def test_same_mask_over_several_tensors_one_of_which_kept_nothing():
    channel = cut_channel(TopK(0.1))
    tree = {"a": normal(5, 4) * 1e-3, "b": normal(20)}
    sent = channel.send("alice", "bob", "activations", tree)
    got = channel.send("bob", "alice", "gradients", {"x": torch.ones(5, 4), "y": torch.ones(20)})
    assert not sent["a"].any()
    assert not got["x"].any()
    assert torch.equal(got["y"] != 0, sent["b"] != 0)


def test_same_mask_complains():
    plain = Channel({"activations": Pipeline(TopK(0.5)), "gradients": Pipeline(SameMask())})
    plain.send("alice", "bob", "activations", {"h": normal(4)})
    with pytest.raises(ValueError, match="use it in a SameMaskChannel"):
        plain.send("bob", "alice", "gradients", {"g": normal(4)})
    channel = cut_channel(TopK(0.5))
    with pytest.raises(ValueError, match="none crossed"):
        channel.send("bob", "alice", "gradients", {"g": normal(4)})
    channel = cut_channel(TopK(0.5))
    channel.send("alice", "bob", "activations", {"h": normal(4)})
    with pytest.raises(ValueError, match=r"\[\(5,\)\] do not answer .*\[\(4,\)\]"):
        channel.send("bob", "alice", "gradients", {"g": normal(5)})
    with pytest.raises(ValueError, match="'e' is empty"):
        channel.send("bob", "alice", "gradients", {"g": normal(4), "e": normal(0)})
    decoder = channel.links.codecs_of(Link("bob", "alice", "gradients")).receiving
    nan = torch.tensor([1.0, float("nan")])
    for bad in (
        {"g": normal(3)},
        {"g": normal(2), "f": normal(2)},
        {"g": normal(1, 2)},
        {"g": nan},
    ):
        with pytest.raises(WireError):
            decoder.decode(pack(bad))


def test_a_changed_codec_of_the_activations_is_answered_too():
    channel = cut_channel(TopK(0.5))
    for fraction, kept in [(0.5, 2), (0.25, 1)]:
        channel.change_codec("activations", Pipeline(TopK(fraction)))
        channel.send("alice", "bob", "activations", {"h": normal(4)})
        got = channel.send("bob", "alice", "gradients", {"g": torch.ones(4)})["g"]
        assert int(got.sum()) == kept
