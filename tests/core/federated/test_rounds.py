"""Federated averaging: what it equals, who counts when, whose residual it is, what it costs."""

import copy
import json
import math
import warnings
from functools import partial

import pytest
import torch
from core.federated.small import One, column, network, number, walk_by_x, weights, workers
from torch import nn
from torch.nn.functional import nll_loss

from fltoolkit.channel import Channel
from fltoolkit.codecs import ErrorFeedback, Identity, Pipeline, Quantize, TopK
from fltoolkit.federated import (
    Arrivals,
    Even,
    Fleet,
    Local,
    Polynomial,
    Scripted,
    Server,
    fedavg,
    local_update,
    mean_of_all,
    mean_of_senders,
)
from fltoolkit.federated.many_at_once import local_updates
from fltoolkit.federated.server import check_optimizer
from fltoolkit.federated.workers import client_seed
from fltoolkit.models import seeded
from fltoolkit.party import SGD, Party, TrainingWarning
from fltoolkit.wire import pack
from fltoolkit_research.codecs import Difference, Rotate
from fltoolkit_research.leakage import Listener

SIZES = [9, 30, 2, 17, 4, 12]


def people(sizes=SIZES, dtype=torch.float32):
    ((x, y),) = workers(1, sum(sizes)).values()
    parts = zip(x.to(dtype).split(sizes), y.split(sizes), strict=True)
    return {f"client{k}": part for k, part in enumerate(parts)}


def run(model, clients, channel=None, **settings):
    """Everybody, one local step on all samples, unless told otherwise."""
    how = {"rounds": 4, "cohort": len(clients), "local": Local(None, lr=0.1, steps=1)}
    channel = Channel() if channel is None else channel
    return list(fedavg(model, clients, channel, **(how | settings)))


# ---- What it equals -----------------------------------------------------------------------------
@pytest.mark.later
def test_full_precision_is_the_algorithm_without_a_channel():
    """Algorithm 1 in ten lines, bit by bit; and codecs that lose nothing change nothing."""
    clients, local = people(), Local(4, lr=0.1, epochs=2)
    model, plain, channel = network(), network(), Channel()
    run(model, clients, channel, local=local)
    for round_ in range(4):
        total = {name: torch.zeros_like(t).double() for name, t in plain.state_dict().items()}
        start = {name: t.clone() for name, t in plain.state_dict().items()}
        for t in channel.transfers:
            if t.kind == "update" and t.step == round_ + 1:
                (x, y), seed = clients[t.sender], client_seed(0, round_, t.sender)
                delta = local_update(plain, start, x, y, local, seed=seed).delta
                for entry in total:
                    total[entry] += delta[entry].double() * (len(y) / sum(SIZES))
        plain.load_state_dict({name: start[name] + t.float() for name, t in total.items()})
    assert torch.equal(weights(model), weights(plain))
    exact = {"model": Identity(), "update": ErrorFeedback(Identity())}
    run(again := network(), clients, Channel(exact), local=local)
    assert torch.equal(weights(again), weights(plain))


# ---- Stragglers, by hand ------------------------------------------------------------------------
TENS = {"a": number(1), "b": number(10), "c": number(100)}
SLOW = Scripted({"a": [1.0], "b": [2.0], "c": [5.0]})  # c is asked in rounds 0 and 3


def trace(clients=TENS, rounds=4, **settings):
    model, channel, ws, records = One(), Channel(), [], []
    how = {"rounds": 4, "cohort": len(clients), "local": Local(None, lr=1, steps=1)}
    how |= {"rounds": rounds, "server": Server(arrivals=Arrivals(**settings))}
    for record in fedavg(model, Fleet(clients, walk_by_x), channel, **how):
        ws.append(round(model.w.item(), 4))
        records.append(record)
    return ws, records, channel


