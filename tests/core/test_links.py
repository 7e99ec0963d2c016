import re
from pathlib import Path

import pytest
import torch
from torch import nn

from experiments.replications.dgc import DGC
from fltoolkit.channel import Channel
from fltoolkit.codecs import Codec, ErrorFeedback, Identity, Only, Pipeline, Quantize, TopK
from fltoolkit.data import Batches
from fltoolkit.federated import Local, fedavg
from fltoolkit.links import Link, Links
from fltoolkit.party import Party, TrainingWarning
from fltoolkit.split import train_relay, train_splitfed
from fltoolkit.testing import normal
from fltoolkit.wire import pack, unpack
from fltoolkit_research.codecs import STC, Difference, RandomK

H = {"h": torch.arange(6.0).reshape(2, 3)}


class Counting(Codec):
    """A codec with state: it says how many messages it has sent on its link."""

    count = 0

    def encode(self, tree):
        self.count += 1
        return pack({**tree, "count": torch.tensor(self.count)})

    def decode(self, message):
        return unpack(message)


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


def test_links_opened_after_a_change_draw_the_same_whether_saved_or_not():
    """`keep` does not count as a change: who resumes has not made it."""
    random = [Pipeline(Quantize(bits, stochastic=True)) for bits in (2, 3)]
    whole = Channel({"update": random[0]})
    whole.change_codec("update", random[1], keep=True)
    resumed = Channel({"update": random[1]})
    tree = {"w": normal(40)}
    sent = [c.send("ann", "server", "update", tree)["w"] for c in (whole, resumed)]
    assert torch.equal(*sent)


def test_a_link_has_two_codecs_that_share_nothing():
    links = Links({"update": ErrorFeedback(Pipeline(TopK(0.5)))})
    link = Link("ann", "server", "update")
    ends = links.codecs_of(link)
    assert links.codecs_of(link) is ends
    assert ends.sending == ends.receiving == links.codecs["update"]
    ends.sending.encode({"w": torch.tensor([1.0, 2.0])})
    assert ends.sending.residual["w"].tolist() == [1, 0]
    assert ends.receiving.residual == links.codecs["update"].residual == {}
    assert isinstance(links.codecs_of(Link("ann", "server", "model")).sending, Identity)
    assert [*links.ends] == [link, Link("ann", "server", "model")]


@pytest.mark.parametrize("kind", ["activations", "gradients"])
@pytest.mark.parametrize(
    "codec",
    [
        ErrorFeedback(Pipeline(TopK(0.1))),
        Only(ErrorFeedback(Pipeline(TopK(0.1)))),
        Difference(Identity(), first=ErrorFeedback(Identity())),
        Pipeline(DGC(0.1)),
    ],
    ids=repr,
)
def test_what_is_sent_later_is_refused_where_each_message_is_about_other_samples(kind, codec):
    """Before the training, not at the end of an epoch, and whatever the sizes of the batches."""
    with pytest.raises(ValueError, match=rf"codecs\['{kind}'\].*next {kind} belong to other"):
        Channel({kind: codec})
    channel = Channel()
    with pytest.raises(ValueError, match=r"Pipeline\(Quantize\(4, stochastic=True\)\)"):
        channel.change_codec(kind, codec)
    assert channel.codecs == {}
    Channel({"update": codec, "model": codec})


WEIGHTS = [
    (ErrorFeedback(Pipeline(Quantize(4))), "ErrorFeedback adds what one message leaves out"),
    (Only(ErrorFeedback(Pipeline(TopK(0.1)))), "ErrorFeedback adds"),
    (Pipeline(DGC(0.1)), "DGC adds"),
    (Pipeline(TopK(0.1), Quantize(8)), "TopK leaves out most weights, which then arrive as zeros"),
    (Only(Pipeline(RandomK(0.1))), "RandomK leaves out"),
    (Pipeline(STC(0.1)), "STC leaves out"),
]


