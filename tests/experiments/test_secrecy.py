"""The experiment on secrecy: small runs on digits, and what its page may say."""

import json
from dataclasses import replace

import pytest

from experiments.secrecy.run import run
from experiments.secrecy.settings import TASKS, settings

SMALL = replace(TASKS["digits"], rounds=2)


def setting(name, num_clients=10):
    return next(s for s in settings(SMALL) if (s.name, s.num_clients) == (name, num_clients))


@pytest.fixture(scope="module")
def both():
    return [run(SMALL, setting(name), 0) for name in ("2 bits, clear", "2 bits, secret")]


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
