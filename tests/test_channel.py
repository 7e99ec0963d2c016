import gc

import pytest
import torch

from fltoolkit.channel import KINDS, Channel, Transfer
from fltoolkit.codecs import ErrorFeedback, Identity, Pipeline, Quantize, SameMask, TopK
from fltoolkit.testing import normal
from fltoolkit.wire import WireError, pack, unpack

H = {"h": torch.arange(6.0).reshape(2, 3)}


class Counting:
    """A codec with state: it says how many messages it has sent on its link."""

    count = 0

    def encode(self, tree):
        self.count += 1
        return pack({**tree, "count": torch.tensor(self.count)})

    def decode(self, message):
        return unpack(message)


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


def test_receiver_shares_no_memory_with_the_sender():
    tree = {"h": torch.ones(3)}
    received = Channel().send("alice", "bob", "activations", tree)["h"]
    received.zero_()
    assert torch.equal(tree["h"], torch.ones(3))


def test_each_directed_link_has_its_own_codec_state():
    channel = Channel(codecs={"activations": Counting()})
    counts = [
        channel.send(a, b, "activations", H)["count"].item()
        for a, b in [("alice", "bob"), ("alice", "bob"), ("carol", "bob"), ("bob", "alice")]
    ]
    assert counts == [1, 2, 1, 1]
    assert "count" not in channel.send("alice", "bob", "gradients", H)
    assert channel.codecs["activations"].count == 0


def test_what_a_lossy_codec_loses_is_lost_and_what_it_costs_is_counted():
    class Half(Identity):
        def encode(self, tree):
            return pack({name: t.half() for name, t in tree.items()})

    channel = Channel(codecs={"activations": Half()})
    received = channel.send("alice", "bob", "activations", {"h": torch.tensor([1 / 3])})
    assert received["h"].item() == pytest.approx(1 / 3, abs=1e-3)
    assert received["h"].item() != 1 / 3
    assert channel.transfers[0].nbytes_dense == 4
    assert channel.nbytes() == len(pack({"h": torch.zeros(1).half()}))


def test_errors_say_who_sent_what_to_whom():
    with pytest.raises(ValueError, match=r"'weights' is not one of activations, gradients"):
        Channel().send("alice", "bob", "weights", H)
    with pytest.raises(ValueError, match="alice"):
        Channel().send("alice", "alice", "control", H)
    with pytest.raises(TypeError, match=r"alice -> bob, labels: entry 'z'"):
        Channel().send("alice", "bob", "labels", {"z": torch.zeros(1, dtype=torch.complex64)})
    with pytest.raises(TypeError, match="no encode"):
        Channel(codecs={"model": 8})
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


def test_ledger_survives_a_restart():
    channel = Channel()
    for kind in KINDS:
        channel.step += 1
        channel.send("alice", "bob", kind, H)
    again = Channel()
    again.load_state_dict(channel.state_dict())
    assert again.transfers == channel.transfers
    assert (again.nbytes(), again.step) == (channel.nbytes(), 6)
    again.send("alice", "bob", "model", H)
    assert again.nbytes(kind="model") == 2 * len(pack(H))


def test_a_codec_changed_in_mid_run_acts_from_the_next_message_on():
    channel = Channel({"update": Counting()})
    for _ in range(2):
        channel.send("ann", "server", "update", H)
    channel.change_codec("update", Identity())
    assert channel.send("ann", "server", "update", H).keys() == {"h"}
    channel.change_codec("update", Counting())
    assert int(channel.send("ann", "server", "update", H)["count"]) == 1
    assert len(channel.transfers) == 4
    with pytest.raises(ValueError, match="kind 'updates'"):
        channel.change_codec("updates", Identity())
    with pytest.raises(TypeError, match="no encode"):
        channel.change_codec("update", None)


def test_thousands_of_clients_with_a_few_in_memory(tmp_path):
    """Residuals of all but the last links wait in files; the bytes and trees are the same."""
    codec = ErrorFeedback(Pipeline(TopK(0.1), Quantize(8, stochastic=True)))
    order = [k * 7 % 30 for k in range(90)]
    with_files = Channel({"update": codec}, max_links=4, folder=tmp_path / "links")
    in_memory = Channel({"update": codec})
    for step, client in enumerate(order):
        tree = {"w": normal(40, seed=step)}
        sent = [c.send(f"c{client}", "server", "update", tree) for c in (with_files, in_memory)]
        assert torch.equal(sent[0]["w"], sent[1]["w"])
        assert len(with_files._links) <= 4
    assert with_files.transfers == in_memory.transfers
    assert len(list((tmp_path / "links").glob("*/*.pt"))) >= 26
    resumed = Channel({"update": codec}, max_links=4, folder=tmp_path / "others")
    torch.save(with_files.state_dict(), tmp_path / "channel.pt")
    resumed.load_state_dict(torch.load(tmp_path / "channel.pt", weights_only=True))
    assert len(resumed._links) == 4
    for client in range(30):
        tree = {"w": normal(40, seed=client)}
        sent = [c.send(f"c{client}", "server", "update", tree) for c in (resumed, in_memory)]
        assert torch.equal(sent[0]["w"], sent[1]["w"])
    with pytest.raises(ValueError, match="give both"):
        Channel(max_links=4)


