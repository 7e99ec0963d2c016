"""Small runs of experiments on digits and topics: what they equal, and what their tables need."""

import json
from dataclasses import replace

import pytest
from torch import nn

from experiments.fedavg_results import settings as averaging
from experiments.fedavg_results.run import run as averaged
from experiments.language import inversion, updates
from experiments.leakage.run import run as leaked
from experiments.leakage.settings import BINARY, UP, Setting, Task
from experiments.secrecy.run import run as summed
from experiments.secrecy.settings import TASKS, settings
from fltoolkit import Channel, Party, evaluate, fedavg, load
from fltoolkit.codecs import Pipeline, Quantize, TopK
from fltoolkit.data import partition_iid
from fltoolkit.federated import Local
from fltoolkit.models import splitnn_mlp
from fltoolkit_research.leakage import Noise


@pytest.mark.later
def test_float32_is_plain_fedavg():
    result = averaged(
        averaging.Task("digits", clients=20, rounds=3), averaging.Setting("part", "float32"), 1
    )
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


SMALL = Task("digits", 200, 150, 60, 2, 50, 0.06, 3, (0, 1))


@pytest.mark.later
def test_a_run_has_all_that_the_tables_need():
    result = leaked(SMALL, Setting(UP, "top-k", Pipeline(TopK(0.1))), 0)
    assert 0 < result["positions"] < 1
    assert 0 < result["explained_variance"] < 1
    assert 0 < result["dcor"] < 1
    assert len(result["norm_auc"]) == len(result["direction_auc"]) == SMALL.epochs
    assert result["nbytes_up"] < result["nbytes_down"] / 5
    assert result["nbytes_down"] == pytest.approx(640 * 4 + 12 / 50)
    json.dumps(result, allow_nan=False)


@pytest.mark.later
def test_same_seed_same_result_and_nopeek_is_in_it():
    setting = Setting(UP, "4 bits", Pipeline(Quantize(4)), nopeek=1.0)
    first, again, other = (
        leaked(SMALL, s, 1) for s in (setting, setting, replace(setting, nopeek=0))
    )
    for result in (first, again, other):
        result.pop("seconds")
    assert first == again
    assert first["dcor"] != other["dcor"]
    assert "shown" not in first


@pytest.mark.later
def test_the_binary_task_finds_the_rare_label():
    result = leaked(replace(SMALL, epochs=8), Setting(BINARY, "float32", binary=True), 1)
    assert max(result["norm_auc"]) > 0.9
    assert 0.5 < result["task_auc"] <= 1
    assert result["positions"] is None


SECRET = replace(TASKS["digits"], rounds=2)


@pytest.fixture(scope="module")
def both():
    of = {s.name: s for s in settings(SECRET) if s.num_clients == 10}
    return [summed(SECRET, of[name], 0) for name in ("2 bits, clear", "2 bits, secret")]


@pytest.mark.later
def test_the_secret_run_has_the_weights_of_the_clear_one_and_costs_more(both):
    clear, secret = both
    assert clear["weights"] == secret["weights"]
    assert clear["accuracy"] == secret["accuracy"] > 0.3
    assert secret["nbytes"] > clear["nbytes"]
    assert {*clear["up"]} == {"model", "update"}
    assert {*secret["up"]} == {"model", "keys", "shares", "masked", "unmasking"}
    for result in both:
        json.dumps(result, allow_nan=False)


def test_a_masked_value_has_the_bits_of_the_sum(both):
    """Nine or ten of ten clients send 2,410 values of 5 bits; the frame has 15 bytes."""
    _, secret = both
    per_message = -(-2_410 * 5 // 8)
    assert 0.9 * per_message < secret["up"]["masked"] <= per_message + 15


@pytest.mark.later
def test_an_open_link_tells_and_loud_noise_does_not():
    plain, loud = (
        inversion.run(inversion.Task("topics", 2, 20, 5), inversion.Setting("s", codec, cut=1), 0)
        for codec in (None, Pipeline(Noise(100.0)))
    )
    assert plain["nearest"] > 0.99
    assert loud["nearest"] < plain["null"]
    assert loud["probe"] == pytest.approx(plain["null"], abs=0.12)
    assert 4 * 64 < plain["nbytes"] < 4 * 64 + 1
    assert inversion.summary(plain).startswith("probe ")


@pytest.mark.later
def test_one_window_is_read_from_an_update_in_float32_and_not_in_two_bits():
    plain, coded = (updates.attacked("SGD", 1, 1, 32, c, 0) for c in ({}, updates.TWO_BITS))
    assert plain["found"] == 100 > 30 > coded["found"]
    assert plain["auc"] == coded["auc"] == 1
