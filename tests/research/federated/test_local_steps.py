"""DiLoCo by hand, and what it shares with other methods."""

from functools import partial

import pytest
import torch
from core.federated.small import ADAM, FOUR, INNER, network, weights
from torch import nn

from fltoolkit.channel import Channel
from fltoolkit.federated import Fleet, Local
from fltoolkit_research.federated import ThroughServer, ddp, diloco

THREE = {name: FOUR[name] for name in ("w0", "w1", "w2")}


PULLS = {  # the loss of a worker is (w - x)^2 / 2
    name: (torch.ones(1, 1), torch.full((1, 1), x)) for name, x in (("a", 0.0), ("b", 4.0))
}
HALF = Local(
    None,
    optimizer=partial(torch.optim.SGD, lr=0.5),
    steps=2,
    loss_fn=lambda output, y: (output - y).square().sum() / 2,
)


def pull():
    """One weight of 8."""
    model = nn.Linear(1, 1, bias=False)
    nn.init.constant_(model.weight, 8.0)
    return model


def test_two_rounds_by_hand():
    """Inner SGD of rate 1/2 halves the distance twice: from w, worker x ends at x + (w - x) / 4.

    w = 8: updates -6 and -3, mean -4.5. Outer Nesterov of rate 1/2 and momentum 1/2 sees the
    gradient 4.5: velocity 4.5, step 1/2 (4.5 + 4.5 / 2) = 3.375, w = 4.625. Then updates -3.46875
    and -0.46875, mean -1.96875; velocity 4.21875, step 1/2 (1.96875 + 2.109375) = 2.0390625.
    """
    model, plain = pull(), pull()
    outer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.5, nesterov=True)
    records = diloco(model, PULLS, Channel(), rounds=2, local=HALF, outer=outer)
    assert [model.weight.item() for _ in records] == [4.625, 2.5859375]
    list(diloco(plain, PULLS, Channel(), rounds=1, local=HALF))
    assert plain.weight.item() == 3.5


@pytest.mark.later
def test_one_step_of_sgd_is_every_step_averaging():
    one = Local(None, optimizer=partial(torch.optim.SGD, lr=0.1), steps=1)
    model, other = network(), network()
    list(diloco(model, THREE, Channel(), rounds=5, local=one))
    list(ddp(other, THREE, Channel(), steps=5, local=one))
    assert torch.allclose(weights(model), weights(other), atol=1e-6)


def test_a_warm_start_goes_on_with_the_optimizers_of_ddp():
    fleet, model = Fleet(THREE), network()
    how = {"optimizer": ADAM, "keep_state": True}
    list(ddp(model, fleet, Channel(), steps=5, local=Local(4, steps=1, **how)))
    assert fleet.optimizers["w1"]["state"][0]["step"] == 5
    list(diloco(model, fleet, Channel(), rounds=1, local=Local(4, steps=3, **how)))
    assert fleet.optimizers["w1"]["state"][0]["step"] == 8


# ---- errors -------------------------------------------------------------------------------------
def test_what_does_not_fit_is_refused():
    model = network()
    for words, protocol, how in (
        ("give a number of inner steps", diloco, {"local": Local(4, lr=0.1, epochs=1)}),
        ("leaves nothing to train", diloco, {"rounds": range(1, 1)}),
        ("does not move", diloco, {"outer": torch.optim.SGD([model[0].weight], lr=0.7)}),
    ):
        with pytest.raises(ValueError, match=words):
            protocol(model, THREE, Channel(), **{"rounds": 1, "local": INNER} | how)
    server = ThroughServer("w0")
    with pytest.raises(ValueError, match="sends update to itself"):
        list(diloco(model, THREE, Channel(), rounds=1, local=INNER, exchange=server))


def test_a_worker_that_diverges_is_named():
    wild = Local(4, optimizer=partial(torch.optim.SGD, lr=3e38), steps=3)
    with pytest.raises(FloatingPointError, match="client 'w0', round 0"):
        list(diloco(network(), THREE, Channel(), rounds=1, local=wild))