@pytest.mark.parametrize(("codec", "why"), WEIGHTS, ids=lambda value: repr(value)[:30])
@pytest.mark.parametrize("way", ["fedavg", "relay", "splitfed"])
def test_codecs_that_spoil_weights_are_refused_where_weights_are_sent(codec, why, way):
    share = torch.ones(4, 2), torch.zeros(4, dtype=torch.int64)
    model, channel = nn.Sequential(nn.Linear(2, 2), nn.LogSoftmax(dim=1)), Channel({"model": codec})

    def party(name):
        return Party(name, nn.Linear(2, 2), loss_fn=nn.CrossEntropyLoss())

    alices, local = [party("ann"), party("ben")], Local(4, lr=0.1, epochs=1)
    alices[1].load_weights(alices[0].weights())
    data, how = [Batches(*share, 4, seed=0)] * 2, {"num_rounds": 1}
    runs = {
        "fedavg": lambda: fedavg(model, {"ann": share}, channel, rounds=1, cohort=1, local=local),
        "relay": lambda: train_relay(alices, party("bob"), data, channel, **how),
        "splitfed": lambda: train_splitfed(alices, party("bob"), data, channel, **how, version=2),
    }
    with pytest.raises(ValueError, match=rf"codecs\['model'\] = .*{why}.*Difference\(...\)"):
        next(runs[way]())
    assert channel.transfers == []


@pytest.mark.parametrize(
    ("codecs", "text"),
    [
        (Pipeline(Quantize(8)), "codecs=Pipeline(Quantize(bits=8"),
        (Quantize(8), '{"activations": Pipeline(Quantize(8))}'),
        ([("update", Identity())], "needs a codec for each kind of message, in a mapping"),
        ({"activations": Quantize(8)}, "this is a stage. Write Pipeline(Quantize(bits=8"),
        ({"activations": "Quantize(8)"}, "codecs['activations'] = 'Quantize(8)': needs a codec"),
        ({"activations": Identity}, "A class of your own extends fltoolkit.codecs.Codec"),
    ],
    ids=str,
)
def test_what_is_no_codec_is_refused_with_what_to_write(codecs, text):
    with pytest.raises(TypeError, match=re.escape(text)):
        Channel(codecs)


def test_the_engine_on_the_page_fits_to_the_other_half():
    """docs/engines.md: two channels, an end each, and what a channel in one process would do."""
    page = (Path(__file__).parents[2] / "docs" / "engines.md").read_text(encoding="utf-8")
    found = {}
    exec(re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0], found)
    box = {}

    class Half(found["Elsewhere"]):
        def post(self, link, message):
            box[link] = message

        def wait_for(self, link):
            return box.pop(link)

    codecs = {"update": ErrorFeedback(Pipeline(TopK(0.5), Quantize(4, stochastic=True)))}
    whole, sending, receiving = Channel(codecs), Half(codecs), Half(codecs)
    sending.here, receiving.here = {"ann"}, {"server"}
    for seed in range(3):
        message = "ann", "server", "update", {"w": normal(20, seed=seed)}
        assert sending.send(*message) == {}
        got = receiving.send_masked(*message[:3], {})
        expected = whole.send_masked(*message)
        assert torch.equal(got[0]["w"], expected[0]["w"])
        assert torch.equal(got[1]["w"], expected[1]["w"])
    assert [t.nbytes for t in sending.transfers] == [t.nbytes for t in whole.transfers]
    assert receiving.transfers == sending.transfers == whole.transfers


# --------------------------------------------------------------------------- a codec of the link
def by_sender(bits):
    """A function of the link: error feedback at ``bits[sender]`` bits, for updates only."""

    def codec_of(link):
        if link.kind != "update":
            return None
        return ErrorFeedback(Pipeline(Quantize(bits[link.sender], stochastic=True)))

    return codec_of


