"""A chain of parties is the unsplit network, bit by bit, and its messages cost what they hold."""

import copy
import itertools

import pytest
import torch
from core.split.networks import (
    LR,
    assert_equal_weights,
    party,
    seed_parties,
    small_net,
    toy_data,
    unsplit,
)
from torch import nn

from fltoolkit.channel import Channel
from fltoolkit.cost import measure, split_nbytes
from fltoolkit.data import Batches, partition_iid
from fltoolkit.evaluation import evaluate
from fltoolkit.models import splitnn_mlp
from fltoolkit.party import SGD, Party
from fltoolkit.split import (
    Periodic,
    split_step,
    train_relay,
    train_split,
    train_uploading,
    train_vertical,
)
from fltoolkit.split.chain import arriving, check_batch

CHAINS = {
    "vanilla": (["alice", "bob"], [4]),
    "multi-hop": (["alice", "carol", "dave", "bob"], [3, 4, 8]),
    "U-shaped": (["alice", "bob", "alice"], [4, 8]),
}


@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("optimizer", [torch.optim.SGD, SGD, torch.optim.Adam])
def test_a_chain_is_bit_equal_to_the_unsplit_network(chain, optimizer):
    names, cuts = CHAINS[chain]
    reference, model = small_net(), small_net()
    data = Batches(*toy_data(), batch_size=8, seed=0)
    torch.manual_seed(7)  # Dropout's masks
    reference_optimizer = torch.optim.SGD if optimizer is SGD else optimizer
    expected = unsplit(
        reference, data.epochs(2), reference_optimizer(reference.parameters(), lr=LR)
    )
    edges = [0, *cuts, len(model)]
    parts = [model[a:b] for a, b in itertools.pairwise(edges)]
    parties = [
        party(name, part, nn.NLLLoss() if part is parts[-1] else None, optimizer)
        for name, part in zip(names, parts, strict=True)
    ]
    torch.manual_seed(7)
    records = list(train_split(parties, data.epochs(2), Channel()))
    assert [r["loss"] for r in records] == expected
    assert_equal_weights(model, reference)


@pytest.mark.parametrize("num_clients", [1, 3])
def test_predicted_bytes_are_measured_bytes_plus_headers(num_clients):
    """Of clients with uneven shares; a single one passes no bottom on."""
    num_samples = 101
    model = splitnn_mlp(seed=0)
    alices = [party(f"alice_{i}", splitnn_mlp(seed=0)[:4]) for i in range(num_clients)]
    bob = party("bob", model[4:], nn.NLLLoss())
    x, y = torch.randn(num_samples, 784), torch.randint(10, (num_samples,))
    parts = partition_iid(y, num_clients, seed=0)
    channel = Channel()
    data = [Batches(x[part], y[part], 16, seed=0) for part in parts]
    list(train_relay(alices, bob, data, channel, num_rounds=2))
    headers = sum(t.nbytes - t.nbytes_dense for t in channel.transfers)
    how = {"num_samples": num_samples, "num_clients": num_clients, "epochs": 2, "label_nbytes": 8}
    predicted = split_nbytes(measure(model, (784,), 4), **how)
    assert predicted + headers == channel.nbytes()
    assert headers / channel.nbytes() < 0.001


class Root(nn.Module):
    """The square root of 0 has no gradient, though the loss is a number."""

    def forward(self, h):
        return (h - h).sqrt()


@pytest.mark.parametrize(
    ("last", "value", "words"),
    [
        (Root(), 0.0, "'bob': the gradient for what it was sent is NaN"),
        (nn.Identity(), float("nan"), r"'bob': the loss is nan.*learning rate"),
    ],
    ids=["gradient", "loss"],
)
def test_nan_is_stopped_before_anything_is_learned(last, value, words):
    alice, _ = seed_parties()
    top = nn.Sequential(nn.Linear(640, 10), last)
    bob = Party("bob", top, SGD(top.parameters(), LR), lambda out, y: out.sum())
    before = copy.deepcopy((alice.module.state_dict(), top.state_dict()))
    x = torch.randn(8, 784)
    x[3, 5] = value
    with pytest.raises(FloatingPointError, match=words):
        split_step([alice, bob], x, torch.zeros(8).long(), Channel())
    for state, module in zip(before, (alice.module, top), strict=True):
        assert all(torch.equal(w, state[n]) for n, w in module.state_dict().items())


def test_frozen_parts_stay_and_pass_gradients_on():
    model = small_net(dropout=False)
    before = copy.deepcopy(model.state_dict())
    alice, bob = party("alice", model[:4]), party("bob", model[8:], nn.NLLLoss())
    split_step([alice, Party("carol", model[4:8]), bob], *toy_data(), Channel())
    changed = {n for n, w in model.named_parameters() if not torch.equal(w, before[n])}
    assert changed | {"0.bias"} == {f"{i}.{p}" for i in (0, 1, 8) for p in ("weight", "bias")}


