"""A party's part of the model: handed on whole, and kept apart from its optimizer."""

import inspect

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


class Two(nn.Module):
    def forward(self, x):
        return x, x


MLP = nn.Sequential(nn.Flatten(), nn.Linear(64, 10), nn.LogSoftmax(dim=1))
NORM = nn.Sequential(nn.Linear(64, 10), nn.BatchNorm1d(10))
ROWS, CLASSES = torch.ones(8, 64), torch.arange(8)
INPUTS = [
    (NORM, torch.ones(8, 1, 8, 8), ValueError, r"inputs \[8, 1, 8, 8\] of torch.float32.*\.flat"),
    (NORM, ROWS.double(), ValueError, r"inputs \[8, 64\] of torch.float64.*Fit its first layer"),
    (NORM, ROWS[:1], ValueError, r"inputs \[1, 64\].*BatchNorm learns from two.*batch_size"),
    (Two(), ROWS, TypeError, "its module returns a tuple, not one tensor. Let its forward"),
]
LABELS = [
    (nn.NLLLoss(), nn.functional.one_hot(CLASSES, 10), r"labels \[8, 10\] of torch.int64.*argmax"),
    (nn.NLLLoss(), nn.functional.one_hot(CLASSES, 10).float(), r"labels \[8, 10\] of .*argmax"),
    (nn.CrossEntropyLoss(), CLASSES.float(), r"labels \[8\] of torch.float32.*y.long\(\)"),
    (nn.CrossEntropyLoss(), CLASSES + 3, "outputs.*Target 10 is out of bounds.*from 0 to one less"),
]


@pytest.mark.parametrize(("module", "x", "error", "match"), INPUTS)
@pytest.mark.parametrize("last", [False, True])
def test_what_a_module_cannot_do_is_told_with_the_partys_name(module, x, error, match, last):
    alice = Party("alice", module, loss_fn=nn.CrossEntropyLoss())
    with pytest.raises(error, match=f"^party 'alice': .*{match}"):
        alice.loss_and_grad(x, CLASSES[: len(x)]) if last else alice.forward(x)


@pytest.mark.parametrize(("loss_fn", "y", "match"), LABELS)
def test_labels_that_do_not_fit_are_told_with_the_partys_name(loss_fn, y, match):
    bob = Party("bob", MLP, loss_fn=loss_fn)
    with pytest.raises(ValueError, match=f"^party 'bob': its loss cannot compare .*{match}"):
        bob.loss_and_grad(ROWS, y)


def test_classes_are_no_objects():
    with pytest.raises(TypeError, match=r"'alice': optimizer=<class .*SGD'> is no optimizer; make"):
        Party("alice", MLP, torch.optim.SGD)
    with pytest.raises(TypeError, match=r"'bob': loss_fn=NLLLoss is a class.*loss_fn=NLLLoss\(\)"):
        Party("bob", MLP, loss_fn=nn.NLLLoss)
    # past the check of types that tests have and users have not
    with pytest.raises(TypeError, match=r"lr='0\.1' is a str, not a number"):
        inspect.unwrap(SGD.__init__)(SGD([], 0.1), [], lr="0.1")
