"""FedAsync and FedBuff: traces by hand on a scripted clock, and what they equal."""

import math

import pytest
import torch
from core.federated.small import One, column, number, walk_by_x
from torch import nn

from experiments.replications.asynchronous import AsyncServer, fedasync, fedbuff
from fltoolkit.channel import Channel
from fltoolkit.federated import (
    Constant,
    Drop,
    Even,
    Fleet,
    Local,
    Polynomial,
    Scripted,
    fedavg,
)
from fltoolkit.models import seeded

TWO = {"a": number(1), "b": number(10)}
CLOCK = Scripted({"a": [1.0], "b": [3.0]})
HAND = {"local": Local(batch_size=None, lr=1, steps=1)}


def trace(method, clients=TWO, concurrency=2, extra=None, **settings):
    """Two numbers by hand; ``extra`` are further arguments of the server."""
    model, channel, ws, records = One(), Channel(), [], []
    settings["server"] = AsyncServer(concurrency=concurrency, **(extra or {}))
    for record in method(model, Fleet(clients, walk_by_x), channel, **HAND, **settings):
        ws.append(round(model.w.item(), 6))
        records.append(record)
    return ws, records, channel


@pytest.mark.parametrize(
    ("staleness", "expected"),
    [
        (Constant(), [0.5, 1.0, 5.5, 3.75]),  # b at 3 s: 1/2 of 1 and 1/2 of 10
        (Polynomial(1), [0.5, 1.0, 2.5, 2.375]),  # two moves late: 1/6 of the way from 1 to 10
        (Drop(), [0.5, 1.0, 1.0, 1.0]),
    ],
)
def test_fedasync_by_hand(staleness, expected):
    """a lands at 1, 2 and 3 s, b, who began from 0, at 3 s before a."""
    extra = {"clock": CLOCK, "staleness": staleness}
    ws, records, _ = trace(fedasync, num_updates=4, alpha=0.5, extra=extra)
    assert ws == expected
    assert column(records, "client") == ["a", "a", "b", "a"]
    assert column(records, "staleness") == [0, 0, 2, 1]
    assert column(records, "seconds") == [1, 2, 3, 3]
    assert column(records, "step") == [1, 2, 3, 4]


def test_fedbuff_by_hand():
    """K = 2. a and a at 2 s: mean 1. Then b, a move late, and a: (10/2 + 1) / 2 = 3."""
    extra = {"clock": CLOCK, "staleness": Polynomial(1)}
    ws, records, channel = trace(fedbuff, rounds=2, buffer_size=2, extra=extra)
    assert ws == [1, 4]
    assert column(records, "seconds") == [2, 3]
    assert column(records, "num_stale") == [0, 1]
    assert column(records, "staleness") == [0, 0.5]
    assert column(records, "loss") == [1, 5.5]
    uploads = [t.sender for t in channel.transfers if t.kind == "update"]
    assert uploads == ["a", "a", "b", "a"]
    assert records[-1]["nbytes"] == channel.nbytes()
    # two began at once; each that landed made room for one more, but the last
    assert sum(t.kind == "model" for t in channel.transfers) == 2 + 3


def test_a_buffer_of_stale_updates_that_weigh_nothing_moves_nothing():
    extra = {"clock": Scripted({"a": [1.0], "b": [2.0]}), "staleness": Drop()}
    ws, records, _ = trace(fedbuff, rounds=3, buffer_size=1, extra=extra)
    assert column(records, "staleness") == [0, 1, 1]
    assert ws == [1, 1, 1]


@pytest.mark.parametrize(
    ("method", "settings", "moved"),
    [
        (fedbuff, {"rounds": 1, "buffer_size": 2}, (1 + 1) / 2),
        (fedasync, {"num_updates": 1, "alpha": 0.5}, 0.5 * 1),
    ],
)
def test_the_servers_optimizer_gets_the_change(method, settings, moved):
    model = One()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    settings["server"] = AsyncServer(concurrency=2, clock=CLOCK, optimizer=optimizer)
    list(method(model, Fleet(TWO, walk_by_x), Channel(), **settings, **HAND))
    assert model.w.item() == 0.5 * moved


def net_and_people():
    with seeded(0):
        model = nn.Sequential(nn.BatchNorm1d(6), nn.Linear(6, 3), nn.LogSoftmax(dim=1)).double()
    g = torch.Generator().manual_seed(1)
    x, y = torch.randn(30, 6, generator=g).double(), torch.randint(3, (30,), generator=g)
    return model, {f"c{k}": (x[k::3], y[k::3]) for k in range(3)}


def test_the_first_buffer_of_everybody_is_a_round_of_fedavg():
    model, clients = net_and_people()
    other, _ = net_and_people()
    how = {"rounds": 1, "local": Local(batch_size=None, lr=0.1, steps=2)}
    list(fedavg(model, clients, Channel(), cohort=3, **how))
    server = AsyncServer(concurrency=3)
    list(fedbuff(other, clients, Channel(), server=server, buffer_size=3, **how))
    torch.testing.assert_close(other.state_dict(), model.state_dict(), rtol=0, atol=1e-14)


def test_a_failing_client_is_named_counted_and_left_out():
    clients = TWO | {"bad": number(math.nan)}
    clock = Scripted({"a": [1.0], "b": [3.0], "bad": [1.5, 100.0]})
    extra = {"clock": clock, "staleness": Constant()}
    with pytest.warns(UserWarning, match="client 'bad' is left out"):
        ws, records, _ = trace(fedasync, clients, 3, extra, num_updates=4, alpha=0.5)
    assert ws == [0.5, 1.0, 5.5, 3.75]
    assert column(records, "num_failed") == [0, 1, 0, 0]


@pytest.mark.filterwarnings("ignore:client")
def test_no_endless_loop():
    with pytest.raises(RuntimeError, match="20 times in a row a client dropped out or failed"):
        trace(fedasync, num_updates=1, extra={"clock": Even(math.inf)})
    with pytest.raises(RuntimeError, match="20 times in a row"):
        trace(fedbuff, {c: number(math.nan) for c in "ab"}, rounds=1, buffer_size=1)


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"concurrency": 3}, "concurrency=3: must be 1 to 2 clients"),
        ({"rounds": 0}, "rounds=0 leaves nothing"),
        ({"buffer_size": 0}, "buffer_size=0"),
    ],
)
def test_mistakes_are_named(settings, complaint):
    with pytest.raises(ValueError, match=complaint):
        trace(fedbuff, **({"rounds": 1, "buffer_size": 1} | settings))
    with pytest.raises(ValueError, match="both called 'server'"):
        trace(fedbuff, {"server": number(1.0)}, rounds=1, buffer_size=1)
    with pytest.raises(ValueError, match="alpha=0: the share of the new model"):
        trace(fedasync, num_updates=1, alpha=0)
