"""Split learning over torch.distributed: as in one process, and what goes wrong."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from signal import SIGKILL, SIGSTOP

import pytest
import torch
from distributed_scenarios import (
    HERE,
    THREE,
    TWO,
    alone,
    faulty,
    parts_of_one_run,
    saving,
    start,
    together,
)

from fltoolkit_engines.torch_distributed import DistributedChannel

pytestmark = pytest.mark.slow
RUNS = ["vanilla", "multi_hop", "u_shaped", "vertical", "relay", "splitfed_1", "splitfed_2"]
OF_TWO = ["vanilla", "u_shaped", "vertical", "asynchronous", "transformer"]
DEALT = [*((THREE, name) for name in RUNS), *((TWO, name) for name in OF_TWO)]


@pytest.fixture(scope="module")
def three() -> list:
    return start(together, 3, RUNS, THREE)


@pytest.fixture(scope="module")
def two() -> list:
    return start(together, 2, OF_TWO, TWO)


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize(("ranks", "name"), DEALT)
def test_several_processes_are_one(three, two, ranks, name, compressed):
    heard = three if ranks is THREE else two
    whole = alone(name, compressed)
    parts = parts_of_one_run(heard, name, compressed, ranks, whole)
    weights = sorted(w for part in parts.values() for w in part["weights"])
    assert weights == sorted(whole["weights"])
    losses = [
        [r["loss"] for r in part["records"]]
        for part in parts.values()
        if "loss" in part["records"][0]
    ]
    assert losses == [[r["loss"] for r in whole["records"]]]  # at one process, the label party's
    for part in parts.values():
        assert [r["step"] for r in part["records"]] == [r["step"] for r in whole["records"]]


def test_the_client_is_told_the_state(two):
    records = {rank: part["records"] for rank, name, _, part in two if name == "asynchronous"}
    states = [record["state"] for record in records[0]]
    assert states == [record["state"] for record in records[1]]
    assert set(states) == {"A", "B", "C"}


# -------------------------------------------------------------------------------------- faults


@pytest.mark.parametrize(
    ("fault", "at_alice", "at_bob"),
    [
        ("version", "step 0: 'bob' .process 1. has fltoolkit", "has fltoolkit '9.9'"),
        ("settings", "has settings {}, 'alice'.*{'lr': 0.2}", "has settings {'lr': 0.2}"),
        ("shape", "stopped at step 1: .*mat1 and mat2", "step 1, at 'bob': .*mat1 and mat2 shapes"),
        ("nan", "'alice' stopped|holds NaN", "NaN"),
        ("payload", "stopped at step 2: .*checksum", "step 2, alice -> bob, activations: .*checks"),
        ("envelope", "stopped at step 2: .*damaged", "step 2, waiting for activations.*damaged"),
        (
            "function",
            "step 2, .*'bob' .*(is gone|this process received)",
            "this process received alice -> bob, labels",
        ),
        ("stopped", "^$", "step 4, waiting for activations from 'alice': 'alice'.*is gone"),
        ("interrupt", "^$", "step 4, .*: 'alice' stopped at step 3: KeyboardInterrupt"),
    ],
)
def test_faults_are_told_to_both(fault, at_alice, at_bob):
    """Party and step in each error, and nobody waits for a timeout to hear it."""
    heard = {rank: f"{text}" for rank, _, text in start(faulty, 2, fault)}
    assert re.search(at_alice, heard[0], re.DOTALL), heard[0]
    assert re.search(at_bob, heard[1], re.DOTALL), heard[1]


def test_a_process_that_does_not_come():
    [(_, kind, text)] = start(faulty, 2, "", only=0)
    assert kind == "PeerError"
    assert "did not connect within 5 s" in text


@pytest.mark.parametrize(("dies", "sig"), [(0, SIGKILL), (1, SIGKILL), (1, SIGSTOP)])
def test_a_run_goes_on_after_a_death(tmp_path, dies, sig):
    """The survivor says who is gone and when; the resumed run ends with the same weights."""
    heard = start(saving, 2, str(tmp_path), dies, sig)
    [text] = [text[2] for text in heard if len(text) == 3]
    assert re.search(f"step [34], .*'{['alice', 'bob'][dies]}'", text), text
    assert ("did not answer within 3 s" if sig == SIGSTOP else "is gone") in text
    again = start(saving, 2, str(tmp_path))
    assert {(rank, step) for rank, step in again if isinstance(step, int)} == {(0, 2), (1, 2)}
    weights = sorted(w for _, part in again if isinstance(part, dict) for w in part["weights"])
    assert weights == sorted(alone("vanilla", True)["weights"])


def test_under_torchrun_the_survivor_says_who_is_gone(tmp_path):
    """torchrun sends SIGTERM to a survivor at once: it is to be heard before it ends."""
    command = [sys.executable, "-m", "torch.distributed.run", *HERE, "--nproc-per-node", "2"]
    command += ["examples/torchrun_split.py", "--epochs", "100000"]
    with (tmp_path / "said").open("w+") as said:
        run = subprocess.Popen([*command, "--out", str(tmp_path)], stdout=said, stderr=said)
        records = [tmp_path / name / "records.jsonl" for name in ("alice", "bob")]
        until = time.monotonic() + 600
        while not all(p.exists() and p.stat().st_size for p in records):
            assert run.poll() is None
            assert time.monotonic() < until
            time.sleep(0.05)
        os.kill(workers_of(run.pid)[0], SIGKILL)
        assert run.wait(600) != 0
        said.seek(0)
        text = said.read()
    assert re.search(r"PeerError: step \d+, waiting for .*: 'alice' \(process 0\) is gone", text)


def workers_of(torchrun):
    """The processes that torchrun started, by rank."""
    found = {}
    for environment in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            told = dict(e.split("=", 1) for e in environment.read_text().split("\0") if "=" in e)
            stat = environment.with_name("stat").read_text()
            if int(stat.rpartition(")")[2].split()[1]) == torchrun and "RANK" in told:
                found[int(told["RANK"])] = int(environment.parent.name)
    return found


# ------------------------------------------------------------------------------------- remotes


@pytest.fixture
def two_machines():
    """Two network namespaces with a cable between them, at 10.77.0.1 and 10.77.0.2."""
    if sys.platform != "linux" or os.geteuid() or not shutil.which("ip"):
        pytest.skip("network namespaces need Linux, root and iproute2")
    names = [f"flt{os.getpid()}{end}" for end in "ab"]
    commands = [f"ip netns add {name}" for name in names]
    commands += [f"ip -n {names[0]} link add v0 type veth peer name v1 netns {names[1]}"]
    for number, name in enumerate(names):
        commands += [f"ip -n {name} addr add 10.77.0.{number + 1}/24 dev v{number}"]
        commands += [f"ip -n {name} link set {device} up" for device in (f"v{number}", "lo")]
    try:
        for command in commands:
            done = subprocess.run(command.split(), check=False, capture_output=True, text=True)
            if done.returncode:
                pytest.skip(f"no network namespaces here: {command}: {done.stderr}")
        yield names
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], check=False)


def test_two_machines_are_one(two_machines, tmp_path):
    """The commands of docs/engines.md, with a namespace for each machine."""
    script = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2"]
    script += ["--nproc-per-node", "1", "--master-addr", "10.77.0.1", "--master-port", "29500"]
    run = ["examples/torchrun_split.py", "--epochs", "1", "--out", str(tmp_path / "out")]
    ends = [
        subprocess.Popen(
            ["ip", "netns", "exec", name, *script, "--node-rank", str(rank), *run],
            env=os.environ | {"GLOO_SOCKET_IFNAME": f"v{rank}"},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank, name in enumerate(two_machines)
    ]
    said = [end.communicate(timeout=600)[1] for end in ends]
    assert [end.returncode for end in ends] == [0, 0], said
    subprocess.run([sys.executable, *run], check=True, timeout=600)
    models = {p.parent.name: torch.load(p) for p in (tmp_path / "out").rglob("model.pt")}
    together, apart = models["alice-bob"], models["alice"] + models["bob"]
    for one, other in zip(together, apart, strict=True):
        assert one["module"].keys() == other["module"].keys()
        assert all(torch.equal(one["module"][k], other["module"][k]) for k in one["module"])
    reports = [json.loads(p.read_text()) for p in (tmp_path / "out").rglob("report.json")]
    whole = max(report["nbytes_sent"] for report in reports)
    assert sum(report["nbytes_sent"] for report in reports) == 2 * whole


def test_without_torchrun_the_error_says_so(monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ValueError, match="torchrun --nproc-per-node 2"):
        DistributedChannel({"alice": 0, "bob": 1})
