"""The door between parties: what crosses, what is counted, who is asked for by name."""

import gc

import pytest
import torch
from torch import nn

from fltoolkit.channel import Channel, Delivery, Transfer
from fltoolkit.checkpoint import load_run, save_run
from fltoolkit.codecs import Entropy, ErrorFeedback, Identity, Pipeline, Quantize, TopK
from fltoolkit.federated import Local, fedavg
from fltoolkit.party import Party, TrainingWarning
from fltoolkit.split import train_split
from fltoolkit.testing import normal
from fltoolkit.wire import WireError, pack, unpack
from fltoolkit_research.codecs import EDEN
from fltoolkit_research.leakage import Listener

H = {"h": torch.arange(6.0).reshape(2, 3)}


def test_ledger_is_the_length_of_the_messages():
    channel = Channel()
    channel.step = 7
    received = channel.send("alice", "bob", "activations", H)
    assert torch.equal(received["h"], H["h"])
    assert channel.transfers == [
        Transfer(7, "alice", "bob", "activations", len(pack(H)), nbytes_dense=24)
    ]
    channel.send("bob", "alice", "gradients", H)
    channel.send("carol", "bob", "activations", H)
    one = len(pack(H))
    assert channel.nbytes() == 3 * one
    assert channel.nbytes(sender="alice") == one
    assert channel.nbytes(receiver="bob") == 2 * one
    assert channel.nbytes(receiver="bob", kind="activations", sender="carol") == one
    assert channel.nbytes(kind="update") == 0


def test_errors_say_who_sent_what_to_whom():
    with pytest.raises(ValueError, match=r"'weights' is not one of activations, gradients"):
        Channel().send("alice", "bob", "weights", H)
    with pytest.raises(ValueError, match="alice"):
        Channel().send("alice", "alice", "control", H)
    with pytest.raises(TypeError, match=r"alice -> bob, labels: entry 'z'"):
        Channel().send("alice", "bob", "labels", {"z": torch.zeros(1, dtype=torch.complex64)})
    with pytest.raises(ValueError, match="'uplink' is not one of"):
        Channel(codecs={"uplink": Identity()})
    with pytest.raises(ValueError, match="kind"):
        Channel().nbytes(kind="gradient")

    class Damaging(Identity):
        def decode(self, message):
            return unpack(message[:-1])

    channel = Channel(codecs={"model": Damaging()})
    with pytest.raises(WireError, match="alice -> bob, model: offset"):
        channel.send("alice", "bob", "model", H)
    assert channel.nbytes() == 0  # a message that failed is not in the ledger


def test_a_name_that_the_ledger_does_not_know_is_an_error():
    """Else "Alice" would have sent 0 bytes; one who has only received has."""
    channel = Channel()
    assert channel.nbytes(sender="Alice") == 0  # nothing was sent by anybody
    channel.send("alice", "bob", "activations", H)
    for what in ("sender", "receiver"):
        with pytest.raises(ValueError, match=rf"{what}='Alice' .* the ledger knows alice, bob$"):
            channel.nbytes(**{what: "Alice"})
    assert channel.nbytes(sender="bob") == channel.nbytes(receiver="alice") == 0
    assert channel.nbytes(kind="gradients") == 0 < channel.nbytes(receiver="bob")


def test_codecs_of_kinds_that_were_never_sent_are_told():
    codecs = {kind: Pipeline(Quantize(2)) for kind in ("activations", "update", "model")}
    channel = Channel(codecs)
    assert channel.unused_codecs() == ["activations", "update", "model"]
    channel.send("alice", "bob", "activations", H)
    channel.send("bob", "alice", "gradients", H)
    assert channel.unused_codecs() == ["update", "model"]
    assert repr(channel).endswith("bytes, no message for the codec of update and model>")
    assert "no message" not in repr(Channel(codecs)) + repr(Channel())


class Late(Channel):
    """A transport of one's own by the public seam alone: `cross`, `links.open` and `count`."""

    def cross(self, link, tree):
        sending, receiving = self.links.codecs_of(link)
        lying_in_the_box = sending.encode(tree)
        received = receiving.decode(lying_in_the_box)
        self.count(link, lying_in_the_box, received)
        return Delivery(received, b"")


def test_a_channel_of_ones_own_overrides_one_method():
    codecs = {"update": ErrorFeedback(Pipeline(TopK(0.5)))}
    plain, late = Channel(codecs), Late(codecs)
    for tree in ({"w": normal(6, seed=k)} for k in range(3)):
        one, other = (c.send("ann", "server", "update", tree)["w"] for c in (plain, late))
        assert torch.equal(one, other)
    assert plain.transfers == late.transfers
    assert late.send_masked("ann", "server", "update", tree)[1] == {}  # nothing to read them from
    assert late.state_dict()["links"][0][0] == "ann"