def test_a_function_gives_each_link_what_a_mapping_would():
    bits = {"ann": 8, "ben": 2}
    channel = Channel(by_sender(bits))
    for name, b in bits.items():
        alone = Channel({"update": ErrorFeedback(Pipeline(Quantize(b, stochastic=True)))})
        for seed in range(3):  # the residual of the first message is in the second
            tree = {"w": normal(40, seed=seed)}
            got, expected = (c.send(name, "server", "update", tree) for c in (channel, alone))
            assert torch.equal(got["w"], expected["w"])
    model = {"w": normal(40)}
    assert torch.equal(channel.send("server", "ann", "model", model)["w"], model["w"])


def test_a_function_keeps_a_links_memory_and_a_saved_run_goes_on():
    bits = {"ann": 4}
    channel, tree = Channel(by_sender(bits)), {"w": normal(40)}
    channel.send("ann", "server", "update", tree)
    (link,) = channel.links.ends
    before = channel.links.codecs_of(link)
    resumed = Channel(by_sender(bits))
    resumed.load_state_dict(channel.state_dict())
    expected = channel.send("ann", "server", "update", tree)["w"]
    assert channel.links.codecs_of(link) is before
    assert torch.equal(resumed.send("ann", "server", "update", tree)["w"], expected)


def test_what_is_owed_survives_a_sparsity_that_changes_from_round_to_round():
    """Four values, of which a quarter is sent, then half of them: what was left out arrives."""
    fractions = iter([0.25, 0.5])
    fraction = next(fractions)
    channel = Channel(lambda link: ErrorFeedback(Pipeline(TopK(fraction))))
    first = channel.send("ann", "server", "update", {"w": torch.tensor([4.0, 3.0, 2.0, 1.0])})
    fraction = next(fractions)
    second = channel.send("ann", "server", "update", {"w": torch.zeros(4)})
    assert (first["w"].tolist(), second["w"].tolist()) == ([4, 0, 0, 0], [0, 3, 2, 0])


def test_a_codec_of_other_parts_begins_anew_and_says_what_is_lost():
    codecs = iter([ErrorFeedback(Pipeline(TopK(0.25))), Pipeline(TopK(0.5)), Pipeline(Quantize(8))])
    channel = Channel(lambda link: codec)
    update = {"w": torch.tensor([4.0, 3.0, 2.0, 1.0])}
    codec = next(codecs)
    channel.send("ann", "server", "update", update)
    codec = next(codecs)
    with pytest.warns(TrainingWarning, match=r"what ErrorFeedback\(.* remembers is lost"):
        channel.send("ann", "server", "update", update)
    codec = next(codecs)  # nothing is lost, so there is no warning
    channel.send("ann", "server", "update", update)


@pytest.mark.parametrize(
    ("kind", "codec", "text"),
    [
        ("update", Quantize(8), "stage"),
        ("activations", ErrorFeedback(Pipeline()), "other samples"),
        ("model", Pipeline(TopK(0.1)), "leaves out most weights"),
    ],
)
def test_what_a_function_gives_is_checked(kind, codec, text):
    channel = Channel(lambda link: codec)
    channel.begin({"ann"}, [], sends_weights=True)
    with pytest.raises((TypeError, ValueError), match=text):
        channel.send("server", "ann", kind, {"w": normal(4)})


def test_a_broadcast_asks_for_the_codec_of_the_group():
    asked = []
    channel = Channel(lambda link: asked.append(link) or Pipeline(Quantize(8)))
    channel.broadcast("server", ["ann", "ben"], "model", {"w": normal(40)})
    assert {*asked} == {("server", "ann, ben", "model")}


@pytest.mark.parametrize("who", [Party("alice", torch.nn.Linear(1, 1)), 3])
def test_a_party_or_a_number_in_place_of_a_name_is_told_so(who):
    with pytest.raises(TypeError, match=r"^(<Party 'alice'.*>|3): give a name, .* party\.name"):
        Channel().send(who, "bob", "update", {})