@pytest.mark.parametrize(
    ("staleness", "expected"),
    [
        (None, [5.5, 11, 16.5, 22]),  # dropped: (1 + 10) / 2 in each round
        (Polynomial(0.0), [5.5, 11, 48, 53.5]),  # round 2: (1 + 10 + 100) / 3 = 37
        (Polynomial(1), [5.5, 11, 30, 35.5]),  # two rounds late: (1 + 10 + 100/3) / (2 + 1/3) = 19
    ],
)
def test_the_first_two_of_three(staleness, expected):
    """c, asked in round 0, comes at 5 s, in round 2 (from 4 to 6 s); asked again in round 3."""
    settings = {} if staleness is None else {"staleness": staleness}
    ws, records, channel = trace(clock=SLOW, wait_for=2, **settings)
    assert ws == expected
    assert column(records, "seconds") == [2, 4, 6, 8]
    assert column(records, "num_arrived") == [2, 2, 2, 2]
    assert column(records, "num_late") == [1, 0, 0, 1]
    assert column(records, "num_stale") == [0, 0, 0 if staleness is None else 1, 0]
    asked = [
        {t.receiver for t in channel.transfers if (t.step, t.kind) == (k, "model")}
        for k in (1, 2, 3, 4)
    ]
    assert ["".join(sorted(cohort)) for cohort in asked] == ["abc", "ab", "ab", "abc"]
    # a late update has crossed: its bytes are in the round that asked for it
    uploads = [t for t in channel.transfers if t.kind == "update"]
    assert [sum(t.step == step for t in uploads) for step in (1, 2, 3, 4)] == [3, 2, 2, 3]
    assert records[-1]["nbytes_up"] == sum(t.nbytes for t in uploads)
    assert records[-1]["nbytes"] == channel.nbytes()


INF, ALL = math.inf, {"staleness": Polynomial(0.0)}


@pytest.mark.parametrize(
    ("times", "settings", "ws", "seconds", "in_time", "late"),
    [
        # b is lost in round 0. With wait_for=2 that is no matter; c comes at 5 s and counts
        ([[1], [INF, 2], [5]], {"wait_for": 2, "timeout": INF}, [50.5, 56], [5, 7], [2, 2], [0, 1]),
        # a timeout: b comes at 7 s, in round 2, (1 + 10) / 2; c never
        ([[1], [7], [INF]], ALL, [1, 2, 7.5, 8.5], [3, 6, 9, 12], [1] * 4, [1, 0, 0, 1]),
        ([[INF, 1]] * 3, {}, [0, 37], [3, 4], [0, 3], [0, 0]),  # nobody comes: nothing moves
        ([[10]], ALL, [0, 0, 0, 1], [3, 6, 9, 12], [0] * 4, [1, 0, 0, 0]),  # everybody is busy
    ],
)
def test_who_comes_in_time(times, settings, ws, seconds, in_time, late):
    how = {"clock": Scripted(dict(zip("abc", times, strict=False))), "timeout": 3.0} | settings
    clients = dict(list(TENS.items())[: len(times)])
    got, records, channel = trace(clients, rounds=len(ws), **how)
    assert got == ws
    assert column(records, "seconds") == seconds
    assert column(records, "num_arrived") == in_time
    assert column(records, "num_late") == late
    assert [("loss" in record) for record in records] == [n > 0 for n in in_time]
    assert json.loads(json.dumps(records, allow_nan=False)) == records
    lost = [(n, k) for n, t in zip("abc", times, strict=False) for k, v in enumerate(t) if v == INF]
    assert not {(t.sender, t.step - 1) for t in channel.transfers if t.kind == "update"} & {*lost}


def test_of_those_who_arrive_together_only_so_many_count():
    ws, _, channel = trace(clock=Even(), wait_for=2, rounds=1)
    first = [t.sender for t in channel.transfers if t.kind == "update"][:2]
    assert ws == [sum(TENS[name][0].item() for name in first) / 2]


def test_a_round_that_would_never_end_is_an_error():
    clock = Scripted({"a": [1.0], "b": [math.inf], "c": [math.inf]})
    with pytest.raises(
        RuntimeError, match="wait_for=2, updates that come: 1, clients that dropped out: 2"
    ):
        trace(clock=clock, wait_for=2)


