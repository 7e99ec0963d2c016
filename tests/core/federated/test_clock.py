"""Virtual time: pure functions of seed, client and round; the worth of what comes late."""

import math

import pytest
import torch

from fltoolkit.federated import LogNormal, Scripted

CLIENTS = [f"client{k}" for k in range(400)]


def test_lognormal_is_a_function_of_its_arguments():
    """Whoever is asked first; and each argument matters."""
    clock = LogNormal(1.0, noise=0.3, seed=5)
    forward = [clock(c, r) for c in CLIENTS for r in range(3)]
    again = LogNormal(1.0, noise=0.3, seed=5)
    backward = [again(c, r) for c in reversed(CLIENTS) for r in reversed(range(3))]
    assert forward == backward[::-1]
    assert len(set(forward)) == len(forward)
    assert LogNormal(1.0, noise=0.3, seed=6)("client0", 0) != forward[0]


def test_lognormal_follows_its_law():
    """Log-times of clients spread by sigma, of one client's rounds by noise; median 1 second."""
    clock = LogNormal(0.8, noise=0.2)
    speeds = torch.tensor([LogNormal(0.8, noise=0.0)(c, 0) for c in CLIENTS]).log()
    rounds = torch.tensor([clock("a", r) for r in range(400)]).log()
    assert abs(speeds.std().item() - 0.8) < 0.1
    assert abs(speeds.mean().item()) < 0.15
    assert abs(rounds.std().item() - 0.2) < 0.03


def test_dropouts_come_as_often_as_they_should_and_for_a_round_only():
    clock = LogNormal(0.5, dropout=0.25)
    lost = [[clock(c, r) == math.inf for r in range(4)] for c in CLIENTS]
    assert abs(sum(map(sum, lost)) / 1600 - 0.25) < 0.04
    assert any(any(row) and not all(row) for row in lost)
    kept = LogNormal(0.5)
    assert all(clock(c, 0) in (kept(c, 0), math.inf) for c in CLIENTS)  # the others' times stay


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: LogNormal(-1), "sigma=-1: a spread"),
        (lambda: LogNormal(1, dropout=1.5), "dropout=1.5: a probability"),
        (lambda: Scripted({"a": []})("a", 0), "no times for client 'a'"),
        (lambda: Scripted({"a": [1]})("b", 0), r"no times for client 'b', only for \['a'\]"),
    ],
)
def test_mistakes_are_named(make, complaint):
    with pytest.raises(ValueError, match=complaint):
        make()
