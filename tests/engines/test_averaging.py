import subprocess
import sys

import pytest
import torch
from averaging_scenarios import CODED, RUNS, codecs, failing, run, together
from distributed_scenarios import HERE, parts_of_one_run, start
from torch import nn

from experiments.replications.adaptive import ByteBudget
from experiments.replications.asynchronous import AsyncServer, fedbuff
from fltoolkit.channel import Channel
from fltoolkit.federated import Local, Server, fedavg


@pytest.fixture(scope="module")
def told() -> list:
    return [part for num in (2, 3, 5) for part in start(together, num, num)]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "compressed"), CODED)
def test_several_processes_are_one(told, name, compressed):
    """Also with secure sums, where each client has a process of its own."""
    whole, ranks = run(name, Channel(codecs(name) if compressed else None)), RUNS[name][0]
    for rank, part in parts_of_one_run(told, name, compressed, ranks, whole).items():
        if "fedavg" not in name or rank == ranks["server"]:  # clients of fedavg keep no model
            assert part["weights"] == whole["weights"]
        assert part["steps"] == whole["steps"]


@pytest.mark.slow
def test_a_failed_training_ends_the_run_in_all_processes():
    errors = {rank: (kind, text) for rank, kind, text in start(failing, 2)}
    assert errors[1][0] == "FloatingPointError"
    assert errors[0][0] == "PeerError"
    assert all("client 'w0', round 0: the local loss is nan" in text for _, text in errors.values())


def test_what_needs_all_clients_here_says_so():
    class Elsewhere(Channel):
        def is_here(self, name):
            return name != "b"

    clients = {name: (torch.ones(2, 1), torch.zeros(2, 1)) for name in "ab"}
    how = {"local": Local(2, lr=0.1, steps=1, loss_fn=nn.functional.mse_loss)}
    model, tune = nn.Linear(1, 1), ByteBudget(print, nbytes=1, rounds=1)
    server = AsyncServer(concurrency=1)
    with pytest.raises(ValueError, match="fedavg, whose server waits"):
        fedbuff(model, clients, Elsewhere(), rounds=1, buffer_size=1, server=server, **how)
    with pytest.raises(ValueError, match="tune needs the bytes of all clients"):
        fedavg(model, clients, Elsewhere(), rounds=1, cohort=1, server=Server(tune=tune), **how)


@pytest.mark.slow
@pytest.mark.nightly
def test_the_example_prints_the_same_however_clients_are_dealt():
    script = ["examples/torchrun_fedavg.py", "--rounds", "2", "--compressed"]
    script += ["--clients", "5"]  # three and two for the processes
    torchrun = ["-m", "torch.distributed.run", *HERE, "--nproc-per-node", "2"]
    one, several = (
        subprocess.run(
            [sys.executable, *how, *script], check=True, capture_output=True, text=True, timeout=600
        ).stdout
        for how in ([], torchrun)
    )
    assert one == several
    assert one.startswith("accuracy 0.")
