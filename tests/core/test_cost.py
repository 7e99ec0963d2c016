import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from fltoolkit.cost import ModelCost, advise, measure
from fltoolkit.models import splitnn_mlp


@pytest.fixture(scope="module")
def mlp() -> ModelCost:
    return measure(splitnn_mlp(seed=0), (784,), cut=4)


def mnist(model: ModelCost, num_clients: int = 100, **changed):
    run = {"num_samples": 60_000, "num_clients": num_clients, "epochs": 1, "rounds": 1}
    return advise(model, **{**run, **changed})


# measure


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


# bytes


def test_large_batch_bytes_count_the_last_partial_step(mlp):
    for num_samples, steps in ((640, 2), (641, 4)):
        advice = mnist(mlp, 10, num_samples=num_samples, epochs=2, rounds=3)
        assert advice.large_batch_sgd.nbytes == 2 * 757_800 * 10 * steps


# advise


def test_crossover_of_the_seed_model(mlp):
    assert mnist(mlp).crossover_clients == 392
    assert mnist(mlp, 391).split.nbytes >= mnist(mlp, 391).federated.nbytes
    assert mnist(mlp, 392).split.nbytes < mnist(mlp, 392).federated.nbytes
    eta = mlp.num_parameters_client / mlp.num_parameters
    about = 2 * 60_000 * 640 / (mlp.num_parameters * (2 - eta))
    assert mnist(mlp).crossover_clients == pytest.approx(about, abs=1)


def test_no_crossover(mlp):
    never = mnist(mlp, 1, num_samples=391, epochs=1_000)
    assert never.crossover_clients is None
    assert "Split sends fewer bytes than federated for no number of clients." in never.table()


@settings(max_examples=50)
@given(
    num_samples=st.integers(2, 40),
    cut_width=st.integers(1, 50),
    bottom=st.integers(0, 400),
    top=st.integers(1, 400),
    epochs=st.integers(1, 5),
    rounds=st.integers(1, 5),
)
def test_crossover_is_what_a_search_finds(num_samples, cut_width, bottom, top, epochs, rounds):
    cost = ModelCost(bottom + top, bottom, 4 * (bottom + top), 4 * bottom, cut_width, 2, 1)
    run = {"num_samples": num_samples, "epochs": epochs, "rounds": rounds}
    all_advice = [advise(cost, num_clients=k, **run) for k in range(2, num_samples + 1)]
    wins = [advice.split.nbytes < advice.federated.nbytes for advice in all_advice]
    expected = next((k for k in range(2, num_samples + 1) if all(wins[k - 2 :])), None)
    assert {advice.crossover_clients for advice in all_advice} == {expected}


def test_more_clients_make_split_cheaper_for_each_and_leave_federated_alone(mlp):
    clients = (2, 10, 100, 500, 1_000)
    advice = [mnist(mlp, k) for k in clients]
    assert {a.federated.nbytes_per_client for a in advice} == {1_515_600}
    assert [a.fewest_bytes.name for a in advice][::4] == ["federated averaging", "split learning"]
    split = [a.split.nbytes_per_client for a in advice]
    assert split == [(307_200_000 + (k - 1) * 732_160) / k for k in clients]
    assert split == sorted(split, reverse=True)


def test_training_is_three_forward_passes(mlp):
    advice = mnist(mlp, 100, epochs=2)
    assert advice.federated.flops_per_client == 3 * 2 * 600 * 2 * (784 * 128 + 128 * 640 + 6_400)
    assert advice.large_batch_sgd.flops_per_client == advice.federated.flops_per_client
    ratio = advice.federated.flops_per_client / advice.split.flops_per_client
    assert ratio == pytest.approx(mlp.flops_forward / mlp.flops_forward_client)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"num_clients": 60_001}, "num_clients=60001 for num_samples=60000: .* lower num_clients"),
        ({"num_clients": 0}, "num_clients=0: give a whole number"),
        ({"num_samples": -5}, "num_samples=-5: give"),
        ({"epochs": 1.5}, "epochs=1.5: give a whole number"),
        ({"rounds": 0}, "rounds=0: give"),
        ({"batch_size": 0}, "batch_size=0: give"),
        ({"label_nbytes": -1}, "label_nbytes=-1: 8 for an int64 label, 0 if none"),
    ],
)
def test_bad_settings_are_named(mlp, changed, message):
    with pytest.raises(ValueError, match=message):
        mnist(mlp, **changed)


# the data, sent


def test_the_data_are_a_row_and_each_method_a_multiple_of_them(mlp):
    advice = mnist(mlp, 10, rounds=15, nbytes_per_sample=136.5)
    assert mnist(mlp, 10).data is None
    assert "the data" not in mnist(mlp, 10).table()
    assert advice.data.nbytes == 60_000 * 136.5
    assert advice.data.flops_per_client == 0
    assert advice.times_the_data(advice.federated) == pytest.approx(
        2 * 10 * 15 * 4 * 189_450 / (60_000 * 136.5)
    )
    lines = advice.table().splitlines()
    assert "times the data" in lines[0]
    assert lines[4].split()[-1] == "1"  # the data, as a multiple of themselves
    assert lines[-1] == advice.warning
    for method in advice.methods:
        assert method.name in advice.warning


def test_the_warning_names_only_what_is_dearer(mlp):
    photographs = mnist(mlp, 10, rounds=15, nbytes_per_sample=2e3)
    assert photographs.times_the_data(photographs.federated) > 1
    assert photographs.times_the_data(photographs.large_batch_sgd) > 1
    larger = mnist(mlp, 10, rounds=15, nbytes_per_sample=1e4)
    assert "large-batch SGD" in larger.warning
    assert "federated" not in larger.warning
    assert mnist(mlp, 10, nbytes_per_sample=2e6).warning is None
    assert "Warning" not in mnist(mlp, 10, nbytes_per_sample=2e6).table()


@pytest.mark.parametrize("nbytes", [0, -1, float("nan"), float("inf")])
def test_a_sample_has_bytes(mlp, nbytes):
    with pytest.raises(ValueError, match=f"nbytes_per_sample={nbytes}: must be above 0"):
        mnist(mlp, nbytes_per_sample=nbytes)
