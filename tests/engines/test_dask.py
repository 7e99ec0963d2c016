"""A round's clients on the workers of a Dask cluster: the weights and messages of one process."""

import math
import os
import signal
import threading
import time
import warnings
from functools import partial
from multiprocessing import forkserver
from pathlib import Path

import pytest
import torch
from core.federated.small import network, workers
from torch import nn

from benchmarks.links_in_files import LinksInFiles
from experiments.replications.adaptive import ByteBudget
from fltoolkit.channel import Channel
from fltoolkit.checkpoint import load_run, save_run
from fltoolkit.codecs import Entropy, ErrorFeedback, Pipeline, Quantize, TopK
from fltoolkit.federated import (
    Arrivals,
    Fleet,
    Local,
    LogNormal,
    Polynomial,
    Scripted,
    Server,
    fedavg,
    local_updates,
    mean_of_senders,
)
from fltoolkit.party import Party
from fltoolkit_engines.dask import DaskChannel, _dealt
from fltoolkit_research.codecs import QSGD, Difference
from fltoolkit_research.secrecy import Grid, SecureSum

PATIENCE = 120.0  # far longer than anything takes, even on a busy machine
ADAM = partial(torch.optim.AdamW, lr=0.02)
PLAIN, KEPT = Local(3, lr=0.1, epochs=1), Local(3, optimizer=ADAM, steps=2, keep_state=True)
SPARSE = ErrorFeedback(Pipeline(TopK(0.3), Quantize(8, stochastic=True), Entropy()))
ONE_BY_ONE = partial(local_updates, chunk=1)
NAMES = [f"w{k}" for k in range(4)]


def samples(client):
    return workers()[client]


def cluster(count=2):
    from distributed import LocalCluster

    # Dask divides the memory by the cores, and would pause a worker that has little of it
    how = {"threads_per_worker": 1, "memory_limit": 0, "dashboard_address": None}
    return LocalCluster(n_workers=count, **how)


@pytest.fixture(scope="module", autouse=True)
def forked():
    """Workers are forked from a process that has torch: else each takes seconds to start."""
    from dask import config

    forkserver.set_forkserver_preload(["distributed", "torch._dynamo", "fltoolkit_engines.dask"])
    forkserver.ensure_running()
    with config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        yield


@pytest.fixture(scope="module")
def dask():
    from distributed import Client

    with cluster() as machines, Client(machines) as client:
        yield client


def trained(channel, clients, *, rounds=3, **how):
    """The records, the final weights and the ledger of a run."""
    model, fleet = network(), clients if isinstance(clients, Fleet) else Fleet(clients, ONE_BY_ONE)
    how = {"cohort": len(fleet), "local": PLAIN} | how
    records = list(fedavg(model, fleet, channel, rounds=rounds, **how))
    weights = {name: tensor.tolist() for name, tensor in model.state_dict().items()}
    return records, weights, channel.transfers


def on(channel, **how):
    return trained(channel, channel.fleet(NAMES), **how)


