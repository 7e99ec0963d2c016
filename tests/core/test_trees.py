import math

import pytest
import torch

from fltoolkit import trees as module
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
