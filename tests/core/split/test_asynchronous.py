"""States A, B and C: what is sent, what is learned, and going on later."""

import copy
from itertools import islice

import pytest
import torch
from core.split.digits_runs import DATA, _Planned, batches, parties, run, same, weights
from torch import nn

from fltoolkit.channel import Channel
from fltoolkit.checkpoint import load_run, save_run
from fltoolkit.codecs import Pipeline, Quantize
from fltoolkit.data import Batches, partition_iid
from fltoolkit.party import SGD, Party
from fltoolkit.split import (
    ActivationCache,
    AlwaysA,
    Bookmark,
    BudgetGate,
    FreezeAfter,
    LossGate,
    Periodic,
    State,
    Upload,
    gate_trace,
    train_async,
    train_async_relay,
    train_relay,
    train_split,
    train_uploading,
)
from fltoolkit.split.asynchronous import CachedClient, _check_count, async_step
from fltoolkit.split.uploads import CutMemory
from fltoolkit_research.codecs import BFloat16, RandomK


def states(records):
    return "".join(record["state"] for record in records)


@pytest.mark.later
@pytest.mark.parametrize("gate", [LossGate(0.0), LossGate(0.0, every=1), AlwaysA(), Periodic(1)])
def test_threshold_0_is_vanilla_bit_by_bit(gate):
    alice, bob = parties()
    vanilla, channel = [], Channel()
    for record in train_split([alice, bob], batches().epochs(4), channel):
        vanilla.append(record["loss"])
    records, (alice2, bob2), channel2 = run(gate)
    assert [record["loss"] for record in records] == vanilla
    assert same(weights(alice, bob), weights(alice2, bob2))
    assert channel2.nbytes() - channel2.nbytes(kind="control") == channel.nbytes()


def test_bytes_per_step_are_those_of_the_state():
    """A = up + down + control, B = up + control, C = control only; control at a period's start."""
    records, _, channel = run(Periodic(4), num_epochs=8)
    size = len(batches())
    assert states(records) == ("A" * size + "B" * size + "C" * 2 * size) * 2
    for record in records:
        kinds = [t.kind for t in channel.transfers if t.step == record["step"]]
        expected = {"A": ["activations", "gradients"], "B": ["activations"], "C": []}
        announced = ["control"] * (record["step"] % size == 1)
        assert kinds == announced + expected[record["state"]]
    assert records[-1]["nbytes"] == channel.nbytes()
    assert records[-1]["nbytes_up"] == channel.nbytes(sender="alice0")
    assert channel.nbytes(kind="control") < 8 * 20
    silent = [r["nbytes"] for r in records[2 * size + 1 : 4 * size]]
    assert len(set(silent)) == 2  # one announcement, then not a byte


@pytest.mark.later
@pytest.mark.machines
def test_after_b_state_c_learns_what_b_would():
    """With the bottom at rest a renewed cache holds what B would send again, up to the last digit.

    The cached activations of a sample were computed in another batch. On some processors (one with
    SSE only) a sum ends otherwise at another place of the batch.
    """
    by_b, (_, bob_b), channel_b = run(_Planned("AABBBB"), num_epochs=6)
    by_c, (_, bob_c), channel_c = run(_Planned("AABCCC"), num_epochs=6)
    assert [r["loss"] for r in by_b] == pytest.approx([r["loss"] for r in by_c], rel=1e-5)
    torch.testing.assert_close(weights(bob_b), weights(bob_c), rtol=1e-5, atol=1e-6)
    assert channel_c.nbytes() < 0.65 * channel_b.nbytes()
    # without the B in between, most of the cache is older than the bottom
    stale, _, _ = run(_Planned("AACCCC"), num_epochs=6)
    assert max(abs(s["loss"] - c["loss"]) for s, c in zip(stale, by_c, strict=True)) > 1e-3
    assert {r["stale"] for r in by_c} == {0.0}
    assert stale[-1]["stale"] > 0.8


def test_the_gate_is_asked_at_the_end_of_each_period():
    for every, length in [(None, 6), (4, 4)]:
        records, _, _ = run(LossGate(0.3, every=every), num_epochs=4)
        checked = [r for r in records if "checked_loss" in r]
        assert [r["step"] for r in checked] == list(range(length, 25, length))
        for r in checked:
            last = [q["loss"] for q in records if r["step"] - length < q["step"] <= r["step"]]
            assert r["checked_loss"] == pytest.approx(sum(last) / length)
        traced = gate_trace([r["checked_loss"] for r in checked], LossGate(0.3))
        assert states(checked) == "".join(state.value for state in traced)
        assert len(set(states(checked))) > 1