LATE = Arrivals(wait_for=2, clock=LogNormal(1.0), staleness=Polynomial())
SOME_DROP_OUT = Scripted({"w0": [1], "w1": [2, math.inf], "w2": [3], "w3": [math.inf, 1]})
DROP_OUTS = Arrivals(timeout=9.0, clock=SOME_DROP_OUT)
RUNS = {
    "plain": ({}, {}),
    "sparse with a residual, models in 8 bits": (
        {"update": SPARSE, "model": Pipeline(Quantize(8))},
        {"cohort": 3, "server": Server(mean=mean_of_senders), "rounds": 4},
    ),
    "differences, kept optimizers": (
        {"model": Difference(Pipeline(TopK(0.5))), "update": Pipeline(QSGD(4))},
        {"local": KEPT, "cohort": 3, "rounds": 4},
    ),
    "late": ({"update": SPARSE}, {"server": Server(arrivals=LATE), "rounds": 5}),
    "drop-outs": (
        {"model": Difference(Pipeline(Quantize(8)))},
        {"server": Server(arrivals=DROP_OUTS), "rounds": 5},
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_a_cluster_is_one_process(dask, name):
    codecs, how = RUNS[name]
    assert on(DaskChannel(dask, samples, codecs), **how) == trained(
        Channel(codecs), workers(), **how
    )


def test_clients_are_dealt_evenly_and_keep_their_workers():
    machines = [f"tcp://127.0.0.1:{port}" for port in range(33_000, 33_016)]
    names = [str(k) for k in range(640)]
    homes = _dealt(names, machines)
    assert sorted(name for mine in homes.values() for name in mine) == sorted(names)
    assert max(map(len, homes.values())) <= 44, "40 are an equal share"
    before = {name: home for home, mine in homes.items() for name in mine}
    after = {name: home for home, mine in _dealt(names, machines[1:]).items() for name in mine}
    moved = [n for n in names if after[n] != before[n] != machines[0]]
    assert len(moved) < 64, "one machine left, and the clients of the others stay"


@pytest.mark.slow
def test_a_run_that_goes_on_is_the_whole_run(dask, tmp_path):
    """Saved after two rounds and loaded into another channel: residuals and optimizers come."""
    how = {"cohort": 3, "local": KEPT}
    whole = trained(Channel({"update": SPARSE}), workers(), rounds=4, **how)
    for rounds in (range(2), range(2, 4)):
        channel = DaskChannel(dask, samples)
        channel.links = LinksInFiles({"update": SPARSE}, max_links=2, folder=tmp_path)
        model, fleet = network(), channel.fleet(NAMES)
        parties = [Party("server", model), fleet]
        if rounds.start:
            assert load_run(tmp_path / "saved", parties, channel) == 2
        list(fedavg(model, fleet, channel, rounds=rounds, **how))
        save_run(tmp_path / "saved", parties, channel)
    assert {name: tensor.tolist() for name, tensor in model.state_dict().items()} == whole[1]
    assert channel.transfers == whole[2]


@pytest.mark.slow
def test_codecs_may_be_tuned(dask):
    tune = ByteBudget(lambda fraction: Pipeline(TopK(fraction)), nbytes=20_000, rounds=3)
    codecs = {"update": Pipeline(TopK(0.1))}
    here = trained(Channel(codecs), workers(), server=Server(tune=tune))
    assert on(DaskChannel(dask, samples, codecs), server=Server(tune=tune)) == here


def with_nan(client):
    x, y = workers()[client]
    return (x * torch.nan if client == "w2" else x), y


def misshaped(client):
    x, y = workers()[client]
    return (x[:, :4] if client == "w2" else x), y


@pytest.mark.slow
def test_a_client_that_fails_is_left_out_as_in_one_process(dask):
    clients = {name: with_nan(name) for name in NAMES}
    channel = DaskChannel(dask, with_nan, {"update": SPARSE})
    with pytest.warns(UserWarning, match="client 'w2' is left out of round 0"):
        there = on(channel)
    with pytest.warns(UserWarning, match="client 'w2' is left out of round 0"):
        here = trained(Channel({"update": SPARSE}), clients)
    assert there == here
    assert [record["num_failed"] for record in there[0]] == [1, 1, 1]


@pytest.mark.slow
def test_mistakes_name_the_client(dask):
    with pytest.raises(RuntimeError, match="client 'w2': mat1 and mat2 shapes"):
        on(DaskChannel(dask, misshaped))
    with pytest.raises(ValueError, match="over Dask an update comes as the bytes"):
        on(DaskChannel(dask, samples), server=Server(mean=SecureSum(Pipeline(Grid(16, top=4.0)))))
    with pytest.raises(ValueError, match="patience=0: give seconds, above 0"):
        DaskChannel(dask, samples, patience=0)


def deadly(client):
    x, y = workers()[client]
    return x, (y.int() if client == "w2" else y)


class Deadly(nn.Module):
    """A loss that ends the process at labels of 32 bits, as a lack of memory would."""

    def forward(self, output, y):
        if y.dtype == torch.int32:
            os._exit(1)
        return nn.functional.nll_loss(output, y)


def in_turn(names, machines):
    """A dealing that does not depend on the workers' addresses, which are new each time."""
    dealt = {machine: names[k :: len(machines)] for k, machine in enumerate(machines)}
    return {machine: mine for machine, mine in dealt.items() if mine}


@pytest.mark.slow
def test_a_client_that_kills_its_workers_is_left_out_and_the_others_count(monkeypatch, recwarn):
    from dask import config
    from distributed import Client

    monkeypatch.setattr("fltoolkit_engines.dask.GROUPS", 1)  # all clients of a worker are a group
    monkeypatch.setattr("fltoolkit_engines.dask._dealt", in_turn)  # so that no group is w2 alone
    bad = {name: with_nan(name) for name in NAMES}
    with pytest.warns(UserWarning, match="client 'w2' is left out of round 0"):
        here = trained(Channel({"update": SPARSE}), bad, rounds=1)
    monkeypatch.setitem(config.config["distributed"]["scheduler"], "allowed-failures", 0)
    with cluster() as machines, Client(machines) as client:
        channel = DaskChannel(client, deadly, {"update": SPARSE})
        there = on(channel, local=local_with(Deadly()), rounds=1)
    words = " ".join(str(warning.message) for warning in recwarn)
    assert "each is tried alone" in words
    assert "client 'w2' is left out of round 0: each worker that trained it died" in words
    assert there[1] == here[1]  # the weights, to the last bit
    said = [transfer for transfer in here[2] if transfer.sender == "w2"]  # what the dead cannot say
    assert [transfer.kind for transfer in said] == ["control"]
    (record,), (expected,) = there[0], here[0]
    differ = {what for what in expected if record[what] != expected[what]}
    assert differ == {"nbytes_up", "nbytes"}
    assert expected["nbytes_up"] - record["nbytes_up"] == said[0].nbytes


class Gate(nn.Module):
    """The loss, at which the first worker to come writes its process number and waits to be told.

    Whoever comes later goes on.
    """

    def __init__(self, folder):
        super().__init__()
        self.folder = Path(folder)

    def forward(self, output, y):
        if self.folder.exists() and not (self.folder / "open").exists():
            try:
                with open(self.folder / "first", "x") as file:
                    file.write(str(os.getpid()))
            except FileExistsError:
                pass
            if (self.folder / "first").read_text() == str(os.getpid()):
                wait_for(self.folder / "open")
        return nn.functional.nll_loss(output, y)


def wait_for(path):
    until = time.monotonic() + PATIENCE
    while not (path.exists() and path.read_text()):
        if time.monotonic() > until:
            raise TimeoutError(path)
        time.sleep(0.01)


def local_with(gate):
    return Local(3, lr=0.1, epochs=1, loss_fn=gate)


@pytest.mark.slow
def test_a_worker_killed_in_mid_round_changes_no_bit(tmp_path):
    from distributed import Client

    codecs = {"update": SPARSE, "model": Difference(Pipeline(Quantize(8)))}
    how = {"local": local_with(Gate(tmp_path / "none")), "rounds": 3}
    whole = trained(Channel(codecs), workers(), **how)

    def kill():
        wait_for(tmp_path / "first")
        os.kill(int((tmp_path / "first").read_text()), signal.SIGKILL)
        (tmp_path / "open").write_text("yes")

    with cluster() as machines, Client(machines) as client:
        channel = DaskChannel(client, samples, codecs)
        thread = threading.Thread(target=kill)
        thread.start()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            part = on(channel, local=local_with(Gate(tmp_path)), rounds=3)
        thread.join()
    assert part == whole
    assert any("left; others do what it has not done" in words for words in channel.events)


@pytest.mark.slow
def test_a_worker_that_hangs_is_helped_and_one_that_joins_gets_clients(tmp_path):
    from distributed import Client

    how = {"local": local_with(Gate(tmp_path / "none")), "rounds": 3}
    whole = trained(Channel({"update": SPARSE}), workers(), **how)
    with cluster(1) as machines, Client(machines) as client:
        channel = DaskChannel(client, samples, {"update": SPARSE}, patience=0.5)
        fleet = channel.fleet(NAMES)
        machines.scale(2)
        client.wait_for_workers(2, timeout=PATIENCE)
        gate = local_with(Gate(tmp_path))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            part = trained(channel, fleet, local=gate, rounds=3)
        (tmp_path / "open").write_text("yes")  # until now the first worker has waited
    assert part == whole
    assert "joined" in channel.events[0]
    assert any("did not answer for 0.5 s" in words for words in channel.events)
