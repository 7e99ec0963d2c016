"""Split training is, to the bit, what it is defined to be; and every byte is accounted for."""

import copy
import inspect
import itertools
from pathlib import Path

import pytest
import torch
from torch import nn

from fltoolkit.channel import Channel
from fltoolkit.checkpoint import load_run, save_run
from fltoolkit.codecs import BFloat16, Pipeline, RandTopK, TopK
from fltoolkit.cost import measure, split_nbytes
from fltoolkit.data import Batches, load, partition_iid
from fltoolkit.evaluation import evaluate, predict
from fltoolkit.history import evaluated
from fltoolkit.models import splitnn_mlp
from fltoolkit.party import SGD, Party
from fltoolkit.split import (
    add,
    average,
    concatenate,
    split_step,
    train_relay,
    train_split,
    train_splitfed,
    train_vertical,
    vertical_step,
)
from fltoolkit.trees import weighted_mean

LR = 0.05


def small_net(seed=0, dropout=True):
    """Everything that behaves differently in training: BatchNorm and Dropout on both sides."""
    torch.manual_seed(seed)
    p = 0.3 if dropout else 0.0
    return nn.Sequential(
        *(nn.Linear(12, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(p)),
        *(nn.Linear(16, 10), nn.BatchNorm1d(10), nn.Tanh(), nn.Dropout(p)),
        *(nn.Linear(10, 3), nn.LogSoftmax(dim=1)),
    )


def toy_data(n=50, features=12, seed=1):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, features, generator=generator)
    return x, (x[:, 0] > 0).long() + (x[:, 1] > 0.5).long()


def party(name, module, loss_fn=None, optimizer=torch.optim.SGD):
    has_params = any(True for _ in module.parameters())
    return Party(
        name, module, optimizer(module.parameters(), lr=LR) if has_params else None, loss_fn
    )


