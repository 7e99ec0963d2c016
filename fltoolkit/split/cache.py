"""The label party's memory: the last activations that it received of each sample."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fltoolkit.shapes import Bool, Float, Int64, Shaped

_MISSING = -1


class ActivationCache:
    """Activations and labels by sample id; each row remembers the ``version`` of the bottom then.

    Args:
        num_samples: how many ids there are, from 0 on. In float32, 60,000 samples of a cut of 640
            take 154 MB.
        seed: for the draws of `fill_up`.

    >>> cache = ActivationCache(num_samples=4)
    >>> cache.write(torch.tensor([3, 0]), torch.tensor([[3.0], [0.0]]), torch.tensor([7, 8]))
    >>> cache.has(torch.arange(4)).tolist()
    [True, False, False, True]
    """

    def __init__(self, num_samples: int, *, seed: int = 0):
        if num_samples < 1:
            raise ValueError(f"num_samples={num_samples}: a cache needs 1 or more ids")
        self.num_samples = num_samples
        self.seed = seed
        self.version = self._draws = 0
        self._ids = torch.empty(0, dtype=torch.int64)  # what is stored, as it came first
        self._versions = torch.full((num_samples,), _MISSING)
        self._h: Tensor | None = None  # made for the first activations, when their shape is known
        self._y: Tensor | None = None

    def __len__(self) -> int:
        return len(self._ids)

    @property
    def nbytes(self) -> int:
        """How many bytes the stored activations take."""
        return 0 if self._h is None else len(self) * self._h[0].nbytes

    def has(self, ids: Int64[Tensor, " batch"]) -> Bool[Tensor, " batch"]:
        """Which of these samples are stored."""
        return self._versions[ids] != _MISSING

    def write(
        self,
        ids: Int64[Tensor, " batch"],
        h: Float[Tensor, "batch ..."],
        y: Shaped[Tensor, "batch ..."],
    ) -> None:
        """Store a row for each id, in place of what was stored for it."""
        if self._h is None or self._y is None:
            # in the dtype of the first activations; unwritten pages take no memory
            self._h = torch.zeros(self.num_samples, *h.shape[1:], dtype=h.dtype)
            self._y = torch.zeros(self.num_samples, *y.shape[1:], dtype=y.dtype)
        if h.shape[1:] != self._h.shape[1:] or h.dtype != self._h.dtype:
            raise ValueError(
                f"activations of shape {list(h.shape[1:])} and {h.dtype} after "
                f"{list(self._h.shape[1:])} and {self._h.dtype}: the cache keeps one row for each "
                "sample, so all must be alike. Pad all samples to one length"
            )
        if len(new := ids[~self.has(ids)]):
            self._ids = torch.cat([self._ids, new])
        self._h[ids], self._y[ids] = h.cpu(), y.cpu()
        self._versions[ids] = self.version

    def read(
        self, ids: Int64[Tensor, " batch"]
    ) -> tuple[Float[Tensor, "batch ..."], Shaped[Tensor, "batch ..."]]:
        """Activations and labels of stored samples. Raises KeyError for one that is not."""
        if not bool(self.has(ids).all()) or self._h is None or self._y is None:
            missing = ids[~self.has(ids)].tolist()
            raise KeyError(f"samples {missing[:5]} are not in the cache of {len(self)} samples")
        return self._h[ids], self._y[ids]

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
        rng = np.random.default_rng([self.seed, self._draws])
        self._draws += 1
        drawn = rng.integers(len(self), size=int(missing.sum()))
        return ids.masked_scatter(missing, self._ids[torch.from_numpy(drawn)])

    def stale(self, ids: Int64[Tensor, " batch"]) -> float:
        """The share of these samples stored before the current ``version``; 0 if there is none."""
        return float((self._versions[ids] < self.version).float().mean()) if len(ids) else 0.0

    def state_dict(self) -> dict[str, Any]:
        """All that is stored, in the order it came; a copy."""
        state = {"version": self.version, "draws": self._draws, "ids": self._ids}
        if self._h is None:
            return state
        h, y = self.read(self._ids)
        return {**state, "h": h, "y": y, "versions": self._versions[self._ids]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved `state_dict`, of a cache of the same size."""
        self.__init__(self.num_samples, seed=self.seed)  # type: ignore[misc]
        if len(state["ids"]):
            self.write(state["ids"], state["h"], state["y"])
            self._versions[state["ids"]] = state["versions"]
        self.version, self._draws = state["version"], state["draws"]