def test_what_came_is_told_with_the_tree():
    channel = Channel({"update": ErrorFeedback(Pipeline(TopK(0.25)))})
    tree, masks = channel.send_masked(
        "ann", "server", "update", {"w": torch.tensor([0, 0, 0, 5.0])}
    )
    assert masks["w"].tolist() == [False, False, False, True]
    assert channel.send_masked("ann", "server", "model", tree)[1] == {}
    assert channel.nbytes() == sum(t.nbytes for t in channel.transfers)


def test_a_channel_reads_its_own_state_while_its_files_are_written_again(tmp_path):
    codec = ErrorFeedback(Pipeline(TopK(0.1)))
    channel = Channel({"update": codec}, max_links=2, folder=tmp_path)
    for k in range(8):
        channel.send(f"c{k % 4}", "server", "update", {"w": normal(40, seed=k)})
    state = channel.state_dict()
    residuals = {row[0]: row[3]["residual"]["w"].clone() for row in state["links"]}
    channel.load_state_dict(state)
    again = {row[0]: row[3]["residual"]["w"] for row in channel.state_dict()["links"]}
    assert residuals.keys() == again.keys() == {f"c{k}" for k in range(4)}
    assert all(torch.equal(residuals[client], again[client]) for client in again)


def test_a_codec_may_take_over_what_the_old_one_remembered(tmp_path):
    """In memory and in files alike."""
    channel = Channel({"update": ErrorFeedback(Pipeline(TopK(0.1)))}, max_links=1, folder=tmp_path)
    for client in ("ann", "ben"):
        channel.send(client, "server", "update", {"w": torch.tensor([1.0, 2.0, 3.0])})
    channel.change_codec("update", ErrorFeedback(Pipeline(TopK(0.5))), keep=True)
    for client in ("ann", "ben"):
        got = channel.send(client, "server", "update", {"w": torch.zeros(3)})["w"]
        assert got.tolist() == [0.0, 2.0, 0.0] or got.tolist() == [1.0, 2.0, 0.0]
    answering = Channel({"activations": Pipeline(TopK(0.5)), "gradients": Pipeline(SameMask())})
    answering.send("alice", "bob", "activations", {"h": torch.ones(4)})
    answering.send("bob", "alice", "gradients", {"g": torch.ones(4)})
    with pytest.raises(ValueError, match="answered by"):
        answering.change_codec("activations", Pipeline(TopK(0.25)), keep=True)


def test_a_changed_codec_draws_new_numbers():
    """Else every change would bring the same dither again."""
    channel = Channel({"update": Pipeline(Quantize(2, stochastic=True))})
    tree, got = {"w": normal(400)}, []
    for _ in range(3):
        got.append(channel.send("ann", "server", "update", tree)["w"])
        channel.change_codec("update", Pipeline(Quantize(2, stochastic=True)))
    assert not torch.equal(got[0], got[1])
    assert not torch.equal(got[1], got[2])
    resumed = Channel(channel.codecs)
    resumed.load_state_dict(channel.state_dict())
    again = [c.send("ann", "server", "update", tree)["w"] for c in (channel, resumed)]
    assert torch.equal(*again)


def test_two_channels_in_one_folder_share_nothing(tmp_path):
    """Neither residuals nor files, which are gone with the channel."""
    codec = ErrorFeedback(Pipeline(TopK(0.5)))
    channels = [Channel({"update": codec}, max_links=1, folder=tmp_path) for _ in range(2)]
    for channel, value in zip(channels, (1.0, 50.0), strict=True):
        for client in ("ann", "bo"):
            channel.send(client, "server", "update", {"w": torch.tensor([value, 2 * value])})
    sent = [c.send("ann", "server", "update", {"w": torch.zeros(2)})["w"] for c in channels]
    assert [x.tolist() for x in sent] == [[1, 0], [50, 0]]
    assert len(list(tmp_path.iterdir())) == 2
    del channels, channel
    gc.collect()
    assert not list(tmp_path.iterdir())


def test_what_another_codec_remembered_is_not_taken_over():
    channel = Channel({"update": Pipeline(TopK(0.5))})
    channel.send("ann", "server", "update", {"w": torch.ones(4)})
    with pytest.raises(ValueError, match="cannot take over what"):
        channel.change_codec("update", ErrorFeedback(Pipeline(TopK(0.1))), keep=True)
    assert channel.codecs["update"] == Pipeline(TopK(0.5))


def test_links_opened_after_a_change_draw_the_same_whether_saved_or_not():
    """`keep` does not count as a change: who resumes has not made it."""
    random = [Pipeline(Quantize(bits, stochastic=True)) for bits in (2, 3)]
    whole = Channel({"update": random[0]})
    whole.change_codec("update", random[1], keep=True)
    resumed = Channel({"update": random[1]})
    tree = {"w": normal(40)}
    sent = [c.send("ann", "server", "update", tree)["w"] for c in (whole, resumed)]
    assert torch.equal(*sent)
