"""Arrays and tables become tensors; what is no number is named."""

import numpy as np
import pytest
import torch

from fltoolkit.arrays import as_tensor


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
