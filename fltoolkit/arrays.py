"""Tensors from what people have: numpy arrays, pandas tables, a torch `Dataset`."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset, default_collate

__all__ = ["Array", "as_tensor", "is_items", "rows_of"]

Array = NDArray[Any]


def as_tensor(what: str, values: Any) -> Tensor:
    """The values as a tensor: float64 in torch's default float, whole numbers in int64.

    Takes arrays and scalars of numpy, pandas tables and columns (whatever has ``to_numpy``), and
    Python's numbers. A tensor stays the object that it is. Raises TypeError, which begins with
    ``what``, for values of another type.

    >>> as_tensor("y", np.array([1.0, 2.0])).dtype, as_tensor("y", np.arange(3, dtype="int8")).dtype
    (torch.float32, torch.int64)
    """
    if isinstance(values, Tensor):
        return values
    given = values.to_numpy() if hasattr(values, "to_numpy") else values
    if not isinstance(given, np.ndarray | np.generic | int | float):
        raise TypeError(
            f"{what} is a {type(values).__name__}, not a tensor: give a tensor, a numpy array or a "
            "pandas table"
        )
    array = np.require(np.asarray(given), requirements=["C", "W"])
    if array.dtype.kind not in "biuf":
        raise TypeError(
            f"{what} holds values of type {array.dtype}, not numbers: convert or leave out what is "
            "no number, for example by astype(float)"
        )
    if array.dtype == np.float64:
        return torch.as_tensor(array, dtype=torch.get_default_dtype())
    return torch.as_tensor(array, dtype=torch.int64 if array.dtype.kind in "iu" else None)


def is_items(data: Any) -> bool:
    """Whether the data are a torch `Dataset`. TypeError for one whose items have no numbers."""
    if isinstance(data, IterableDataset):
        raise TypeError(
            f"a {type(data).__name__} has no item k: give a Dataset with __len__ and __getitem__, "
            "for a stream one over list(stream)"
        )
    return isinstance(data, Dataset)


def rows_of(x: Any, y: Any, rows: Tensor) -> tuple[Tensor, Tensor]:
    """The samples with these ids, and their labels. A torch `Dataset` stands as x and as y.

    Its items ``(x, y)`` are read now, each time anew: what it draws at random differs each time.
    """
    if not is_items(x):
        return x[rows], y[rows]
    try:
        items = default_collate([x[k] for k in rows.tolist()])
        if isinstance(items, dict):
            raise TypeError(f"they are dicts with the keys {', '.join(map(str, items))}")
        x, y = items
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(
            f"{type(x).__name__}: its items must be (x, y), tensors of one shape, arrays or "
            f"numbers. Give it a transform that makes them: {error}"
        ) from error
    return as_tensor("x", x), as_tensor("y", y)
