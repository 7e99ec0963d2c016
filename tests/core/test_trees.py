"""Trees and their means, arrays that become tensors, and networks of a seed."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from fltoolkit import trees as module
from fltoolkit.arrays import as_tensor
from fltoolkit.models import splitnn_mlp
from fltoolkit.trees import weighted_mean


def test_mean_keeps_dtypes_and_inputs():
    trees = [{"n": torch.tensor(3), "h": torch.ones(2, dtype=torch.bfloat16)} for _ in range(3)]
    trees[2]["n"] = torch.tensor(5)
    mean = weighted_mean(trees, [1, 1, 1])
    assert mean["n"].dtype == torch.int64
    assert mean["n"] == 4  # 11 / 3 rounded
    assert mean["h"].dtype == torch.bfloat16
    assert trees[2]["n"] == 5


def test_mean_of_equal_trees_is_exact():
    tree = {"w": torch.randn(1000, generator=torch.Generator().manual_seed(0))}
    assert torch.equal(weighted_mean([tree] * 7, [1, 2, 3, 4, 5, 6, 7])["w"], tree["w"])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.int64])
@pytest.mark.parametrize("shape", [(), (0, 3), (7,), (3, module.BLOCK), (2, module.BLOCK // 2 + 1)])
def test_the_mean_in_blocks_is_the_plain_mean(dtype, shape):
    """Bit by bit, also of strided tensors, and with NaN."""
    g = torch.Generator().manual_seed(0)
    tensors = [(100 * torch.randn(shape, generator=g)).to(dtype) for _ in range(5)]
    if dtype.is_floating_point and shape == (7,):
        tensors[2][3] = math.nan
    weights = [1, 3, 0, 600, 7]
    plain = torch.zeros(shape, dtype=torch.float64)
    for tensor, weight in zip(tensors, weights, strict=True):
        plain += tensor.double() * (weight / 611)
    plain = (plain if dtype.is_floating_point else plain.round()).to(dtype)
    assert torch.equal(module._mean(tensors, weights, 611.0).nan_to_num(), plain.nan_to_num())
    if len(shape) == 2:
        across = [tensor.t() for tensor in tensors]
        assert torch.equal(weighted_mean([{"w": t} for t in across], weights)["w"], plain.t())


@pytest.mark.parametrize("weights", [[], [1], [0, 0], [1, -1], [1, math.nan], [1, math.inf]])
def test_bad_weights(weights):
    with pytest.raises(ValueError, match="weight"):
        weighted_mean([{"w": torch.ones(1)}] * 2, weights)


def test_mismatches_are_named():
    with pytest.raises(ValueError, match="'b'"):
        weighted_mean([{"a": torch.ones(1)}, {"b": torch.ones(1)}], [1, 1])
    with pytest.raises(ValueError, match=r"\(1,\) and \(2,\)"):
        weighted_mean([{"a": torch.ones(1)}, {"a": torch.ones(2)}], [1, 1])


def test_tensors_stay_the_objects_that_they_are():
    tensor = torch.zeros(2, dtype=torch.float64)
    assert as_tensor("x", tensor) is tensor


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        (np.ones((2, 3)), torch.float32),
        (np.ones((2, 3), np.float16), torch.float16),
        (np.ones((2, 3), np.uint8), torch.int64),
        (np.ones((2, 3), bool), torch.bool),
        (np.ones((3, 2)).T, torch.float32),
        (np.ones((2, 3), np.int32)[::-1], torch.int64),
        (np.broadcast_to(1.0, (2, 3)), torch.float32),  # cannot be written
    ],
)
def test_arrays(values, dtype, recwarn):
    tensor = as_tensor("x", values)
    assert (tensor.dtype, tensor.shape) == (dtype, (2, 3))
    assert torch.equal(tensor.double(), torch.ones(2, 3, dtype=torch.float64))
    assert not recwarn  # torch warns of memory that cannot be written


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([1.0, 2.0], "^x is a list, not a tensor: give a tensor, a numpy"),
        (None, "^x is a NoneType, not a tensor"),
        (np.array(["a", "b"]), "^x holds values of type <U1"),
        (np.array([1, None]), r"^x holds values of type object, .* astype\(float\)"),
    ],
)
def test_what_is_no_number_is_named(values, words):
    with pytest.raises(TypeError, match=words):
        as_tensor("x", values)


def test_same_seed_same_weights_and_no_trace_in_the_global_rng():
    torch.manual_seed(5)
    before = torch.get_rng_state()
    one, same, other = (splitnn_mlp(seed=s) for s in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    for a, b, c in zip(one.parameters(), same.parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b)
        assert not torch.equal(a, c)


def test_seeded_keeps_meta_and_draws_the_weights_a_plain_seed_would():
    with torch.device("meta"):
        assert all(p.is_meta for p in splitnn_mlp(seed=0).parameters())
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        expected = nn.Linear(784, 128).weight
    assert torch.equal(splitnn_mlp(seed=7)[0].weight, expected)
