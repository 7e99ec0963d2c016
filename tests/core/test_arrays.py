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


@pytest.mark.later
def test_tables_and_columns_of_pandas():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"a": [0.5, 1.5], "b": [2, 3], "label": [1, 0]})
    assert as_tensor("x", table[["a", "b"]]).tolist() == [[0.5, 2.0], [1.5, 3.0]]
    assert torch.equal(as_tensor("y", table["label"]), torch.tensor([1, 0]))
    with pytest.raises(TypeError, match=r"x holds values of type object, .* astype\(float\)"):
        as_tensor("x", table.assign(name="text"))
    with pytest.raises(TypeError, match="y holds values of type <U1"):
        as_tensor("y", np.array(["a", "b"]))


@pytest.mark.parametrize("values", [[1.0, 2.0], "text", None, {"a": 1}])
def test_other_types_are_refused(values):
    with pytest.raises(TypeError, match=r"^x is a \w+, not a tensor: give a tensor, a numpy"):
        as_tensor("x", values)