# ---- Failures -----------------------------------------------------------------------------------
def poisoned(dtype=torch.float32):
    clients = people(dtype=dtype)
    x, y = clients["client2"]
    return clients | {"client2": (torch.full_like(x, math.nan), y)}


@pytest.mark.later
@pytest.mark.parametrize("most", [1 << 28, 0])
def test_a_client_with_nan_is_named_and_left_out(most, monkeypatch):
    """Where the updates are kept, and where each is added as it comes."""
    monkeypatch.setattr("fltoolkit.federated.rounds.MOST", most)
    model, others = network().double(), network().double()
    codecs = {"update": ErrorFeedback(Pipeline(TopK(0.1)))}
    channel, clients = Channel(codecs), poisoned(torch.float64)
    with pytest.warns(
        UserWarning, match=r"client 'client2' is left out of round \d: the local loss"
    ):
        records = run(model, clients, channel, rounds=3)
    assert column(records, "num_failed") == [1, 1, 1]
    assert column(records, "num_arrived") == [5, 5, 5]
    del clients["client2"]
    run(others, clients, Channel(codecs), rounds=3)
    # in another order of sums
    torch.testing.assert_close(weights(model), weights(others), rtol=0, atol=1e-9)
    told = [t.nbytes for t in channel.transfers if t.sender == "client2"]
    assert len(told) == 3
    assert max(told) < 40
    assert records[-1]["nbytes"] == channel.nbytes()


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_bad_update_touches_no_residual_and_a_client_may_come_back(bad):
    calls = []

    def sometimes(module, starts, data, local, *, seeds):
        updates = local_updates(module, starts, data, local, seeds=seeds)
        calls.append(None)
        if len(calls) != 2:
            return updates
        which = [len(y) for _, y in data].index(9)
        updates[which].delta["0.bias"] += bad
        return updates

    channel, model, residuals = (
        Channel({"update": ErrorFeedback(Pipeline(TopK(0.1)))}),
        network(),
        [],
    )
    how = {"rounds": 3, "cohort": 6, "local": Local(None, lr=0.1, steps=1)}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for record in fedavg(model, Fleet(people(), sometimes), channel, **how):
            links = channel.state_dict()["links"]
            residuals += [
                e["residual"] for s, _, k, e, _ in links if (s, k) == ("client0", "update")
            ]
            assert record["num_failed"] == (record["round"] == 1)
    assert [str(w.message)[:40] for w in caught] == ["client 'client0' is left out of round 1:"]
    assert all(torch.equal(residuals[0][n], residuals[1][n]) for n in residuals[0])
    assert not torch.equal(residuals[1]["0.bias"], residuals[2]["0.bias"])
    assert weights(model).isfinite().all()


@pytest.mark.filterwarnings("ignore:client")
def test_if_everybody_fails_the_run_ends():
    with pytest.raises(FloatingPointError, match=r"round 0: training failed at .*'client0'"):
        run(network(), {name: (x * math.nan, y) for name, (x, y) in people().items()})


@pytest.mark.filterwarnings("ignore:client")
def test_who_has_failed_is_not_waited_for():
    (record,) = run(network(), poisoned(), rounds=1, server=Server(arrivals=Arrivals(wait_for=6)))
    assert (record["num_arrived"], record["num_failed"]) == (5, 1)


def test_a_masked_mean_without_masks_is_refused():
    """A rotation mixes the values, so nobody can say which coordinates were sent."""
    channel, server = (
        Channel({"update": Pipeline(Rotate(), TopK(0.5))}),
        Server(mean=mean_of_senders),
    )
    with pytest.raises(ValueError, match=r"mean_of_senders: .* leaves out values and does not say"):
        run(network(), people(), channel, rounds=1, server=server)


def test_a_masked_mean_of_dense_updates_says_that_it_is_none():
    server = Server(mean=mean_of_senders)
    dense = Pipeline(Quantize(8))
    with pytest.warns(TrainingWarning, match="sends all values, so this is mean_of_all"):
        run(one := network(), people(), Channel({"update": dense}), rounds=1, server=server)
    run(other := network(), people(), Channel({"update": dense}), rounds=1)
    assert torch.equal(weights(one), weights(other))


