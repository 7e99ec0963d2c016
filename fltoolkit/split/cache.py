"""The label party's memory: the last activations that it received of each sample.

Not here: who fills and reads it (asynchronous.py).
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fltoolkit.shapes import Bool, Float32, Int64, Shaped

_FREE = -1


class ActivationCache:
    """Activations and labels by sample id; if the cache is full, the oldest rows are replaced.

    Ids are whole numbers from 0 to ``num_samples - 1``. A sample that is stored again keeps its
    place. Each row remembers the ``version`` of the bottom at which it was stored.

    Args:
        num_samples: how many ids there are.
        capacity: how many samples are kept at most; None: all. In float32, 60,000 samples of a cut
            of 640 take 154 MB.
        seed: for the draws of `fill_up`.

    >>> cache = ActivationCache(num_samples=4, capacity=2)
    >>> cache.write(torch.tensor([3, 0]), torch.tensor([[3.0], [0.0]]), torch.tensor([7, 8]))
    >>> cache.write(torch.tensor([2]), torch.tensor([[2.0]]), torch.tensor([9]))
    >>> cache.has(torch.arange(4)).tolist()
    [True, False, True, False]
    """

    def __init__(self, num_samples: int, capacity: int | None = None, *, seed: int = 0):
        if num_samples < 1:
            raise ValueError(f"num_samples={num_samples}: a cache needs 1 or more ids")
        if capacity is not None and capacity < 1:
            raise ValueError(f"capacity={capacity}: keep at least 1 sample, or None for all")
        self.num_samples = num_samples
        self.capacity = min(capacity or num_samples, num_samples)
        self.seed = seed
        self.version = self._draws = 0
        self._place_of = torch.full((num_samples,), _FREE)  # id -> place
        self._id_at = torch.full((self.capacity,), _FREE)  # place -> id
        self._next = 0  # where the next new sample goes
        self._version_at = torch.zeros(self.capacity, dtype=torch.int64)
        self._h: Tensor | None = None  # made for the first activations, when their shape is known
        self._y: Tensor | None = None

    def __len__(self) -> int:
        return int((self._id_at != _FREE).sum())

    @property
    def nbytes(self) -> int:
        """How many bytes the stored activations take."""
        return 0 if self._h is None else len(self) * self._h[0].nbytes

    def has(self, ids: Int64[Tensor, " batch"]) -> Bool[Tensor, " batch"]:
        """Which of these samples are stored."""
        return self._place_of[ids] != _FREE

    def write(
        self,
        ids: Int64[Tensor, " batch"],
        h: Float32[Tensor, "batch ..."],
        y: Shaped[Tensor, "batch ..."],
    ) -> None:
        """Store a row for each id. If there are too many new samples, the last ones are kept."""
        if self._h is None or self._y is None:
            self._h = torch.zeros(self.capacity, *h.shape[1:])  # unwritten pages take no memory
            self._y = torch.zeros(self.capacity, *y.shape[1:], dtype=y.dtype)
        new = ids[~self.has(ids)]
        places = (self._next + torch.arange(len(new))) % self.capacity
        for first in range(0, len(new), self.capacity):  # so that no place is used twice at once
            taken, some = places[first : first + self.capacity], new[first : first + self.capacity]
            evicted = self._id_at[taken]
            self._place_of[evicted[evicted != _FREE]] = _FREE
            self._id_at[taken], self._place_of[some] = some, taken
        self._next = (self._next + len(new)) % self.capacity
        kept = self.has(ids)  # a large batch may have replaced its own first rows
        places = self._place_of[ids[kept]]
        self._h[places], self._y[places] = h[kept].cpu(), y[kept].cpu()
        self._version_at[places] = self.version

    def read(
        self, ids: Int64[Tensor, " batch"]
    ) -> tuple[Float32[Tensor, "batch ..."], Shaped[Tensor, "batch ..."]]:
        """Activations and labels of stored samples. Raises KeyError for one that is not."""
        if not bool(self.has(ids).all()) or self._h is None or self._y is None:
            missing = ids[~self.has(ids)].tolist()
            raise KeyError(f"samples {missing[:5]} are not in the cache of {len(self)} samples")
        places = self._place_of[ids]
        return self._h[places], self._y[places]

    def fill_up(self, ids: Int64[Tensor, " batch"]) -> Int64[Tensor, " batch"]:
        """The same ids, but each id that is not stored is replaced by a random stored one."""
        missing = ~self.has(ids)
        if not len(self):
            raise ValueError(
                "state C needs cached activations and nothing has been sent yet: a gate must begin "
                "with a period in state A or B"
            )
        if not bool(missing.any()):
            return ids
        stored = self._in_order()
        rng = np.random.default_rng([self.seed, self._draws])
        self._draws += 1
        drawn = rng.integers(len(stored), size=int(missing.sum()))
        return ids.masked_scatter(missing, stored[torch.from_numpy(drawn)])

    def stale(self, ids: Int64[Tensor, " batch"]) -> float:
        """The share of these samples stored before the current ``version``; 0 if there is none."""
        if not len(ids):
            return 0.0
        return float((self._version_at[self._place_of[ids]] < self.version).float().mean())

    def state_dict(self) -> dict[str, Any]:
        """All that is stored, in the order it came; a copy."""
        ids = self._in_order()
        state = {"version": self.version, "draws": self._draws, "ids": ids}
        if self._h is None:
            return state
        h, y = self.read(ids)
        return {**state, "h": h, "y": y, "versions": self._version_at[self._place_of[ids]]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved `state_dict`, of a cache of the same size."""
        self.__init__(self.num_samples, self.capacity, seed=self.seed)  # type: ignore[misc]
        if len(state["ids"]):
            self.write(state["ids"], state["h"], state["y"])
            self._version_at[self._place_of[state["ids"]]] = state["versions"]
        self.version, self._draws = state["version"], state["draws"]

    def _in_order(self) -> Int64[Tensor, " stored"]:
        """The ids of all that is stored, in the order they came first."""
        order = (self._next + torch.arange(self.capacity)) % self.capacity
        ids = self._id_at[order]
        return ids[ids != _FREE]
