"""Batches in an order that depends on seed and epoch alone, with the ids of their samples."""

import math
from collections.abc import Iterator
from itertools import chain
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from fltoolkit.arrays import as_tensor, is_items, rows_of
from fltoolkit.data.partitions import generator
from fltoolkit.shapes import Int64

Inputs = Any
"""What one batch feeds in: a tensor, or for vertical data a tuple of one for each feature party."""


class Batches:
    """Batches of samples in memory; their order depends only on the seed and the epoch number.

    The last, smaller batch is included: 60,000 samples make 938 batches of 64, the last of 32.
    ``x`` may be a tuple with one tensor for each feature party; then row i of every tensor belongs
    to the same sample. Instead of tensors, numpy arrays and pandas tables may be given, and in
    place of x and y a torch `Dataset`: ``Batches(dataset, batch_size=32, seed=0)``. Its items are
    read for each batch; what they draw from torch's generator follows from the seed.

    >>> batches = Batches(torch.arange(10), torch.arange(10), 4, seed=0)
    >>> [len(y) for x, y in batches.epoch(0)]
    [4, 4, 2]
    """

    def __init__(self, x: Any, y: Any = None, batch_size: int | None = None, *, seed: int):
        if is_items(x) and isinstance(y, int | None):  # y is the second word: the batch size
            y, batch_size = x, batch_size or y
        elif isinstance(x, DataLoader):
            raise TypeError(
                "x is a DataLoader, which decides about batches itself: give its samples, "
                "Batches(loader.dataset, batch_size=32, seed=0)"
            )
        else:
            parts = tuple(as_tensor("x", part) for part in (x if isinstance(x, tuple) else (x,)))
            x, y = parts if isinstance(x, tuple) else parts[0], as_tensor("y", y)
            for part in parts:
                if len(part) != len(y):
                    raise ValueError(f"x has {len(part)} samples but y {len(y)}: they must agree")
        if batch_size is None or batch_size < 1 or not len(y):
            raise ValueError(f"batch_size={batch_size} of {len(y)} samples: both must be 1 or more")
        generator(seed)  # a wrong seed raises its error here and not in the first epoch
        self.x, self.y, self.batch_size, self.seed = x, y, batch_size, seed
        self.num_samples = len(y)
        self._draws = torch.Generator().manual_seed(seed).get_state()  # what items draw

    def __len__(self) -> int:
        return math.ceil(self.num_samples / self.batch_size)

    def epoch(self, number: int) -> Iterator[tuple[Inputs, Tensor]]:
        """The batches of one epoch: each sample once."""
        return map(self.at, self.rows(number))

    def rows(self, number: int) -> Iterator[Int64[Tensor, " batch"]]:
        """Which samples are in the batches of one epoch, as ids from 0 to num_samples - 1."""
        order = torch.from_numpy(generator(self.seed, number).permutation(self.num_samples))
        return iter(order.split(self.batch_size))

    def at(self, rows: Int64[Tensor, " batch"]) -> tuple[Inputs, Tensor]:
        """The samples with these ids, and their labels."""
        x = self.x
        if isinstance(x, Tensor):
            return _pick(x, rows), _pick(self.y, rows)
        if x is self.y:
            with torch.random.fork_rng(devices=[]):
                torch.default_generator.set_state(self._draws)
                batch = rows_of(x, x, rows)
                self._draws = torch.default_generator.get_state()
            return batch
        return tuple([_pick(part, rows) for part in x]), _pick(self.y, rows)

    def epochs(self, num_epochs: int) -> Iterator[tuple[Inputs, Tensor]]:
        """The batches of ``num_epochs`` epochs, one after the other.

        To resume a run after ``step`` batches: ``itertools.islice(batches.epochs(15), step, None)``
        """
        if num_epochs < 0:
            raise ValueError(f"num_epochs={num_epochs}: must be at least 0")
        return chain.from_iterable(map(self.epoch, range(num_epochs)))


def _pick(tensor: Tensor, rows: Tensor) -> Tensor:
    return tensor.index_select(0, rows.to(tensor.device))
