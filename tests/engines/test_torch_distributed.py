import json
import re
import subprocess
import sys
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

from fltoolkit_engines._peers import WORD, PeerError, Peers

pytestmark = pytest.mark.slow
RUNS = ["vanilla", "multi_hop", "u_shaped", "vertical", "relay", "splitfed_1", "splitfed_2"]
OF_TWO = ["vanilla", "u_shaped", "vertical", "asynchronous"]
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
    told = [part["records"] for part in parts.values() if "loss" in part["records"][0]]
    assert len(told) == 1  # the label party's process
    assert [r["loss"] for r in told[0]] == [r["loss"] for r in whole["records"]]
    for part in parts.values():  # the state, too, is known at both ends
        for kept in ("step", "state"):
            assert [r.get(kept) for r in part["records"]] == [r.get(kept) for r in whole["records"]]


@pytest.mark.parametrize("values", [b"\xff", b"[1, 2]", b"7", b"[" * 100_000])
def test_values_that_cannot_be_read_name_their_sender(monkeypatch, values):
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 2)
    peers = Peers.__new__(Peers)
    peers.rank, peers.ranks, peers._step = 0, {"alice": 0, "bob": 1}, lambda: 3
    monkeypatch.setattr(peers, "_post", lambda *what: [])
    monkeypatch.setattr(peers, "get", lambda rank, what: (WORD, 3, 0, values))
    with pytest.raises(PeerError, match=r"a greeting: 'bob' [(]process 1[)] sent"):
        peers.exchange({}, "a greeting")


@pytest.mark.parametrize(
    ("fault", "at_alice", "at_bob"),
    [
        ("version", "step 0: 'bob' .process 1. has fltoolkit", "has fltoolkit '9.9'"),
        ("settings", "has settings {}, 'alice'.*{'lr': 0.2}", "has settings {'lr': 0.2}"),
        ("shape", "stopped at step 1: party 'bob'.*mat1 and mat2", "^party 'bob'.*mat1 and mat2"),
        ("payload", "stopped at step 2: .*checksum", "step 2, alice -> bob, activations: .*checks"),
        ("envelope", "stopped at step 2: .*damaged", "step 2, waiting for activations.*damaged"),
        (
            "function",
            "step 2, .*'bob' .*(is gone|sent another message)",
            "sent another message than alice -> bob, activations",
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


def test_the_example_under_torchrun_ends_as_in_one_process(tmp_path):
    run = ["examples/torchrun_split.py", "--epochs", "1", "--out", str(tmp_path)]
    torchrun = ["-m", "torch.distributed.run", *HERE, "--nproc-per-node", "2"]
    for how in (torchrun, []):
        subprocess.run([sys.executable, *how, *run], check=True, timeout=600)
    models = {p.parent.name: torch.load(p) for p in tmp_path.rglob("model.pt")}
    together, apart = models["alice-bob"], models["alice"] + models["bob"]
    for one, other in zip(together, apart, strict=True):
        assert one["module"].keys() == other["module"].keys()
        assert all(torch.equal(one["module"][k], other["module"][k]) for k in one["module"])
    reports = [json.loads(p.read_text()) for p in tmp_path.rglob("report.json")]
    whole = max(report["nbytes_sent"] for report in reports)
    assert sum(report["nbytes_sent"] for report in reports) == 2 * whole
