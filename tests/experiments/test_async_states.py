import json
from dataclasses import replace

import pytest
import torch

from experiments.async_states.report import report
from experiments.async_states.run import dataset, run
from experiments.async_states.settings import BATCH_SIZE, FLOAT8, LR, Setting, Task
from fltoolkit import SGD, Batches, Channel, Party, evaluate, splitnn_mlp, train_split
from fltoolkit.split import AlwaysA, State

DIGITS = Task("digits", epochs=2, clients=3)
STEPS = DIGITS.num_steps


@pytest.mark.later
def test_vanilla_is_split_training():
    data = dataset(DIGITS)
    model = splitnn_mlp(data.x_train.shape[1], data.num_classes, seed=1)
    alice = Party("alice", model[:4], SGD(model[:4].parameters(), lr=LR))
    bob = Party("bob", model[4:], SGD(model[4:].parameters(), lr=LR), torch.nn.NLLLoss())
    channel = Channel()
    batches = Batches(data.x_train, data.y_train, BATCH_SIZE, seed=1)
    for _ in train_split([alice, bob], batches.epochs(2), channel):
        pass
    result = run(DIGITS, Setting("part", "family", "vanilla", AlwaysA()), 1)
    score = evaluate([alice, bob], data.x_test, data.y_test)
    assert result["accuracy"] == score["accuracy"]
    assert result["test_loss"] == score["test_loss"]
    for kind in ("activations", "gradients"):
        assert result["nbytes_of"][kind] == channel.nbytes(kind=kind)


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
    with pytest.raises(ValueError, match="begins in C with"):
        run(DIGITS, setting, 0)