# ---------------------------------------------------------------------------------- broadcast
RANDOM = Pipeline(EDEN(2), Entropy())
CLIENTS = ["ann", "ben", "cem"]


def test_after_a_broadcast_all_hold_the_same_and_the_sender_knows_what():
    model = {"w": normal(64, 30), "n": torch.tensor(3)}
    apart = Channel({"model": RANDOM})
    one, two = (apart.send("server", c, "model", model)["w"] for c in CLIENTS[:2])
    assert not torch.equal(one, two), "then a broadcast would change nothing"

    channel, listener = Channel({"model": RANDOM}), Listener({"model": RANDOM}, kinds=["model"])
    for each in (channel, listener):
        got = each.broadcast("server", CLIENTS, "model", model)
    assert len(listener.heard) == 3
    assert all(torch.equal(heard.tree["w"], got["w"]) for heard in listener.heard)
    assert not torch.equal(got["w"], model["w"])
    assert got["n"] == 3


def test_a_broadcast_has_one_memory_for_a_group_and_survives_a_restart(tmp_path):
    codecs = {"update": ErrorFeedback(Pipeline(TopK(0.5)))}

    def send(channel, seed):
        return channel.broadcast("server", CLIENTS, "update", {"w": normal(6, seed=seed)})["w"]

    straight, before, after = Channel(codecs), Channel(codecs), Channel(codecs)
    expected = [send(straight, seed) for seed in range(6)]
    alone = ErrorFeedback(Pipeline(TopK(0.5)))
    for seed in range(6):
        message = alone.encode({"w": normal(6, seed=seed)})
        assert torch.equal(alone.decode(message)["w"], expected[seed])
    for seed in range(3):
        send(before, seed)
    save_run(tmp_path, [], before)
    load_run(tmp_path, [], after)
    assert all(torch.equal(send(after, seed), expected[seed]) for seed in range(3, 6))
    other = after.broadcast("server", CLIENTS[:2], "update", {"w": normal(6, seed=9)})["w"]
    assert torch.equal(
        other, Pipeline(TopK(0.5)).decode(Pipeline(TopK(0.5)).encode({"w": normal(6, seed=9)}))["w"]
    )


def test_whom_a_broadcast_reaches():
    assert torch.equal(Channel().broadcast("server", [], "model", H)["h"], H["h"])
    for receivers in ("ann", ["ann", "ann"], ["ann", "server"]):
        with pytest.raises(ValueError, match="each of them once, without the sender"):
            Channel().broadcast("server", receivers, "model", H)
    channel = Channel({"model": Pipeline(Quantize(8))})
    with pytest.raises(ValueError, match="server -> ann, model: entry 'w' holds NaN"):
        channel.broadcast("server", CLIENTS, "model", {"w": torch.tensor([torch.nan])})
    channel.send("server", "ann", "model", H)
    assert channel.transfers[-1].nbytes > 0


# ------------------------------------------------------------------------ one training a channel
def split_run(channel, alice, bob):
    x, y = torch.ones(4, 2), torch.tensor([0, 1, 0, 1])
    parties = [Party("alice", alice), Party("bob", bob, loss_fn=nn.CrossEntropyLoss())]
    return list(train_split(parties, [(x, y)], channel))


def averaging_run(channel, model):
    share = torch.ones(4, 2), torch.tensor([0, 1, 0, 1])
    local = Local(4, lr=0.1, epochs=1, loss_fn=nn.CrossEntropyLoss())
    return list(fedavg(model, {"ann": share}, channel, rounds=1, cohort=1, local=local))


@pytest.mark.slow
@pytest.mark.parametrize(("run", "count"), [(split_run, 2), (averaging_run, 1)])
def test_a_second_training_on_a_channel_is_named(run, count, tmp_path):
    """Its bytes would be counted twice, and residuals of other networks would be sent to it."""
    channel, fresh = Channel(), lambda: [nn.Sequential(nn.Linear(2, 2)) for _ in range(count)]
    channel.send("alice", "bob", "control", {})  # a message by hand is no training
    first = fresh()
    run(channel, *first)
    run(channel, *first)  # it goes on
    with pytest.warns(TrainingWarning, match=r"this channel was used by another training.*new Ch"):
        run(channel, *fresh())
    save_run(tmp_path, [], channel)
    loaded = Channel()
    load_run(tmp_path, [], loaded)
    run(loaded, *fresh())  # a run goes on with networks that were loaded
    first.clear()
    gc.collect()
    with pytest.warns(TrainingWarning, match="another training"):
        run(channel, *fresh())
