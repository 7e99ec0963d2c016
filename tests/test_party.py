"""A party's part of the model: handed on whole, and kept apart from its optimizer."""

import pytest
import torch
from torch import nn

from fltoolkit.channel import Channel
from fltoolkit.models import seeded
from fltoolkit.party import SGD, Party


def party(seed, name="alice"):
    with seeded(seed):
        module = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    return Party(name, module, torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9))


def learn(learner):
    learner.forward(torch.arange(12.0).reshape(4, 3))
    learner.backward(torch.eye(4))


def test_weights_are_the_whole_part_buffers_included():
    alice, ben = party(0), party(1, "ben")
    learn(alice)
    assert {"0.weight", "1.running_mean", "1.num_batches_tracked"} <= alice.weights().keys()
    ben.load_weights(Channel().send("alice", "ben", "model", alice.weights()))
    for name, tensor in alice.weights().items():
        assert torch.equal(ben.weights()[name], tensor), name
    before = {name: tensor.clone() for name, tensor in ben.weights().items()}
    learn(alice)  # what was loaded is a copy
    assert all(torch.equal(ben.weights()[name], tensor) for name, tensor in before.items())
    assert not torch.equal(alice.weights()["0.weight"], before["0.weight"])


def test_loading_weights_leaves_the_optimizer_alone():
    alice = party(0)
    learn(alice)
    momentum = {k: v["momentum_buffer"].clone() for k, v in alice.optimizer.state.items()}
    alice.load_weights(party(1).weights())
    assert all(
        torch.equal(alice.optimizer.state[k]["momentum_buffer"], m) for k, m in momentum.items()
    )
    with pytest.raises(RuntimeError, match="Missing key"):
        alice.load_weights({"0.weight": torch.zeros(4, 3)})


def test_what_awaits_a_gradient_is_there_until_it_comes():
    """`NoPeek` reads it; a second gradient for one output is an error."""
    alice = Party("alice", nn.Linear(3, 4), SGD([], lr=1.0))
    assert alice.pending is None
    h = alice.forward(x := torch.ones(2, 3))
    assert alice.pending[0] is x
    assert torch.equal(alice.pending[1], h)
    alice.backward(torch.ones(2, 4))
    assert alice.pending is None
    with pytest.raises(RuntimeError, match="'alice': backward needs a forward"):
        alice.backward(torch.ones(2, 4))


@pytest.mark.parametrize("loss_fn", [nn.NLLLoss(), nn.functional.nll_loss])
def test_logits_are_refused_where_the_loss_needs_log_probabilities(loss_fn):
    """Else the loss would fall below 0 without end."""
    layers = nn.Linear(3, 4)
    nn.init.ones_(layers.weight)
    bob = Party("bob", layers, SGD(layers.parameters(), lr=0.1), loss_fn)
    with pytest.raises(ValueError, match=r"party 'bob'.*CrossEntropyLoss\(\).*LogSoftmax"):
        bob.loss_and_grad(torch.ones(2, 3), torch.tensor([0, 1]))
    assert torch.equal(layers.weight, torch.ones(4, 3))  # nothing was learned
    bob.loss_fn = nn.CrossEntropyLoss()
    bob.loss_and_grad(torch.ones(2, 3), torch.tensor([0, 1]))
    assert not torch.equal(layers.weight, torch.ones(4, 3))


def test_a_device_that_is_not_there_is_named():
    with pytest.raises(ValueError, match=r"party 'alice': device='cuda:99' cannot be used here"):
        Party("alice", nn.Linear(3, 4), device="cuda:99")