def test_a_threshold_moved_while_it_trains_acts():
    alice, bob = parties()
    gate = LossGate(0.0)
    seen = []
    for record in train_async(alice, bob, batches(), Channel(), gate=gate, num_epochs=6):
        if record["step"] == 8:
            gate.threshold = 100.0
        seen.append(record)
    assert [record["threshold"] for record in seen] == [0.0] * 8 + [100.0] * 28
    assert states(seen) == "A" * 12 + "B" * 6 + "C" * 18


def relay(train, gate=None, num_rounds=4, **settings):
    alices, bob = parties(3)
    shares = partition_iid(DATA.y_train[:240], 3, seed=0)
    data = [Batches(DATA.x_train[r], DATA.y_train[r], 40, seed=k) for k, r in enumerate(shares)]
    channel = Channel()
    if gate is not None:
        settings["gate"] = gate
    records = list(train(alices, bob, data, channel, num_rounds=num_rounds, **settings))
    return records, alices, bob, channel


@pytest.mark.later
def test_relay_in_state_a_is_the_relay():
    plain, alices, bob, channel = relay(train_relay)
    records, alices2, bob2, channel2 = relay(train_async_relay, AlwaysA())
    assert [r["loss"] for r in records] == [r["loss"] for r in plain]
    assert same(weights(*alices, bob), weights(*alices2, bob2))
    for kind in ("activations", "gradients", "labels", "model"):
        assert channel2.nbytes(kind=kind) == channel.nbytes(kind=kind)


def test_what_is_wrong_is_said_at_the_call():
    alice, bob = parties()
    used, odd, filled = FreezeAfter(1), Periodic(4), ActivationCache(300)
    odd.every = 0  # which a gate of one's own may not check
    gate_trace([1.0] * 3, used)
    filled.write(torch.arange(2), torch.zeros(2, 640), torch.zeros(2).long())
    for settings, match in [
        ({"gate": used}, "begins in C with an empty cache"),
        (
            {"gate": AlwaysA(), "bookmark": Bookmark(ActivationCache(299))},
            "299 samples, clients have 300",
        ),
        ({"gate": AlwaysA(), "num_epochs": 0}, "num_epochs=0 leaves nothing"),
        ({"gate": odd}, "every=0: whole steps, 1 or more"),
        (
            {"gate": AlwaysA(), "upload": Upload(delta=True), "bookmark": Bookmark(filled)},
            "needs an empty cache",
        ),
    ]:
        with pytest.raises(ValueError, match=match):
            train_async(alice, bob, batches(), Channel(), **{"num_epochs": 1, **settings})
    with pytest.raises(ValueError, match=r"range\(2, 4\): .* a Bookmark says where to go on"):
        _check_count("num_epochs", range(2, 4))
    with pytest.raises(ValueError, match="every=1 or more"):
        train_uploading(alice, bob, batches().epochs(1), Channel(), gate=LossGate(0.1))
    with pytest.raises(ValueError, match="max_local_steps=0"):
        train_uploading(alice, bob, [], Channel(), gate=LossGate(0.1, every=1), max_local_steps=0)
    with pytest.raises(ValueError, match="moved=-1"):
        Upload(moved=-1)


def records_also_if_resumed(folder, build, train, stop):
    """The records of a run, which are those of one that stopped and went on from a folder."""
    *whole, channel = build()
    records = list(train(*whole, channel, Bookmark()))
    *first, first_channel = build()
    bookmark = Bookmark()
    begun = list(islice(train(*first, first_channel, bookmark), stop))
    save_run(folder, [*first, bookmark], first_channel)
    *second, second_channel = build()
    bookmark = Bookmark()
    assert load_run(folder, [*second, bookmark], second_channel) == stop
    assert begun + list(train(*second, second_channel, bookmark)) == records
    assert second_channel.transfers == channel.transfers
    assert same(weights(*second), weights(*whole))
    return records