def test_misuse_is_explained():
    alice, bob = seed_parties()
    x, y = torch.randn(8, 784), torch.randint(10, (8,))
    with pytest.raises(ValueError, match="1 parties: a split network needs at least two"):
        train_split([bob], [], Channel())
    with pytest.raises(ValueError, match="'alice' comes last and has no loss_fn"):
        split_step([bob, alice], torch.randn(8, 640), y, Channel())
    with pytest.raises(ValueError, match="2 feature blocks for 1 feature parties"):
        next(train_vertical([alice], bob, [([x, x], y)], Channel()))
    with pytest.raises(ValueError, match="features of 8 samples and labels of 7"):
        next(train_vertical([alice], bob, [([x], y[:7])], Channel()))
    with pytest.raises(ValueError, match="no loss_fn"):
        evaluate([bob, alice], x, y)
    with pytest.raises(
        ValueError, match=r"labels_from='Alice': no such party among \['alice', 'bob'\]"
    ):
        train_split([alice, bob], [], Channel(), labels_from="Alice")
    with pytest.raises(ValueError, match="nothing to evaluate: no samples"):
        evaluate([alice, bob], x[:0], y[:0])
    with pytest.raises(FloatingPointError, match="the test loss is nan"):
        evaluate([alice, bob], x / 0 * 0, y)
    for lr in (0, float("nan")):
        with pytest.raises(ValueError, match=f"lr={lr}"):
            SGD([], lr=lr)
    with pytest.raises(ValueError, match="this is 'alice'"):
        alice.load_state_dict(bob.state_dict())


X, Y = toy_data(8)
TRAININGS = {  # of Alice and Bob, by batches
    "split": lambda a, b, batches: train_split([a, b], batches, Channel()),
    "vertical": lambda a, b, batches: train_vertical([a], b, batches, Channel()),
    "uploading": lambda a, b, batches: train_uploading(
        a, b, batches, Channel(), gate=Periodic(2, every=1)
    ),
}


@pytest.mark.parametrize("training", TRAININGS)
def test_two_owners_share_no_parameter(training):
    model = small_net(dropout=False)
    alice, bob = party("alice", model[:4]), party("bob", model[3:], nn.NLLLoss())
    TRAININGS[training](alice, bob, [])
    bob = party("bob", nn.Sequential(model[0], model[4:]), nn.NLLLoss())
    with pytest.raises(ValueError, match=r"'alice' and 'bob' both have '0.weight'"):
        TRAININGS[training](alice, bob, [])


@pytest.mark.parametrize("training", TRAININGS)
def test_a_training_without_a_batch_says_so(training):
    alice, bob = seed_parties(12)
    used_up = Batches(X, Y, 8, seed=0).epochs(1)
    list(used_up)
    with pytest.warns(UserWarning, match=r"not a single batch.*call batches.epochs"):
        assert list(TRAININGS[training](alice, bob, used_up)) == []


@pytest.mark.parametrize(
    ("x", "y", "error", "match"),
    [
        (X.numpy(), Y, TypeError, "features of type ndarray.*torch.as_tensor"),
        ((X, X), Y, TypeError, "features of type tuple"),
        (X, [0, 1], TypeError, "labels of type list"),
        (X, Y[:7], ValueError, "features of 8 samples and labels of 7"),
        (X[0], Y[0], ValueError, "one sample: give DataLoader"),
    ],
)
def test_batches_are_tensors_of_one_length(x, y, error, match):
    with pytest.raises(error, match=match):
        check_batch(x, y)


def test_batches_are_looked_at_in_every_training():
    with pytest.raises(ValueError, match="8 samples and labels of 7"):
        next(train_split(seed_parties(12), [(X, Y[:7])], Channel()))
    with pytest.raises(ValueError, match="8 samples and labels of 7"):
        next(TRAININGS["uploading"](*seed_parties(12), [(X, Y[:7])]))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
def test_gpu_by_one_argument():
    model = splitnn_mlp(seed=0)
    alice = Party("alice", model[:4], torch.optim.SGD(model[:4].parameters(), 0.03), device="cuda")
    bob = Party(
        "bob", model[4:], torch.optim.SGD(model[4:].parameters(), 0.03), nn.NLLLoss(), device="cuda"
    )
    x, y = torch.randn(8, 784), torch.randint(10, (8,))
    first = split_step([alice, bob], x, y, Channel())
    assert split_step([alice, bob], x, y, Channel()) < first
    assert evaluate([alice, bob], x, y)["accuracy"] >= 0


def test_what_is_no_row_of_batches_is_named_with_the_way_out():
    x, y = torch.ones(8, 2), torch.zeros(8, dtype=torch.long)
    for given in (
        (x, y),
        (x.numpy(), y.numpy()),
        Batches(x, y, 4, seed=0),
        torch.utils.data.TensorDataset(x, y),
    ):
        with pytest.raises(TypeError, match=rf"{type(given).__name__}: give many .* DataLoader"):
            next(arriving(given))
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=4)
    assert len(list(arriving(loader))) == len(list(arriving(((x, y), (x, y))))) == 2
