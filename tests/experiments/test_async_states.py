"""The experiment on asynchronous states: small runs on digits, and what its page may say."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from experiments.async_states import __main__ as command
from experiments.async_states.report import report
from experiments.async_states.run import dataset, run
from experiments.async_states.settings import (
    BATCH_SIZE,
    CUTS,
    FLOAT8,
    LR,
    Setting,
    Task,
)
from experiments.runs import read
from fltoolkit import SGD, Batches, Channel, Party, evaluate, splitnn_mlp, train_split
from fltoolkit.data import Samples
from fltoolkit.split import AlwaysA, BudgetGate, Periodic, State

DIGITS = Task("digits", epochs=2, clients=3)
STEPS = DIGITS.num_steps
VANILLA = Setting("part", "family", "vanilla", AlwaysA())


@pytest.mark.later
def test_vanilla_is_split_training():
    data = dataset(DIGITS)
    model = splitnn_mlp(data.x_train.shape[1], data.num_classes, seed=1)
    alice = Party("alice", model[:4], SGD(model[:4].parameters(), lr=LR["mlp"]))
    bob = Party("bob", model[4:], SGD(model[4:].parameters(), lr=LR["mlp"]), torch.nn.NLLLoss())
    channel = Channel()
    batches = Batches(data.x_train, data.y_train, BATCH_SIZE, seed=1)
    for _ in train_split([alice, bob], batches.epochs(2), channel):
        pass
    result = run(DIGITS, VANILLA, 1)
    score = evaluate([alice, bob], data.x_test, data.y_test)
    assert result["accuracy"] == score["accuracy"]
    assert result["test_loss"] == score["test_loss"]
    for kind in ("activations", "gradients"):
        assert result["nbytes_of"][kind] == channel.nbytes(kind=kind)


@pytest.mark.later
@pytest.mark.parametrize("clients", [1, 3])
def test_bytes_and_steps_add_up(clients):
    setting = Setting("part", "family", "p", Periodic(2), FLOAT8, clients=clients)
    result = run(DIGITS, setting, 0)
    assert sum(result["nbytes_of"].values()) == result["nbytes"] == result["curve"][-1][0]
    assert ("model" in result["nbytes_of"]) == (clients > 1)
    assert result["steps"]["A"] == result["steps"]["B"] > 0
    assert len(result["curve"]) == DIGITS.epochs


@pytest.mark.later
def test_same_seed_same_result():
    budget = Setting("part", "family", "b", BudgetGate(400_000, STEPS), FLOAT8)
    first, second, other = (run(DIGITS, budget, seed) for seed in (0, 0, 1))
    for result in (first, second):
        result.pop("seconds")
    assert first == second
    assert first["curve"] != other["curve"]
    assert abs(first["nbytes"] - 400_000) < 45_000  # half a period in A is a step: 82 kB


@pytest.mark.slow
def test_a_run_that_diverges_counts_as_what_it_is():
    data = dataset(DIGITS)
    broken = replace(data, x_train=data.x_train.clone())
    broken.x_train[700] = float("inf")
    setting = Setting("few bits", "family", "v", AlwaysA(), FLOAT8, seeds=(0,))
    plain = run(DIGITS, replace(setting, codecs={}), 0, broken)  # no codec that complains
    good, bad = run(DIGITS, setting, 0), run(DIGITS, setting, 0, broken)
    assert plain["diverged"] == bad["diverged"]
    assert good["steps"]["A"] == STEPS
    assert bad["steps"]["A"] == bad["diverged"] - 1 < STEPS
    assert bad["accuracy"] < good["accuracy"]
    printed = report([(setting, {0: good, 1: json.loads(json.dumps(bad, allow_nan=False))})])
    assert "| v | 2, 1 diverged | " in printed
    setting.gate.state = State.C  # another mistake is not taken for this one
    with pytest.raises(ValueError, match="begins in state C"):
        run(DIGITS, setting, 0)


@pytest.mark.slow
def test_cifar10_by_one_argument(tmp_path, monkeypatch, capsys):
    """From files of the right shape to a table: two steps of VGG-11."""
    rng = np.random.default_rng(0)
    for number, name in enumerate([f"data_batch_{k}" for k in range(1, 6)] + ["test_batch"]):
        records = rng.integers(0, 256, (13 if number < 5 else 7, 3073), dtype=np.uint8)
        records[:, 0] %= 10  # the label
        (tmp_path / f"{name}.bin").write_bytes(records.tobytes())
    monkeypatch.setenv("FLTOOLKIT_DATA", str(tmp_path))
    out = tmp_path / "results.jsonl"
    words = f"x --data cifar10 --epochs 1 --seeds 3 --out {out} --figure {tmp_path / 'f.png'}"
    words += " --device cpu --only"
    for more in ("8-bit floats: vanilla, 8", "few bits: fewer"):
        monkeypatch.setattr("sys.argv", [*words.split(), more])
        command.main()
    results = list(read(out).values())
    assert [r["model"] for r in results] == ["vgg11", "vgg11"]
    assert [sum(r["steps"].values()) for r in results] == [2, 2]
    sent = results[0]["nbytes"]
    assert 0 <= sent - 2 * 65 * CUTS["vgg11"] < 300  # up and down; a byte per value
    monkeypatch.setattr("sys.argv", [*words.split(), "8-bit", "--report"])
    command.main()
    printed = capsys.readouterr().out
    assert "vanilla, 8 bits" in printed
    assert "1 runs: cifar10, vgg11, 1 epochs" in printed


def test_a_tenth_is_every_tenth_image(monkeypatch):
    x, y = torch.arange(30.0).reshape(30, 1, 1, 1), torch.arange(30) % 10
    whole = Samples(x, y, x[:20], y[:20], num_classes=10)
    monkeypatch.setattr("experiments.async_states.run.load_cifar10", lambda: whole)
    dataset.cache_clear()
    tenth = dataset(Task("cifar10_tenth", "vgg11"))
    assert tenth.x_train.flatten().tolist() == [0, 10, 20]
    assert len(tenth.y_test) == 2
    assert Task("cifar10_tenth", "vgg11").num_steps == 15 * 79
