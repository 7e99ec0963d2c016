"""Differences on a link: both ends hold the same, what is lost is caught up, little is sent."""

import copy
from itertools import pairwise

import pytest
import torch
from every_codec import DIFFERENCES

from fltoolkit.channel import Channel, Delivery
from fltoolkit.codecs import Entropy, ErrorFeedback, Identity, Only, Pipeline, Quantize, TopK
from fltoolkit.links import Link
from fltoolkit.testing import Conformance
from fltoolkit.wire import WireError, bound_to, pack
from fltoolkit_research.codecs import STC, Difference


@pytest.mark.parametrize("codec", DIFFERENCES, ids=repr)
class TestDifference(Conformance):
    @pytest.mark.later
    def test_hostile_content_ends_in_a_wire_error_or_a_tree(self, codec):
        super().test_hostile_content_ends_in_a_wire_error_or_a_tree(codec)


@pytest.mark.parametrize("codec", DIFFERENCES, ids=repr)
def test_every_message_is_read_once_and_in_order(codec):
    """Else the receiver would hold another model than the sender thinks, for good."""
    sender, receiver = copy.deepcopy(codec), copy.deepcopy(codec)
    messages = [sender.encode(tree) for tree in walk(4)]
    again = copy.deepcopy(codec).encode(next(walk(1, seed=1)))  # a sender that has begun anew
    for due, message in enumerate(messages):
        held = receiver.known
        others = [m for number, m in enumerate(messages) if number != due]
        for wrong in [*others, again] if due else others:
            with pytest.raises(WireError, match=r"it does not follow.*change_codec\(kind, codec\)"):
                receiver.decode(wrong)
        assert receiver.known is held
        receiver.decode(message)
    assert torch.equal(receiver.known["w"], sender.known["w"])


def test_training_on_does_not_change_what_the_receiver_is_said_to_hold():
    sender, model = Difference(Pipeline()), {"w": torch.ones(3), "steps": torch.tensor(7)}
    sender.encode(model)
    model["w"] += 1
    model["steps"] += 1
    assert sender.known["w"].tolist() == [1, 1, 1]
    assert int(sender.known["steps"]) == 7


def test_ends_that_hold_different_models_notice_it_at_the_next_message():
    """As after going back to an older save at one end only, or decoding with other bits."""
    sender, receiver = Difference(Identity()), Difference(Identity())
    for tree in walk(2):
        receiver.decode(sender.encode(tree))
    receiver.known["w"][3, 4] += 1e-6
    with pytest.raises(WireError, match="it does not follow"):
        receiver.decode(sender.encode(next(walk(1))))


def test_a_link_that_lost_a_message_can_start_again():
    class Losing(Channel):
        lost = ()

        def cross(self, link, tree):
            if len(self.transfers) not in self.lost:
                return super().cross(link, tree)
            message = self.links.codecs_of(link).sending.encode(tree)
            self.count(link, message, tree)
            return Delivery({}, message)

    channel, codec = Losing({"model": Difference(Pipeline(Quantize(8)))}), Pipeline(Quantize(8))
    first, *trees = walk(4)
    channel.send("server", "a", "model", first)
    channel.lost = (1,)
    assert channel.send("server", "a", "model", trees[0]) == {}
    with pytest.raises(WireError, match=r"server -> a, model: .*it does not follow"):
        channel.send("server", "a", "model", trees[1])
    channel.change_codec("model", Difference(codec))
    got = channel.send("server", "a", "model", trees[2])["w"]
    assert torch.equal(got, codec.decode(codec.encode({"w": trees[2]["w"]}))["w"])


def test_a_message_of_other_entries_changes_nothing():
    """Made by hand, bound to what the receiver holds."""
    receiver, tree = Difference(Identity()), next(walk(1))
    receiver.decode(Difference(Identity()).encode(tree))
    held = receiver.known
    for wrong, name in (
        ({"other": torch.ones(2)}, "other"),
        ({**tree, "other": torch.ones(2)}, "other"),
        ({"w": torch.ones(2, 2), "n": tree["n"]}, "w"),
        ({"w": tree["w"].double(), "n": tree["n"]}, "w"),
        ({"w": tree["w"]}, "n"),
    ):
        with bound_to(held, "it is late"):
            message = pack(wrong)
        with pytest.raises(WireError, match=f"entry '{name}' is"):
            receiver.decode(message)
        assert receiver.known is held


def test_nothing_that_sends_later_is_put_around():
    with pytest.raises(ValueError, match=r"ErrorFeedback\(Only\(Difference.*Leave ErrorFeedback"):
        ErrorFeedback(Only(Difference(Identity())))


def walk(num_steps, seed=0):
    """A model that moves a little from message to message."""
    generator = torch.Generator().manual_seed(seed)
    w = torch.randn(40, 30, generator=generator)
    for step in range(num_steps):
        w = w + 0.01 * torch.randn(w.shape, generator=generator)
        yield {"w": w, "n": torch.tensor(step)}


