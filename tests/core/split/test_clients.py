import copy
import inspect
import itertools

import pytest
import torch
from core.split.networks import LR, assert_equal_weights, party, small_net, toy_data, unsplit
from torch import nn

from fltoolkit.channel import Channel
from fltoolkit.data import Batches
from fltoolkit.evaluation import evaluate
from fltoolkit.history import evaluated
from fltoolkit.party import Party
from fltoolkit.split import train_relay, train_splitfed
from fltoolkit.split.clients import check_clients
from fltoolkit.trees import weighted_mean


def clients(k, *, seed=0, optimizer=torch.optim.SGD):
    """k Alices with equal bottoms, their uneven shares of the data, and one Bob."""
    alices = [
        party(f"alice_{i}", small_net(seed, dropout=False)[:4], optimizer=optimizer)
        for i in range(k)
    ]
    bob = party("bob", small_net(seed, dropout=False)[4:], nn.NLLLoss(), optimizer)
    x, y = toy_data()
    shares = torch.arange(len(y)).split([20, 18, 12])[:k]
    return alices, bob, [Batches(x[i], y[i], 8, seed=s) for s, i in enumerate(shares)]


def test_relay_is_sequential_training_on_one_client_after_the_other():
    alices, bob, data = clients(3)
    reference = small_net(dropout=False)
    optimizer = torch.optim.SGD(reference.parameters(), lr=LR)
    expected = []
    for round_ in range(2):
        for batches in data:
            expected += unsplit(reference, batches.epoch(round_), optimizer)
    channel = Channel()
    records = list(train_relay(alices, bob, data, channel, num_rounds=2))
    assert [r["loss"] for r in records] == expected
    assert_equal_weights(nn.Sequential(*alices[-1].module, *bob.module), reference)
    handed_on = [t for t in channel.transfers if t.kind == "model"]
    assert [(t.sender, t.receiver) for t in handed_on] == [
        ("alice_0", "alice_1"), ("alice_1", "alice_2"), ("alice_2", "alice_0"),
        ("alice_0", "alice_1"), ("alice_1", "alice_2"),
    ]  # fmt: skip
    last = records[-1]
    assert last["nbytes"] == channel.nbytes()
    assert last["nbytes"] - last["nbytes_up"] - last["nbytes_down"] == channel.nbytes(kind="model")
    assert last["nbytes_up"] == channel.nbytes(kind="labels") + channel.nbytes(kind="activations")
    assert (last["round"], last["client"]) == (1, "alice_2")


def local_epoch(model, batches, round_):
    unsplit(model, batches.epoch(round_), torch.optim.SGD(model.parameters(), lr=LR))


@pytest.mark.later
def test_splitfed_v1_is_fedavg_of_the_whole_network():
    alices, bob, data = clients(3)
    reference = small_net(dropout=False)
    for round_ in range(3):
        copies = []
        for batches in data:
            local = copy.deepcopy(reference)
            local_epoch(local, batches, round_)
            copies.append(local.state_dict())
        reference.load_state_dict(weighted_mean(copies, [20, 18, 12]))
    channel = Channel()
    list(train_splitfed(alices, bob, data, channel, num_rounds=3, version=1))
    for alice in alices:
        assert_equal_weights(nn.Sequential(*alice.module, *bob.module), reference)
    assert len([t for t in channel.transfers if t.kind == "model"]) == 3 * 3 * 2


@pytest.mark.later
def test_splitfed_v2_shares_one_top_and_averages_bottoms():
    alices, bob, data = clients(3)
    bottom, top = small_net(dropout=False)[:4], small_net(dropout=False)[4:]
    orders = []
    channel = Channel()
    records = list(train_splitfed(alices, bob, data, channel, num_rounds=3, version=2, seed=5))
    for round_ in range(3):
        who = [r["client"] for r in records if r["round"] == round_]
        order = [int(name[-1]) for name, _ in itertools.groupby(who)]
        orders.append(order)
        bottoms = [copy.deepcopy(bottom) for _ in data]
        for k in order:
            whole = nn.Sequential(*bottoms[k], *top)
            local_epoch(whole, data[k], round_)
        bottom.load_state_dict(weighted_mean([b.state_dict() for b in bottoms], [20, 18, 12]))
    assert len({tuple(order) for order in orders}) > 1
    assert all(sorted(order) == [0, 1, 2] for order in orders)
    for alice in alices:
        assert_equal_weights(
            nn.Sequential(*alice.module, *bob.module), nn.Sequential(*bottom, *top)
        )


def test_splitfed_evaluated_at_the_end_of_a_round_sees_the_average():
    alices, bob, data = clients(2)
    x, y = toy_data(seed=9)
    records = train_splitfed(alices, bob, data, Channel(), num_rounds=2, version=1)
    steps = sum(len(d) for d in data)
    for record in evaluated(records, lambda: evaluate([alices[0], bob], x, y), every=steps):
        if "accuracy" in record:
            assert_equal_weights(alices[0].module, alices[1].module)


def test_clients_are_checked():
    alices, bob, data = clients(3)
    with pytest.raises(ValueError, match="3 clients and 2 sets"):
        train_relay(alices, bob, data[:2], Channel(), num_rounds=1)
    with pytest.raises(ValueError, match="share one name"):
        train_relay([alices[0], alices[0]], bob, data[:2], Channel(), num_rounds=1)
    twin = Party("twin", alices[0].module)
    with pytest.raises(ValueError, match="two parties share parameters"):
        train_splitfed([alices[0], twin], bob, data[:2], Channel(), num_rounds=1, version=1)
    model = small_net(dropout=False)  # slices are new modules around the same parameters
    sliced = [party("a", model[:4]), party("b", model[:4])]
    with pytest.raises(ValueError, match="two parties share parameters"):
        train_relay(sliced, bob, data[:2], Channel(), num_rounds=1)
    other = party("other", small_net(seed=1)[:4])
    with pytest.raises(ValueError, match="start from different weights"):
        train_splitfed([alices[0], other], bob, data[:2], Channel(), num_rounds=1, version=1)
    with pytest.raises(ValueError, match="leaves nothing to train"):
        train_relay(alices, bob, data, Channel(), num_rounds=range(2, 2))
    with pytest.raises(ValueError, match="version=3"):
        train_splitfed(alices, bob, data, Channel(), num_rounds=1, version=3)
    loader = torch.utils.data.DataLoader(data[0].x, 8)
    for wrong in (loader, data[0].epochs(1), [(torch.ones(8, 12), torch.ones(8))]):
        with pytest.raises(TypeError, match=r"'alice_0': its batches are a .*Say Batches\("):
            inspect.unwrap(check_clients)(alices, bob, [wrong] * 3)


@pytest.mark.later
@pytest.mark.parametrize("train", [train_relay, train_splitfed])
def test_rounds_can_be_resumed(train):
    more = {"version": 2} if train is train_splitfed else {}
    alices, bob, data = clients(3)
    straight = list(train(alices, bob, data, Channel(), num_rounds=3, **more))
    resumed_alices, resumed_bob, _ = clients(3)
    channel = Channel()
    parties = resumed_alices, resumed_bob, data, channel
    first = list(train(*parties, num_rounds=1, **more))
    rest = list(train(*parties, num_rounds=range(1, 3), **more))
    assert first + rest == straight
    assert_equal_weights(resumed_bob.module, bob.module)
