import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from fltoolkit.cost import ModelCost, crossover_clients, federated_nbytes, measure, split_nbytes
from fltoolkit.models import splitnn_mlp


@pytest.fixture(scope="module")
def mlp() -> ModelCost:
    return measure(splitnn_mlp(seed=0), (784,), cut=4)


def test_the_seed_model_by_hand(mlp):
    forward = 2 * (784 * 128 + 128 * 640)
    assert mlp == ModelCost(
        num_parameters=189_450,
        num_parameters_client=183_040,
        nbytes_model=4 * 189_450,
        nbytes_bottom=4 * 183_040,
        cut_width=640,
        flops_forward=forward + 2 * 640 * 10,
        flops_forward_client=forward,
    )


def test_what_counts_as_a_flop():
    layers = [
        nn.Conv2d(4, 8, 3, padding=1, groups=2),  # 64 pixels x 8 channels x 2 x 3 x 3
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(512, 3, bias=True),
    ]
    cost = measure(nn.Sequential(*layers), (4, 8, 8), cut=1)
    assert cost.flops_forward_client == 2 * 64 * 8 * 2 * 9
    assert cost.flops_forward == cost.flops_forward_client + 2 * 512 * 3
    assert measure(nn.Sequential(*layers), (4, 8, 8), cut=4).cut_width == 512


def test_the_bytes_of_a_bottom_include_its_buffers():
    model = nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5), nn.Linear(5, 2))
    cost = measure(model, (3,), cut=2)
    assert cost.num_parameters_client == 3 * 5 + 5 + 2 * 5
    assert cost.nbytes_bottom == 4 * cost.num_parameters_client + 4 * 2 * 5 + 8  # an int64 counter
    assert cost.nbytes_model == cost.nbytes_bottom + 4 * (5 * 2 + 2)
    assert measure(model.half(), (3,), cut=2).nbytes_bottom == 2 * (30 + 10) + 8


def test_measuring_changes_nothing():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Dropout(), nn.Flatten()).train()
    model(torch.zeros(2, 3, 8, 8)).sum().backward()
    tensors = list(model.state_dict(keep_vars=True).values())
    before, rng = copy.deepcopy(model.state_dict()), torch.get_rng_state()
    measure(model, (3, 8, 8), cut=2)
    now = model.state_dict(keep_vars=True)
    assert all(a is b for a, b in zip(tensors, now.values(), strict=True))
    assert all(torch.equal(before[name], now[name]) for name in before)
    assert all(module.training for module in model.modules())
    assert all(p.grad is not None for p in model.parameters())
    assert torch.equal(torch.get_rng_state(), rng)


def test_a_model_beyond_this_machines_memory():
    with torch.device("meta"):
        huge = nn.Sequential(*(nn.Linear(100_000, 100_000, bias=False) for _ in range(100)))
    cost = measure(huge, (100_000,), cut=1)
    assert cost.num_parameters == 10**12
    assert cost.flops_forward == 2 * 10**12


def test_measure_says_what_does_not_fit():
    for cut in (0, 6):
        with pytest.raises(ValueError, match=f"cut={cut}: .* 6 items, so a cut is 1 to 5"):
            measure(splitnn_mlp(seed=0), (784,), cut)
    with pytest.raises(
        ValueError, match=r"input_shape=\(28, 28\) does not fit .* such as \(784,\)"
    ):
        measure(splitnn_mlp(seed=0), (28, 28), 4)
    with pytest.raises(TypeError, match=r"model is a Linear: .* Wrap its layers in nn\.Sequential"):
        measure(nn.Linear(2, 2), (2,), 1)


@settings(max_examples=50)
@given(
    num_samples=st.integers(1, 40),
    cut_width=st.integers(1, 50),
    bottom=st.integers(0, 400),
    top=st.integers(1, 400),
    epochs=st.integers(1, 5),
    rounds=st.integers(1, 5),
    label_nbytes=st.sampled_from([0, 8]),
)
def test_crossover_is_what_a_search_finds(
    num_samples, cut_width, bottom, top, epochs, rounds, label_nbytes
):
    cost = ModelCost(bottom + top, bottom, 4 * (bottom + top), 4 * bottom, cut_width, 2, 1)
    how = {"num_samples": num_samples, "epochs": epochs, "label_nbytes": label_nbytes}
    wins = [
        split_nbytes(cost, num_clients=k, **how)
        < federated_nbytes(cost, num_clients=k, rounds=rounds)
        for k in range(2, num_samples + 1)
    ]
    expected = next((k for k in range(2, num_samples + 1) if all(wins[k - 2 :])), None)
    assert crossover_clients(cost, **how, rounds=rounds) == expected


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"num_clients": 60_001}, "num_clients=60001 for num_samples=60000: .* lower num_clients"),
        ({"num_clients": 0}, "num_clients=0: give a whole number"),
        ({"num_samples": -5}, "num_samples=-5: give"),
        ({"epochs": 1.5}, "epochs=1.5: give a whole number"),
        ({"label_nbytes": -1}, "label_nbytes=-1: 8 for an int64 label, 0 if none"),
    ],
)
def test_bad_settings_are_named(mlp, changed, message):
    with pytest.raises(ValueError, match=message):
        split_nbytes(mlp, **{"num_samples": 60_000, "num_clients": 100, "epochs": 1, **changed})
    with pytest.raises(ValueError, match="rounds=0: give"):
        crossover_clients(mlp, num_samples=9, epochs=1, rounds=0)
