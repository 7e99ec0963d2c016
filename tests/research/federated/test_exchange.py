"""Where an average goes: a right mean, which all hold, and the bytes of the topology."""

import pytest
import torch

from fltoolkit.channel import Channel
from fltoolkit.codecs import Pipeline, Quantize
from fltoolkit.testing import normal
from fltoolkit.trees import dense_nbytes
from fltoolkit.wire import pack
from fltoolkit_research.federated import AllGather, Ring, ThroughServer
from fltoolkit_research.federated.exchange import balanced

EXCHANGES = [ThroughServer(), AllGather(), Ring()]


def trees(count):
    return {
        f"w{k}": {"a": normal(40, 30, seed=k), "b": normal(500, seed=10 + k), "c": normal(700)}
        for k in range(count)
    }


@pytest.mark.parametrize("exchange", EXCHANGES, ids=repr)
@pytest.mark.parametrize("count", [2, 3, 4])
def test_the_mean_in_float32(exchange, count):
    given = trees(count)
    mean = exchange(Channel(), given)
    assert [*mean] == ["a", "b", "c"]
    for name in mean:
        expected = torch.stack([tree[name] for tree in given.values()]).mean(0)
        assert torch.allclose(mean[name], expected, atol=1e-6)
    assert torch.equal(given["w0"]["a"], normal(40, 30)), "what a worker has was changed"


@pytest.mark.parametrize("count", [2, 4])
def test_bytes_of_each_topology(count):
    """A tree of B bytes: 2 N B through a server, N (N - 1) B all to all, 2 (N - 1) B in a ring."""
    size, channels = dense_nbytes(trees(1)["w0"]), {}
    for exchange in EXCHANGES:
        channels[type(exchange).__name__] = channel = Channel()
        exchange(channel, trees(count))
    server, gather, ring = channels["ThroughServer"], channels["AllGather"], channels["Ring"]
    message = len(pack(trees(1)["w0"]))
    assert server.nbytes(kind="update") == server.nbytes(kind="model") == count * message
    assert gather.nbytes() == count * (count - 1) * message
    assert 2 * (count - 1) * size < ring.nbytes() < 2 * (count - 1) * size + 60 * count * count
    up = gather.totals(trees(count))()
    assert (up["nbytes_up"], up["nbytes_down"]) == (0, 0)


def test_in_a_ring_everybody_talks_to_the_neighbour():
    channel = Channel()
    Ring()(channel, trees(3))
    links = {(t.sender, t.receiver) for t in channel.transfers if t.kind == "update"}
    assert links == {("w0", "w1"), ("w1", "w2"), ("w2", "w0")}


def test_a_worker_uses_what_the_others_decoded_of_its_own_message():
    channel = Channel({"update": Pipeline(Quantize(1))})
    given = {"a": {"w": torch.tensor([0.0, 1.4, 4.0])}, "b": {"w": torch.zeros(3)}}
    mean = AllGather()(channel, given)
    assert mean["w"].tolist() == [0.0, 0.0, 2.0]


@pytest.mark.parametrize("exchange", [AllGather(), Ring()], ids=repr)
def test_alone_nothing_is_sent(exchange):
    channel, given = Channel(), trees(1)
    assert torch.equal(exchange(channel, given)["a"], given["w0"]["a"])
    assert channel.transfers == []


def test_groups_are_about_equal():
    tree = {str(k): torch.zeros(size) for k, size in enumerate([10, 1, 9, 2, 5, 5])}
    groups = balanced(tree, 3)
    assert sorted(name for group in groups for name in group) == sorted(tree)
    assert sorted(sum(tree[name].numel() for name in group) for group in groups) == [10, 11, 11]