def test_a_model_that_stands_still_arrives_exactly_in_the_end():
    tree = next(walk(1))
    channel = Channel({"model": Difference(Pipeline(Quantize(2)))})
    errors = [
        float((channel.send("server", "a", "model", tree)["w"] - tree["w"]).abs().max())
        for _ in range(12)
    ]
    assert all(b <= a / 2 or b < 1e-6 for a, b in pairwise(errors))
    assert errors[-1] < 1e-5
    once = Channel({"model": Pipeline(Quantize(2))}).send("server", "a", "model", tree)
    assert errors[0] == float((once["w"] - tree["w"]).abs().max())


def test_a_first_message_of_its_own():
    """A model arrives whole, and only what is new is sparse; each link begins with it anew."""
    trees, sparse = list(walk(6)), Pipeline(STC(0.05), Entropy())
    channel = Channel({"model": Difference(sparse, first=Identity())})
    for client in ("a", "b"):
        assert torch.equal(channel.send("server", client, "model", trees[0])["w"], trees[0]["w"])
    bare = Channel({"model": Difference(sparse)})
    for tree in trees[1:]:
        got, far = (c.send("server", "a", "model", tree)["w"] for c in (channel, bare))
    assert (got - tree["w"]).norm() < 0.1 * (far - tree["w"]).norm()
    first, *rest = [t.nbytes for t in channel.transfers if t.receiver == "a"]
    assert max(rest) < first / 20
    news = {"w": trees[1]["w"] - trees[0]["w"], "n": trees[1]["n"]}
    assert rest[0] == len(sparse.encode(news))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("codec", [Difference(Identity()), Difference(Only(Identity()))], ids=repr)
def test_nan_does_not_arrive_to_stay(codec, value):
    """A message that was made otherwise is refused, and the next one is read as if it had not."""
    channel = Channel({"model": codec})
    channel.send("server", "a", "model", {"w": torch.ones(2)})
    receiver = channel.links.codecs_of(Link("server", "a", "model")).receiving
    entries = {"w": torch.tensor([0.0, value])}
    with bound_to(receiver.known, "it is late"):
        if "Only" in repr(codec):
            entries["\x1f"] = torch.frombuffer(bytearray(pack({})), dtype=torch.uint8)
        message = pack(entries)
    with pytest.raises(WireError, match="'w' holds NaN or infinite"):
        receiver.decode(message)
    assert channel.send("server", "a", "model", {"w": torch.ones(2)})["w"].tolist() == [1, 1]


def test_finite_messages_do_not_become_infinite():
    """Neither in the sender's difference nor in the sum that the receiver holds."""
    huge = torch.tensor([3e38])
    sender = Difference(Identity())
    sender.encode({"w": huge})
    with pytest.raises(ValueError, match=r"'w': it is finite, but its difference"):
        sender.encode({"w": -huge})
    assert sender.known["w"].tolist() == huge.tolist()
    receiver = Difference(Identity())
    receiver.decode(Difference(Identity()).encode({"w": huge}))
    with bound_to(receiver.known, "it is late"):
        message = pack({"w": huge})
    with pytest.raises(WireError, match="'w' holds NaN or infinite"):
        receiver.decode(message)
    assert receiver.known["w"].tolist() == huge.tolist()

    class Doubling(Identity):
        def encode(self, tree):
            return pack({name: 2 * t for name, t in tree.items()})

    sender = Difference(Doubling())
    sender.encode({"w": torch.tensor([1e38])})  # the receiver holds 2e38
    with pytest.raises(ValueError, match=r"'w': it is finite, but"):
        sender.encode({"w": torch.tensor([3.4e38])})  # 2e38 + 2 * 1.4e38
    assert sender.known["w"].tolist() == torch.tensor([2e38]).tolist()


def test_the_receiver_holds_every_value_so_there_are_no_masks():
    codec = Difference(Pipeline(TopK(0.5)))
    message = codec.encode({"w": torch.ones(4)})
    outer = Only(Difference(Pipeline(TopK(0.5))), 0)
    assert codec.masks(message) == outer.masks(outer.encode({})) == {}


def test_another_model_is_refused():
    channel = Channel({"model": Difference(Identity())})
    channel.send("server", "a", "model", {"w": torch.ones(3)})
    for other, what in (
        ({"w": torch.ones(2)}, r"'w' is float32 \(2,\), and the receiver holds float32 \(3,\)"),
        ({"v": torch.ones(3)}, r"'v' is float32 \(3,\), and the receiver holds no such entry"),
        ({}, r"'w' is not there, and the receiver holds float32 \(3,\)"),
    ):
        with pytest.raises(ValueError, match=f"{what}: one link carries one model"):
            channel.send("server", "a", "model", other)