def unsplit(model, batches, optimizer):
    """The reference: ordinary training of the whole network."""
    losses = []
    for x, y in batches:
        optimizer.zero_grad()
        loss = nn.functional.nll_loss(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def assert_equal_weights(model, reference):
    for (name, a), b in zip(
        model.state_dict().items(), reference.state_dict().values(), strict=True
    ):
        assert torch.equal(a, b), f"{name} differs by {(a - b).abs().max()}"


CHAINS = {
    "vanilla": (["alice", "bob"], [4]),
    "multi-hop": (["alice", "carol", "dave", "bob"], [3, 4, 8]),
    "U-shaped": (["alice", "bob", "alice"], [4, 8]),
}


@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize(
    "optimizer",
    [torch.optim.SGD, SGD, lambda p, lr: torch.optim.SGD(p, lr, momentum=0.9), torch.optim.Adam],
    ids=["torch SGD", "SGD", "momentum", "Adam"],
)
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


def test_the_equality_can_fail():
    reference, model = small_net(dropout=False), small_net(dropout=False)
    data = Batches(*toy_data(), batch_size=8, seed=0)
    unsplit(reference, data.epochs(1), torch.optim.SGD(reference.parameters(), lr=LR * 1.01))
    list(
        train_split(
            [party("a", model[:4]), party("b", model[4:], nn.NLLLoss())], data.epochs(1), Channel()
        )
    )
    with pytest.raises(AssertionError, match="differs"):
        assert_equal_weights(model, reference)


class Vertical(nn.Module):
    """The unsplit network of a vertical split: bottoms side by side, one top."""

    def __init__(self, merge, width):
        super().__init__()
        torch.manual_seed(3)
        self.bottoms = nn.ModuleList(
            nn.Sequential(nn.Linear(n, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Dropout(0.2))
            for n in (5, 4, 3)
        )
        self.top = nn.Sequential(nn.Linear(width, 3), nn.LogSoftmax(dim=1))
        self.merge = merge

    def forward(self, blocks):
        return self.top(self.merge([b(x) for b, x in zip(self.bottoms, blocks, strict=True)]))


@pytest.mark.parametrize(
    ("merge", "reference_merge", "width"),
    [
        (concatenate, lambda hs: torch.cat(hs, 1), 18),
        (add, lambda hs: torch.stack(hs).sum(0), 6),
        (average, lambda hs: torch.stack(hs).mean(0), 6),
    ],
)
def test_vertical_is_bit_equal_to_the_unsplit_network(merge, reference_merge, width):
    reference, model = Vertical(reference_merge, width), Vertical(merge, width)
    x, y = toy_data()
    blocks = [block.contiguous() for block in x.split([5, 4, 3], dim=1)]
    data = Batches(tuple(blocks), y, 8, seed=0)
    torch.manual_seed(7)
    optimizer = torch.optim.SGD(reference.parameters(), lr=LR)
    expected = unsplit(reference, data.epochs(2), optimizer)
    alices = [party(f"alice_{i}", bottom) for i, bottom in enumerate(model.bottoms)]
    bob = party("bob", model.top, nn.NLLLoss())
    torch.manual_seed(7)
    channel = Channel()
    records = list(train_vertical(alices, bob, data.epochs(2), channel, merge=merge))
    assert [r["loss"] for r in records] == expected
    assert_equal_weights(model, reference)
    assert records[-1]["nbytes_up"] == channel.nbytes(receiver="bob", kind="activations")
    assert records[-1]["nbytes_down"] == channel.nbytes(sender="bob", kind="gradients")
    reference.eval()
    assert torch.equal(predict([*alices, bob], blocks, merge=merge), reference(blocks).detach())


# --------------------------------------------------------------------------------- many Alices


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
        next(train_relay(alices, bob, data[:2], Channel(), num_rounds=1))
    with pytest.raises(ValueError, match="share one name"):
        next(train_relay([alices[0], alices[0]], bob, data[:2], Channel(), num_rounds=1))
    twin = Party("twin", alices[0].module)
    with pytest.raises(ValueError, match="two parties share parameters"):
        next(train_splitfed([alices[0], twin], bob, data[:2], Channel(), num_rounds=1, version=1))
    model = small_net(dropout=False)  # slices are new modules around the same parameters
    sliced = [party("a", model[:4]), party("b", model[:4])]
    with pytest.raises(ValueError, match="two parties share parameters"):
        next(train_relay(sliced, bob, data[:2], Channel(), num_rounds=1))
    other = party("other", small_net(seed=1)[:4])
    with pytest.raises(ValueError, match="start from different weights"):
        next(train_splitfed([alices[0], other], bob, data[:2], Channel(), num_rounds=1, version=1))
    with pytest.raises(ValueError, match="num_rounds leaves 0 rounds"):
        next(train_relay(alices, bob, data, Channel(), num_rounds=2, start_round=2))
    with pytest.raises(ValueError, match="version=3"):
        next(train_splitfed(alices, bob, data, Channel(), num_rounds=1, version=3))


# --------------------------------------------------------------------------------------- bytes


def seed_parties(num_features=784):
    model = splitnn_mlp(num_features, seed=0)
    return [
        Party("alice", model[:4], SGD(model[:4].parameters(), lr=0.03)),
        Party("bob", model[4:], SGD(model[4:].parameters(), lr=0.03), nn.NLLLoss()),
    ]


def test_the_seed_models_messages():
    alice, bob = seed_parties()
    channel = Channel()
    x, y = torch.randn(64 + 32, 784), torch.randint(10, (64 + 32,))
    for rows in (slice(0, 64), slice(64, None)):
        split_step([alice, bob], x[rows], y[rows], channel)
    up, down, up_last, down_last = channel.transfers
    assert (up.sender, up.receiver, up.kind) == ("alice", "bob", "activations")
    assert (down.sender, down.receiver, down.kind) == ("bob", "alice", "gradients")
    assert up.nbytes_dense == down.nbytes_dense == 64 * 640 * 4
    assert up_last.nbytes_dense == down_last.nbytes_dense == 32 * 640 * 4
    assert all(t.nbytes - t.nbytes_dense == 12 for t in channel.transfers)
    assert [t.step for t in channel.transfers] == [1, 1, 2, 2]
    assert len(Batches(torch.zeros(60_000, 1), torch.zeros(60_000), 64, seed=0)) == 938


def test_handing_the_bottom_over_costs_183040_floats():
    alices = [seed_parties()[0], seed_parties()[0]]
    alices[1].name = "ann"
    x, y = torch.randn(8, 784), torch.randint(10, (8,))
    channel = Channel()
    data = [Batches(x, y, 8, seed=0)] * 2
    list(train_relay(alices, seed_parties()[1], data, channel, num_rounds=1))
    (handed_on,) = [t for t in channel.transfers if t.kind == "model"]
    assert handed_on.nbytes_dense == 183_040 * 4
    assert handed_on.nbytes - handed_on.nbytes_dense < 64


@pytest.mark.parametrize("num_samples", [101, 96])
def test_predicted_bytes_are_measured_bytes_plus_headers(num_samples):
    model = splitnn_mlp(seed=0)
    alices = [party(f"alice_{i}", splitnn_mlp(seed=0)[:4]) for i in range(3)]
    bob = party("bob", model[4:], nn.NLLLoss())
    x, y = torch.randn(num_samples, 784), torch.randint(10, (num_samples,))
    parts = partition_iid(y, 3, seed=0)
    channel = Channel()
    data = [Batches(x[part], y[part], 16, seed=0) for part in parts]
    list(train_relay(alices, bob, data, channel, num_rounds=2))
    headers = sum(t.nbytes - t.nbytes_dense for t in channel.transfers)
    predicted = split_nbytes(
        measure(model, (784,), 4), num_samples=num_samples, num_clients=3, epochs=2, label_nbytes=8
    )
    assert predicted + headers == channel.nbytes()
    assert headers / channel.nbytes() < 0.001


def test_records_are_running_totals():
    alice, bob = seed_parties()
    channel = Channel()
    data = Batches(torch.randn(40, 784), torch.randint(10, (40,)), 16, seed=0)
    records = list(train_split([alice, bob], data.epochs(1), channel, labels_from="alice"))
    assert [r["step"] for r in records] == [1, 2, 3]
    last = records[-1]
    assert last["nbytes_up"] == channel.nbytes(sender="alice")
    assert last["nbytes_down"] == channel.nbytes(receiver="alice")
    assert last["nbytes"] == channel.nbytes() == last["nbytes_up"] + last["nbytes_down"]
    assert channel.nbytes(kind="labels") > 40 * 8


def test_u_shape_sends_no_labels():
    model = small_net(dropout=False)
    parts = [
        party("alice", model[:4]),
        party("bob", model[4:8]),
        party("alice", model[8:], nn.NLLLoss()),
    ]
    channel = Channel()
    x, y = toy_data()
    split_step(parts, x, y, channel)
    sent = [(t.sender, t.receiver, t.kind) for t in channel.transfers]
    assert sent == [
        ("alice", "bob", "activations"), ("bob", "alice", "activations"),
        ("alice", "bob", "gradients"), ("bob", "alice", "gradients"),
    ]  # fmt: skip


# ------------------------------------------------------------------------- what a reader expects


@pytest.mark.parametrize("train", [train_relay, train_splitfed])
def test_rounds_can_be_resumed(train):
    more = {"version": 2} if train is train_splitfed else {}
    alices, bob, data = clients(3)
    straight = list(train(alices, bob, data, Channel(), num_rounds=3, **more))
    resumed_alices, resumed_bob, _ = clients(3)
    channel = Channel()
    parties = resumed_alices, resumed_bob, data, channel
    first = list(train(*parties, num_rounds=1, **more))
    rest = list(train(*parties, num_rounds=3, start_round=1, **more))
    assert first + rest == straight
    assert_equal_weights(resumed_bob.module, bob.module)


def test_evaluation_leaves_no_trace():
    model = small_net()
    parts = [party("alice", model[:4]), party("bob", model[4:], nn.NLLLoss())]
    channel = Channel()
    x, y = toy_data(2500)
    model[1].eval()  # a mode set by hand must come back too
    before = copy.deepcopy(model.state_dict())
    result = evaluate(parts, x, y)
    assert_equal_weights(model, type("Frozen", (), {"state_dict": lambda self: before})())
    assert [m.training for m in model] == [True, False] + [True] * 8
    assert channel.transfers == []
    model.eval()
    whole = nn.functional.nll_loss(model(x), y)
    assert result["test_loss"] == pytest.approx(whole.item(), rel=1e-5)
    assert result["accuracy"] == pytest.approx((model(x).argmax(1) == y).double().mean().item())


@pytest.mark.parametrize("optimizer", [SGD, torch.optim.Adam])
def test_resumed_run_is_bit_equal_to_an_uninterrupted_one(tmp_path, optimizer):
    data = Batches(*toy_data(), batch_size=8, seed=0)

    def fresh():
        model = small_net(dropout=False)
        return model, [
            party("alice", model[:4], optimizer=optimizer),
            party("bob/b", model[4:], nn.NLLLoss(), optimizer),
        ]

    whole, parties = fresh()
    straight = list(train_split(parties, data.epochs(3), Channel()))

    _, parties = fresh()
    channel = Channel()
    run = train_split(parties, data.epochs(3), channel)
    for saved_at in (4, 9):  # the newer save replaces the older
        for record in run:
            if record["step"] == saved_at:
                break
        save_run(tmp_path / "run", parties, channel)
    assert [p.name for p in (tmp_path / "run").iterdir()] == ["step-000009"]
    files = sorted(p.name for p in (tmp_path / "run" / "step-000009").iterdir())
    assert files == ["0-alice.pt", "1-bob_b.pt", "SHA256SUMS", "channel.pt"]

    resumed, parties = fresh()
    channel = Channel()
    step = load_run(tmp_path / "run", parties, channel)
    rest = list(train_split(parties, itertools.islice(data.epochs(3), step, None), channel))
    assert rest == straight[9:]
    assert_equal_weights(resumed, whole)


def test_saving_and_loading_complain(tmp_path):
    parties = seed_parties()
    with pytest.raises(FileNotFoundError, match="no saved run"):
        load_run(tmp_path, parties, Channel())
    save_run(tmp_path, parties, Channel())
    with pytest.raises(ValueError, match=r"holds the parties \['0-alice.pt', '1-bob.pt'\]"):
        load_run(tmp_path, parties[:1], Channel())
    (tmp_path / "step-000005.tmp").mkdir()  # a save that was interrupted
    (tmp_path / "step-notes").mkdir()
    assert load_run(tmp_path, parties, Channel()) == 0
    later, now = Channel(), Channel()
    later.step, now.step = 20, 10
    save_run(tmp_path, parties, later)
    with pytest.raises(ValueError, match="holds a later save, step-000020"):
        save_run(tmp_path, parties, now)
    assert load_run(tmp_path, parties, Channel()) == 20


@pytest.mark.parametrize("damage", ["flipped", "cut", "empty", "gone"])
@pytest.mark.parametrize("name", ["1-bob.pt", "channel.pt", "SHA256SUMS"])
def test_a_damaged_save_is_refused_and_named(tmp_path, name, damage):
    parties = seed_parties()
    file = save_run(tmp_path, parties, Channel()) / name
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    kept = {"flipped": data, "cut": data[:-9], "empty": b""}
    file.unlink() if damage == "gone" else file.write_bytes(kept[damage])
    before = copy.deepcopy(parties[0].module.state_dict())
    with pytest.raises(ValueError, match=r"cannot be read as it was saved|holds the parties"):
        load_run(tmp_path, [*seed_parties()], Channel())
    assert all(torch.equal(w, before[n]) for n, w in parties[0].module.state_dict().items())


def test_a_save_of_the_same_step_that_is_interrupted_leaves_the_one_before(tmp_path, monkeypatch):
    alice, bob = seed_parties()
    save_run(tmp_path, [alice, bob], Channel())
    rename = Path.rename

    def crash(path, target):
        if path.suffix == ".tmp":
            raise KeyboardInterrupt
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", crash)
    with pytest.raises(KeyboardInterrupt):
        save_run(tmp_path, [alice, bob], Channel())
    monkeypatch.undo()
    assert load_run(tmp_path, [alice, bob], Channel()) == 0
    save_run(tmp_path, [alice, bob], Channel())
    assert [path.name for path in tmp_path.iterdir()] == ["step-000000"]


def test_a_run_goes_on_with_the_codecs_it_was_saved_with(tmp_path):
    """Other parts are refused before anything is changed, other numbers are warned of."""

    def channel(codec):
        return Channel({"activations": codec} if codec else None)

    parties = seed_parties()
    saved = channel(Pipeline(TopK(0.1)))
    split_step(parties, torch.randn(8, 784), torch.randint(10, (8,)), saved)
    save_run(tmp_path, parties, saved)
    fresh = seed_parties()
    before = copy.deepcopy(fresh[0].module.state_dict())
    for other in (None, Pipeline(TopK(0.1), BFloat16())):
        with pytest.raises(ValueError, match=r"activations: Pipeline\(TopK\(fraction=0.1"):
            load_run(tmp_path, fresh, channel(other))
    assert all(torch.equal(w, before[n]) for n, w in fresh[0].module.state_dict().items())
    with pytest.warns(UserWarning, match=r"saved with .*0\.1.* goes on with .*0\.5"):
        load_run(tmp_path, fresh, channel(Pipeline(TopK(0.5))))


def test_a_gradient_that_is_nan_is_stopped_before_anything_is_learned():
    """The square root of 0 has no gradient, though the loss is a number."""

    class Root(nn.Module):
        def forward(self, h):
            return (h - h).sqrt()

    alice, _ = seed_parties()
    top = nn.Sequential(nn.Linear(640, 10), Root())
    bob = Party("bob", top, SGD(top.parameters(), LR), lambda out, y: out.sum())
    before = copy.deepcopy(alice.module.state_dict()), copy.deepcopy(top.state_dict())
    with pytest.raises(FloatingPointError, match="'bob': the gradient for what it was sent is NaN"):
        split_step([alice, bob], torch.randn(8, 784), torch.zeros(8).long(), Channel())
    for state, module in zip(before, (alice.module, top), strict=True):
        assert all(torch.equal(w, state[n]) for n, w in module.state_dict().items())


def test_nan_is_stopped_before_anything_is_learned():
    alice, bob = seed_parties()
    before = copy.deepcopy(alice.module.state_dict()), copy.deepcopy(bob.module.state_dict())
    x, y = torch.randn(8, 784), torch.randint(10, (8,))
    x[3, 5] = float("nan")
    with pytest.raises(FloatingPointError, match=r"'bob': the loss is nan.*learning rate"):
        split_step([alice, bob], x, y, Channel())
    for name, weight in (before[0] | before[1]).items():
        now = (alice.module.state_dict() | bob.module.state_dict())[name]
        assert torch.equal(weight, now)


def test_frozen_parts_stay_and_pass_gradients_on():
    model = small_net(dropout=False)
    parts = [
        party("alice", model[:4]),
        Party("carol", model[4:8]),
        party("bob", model[8:], nn.NLLLoss()),
    ]
    before = copy.deepcopy(model.state_dict())
    split_step(parts, *toy_data(), Channel())
    changed = {n for n, w in model.named_parameters() if not torch.equal(w, before[n])}
    assert changed | {"0.bias"} == {f"{i}.{p}" for i in (0, 1, 8) for p in ("weight", "bias")}


def test_an_optimizer_belongs_to_its_party():
    model = small_net()
    with pytest.raises(ValueError, match=r"'alice': its optimizer moves 6 parameters that are not"):
        Party("alice", model[:4], SGD(model.parameters(), lr=LR))
    with pytest.raises(ValueError, match="moves 4 parameters"):
        Party("bob", model[4:], torch.optim.Adam(model[:4].parameters()))


def test_vertical_sends_no_gradient_to_those_who_do_not_learn():
    model = Vertical(concatenate, 18)
    alices = [party(f"alice_{i}", bottom) for i, bottom in enumerate(model.bottoms)]
    alices[1].optimizer = None
    channel = Channel()
    x, y = toy_data()
    vertical_step(alices, party("bob", model.top, nn.NLLLoss()), x.split([5, 4, 3], 1), y, channel)
    assert channel.nbytes(receiver="alice_0", kind="gradients") > 0
    assert channel.nbytes(receiver="alice_1", kind="gradients") == 0


def test_no_gradient_is_sent_to_those_who_do_not_learn():
    model = small_net(dropout=False)
    parts = [
        Party("alice", model[:4]),
        party("carol", model[4:8]),
        party("bob", model[8:], nn.NLLLoss()),
    ]
    channel = Channel()
    split_step(parts, *toy_data(), channel)
    gradients = [(t.sender, t.receiver) for t in channel.transfers if t.kind == "gradients"]
    assert gradients == [("bob", "carol")]


def test_misuse_is_explained():
    alice, bob = seed_parties()
    x, y = torch.randn(8, 784), torch.randint(10, (8,))
    with pytest.raises(ValueError, match="1 parties: a split network needs at least two"):
        split_step([bob], x, y, Channel())
    with pytest.raises(ValueError, match="'alice' comes last and has no loss_fn"):
        split_step([bob, alice], torch.randn(8, 640), y, Channel())
    with pytest.raises(RuntimeError, match="backward needs a forward"):
        alice.backward(torch.zeros(8, 640))
    with pytest.raises(ValueError, match="2 feature blocks for 1 feature parties"):
        vertical_step([alice], bob, [x, x], y, Channel())
    with pytest.raises(ValueError, match=r"not aligned: \[8\] samples, 7 labels"):
        vertical_step([alice], bob, [x], y[:7], Channel())
    with pytest.raises(ValueError, match="no loss_fn"):
        evaluate([bob, alice], x, y)
    with pytest.raises(
        ValueError, match=r"labels_from='Alice': no such party among \['alice', 'bob'\]"
    ):
        split_step([alice, bob], x, y, Channel(), labels_from="Alice")
    with pytest.raises(ValueError, match="no samples to evaluate"):
        evaluate([alice, bob], x[:0], y[:0])
    with pytest.raises(ValueError, match="batch_size=-5"):
        evaluate([alice, bob], x, y, batch_size=-5)
    with pytest.raises(ValueError, match="8 samples and 9 labels"):
        # past the check of shapes that tests have and users have not
        inspect.unwrap(evaluate)([alice, bob], [x], torch.zeros(9).long())
    with pytest.raises(FloatingPointError, match="the test loss is nan"):
        evaluate([alice, bob], x / 0 * 0, y)
    for lr in (0, -1.0, float("inf"), float("nan")):
        with pytest.raises(ValueError, match=f"lr={lr}"):
            SGD([], lr=lr)
    with pytest.raises(ValueError, match="this is 'alice'"):
        alice.load_state_dict(bob.state_dict())


def test_splitnn_learns_digits():
    digits = load("digits").flat()
    alice, bob = seed_parties(64)
    data = Batches(digits.x_train, digits.y_train, 64, seed=0)
    before = evaluate([alice, bob], digits.x_test, digits.y_test)
    *_, last = train_split([alice, bob], data.epochs(20), Channel())
    after = evaluate([alice, bob], digits.x_test, digits.y_test)
    assert before["accuracy"] < 0.2 < 0.9 < after["accuracy"]
    assert last["step"] == 20 * len(data)


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


def test_evaluation_through_a_codec():
    """As in use: the top sees what the codec leaves. Nothing is counted, no state moves."""
    model, data = splitnn_mlp(64, seed=0), load("digits").flat()
    alice, bob = party("alice", model[:4]), party("bob", model[4:], nn.NLLLoss())
    exact = evaluate([alice, bob], data.x_test, data.y_test)
    assert evaluate([alice, bob], data.x_test, data.y_test, through=Pipeline()) == exact
    coarse = Pipeline(RandTopK(0.01, training=False))
    lossy = evaluate([alice, bob], data.x_test, data.y_test, through=coarse)
    assert lossy["test_loss"] != exact["test_loss"]
    h = coarse.decode(coarse.encode({"h": alice.module(data.x_test)}))["h"]
    out = predict([alice, bob], data.x_test, through=coarse)
    assert torch.equal(out, bob.module(h))
