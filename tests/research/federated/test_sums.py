"""One sum in place of training: equal to ridge regression on all samples, whoever has them."""

from functools import partial

import pytest
import torch
from torch import nn

from fltoolkit import Channel, Party, evaluate, load
from fltoolkit.codecs import Entropy, Only, Pipeline, Quantize
from fltoolkit.data import partition_iid
from fltoolkit_research import Experiment, run
from fltoolkit_research.federated import one_sum, sums_of
from fltoolkit_research.federated.sums import LEAST_RIDGE
from fltoolkit_research.models import random_filters
from fltoolkit_research.pooled import lossless
from fltoolkit_research.secrecy import Grid, PlainSum, SecureSum, SharedRotation

SUMMED = Pipeline(SharedRotation(), Grid(12, top=4.0))


@pytest.fixture(scope="module")
def digits():
    return load("digits_known_writers")


def solved(digits, parts, channel=None, **how):
    """The server after one sum of 126 features, the whole network, and the record."""
    model = random_filters((1, 8, 8), 14, seed=0)
    owners = {f"owner {k}": (digits.x_train[r], digits.y_train[r]) for k, r in enumerate(parts)}
    server = Party("server", model[5:], loss_fn=nn.NLLLoss())
    (record,) = one_sum(owners, model[:5], server, channel or Channel(), **how)
    return server.module[0], [Party("owner", model[:5]), server], record


def iid(digits, count=10):
    return partition_iid(digits.y_train, count, seed=0)


def test_it_is_the_ridge_regression_of_all_samples(digits):
    layer, parties, record = solved(digits, iid(digits))
    z = parties[0].module(digits.x_train).double()
    centred = z - z.mean(0)
    classes = nn.functional.one_hot(digits.y_train).double()
    variance = centred.square().mean()
    rows = torch.cat([centred, (len(z) * LEAST_RIDGE * variance).sqrt() * torch.eye(126)])
    wanted = torch.linalg.lstsq(
        rows, torch.cat([classes - classes.mean(0), torch.zeros(126, 10)])
    ).solution
    assert torch.allclose(layer.weight.double(), wanted.T, atol=1e-4)
    assert torch.allclose(layer.bias.double(), classes.mean(0) - z.mean(0) @ wanted, atol=1e-4)
    assert record["ridge"] == pytest.approx(LEAST_RIDGE * float(variance), rel=1e-3)
    assert evaluate(parties, digits.x_test, digits.y_test)["accuracy"] > 0.95


@pytest.mark.later
def test_noise_of_few_bits_makes_the_ridge_larger(digits):
    def at(bits):
        codec = Only(Pipeline(Quantize(bits, stochastic=True), Entropy()), min_size=100)
        _, parties, record = solved(digits, iid(digits), Channel({"update": codec}))
        return record, evaluate(parties, digits.x_test, digits.y_test)["accuracy"]

    (eight, right), (four, less) = at(8), at(4)
    assert right > 0.95
    assert less > 0.88
    assert four["ridge"] > 10 * eight["ridge"]
    assert four["nbytes"] < eight["nbytes"] / 2


@pytest.mark.later
def test_under_a_secure_sum_only_the_sum_is_seen(digits):
    channel = Channel()
    secret, parties, record = solved(digits, iid(digits), channel, summing=SecureSum(SUMMED))
    clear, *_ = solved(digits, iid(digits), summing=PlainSum(SUMMED))
    assert torch.equal(secret.weight, clear.weight)
    assert {t.kind for t in channel.transfers} == {"keys", "shares", "masked", "unmasking"}
    assert record["nbytes"] == channel.nbytes()
    assert evaluate(parties, digits.x_test, digits.y_test)["accuracy"] > 0.94


def test_the_layer_is_sent_back_and_counted(digits):
    channel = Channel()
    solved(digits, iid(digits), channel, send_back=True)
    back = [t for t in channel.transfers if t.kind == "model"]
    assert [t.receiver for t in back] == [f"owner {k}" for k in range(10)]
    assert all(t.nbytes_dense == 4 * (126 * 10 + 10) for t in back)


@pytest.mark.parametrize(
    ("x", "y", "words"),
    [
        (torch.ones(2, 3), torch.tensor([0, 7]), "class values must be smaller"),
        (torch.ones(2, 3), torch.tensor([-1, 1]), "class values must be non-negative"),
        (torch.ones(2, 3), torch.tensor([0.0, 1.0]), "class numbers"),
        (torch.ones(2, 3), torch.tensor([0]), "class numbers"),
        (torch.ones(0, 3), torch.zeros(0, dtype=torch.int64), "one sample or more"),
        (torch.tensor([[1.0, float("nan"), 0.0]]), torch.tensor([1]), "nan"),
    ],
)
def test_what_an_owner_cannot_send_names_the_owner(x, y, words):
    owners = {"ann": (torch.ones(2, 3), torch.tensor([0, 1])), "ben": (x, y)}
    channel = Channel()
    with pytest.raises(ValueError, match=rf"(?i)owner 'ben': .*{words}"):
        list(one_sum(owners, nn.Identity(), Party("server", nn.Linear(3, 2)), channel))
    assert not channel.transfers


