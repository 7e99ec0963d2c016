"""Vertical split learning is the unsplit network on all columns."""

import pytest
import torch
from core.split.networks import LR, assert_equal_weights, party, toy_data, unsplit
from torch import nn

from fltoolkit.channel import Channel
from fltoolkit.data import Batches
from fltoolkit.evaluation import forward
from fltoolkit.split import train_vertical
from fltoolkit.split.vertical import concatenate


class Vertical(nn.Module):
    """The unsplit network of a vertical split: bottoms side by side, one top."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.bottoms = nn.ModuleList(
            nn.Sequential(nn.Linear(n, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Dropout(0.2))
            for n in (5, 4, 3)
        )
        self.top = nn.Sequential(nn.Linear(18, 3), nn.LogSoftmax(dim=1))

    def forward(self, blocks):
        return self.top(concatenate([b(x) for b, x in zip(self.bottoms, blocks, strict=True)]))


@pytest.mark.parametrize("u_shaped", [False, True])
def test_vertical_is_bit_equal_to_the_unsplit_network(u_shaped):
    reference, model = Vertical(), Vertical()
    x, y = toy_data()
    blocks = [block.contiguous() for block in x.split([5, 4, 3], dim=1)]
    data = Batches(tuple(blocks), y, 8, seed=0)
    torch.manual_seed(7)
    optimizer = torch.optim.SGD(reference.parameters(), lr=LR)
    expected = unsplit(reference, data.epochs(2), optimizer)
    alices = [party(f"alice_{i}", bottom) for i, bottom in enumerate(model.bottoms)]
    bob = party("bob", model.top, nn.NLLLoss())
    if u_shaped:
        bob = [party("bob", model.top[0]), party("alice_1", model.top[1], nn.NLLLoss())]
    torch.manual_seed(7)
    channel = Channel()
    records = list(train_vertical(alices, bob, data.epochs(2), channel))
    assert [r["loss"] for r in records] == expected
    assert_equal_weights(model, reference)
    assert {transfer.kind for transfer in channel.transfers} == {"activations", "gradients"}
    assert bool(channel.nbytes(sender="bob", receiver="alice_1", kind="activations")) is u_shaped
    if not u_shaped:
        assert records[-1]["nbytes_up"] == channel.nbytes(receiver="bob", kind="activations")
        assert records[-1]["nbytes_down"] == channel.nbytes(sender="bob", kind="gradients")
    reference.eval()
    assert torch.equal(forward([*alices, bob], blocks), reference(blocks).detach())
    for parties in (alices, [*alices, *alices]):  # a block for the last party, too; and too few
        with pytest.raises(ValueError, match="argument"):
            forward(parties, blocks)


def test_vertical_sends_no_gradient_to_those_who_do_not_learn():
    model = Vertical()
    alices = [party(f"alice_{i}", bottom) for i, bottom in enumerate(model.bottoms)]
    alices[1].optimizer = None
    channel = Channel()
    x, y = toy_data()
    bob, batch = party("bob", model.top, nn.NLLLoss()), (x.split([5, 4, 3], 1), y)
    assert len(list(train_vertical(alices, bob, [batch], channel))) == 1
    assert channel.nbytes(receiver="alice_0", kind="gradients") > 0
    assert channel.nbytes(receiver="alice_1", kind="gradients") == 0


def test_nobody_is_sent_a_gradient_for_whom_nobody_learns():
    model = Vertical()
    alices = [party(f"alice_{i}", bottom) for i, bottom in enumerate(model.bottoms)]
    bob, tail = party("bob", model.top[0]), party("alice_1", model.top[1], nn.NLLLoss())
    for frozen in (*alices, bob):
        frozen.optimizer = None
    x, y = toy_data()
    channel = Channel()
    list(train_vertical(alices, [bob, tail], [(x.split([5, 4, 3], 1), y)], channel))
    assert channel.nbytes(kind="gradients") == 0


def test_a_chain_of_nobody_is_refused():
    with pytest.raises(ValueError, match=r"label_party=\[\]"):
        train_vertical([party("alice", nn.Linear(2, 2))], [], [], Channel())
