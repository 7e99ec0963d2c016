"""Noise from each client under a secure sum: right on average, as private as its formula says."""

import math

import numpy as np
import pytest
import torch

from experiments.replications.noisy_sum import NoisySum, discrete_gaussian
from fltoolkit import Channel
from fltoolkit_research.leakage import Listener

NAMES = [f"client {k}" for k in range(20)]


def updates(length=0.5, num_values=300):
    g = torch.Generator().manual_seed(0)
    trees = {n: {"w": torch.randn(num_values, generator=g)} for n in NAMES}
    return {n: {"w": t["w"] * length / t["w"].norm()} for n, t in trees.items()}


def test_the_discrete_gaussian_has_the_probabilities_of_its_formula():
    numbers = discrete_gaussian(1.5, 200_000, np.random.default_rng(0))
    weights = {k: math.exp(-(k**2) / (2 * 1.5**2)) for k in range(-30, 31)}
    for k in range(-3, 4):
        share = weights[k] / sum(weights.values())
        assert (numbers == k).mean() == pytest.approx(share, abs=0.005)


@pytest.mark.slow
def test_the_mean_is_right_and_the_noise_has_its_size():
    given = updates()
    true = torch.stack([t["w"] for t in given.values()]).mean(0)
    errors = []
    for seed in range(30):
        dp = NoisySum(1.0, noise_multiplier=2.0, bits=18, secret=False, seed=seed)
        errors.append(dp.collect(Channel(), "server", given, [])["w"] - true)
    errors = torch.stack(errors)
    noise = 2.0 / len(NAMES)
    assert errors.std().item() == pytest.approx(noise, rel=0.05)
    assert errors.mean(0).norm().item() < 1.3 * noise * math.sqrt(300 / 30)


def test_secret_and_clear_add_the_same_numbers_and_the_server_sees_noise():
    given = updates()
    clear = NoisySum(1.0, 2.0, bits=14, secret=False).collect(Channel(), "server", given, [])
    listener = Listener(kinds=["masked"])
    secret = NoisySum(1.0, 2.0, bits=14, neighbours=6).collect(listener, "server", given, [])
    assert torch.equal(clear["w"], secret["w"])
    assert len(listener.heard) == len(NAMES)
    per_client = listener.nbytes(sender="client 0", kind="masked")
    assert -(-300 * 14 // 8) < per_client < 300 * 14 / 8 + 20


@pytest.mark.slow
@pytest.mark.parametrize(("length", "quantile"), [(0.01, 0.5), (100.0, 0.5), (1.0, 0.8)])
def test_the_clip_goes_where_the_quantile_is(length, quantile):
    """Lengths evenly spaced around one; a geometric step of at most eta_C in each round."""
    given = updates()
    for k, tree in enumerate(given.values()):
        tree["w"] *= 2 * length * (0.5 + k / 19)
    dp = NoisySum(1.0, 0.3, bits=20, quantile=quantile, clip_rate=0.5, secret=False)
    clips = []
    for _ in range(60):
        dp.collect(Channel(), "server", given, [])
        clips.append(dp.clip)
    lengths = np.array([t["w"].norm().item() for t in given.values()])
    passed = np.mean([(lengths <= c).mean() for c in clips[-15:]])
    assert passed == pytest.approx(quantile, abs=0.15)


def test_with_many_bits_epsilon_is_that_of_the_gaussian_and_with_few_it_is_more():
    """Bun and Steinke 2016: rho = rounds / (2 z^2); rounding makes vectors longer."""
    run = {"num_clients": 100, "num_values": 650, "rounds": 10}
    by_bits = [NoisySum(1.0, 4.0, bits=b).promise(**run).epsilon for b in (24, 16, 12)]
    rho, delta = 10 / (2 * 4.0**2), 100**-1.1
    loose = rho + 2 * math.sqrt(rho * math.log(1 / delta))  # what the library improves on
    assert 0.6 * loose < by_bits[0] < loose
    assert by_bits[0] <= by_bits[1] < by_bits[2]
    more = NoisySum(1.0, 8.0, bits=16).promise(**run).epsilon
    assert more < by_bits[1]
    adapting = NoisySum(1.0, 4.0, bits=16, quantile=0.5).promise(**run).epsilon
    assert adapting == pytest.approx(by_bits[1], rel=0.01)
