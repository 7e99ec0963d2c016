"""The experiment on federated averaging: small runs on digits, and what its page may say."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from experiments.fedavg_results.run import run
from experiments.fedavg_results.settings import DOWN, UP, WINNER, Once, Setting, Task
from fltoolkit import Channel, Party, evaluate, fedavg, load
from fltoolkit.codecs import Pipeline, Quantize
from fltoolkit.data import partition_iid
from fltoolkit.federated import Local
from fltoolkit.models import splitnn_mlp
from fltoolkit_research.codecs import ContextEntropy

DIGITS = Task("digits", clients=20, rounds=3)
PLAIN = Setting("part", "float32")


@pytest.mark.later
def test_float32_is_plain_fedavg():
    result = run(DIGITS, PLAIN, 1)
    data = load("digits").flat()
    rows = partition_iid(data.y_train, 20, seed=1)
    clients = {f"client_{k}": (data.x_train[r], data.y_train[r]) for k, r in enumerate(rows)}
    model, channel = splitnn_mlp(64, seed=1), Channel()
    how = {"cohort": 2, "local": Local(batch_size=10, lr=0.1, epochs=1), "seed": 1}
    (*_, last) = fedavg(model, clients, channel, rounds=3, **how)
    score = evaluate([Party("server", model, loss_fn=nn.NLLLoss())], data.x_test, data.y_test)
    assert result["curve"][-1] == (
        last["nbytes_up"],
        last["nbytes_down"],
        round(float(score["accuracy"]), 4),
    )
    assert result["nbytes"] == channel.nbytes()


@pytest.mark.slow
def test_same_seed_same_result_and_the_winner_sends_little():
    setting = replace(PLAIN, codecs={"update": UP[WINNER[0]], "model": DOWN[WINNER[1]]})
    first, second, other = (run(DIGITS, setting, seed) for seed in (0, 0, 1))
    for result in (first, second):
        result.pop("seconds")
    assert first == second
    assert first["curve"] != other["curve"]
    assert first["nbytes"] < run(DIGITS, PLAIN, 0)["nbytes"] / 15


def test_once_sends_and_decodes_the_same():
    codec = Pipeline(Quantize(4), ContextEntropy())
    plain, once = Channel({"model": codec}), Channel({"model": Once(codec)})
    tree = {"w": torch.arange(20.0)}
    for client in "abab":
        sent = [channel.send("server", client, "model", tree)["w"] for channel in (plain, once)]
        assert torch.equal(*sent)
        sent[1].zero_()  # what one client does with it is its own affair
        tree["w"] = tree["w"] + (client == "b")
    assert plain.transfers == once.transfers
    assert repr(Once(codec)) == repr(codec)


def test_only_codecs_without_memory_are_shared():
    tree = {"w": torch.randn(40, 30, generator=torch.Generator().manual_seed(0))}
    shared = [c.codec for c in (*UP.values(), *DOWN.values()) if isinstance(c, Once)]
    assert len(shared) == 1
    for codec in shared:
        assert codec.encode(tree) == codec.encode(tree)
