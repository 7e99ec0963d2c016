"""What stands for a party, data or a gate that lives in another process."""

import math

import pytest
import torch
from torch import nn

from fltoolkit.models import seeded
from fltoolkit.split import State
from fltoolkit_engines.remote import RemoteGate, RemoteParty, absent


def test_a_remote_party_keeps_nothing():
    bob = RemoteParty("bob", nn.Linear(2, 2))
    assert list(bob.module.parameters()) == []
    with pytest.raises(ValueError, match="'bob' lives in another process"):
        bob.state_dict()


def test_a_remote_party_has_the_weights_that_all_start_from_and_never_moves():
    """So that protocols which hand models on see names and shapes, and change nothing here."""
    with seeded(0):
        module = nn.Linear(2, 2)
    bob, before = RemoteParty("bob", module), {n: t.clone() for n, t in module.state_dict().items()}
    assert bob.weights().keys() == {"weight", "bias"}
    bob.load_weights({"weight": torch.zeros(2, 2), "bias": torch.zeros(2)})
    assert all(torch.equal(bob.weights()[name], tensor) for name, tensor in before.items())
    assert RemoteParty("bob").weights() == {}


def test_a_remote_party_answers_with_as_many_rows_and_nothing_in_them():
    bob = RemoteParty("bob")
    assert bob.forward(torch.ones(3, 5)).shape == (3, 0)
    assert bob.backward(absent(3)) is None  # its input asked for no gradient
    bob.forward(torch.ones(3, 5, requires_grad=True))
    assert bob.backward(absent(3)).shape == (3, 0)
    loss, g = bob.loss_and_grad(torch.ones(3, 5, requires_grad=True), absent(3))
    assert math.isnan(loss)
    assert g.shape == (3, 5)


def test_a_remote_gate_waits_to_be_told_once_a_period():
    class Told:
        said = iter([2, 0])

        def look_ahead(self, sender, receiver, kind):
            assert (sender, receiver, kind) == ("bob", "alice", "control")
            return {"state": torch.tensor(next(self.said))}

    gate = RemoteGate(Told(), "bob", "alice", every=4)
    assert gate.state is gate.state is State.C
    assert gate.check(None) is None  # not known yet
    assert gate.state is State.A