def test_a_server_without_a_linear_layer_is_refused():
    owners = {"ann": (torch.ones(2, 3), torch.tensor([0, 1]))}
    for module in (nn.Sequential(nn.ReLU(), nn.Linear(3, 2)), nn.Linear(3, 2, bias=False)):
        with pytest.raises(ValueError, match="first layer"):
            one_sum(owners, nn.Identity(), Party("server", module), Channel())


def test_sums_of_parts_add_up():
    x, y = torch.randn(2500, 4), torch.randint(3, (2500,))
    whole, one, two = (
        sums_of(nn.Identity(), x[s], y[s], 3) for s in (slice(None), slice(1100), slice(1100, None))
    )
    for name, sums in whole.items():
        assert torch.allclose(sums, one[name] + two[name], rtol=1e-4, atol=1e-3)
    assert whole["products"][-1].item() == pytest.approx(float(x[:, 3].square().sum()), rel=1e-4)


def test_numbers_in_place_of_classes_are_the_regression_of_them():
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(400, 3, generator=draw)
    y = x @ torch.tensor([1.0, -2.0, 0.5]) + 4
    owners = {n: (x[k::2], torch.stack([1 - y, y], 1)[k::2]) for k, n in enumerate(("ann", "ben"))}
    server = Party("server", nn.Linear(3, 2))
    list(one_sum(owners, nn.Identity(), server, Channel()))
    with torch.no_grad():
        found = server.module(x)[:, 1]
    assert float((found - y).abs().max()) < 0.2  # the ridge pulls it a little to the mean
    with pytest.raises(ValueError, match=r"float \[samples, 3\]"):
        sums_of(nn.Identity(), x, torch.ones(400, 2), 3)


def test_features_are_frozen_repeatable_and_white_for_noise():
    state = torch.get_rng_state()
    model, again = (random_filters((1, 8, 8), 6, seed=3) for _ in range(2))
    assert torch.equal(torch.get_rng_state(), state)
    assert all(
        torch.equal(a, b) for a, b in zip(model.parameters(), again.parameters(), strict=True)
    )
    assert [p.requires_grad for p in model.parameters()] == [False, False, False, True, True]
    noise = torch.randn(4000, 1, 8, 8, generator=torch.Generator().manual_seed(9))
    for _ in range(2):
        noise = nn.functional.avg_pool2d(noise, 3, 1, padding=1)
    z = model[:5](noise / noise.std())
    assert (torch.cov(z.T) - torch.eye(54)).abs().mean() < 0.05


def test_as_an_experiment_it_survives_as_text_and_has_one_round():
    model = partial(random_filters, (1, 8, 8), 6)
    settings = {"summing": SecureSum(SUMMED), "send_back": True}
    one = Experiment("one_sum", model=model, cut=5, rounds=1, num_clients=3, settings=settings)
    assert Experiment.from_json(one.to_json()) == one
    last = run(one)[-1]
    assert last["accuracy"] > 0.8
    assert last["nbytes_down"] > 0
    with pytest.raises(ValueError, match="rounds=2"):
        Experiment("one_sum", model=model, cut=5, rounds=2)


@pytest.mark.later
def test_a_receiver_of_the_data_solves_for_the_same_layer():
    how = {"model": partial(random_filters, (1, 8, 8), 6), "cut": 5, "rounds": 1, "num_clients": 4}
    codecs = {"samples": lossless(), "labels": lossless()}
    sent, summed = (
        run(Experiment("solved", codecs=codecs, **how)),
        run(Experiment("one_sum", **how)),
    )
    assert sent[-1]["accuracy"] == summed[-1]["accuracy"]
    assert sent[-1]["test_loss"] == pytest.approx(summed[-1]["test_loss"], rel=1e-3)
    assert sent[-1]["nbytes_down"] == 0
    pooled = run(Experiment("pooled", codecs=codecs, num_clients=4, rounds=1))
    assert sent[-1]["nbytes"] == pytest.approx(pooled[-1]["nbytes"], rel=0.01)
    with pytest.raises(ValueError, match="rounds=2: solved sends once"):
        Experiment("solved", **{**how, "rounds": 2})