@pytest.mark.slow
@pytest.mark.parametrize(
    ("gate", "upload"),
    [
        (LossGate(0.3), Upload()),
        (LossGate(0.3, every=4), Upload(delta=True)),
        (BudgetGate(150_000, 24), Upload(moved=0.05, delta=True)),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("stop", [2, 6, 17])
def test_a_run_that_goes_on_is_one_that_never_stopped(tmp_path, gate, upload, stop):
    """Saved within an epoch, within a period, in silence: the same to the bit and to the byte."""
    codecs = {
        "activations": Pipeline(Quantize(4, stochastic=True)),
        "gradients": Pipeline(RandomK(0.2), BFloat16()),
    }

    def build():
        return *parties(), Channel(codecs)

    def train(alice, bob, channel, bookmark):
        return train_async(
            alice, bob, batches(), channel, gate=copy.deepcopy(gate), num_epochs=4,
            upload=upload, bookmark=bookmark,
        )  # fmt: skip

    records = records_also_if_resumed(tmp_path, build, train, stop)
    assert len(set(states(records))) > 1


@pytest.mark.later
@pytest.mark.parametrize("stop", [1, 5, 8])
def test_a_relay_goes_on_with_the_newest_bottom(tmp_path, stop):
    parts = partition_iid(DATA.y_train[:300], 3, seed=0)
    mine = [Batches(DATA.x_train[i], DATA.y_train[i], 50, seed=0) for i in parts]

    def build():
        alices, bob = parties(3)
        return *alices, bob, Channel({"activations": Pipeline(Quantize(4))})

    def train(*given):
        *alices, bob, channel, bookmark = given
        return train_async_relay(
            alices, bob, mine, channel, gate=Periodic(3, every=2), num_rounds=2,
            upload=Upload(delta=True), bookmark=bookmark,
        )  # fmt: skip

    records_also_if_resumed(tmp_path, build, train, stop)


def test_a_bookmark_belongs_to_one_run():
    def go(num_epochs, bookmark, **more):
        alice, bob = parties()
        return train_async(
            alice, bob, batches(), Channel(), gate=LossGate(0.3), num_epochs=num_epochs,
            bookmark=bookmark, **more,
        )  # fmt: skip

    bookmark = Bookmark()
    assert len(list(go(1, bookmark))) == 6
    assert list(go(1, bookmark)) == []  # it is over
    assert [r["epoch"] for r in go(2, bookmark)] == [1] * 6
    with pytest.raises(ValueError, match="clients and upload must be the same"):
        go(3, bookmark, upload=Upload(delta=True))
    alices, bob = parties(2)
    with pytest.raises(ValueError, match=r"\['alice0'\], this one has \['alice0', 'alice1'\]"):
        train_async_relay(
            alices, bob, [batches(), batches()], Channel(), gate=AlwaysA(), num_rounds=1,
            bookmark=bookmark,
        )  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16, "autocast"])
@pytest.mark.parametrize("upload", [Upload(), Upload(delta=True)])
def test_states_run_in_every_precision(dtype, upload):
    plain = torch.float32 if dtype == "autocast" else dtype
    alice, bob = nn.Linear(2, 3).to(plain), nn.Linear(3, 2).to(plain)
    parties = (
        Party("alice", alice, SGD(alice.parameters(), lr=0.1)),
        Party("bob", bob, SGD(bob.parameters(), lr=0.1), nn.CrossEntropyLoss()),
    )
    data = Batches(torch.ones(8, 2, dtype=plain), torch.arange(8) % 2, 4, seed=0)
    with torch.autocast("cpu", enabled=dtype == "autocast"):
        run = train_async(*parties, data, Channel(), gate=Periodic(3), num_epochs=3, upload=upload)
        assert [record["state"] for record in run] == list("AABBCC")


def test_samples_of_unlike_lengths_are_refused_with_advice():
    cache = ActivationCache(num_samples=4)
    cache.write(torch.tensor([0]), torch.ones(1, 3), torch.tensor([1]))
    with pytest.raises(ValueError, match="Pad all samples to one length"):
        cache.write(torch.tensor([1]), torch.ones(1, 4), torch.tensor([1]))


def test_state_c_touches_no_data_and_no_bottom():
    alice, bob = parties()
    data = batches()
    client = CachedClient(alice, data, CutMemory(ActivationCache(300)))
    ids = next(data.rows(0))
    channel = Channel()
    async_step(client, bob, ids, channel, State.B)
    before, top = weights(alice), weights(bob)
    alice.module.forward = None  # would fail if it were called
    data.x = None
    async_step(client, bob, ids, channel, State.C)
    assert same(weights(alice), before)
    assert not same(weights(bob), top)
    assert [t.kind for t in channel.transfers] == ["activations"]
