"""Clipping and noise: what they do to a mean, and what an accountant makes of them."""

import math
import sys

import pytest
import torch
from torch import nn

from fltoolkit.channel import Channel
from fltoolkit.codecs import ErrorFeedback, Pipeline, TopK
from fltoolkit.federated import Arrivals, Fleet, Local, LocalUpdate, Polynomial, Server, fedavg
from fltoolkit.party import TrainingWarning
from fltoolkit_research.federated import GaussianDP
from fltoolkit_research.federated.privacy import clipped
from fltoolkit_research.secrecy import Promise, promise


def test_clipping_is_over_all_entries_together():
    tree = {"a": torch.tensor([3.0]), "b": torch.tensor([[4.0]]), "n": torch.tensor(100)}
    short = clipped(tree, 1.0)
    assert (short["a"].item(), short["b"].item(), short["n"].item()) == pytest.approx(
        (0.6, 0.8, 100)
    )
    assert all(torch.equal(clipped(tree, 5.0)[name], t) for name, t in tree.items())


def test_no_client_moves_the_mean_by_more_than_its_share():
    """Without noise: with and without one client's update, however large, the sum differs by 1."""
    g = torch.Generator().manual_seed(0)
    deltas = [{"w": 10 ** (k - 2.0) * torch.randn(50, generator=g)} for k in range(6)]
    dp = GaussianDP(clip=1.0, noise_multiplier=0.0)
    whole = 6 * dp.mean(deltas, 0)["w"]
    for k in range(6):
        rest = 5 * dp.mean(deltas[:k] + deltas[k + 1 :], 0)["w"]
        assert (whole - rest).norm() <= 1 + 1e-5


def test_noise_is_as_large_as_stated_and_new_in_each_round():
    dp, deltas = (
        GaussianDP(clip=2.0, noise_multiplier=1.5, seed=4),
        [{"w": torch.zeros(100_000)}] * 5,
    )
    first, again, second = (dp.mean(deltas, round_)["w"] for round_ in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, second)
    assert first.std().item() == pytest.approx(1.5 * 2 / 5, rel=0.01)


def far(module, starts, data, local, *, seeds):
    return [LocalUpdate({"w": 100 * x[0]}, 0.0, len(y), 1) for x, y in data]


PEOPLE = Fleet({f"c{k}": (torch.arange(10.0)[None] - k, torch.zeros(1)) for k in range(4)}, far)
HOW = {"rounds": 5, "cohort": 4, "local": Local(None, steps=1, lr=1)}


def test_fedavg_with_clipping_moves_by_no_more_than_clip():
    """Whatever a residual has saved up."""
    model, last = nn.ParameterDict({"w": torch.zeros(10)}), torch.zeros(10)
    channel = Channel({"update": ErrorFeedback(Pipeline(TopK(0.2)))})
    for _ in fedavg(model, PEOPLE, channel, server=Server(mean=GaussianDP(0.5, 0.0)), **HOW):
        step = model.w.detach() - last
        assert 0.01 < step.norm() <= 0.5 + 1e-6
        last = model.w.detach().clone()


def test_late_updates_with_another_weight_are_refused():
    server = Server(mean=GaussianDP(1, 1), arrivals=Arrivals(staleness=Polynomial(0.0)))
    with pytest.raises(ValueError, match="each update must count once, with the same weight"):
        fedavg(
            nn.ParameterDict({"w": torch.zeros(10)}), PEOPLE, Channel(), **HOW | {"server": server}
        )


def test_mistakes_are_named(monkeypatch):
    with pytest.raises(ValueError, match="clip=0"):
        GaussianDP(0, 1.0)
    with pytest.raises(ValueError, match="noise_multiplier=-1"):
        GaussianDP(1.0, -1)
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    with pytest.raises(ImportError, match="pip install 'dp-accounting"):
        GaussianDP(1.0, 1.0).epsilon(rounds=1, fraction=0.1, delta=1e-5)
    assert GaussianDP(1.0, 0.0).epsilon(rounds=1, fraction=0.1, delta=1e-5) == math.inf


@pytest.mark.later
def test_accountant():
    """One full round against the closed form of Renyi accounting, and what must be monotonic."""
    pytest.importorskip("dp_accounting")

    def eps(z, rounds, fraction):
        return GaussianDP(1.0, z).epsilon(rounds=rounds, fraction=fraction, delta=1e-5)

    assert eps(1.0, 100, 0.01) < eps(1.0, 1000, 0.01) < eps(1.0, 1000, 0.1)
    assert eps(2.0, 1000, 0.1) < eps(1.0, 1000, 0.1)
    # Renyi of order a: a / (2 z^2), and epsilon <= min_a a / (2 z^2) + log(1/delta) / (a - 1)
    bound = min(a / 50 + math.log(1e5) / (a - 1) for a in range(2, 200))
    assert 0.7 * bound < eps(5.0, 1, 1.0) <= bound


def test_the_bound_is_the_one_that_can_be_computed_by_hand():
    nothing = Promise(0.0, 0.0)
    assert nothing.hits(0.3) == pytest.approx(0.3)
    assert Promise(math.inf, 0.0).hits(0.0) == 1.0
    assert Promise(math.log(2), 0.0).hits(0.1) == pytest.approx(0.2)
    assert Promise(math.log(2), 0.0).hits(0.9) == pytest.approx(0.95)


@pytest.mark.later
def test_a_run_without_enough_noise_says_so():
    with pytest.warns(TrainingWarning, match="promises next to nothing. Use more noise"):
        assert promise(GaussianDP(1.0, 0.1), num_clients=10, cohort=10, rounds=5).epsilon > 10
    with pytest.warns(TrainingWarning, match="epsilon inf"):
        promise(GaussianDP(1.0, 0.0), num_clients=10, cohort=5, rounds=5)


@pytest.mark.parametrize(
    ("changed", "text"),
    [({"cohort": 11}, "cohort=11"), ({"rounds": 0}, "rounds=0"), ({"delta": 0.0}, r"delta=0\.0")],
)
def test_settings_out_of_range(changed, text):
    settings = {"num_clients": 10, "cohort": 5, "rounds": 5, "delta": 0.01, **changed}
    with pytest.raises(ValueError, match=text):
        promise(GaussianDP(1.0, 2.0), **settings)