class Tampered(Channel):
    """The server receives another tree from client1 than the honest one."""

    def __init__(self, change):
        super().__init__()
        self.change = change

    def cross(self, link, tree):
        delivery = super().cross(link, tree)
        if (link.sender, link.kind) != ("client1", "update"):
            return delivery
        return delivery._replace(tree=self.change(delivery.tree))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda tree: {n: t * math.nan for n, t in tree.items()}, "it sent NaN or infinite values"),
        (lambda tree: {n: t / 0 for n, t in tree.items()}, "it sent NaN or infinite values"),
        (lambda tree: dict([*tree.items()][1:]), "it sent other entries than the model has"),
        (lambda tree: {**tree, "more": torch.ones(1)}, r"other entries .*'more'"),
        (
            lambda tree: {n: t.flatten()[:1] for n, t in tree.items()},
            r"the shape \[1\] in place of",
        ),
    ],
)
@pytest.mark.parametrize("mean", [mean_of_all, mean_of_senders])
def test_an_update_that_cannot_enter_a_mean_is_left_out_and_its_sender_named(change, words, mean):
    with pytest.warns(UserWarning, match=f"client 'client1' is left out of round 0: .*{words}"):
        (record,) = run(
            model := network(), people(), Tampered(change), rounds=1, server=Server(mean=mean)
        )
    assert (record["num_arrived"], record["num_failed"]) == (5, 1)
    assert all(p.isfinite().all() for p in model.parameters())


def late(**arrivals):
    return {"server": Server(arrivals=Arrivals(**arrivals))}


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        (lambda: {"rounds": 0}, "rounds=0 leaves nothing"),
        (lambda: {"cohort": 7}, "cohort=7: must be 1 to 6 clients"),
        (lambda: late(wait_for=7), "wait_for=7: must be 1 to 6 updates"),
        (lambda: {"server": Server(name="client1")}, "both called 'client1'"),
        (lambda: late(clock=lambda client, round_: math.nan), "gives nan for 'client.' in round 0"),
        (lambda: late(clock=lambda client, round_: -1.0), r"gives -1\.0 for"),
        (
            lambda: late(
                clock=lambda client, round_: 1.5 + (client == "client1"),
                wait_for=5,
                staleness=lambda rounds: math.nan,
            ),
            "gives the weight nan to an update . rounds late",
        ),
    ],
)
def test_mistakes_are_named(settings, complaint):
    with pytest.raises(ValueError, match=complaint):
        run(network(), people(), **settings())


# ---- The server's model -------------------------------------------------------------------------
def test_an_optimizer_of_another_model_or_of_half_of_it_is_refused():
    model = network()
    half = torch.optim.SGD([*model.parameters()][:2], lr=1.0)
    other = torch.optim.SGD(network().parameters(), lr=1.0)
    for optimizer, complaint in (
        (half, r"does not move \['.*\.weight', '.*\.bias'\]"),
        (other, "moves 4 parameters that are not its module's"),
    ):
        with pytest.raises(ValueError, match=complaint):
            run(model, people(), server=Server(optimizer=optimizer))
    with pytest.raises(TypeError, match=r"give a made one, torch\.optim"):
        check_optimizer("server", model, "SGD")
    check_optimizer("server", model, SGD(model.parameters(), 1.0))


def test_a_server_that_leaps_to_infinity_says_so():
    model = network()
    fast = Local(None, lr=100.0, steps=1)
    leaping = torch.optim.SGD(model.parameters(), lr=1e38, momentum=0.9)
    before = weights(model)
    with pytest.raises(FloatingPointError, match="the server's model would hold NaN or infinite"):
        run(model, people(), local=fast, server=Server(optimizer=leaping), rounds=1)
    assert torch.equal(weights(model), before)


