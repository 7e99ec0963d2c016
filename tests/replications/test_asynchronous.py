"""FedBuff: traces by hand on a scripted clock, and what it equals."""

import copy
import math

import pytest
import torch
from core.federated.small import One, column, number, walk_by_x, workers
from torch import nn

from experiments.replications.asynchronous import AsyncServer, fedbuff
from fltoolkit.channel import Channel
from fltoolkit.federated import Even, Fleet, Local, Polynomial, Scripted, fedavg

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


def test_the_servers_optimizer_gets_the_change():
    model = One()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    server = AsyncServer(concurrency=2, clock=CLOCK, optimizer=optimizer)
    how = {"rounds": 1, "buffer_size": 2, "server": server}
    list(fedbuff(model, Fleet(TWO, walk_by_x), Channel(), **how, **HAND))
    assert model.w.item() == 0.5 * (1 + 1) / 2


def test_the_first_buffer_of_everybody_is_a_round_of_fedavg():
    model = nn.Sequential(nn.BatchNorm1d(5), nn.Linear(5, 3), nn.LogSoftmax(dim=1)).double()
    other, clients = copy.deepcopy(model), {n: (x.double(), y) for n, (x, y) in workers(3).items()}
    how = {"rounds": 1, "local": Local(batch_size=None, lr=0.1, steps=2)}
    list(fedavg(model, clients, Channel(), cohort=3, **how))
    server = AsyncServer(concurrency=3)
    list(fedbuff(other, clients, Channel(), server=server, buffer_size=3, **how))
    torch.testing.assert_close(other.state_dict(), model.state_dict(), rtol=0, atol=1e-14)


def test_a_failing_client_is_named_counted_and_left_out():
    clients = TWO | {"bad": number(math.nan)}
    clock = Scripted({"a": [1.0], "b": [3.0], "bad": [1.5, 100.0]})
    extra = {"clock": clock, "staleness": Polynomial(0.0)}
    with pytest.warns(UserWarning, match="client 'bad' is left out"):
        ws, records, _ = trace(fedbuff, clients, 3, extra, rounds=4, buffer_size=1)
    assert ws == [1, 2, 12, 13]
    assert column(records, "num_failed") == [0, 1, 0, 0]


@pytest.mark.filterwarnings("ignore:client")
def test_no_endless_loop():
    with pytest.raises(RuntimeError, match="20 times in a row a client dropped out or failed"):
        trace(fedbuff, rounds=1, buffer_size=1, extra={"clock": Even(math.inf)})
    with pytest.raises(RuntimeError, match="20 times in a row"):
        trace(fedbuff, {c: number(math.nan) for c in "ab"}, rounds=1, buffer_size=1)
