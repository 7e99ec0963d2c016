"""Three sizes of what crosses."""

import pytest
import torch

from fltoolkit import Channel
from fltoolkit.codecs import (
    DGC,
    Difference,
    Entropy,
    ErrorFeedback,
    Only,
    Pipeline,
    Quantize,
    SameMask,
    TopK,
)
from fltoolkit.research import WeighingChannel, weigh


def test_weighing_by_hand():
    tree = {"h": torch.tensor([0.0, 0.0, 3.0, 3.0, 1.0, 2.0, 0.0, 0.0])}
    nominal, entropy = weigh(Pipeline(Quantize(2), Entropy()), tree)
    # 8 symbols of 2 bits and a range of 8 bytes; frequencies 4, 2, 1, 1 of 8: 1.75 bits each
    assert (nominal, entropy) == (10.0, 8 + 1.75)
    assert weigh(Pipeline(), tree) == (32, 32)
    k = weigh(Pipeline(TopK(0.25)), tree)
    assert k[0] == pytest.approx(2 * 4 + 2 * 3 / 8 + 4, abs=8)  # values, places, layout
    feedback = ErrorFeedback(Pipeline(Quantize(2)))
    feedback.residual = {"h": -tree["h"]}
    assert weigh(feedback, tree)[1] == 8  # nothing is left: a constant has no entropy
    moved = Difference(Pipeline(Quantize(2)))
    moved.known = {"h": tree["h"]}
    assert weigh(moved, tree)[1] == 8  # nothing is new
    both = {**tree, "small": torch.zeros(2)}
    assert weigh(Only(Pipeline(Quantize(2)), min_size=8), both)[0] == 10 + 8


def test_weighing_changes_nothing():
    codecs = {
        "activations": Pipeline(TopK(0.2), Quantize(4, stochastic=True), Entropy()),
        "gradients": Pipeline(SameMask()),
        "update": ErrorFeedback(Pipeline(DGC(0.1))),
    }
    plain, weighing = Channel(codecs), WeighingChannel(codecs, clients={"a"}, every=1)
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