# ---- Going on later -----------------------------------------------------------------------------
@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_a_tied_matrix_moves_and_travels_once_and_a_frozen_one_never(decay):
    """Also with an optimizer at the server, under weight decay."""
    with seeded(0):
        layers = nn.Linear(5, 5), nn.Tanh(), nn.Linear(5, 5), nn.Linear(5, 3), nn.LogSoftmax(1)
    model = nn.Sequential(*layers)
    model[2].weight = model[0].weight
    model[3].requires_grad_(False)
    alone, clients, channel = copy.deepcopy(model), people([9]), Channel()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0, weight_decay=decay) if decay else None
    run(model, clients, channel, rounds=1, server=Server(optimizer=optimizer))
    names = ("0.bias", "2.weight", "2.bias")
    message = len(pack({name: model.state_dict()[name] for name in names}))
    assert {t.nbytes for t in channel.transfers} == {message}
    assert torch.equal(model[3].weight, alone[3].weight)
    assert model[0].weight is model[2].weight
    x, y = clients["client0"]
    nll_loss(alone(x), y).backward()
    expected = (1 - decay) * alone[0].weight - 0.1 * alone[0].weight.grad
    torch.testing.assert_close(model[0].weight, expected)


@pytest.mark.later
@pytest.mark.parametrize("some_late", [True, False])
def test_clients_in_turn_are_all_at_once(some_late, monkeypatch):
    """A large cohort is asked in parts; with codecs that remember, late updates and drop-outs.

    Without late ones their updates are added as they arrive, and none is kept. All have data of
    other sizes, which are their weights.
    """
    unlike = {k: (x[: 5 + n], y[: 5 + n]) for n, (k, (x, y)) in enumerate(workers().items())}
    codecs = {
        "update": ErrorFeedback(Pipeline(TopK(0.2))),
        "model": Difference(Pipeline(TopK(0.5))),
    }
    clock = Scripted({"w0": [1], "w1": [2, math.inf], "w2": [3], "w3": [math.inf, 1]})
    arrivals, found = Arrivals(), []
    if some_late:
        arrivals = Arrivals(wait_for=2, timeout=9.0, clock=clock, staleness=Polynomial())
    for at_a_time, nbytes in ((1000, 1 << 28), (3, 1 << 28), (1000, 2000), (1000, 0)):
        monkeypatch.setattr("fltoolkit.federated.rounds.AT_A_TIME", at_a_time)
        monkeypatch.setattr("fltoolkit.federated.rounds.MOST", nbytes)
        model, channel = network(), Channel(codecs)
        local = Local(3, lr=0.1, epochs=1)
        how = {"cohort": 4, "local": local, "server": Server(arrivals=arrivals)}
        records = list(fedavg(model, unlike, channel, rounds=4, **how))
        weights = {name: tensor.tolist() for name, tensor in model.state_dict().items()}
        found.append((records, weights, sorted(channel.transfers)))
    assert all(each == found[0] for each in found)


@pytest.mark.later
@pytest.mark.parametrize("around", ["the model", "a layer", "both"])
def test_a_compiled_model_has_plain_names(around):
    inside, compiled = nn.Linear(5, 3), partial(torch.compile, backend="eager")  # for its names
    plain = nn.Sequential(nn.Sequential(inside, nn.BatchNorm1d(3)), nn.LogSoftmax(dim=1))
    model = plain
    if around != "the model":
        model = nn.Sequential(nn.Sequential(compiled(inside), plain[0][1]), plain[1])
    model = model if around == "a layer" else compiled(model)
    before, channel = inside.weight.clone(), Listener(kinds=["model", "update"])
    run(model, people([8]), channel, rounds=1)
    assert {name for message in channel.heard for name in message.tree} == plain.state_dict().keys()
    assert not torch.equal(inside.weight, before)
    ann, ben = Party("ann", model), Party("ben", copy.deepcopy(plain))
    for tensor in ben.weights().values():
        tensor.zero_()
    ann.load_weights(ben.weights())
    assert not inside.weight.any()
    assert ann.weights().keys() == ben.weights().keys()
    ben.load_weights({name: tensor + 1 for name, tensor in model.state_dict().items()})
    assert all((tensor == 1).all() for tensor in ben.weights().values())
