"""Deep gradient compression: top-k whose memory holds momentum, too.

docs/fedavg_results.md measures it: it cannot be told from top-k, with error feedback or without.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from fltoolkit.codecs.places import Shape
from fltoolkit.codecs.sparse import Sparse, TopK, num_kept
from fltoolkit.codecs.stage import Parts, floats
from fltoolkit.trees import Tree, is_finite


@dataclass
class DGC(Sparse):
    """Deep gradient compression: top-k, where values that are not sent collect momentum.

    For each link and entry: u = momentum * u + g; v = v + u; the top k of v are sent, and u and v
    are set to zero at their places (momentum factor masking). Since this stage has a memory, put
    no `ErrorFeedback` around it, and use plain SGD at the receiver. What a later `Quantize` loses
    is not sent again. The paper's gradient clipping is left to the sender.

    Source: Lin et al. 2018, arXiv 1712.01887, algorithm 1 and section 3. There the top k are taken
    from each tensor, and warm-up sends 25 %, 6.25 %, 1.56 % and 0.4 % in the first four epochs.

    >>> from fltoolkit.codecs import Pipeline
    >>> codec = Pipeline(DGC(0.5, momentum=0.0))
    >>> gradient = {"w": torch.tensor([3.0, 2.0])}
    >>> [codec.decode(codec.encode(gradient))["w"].tolist() for _ in range(2)]
    [[3.0, 0.0], [0.0, 4.0]]
    """

    fraction: float  # larger = less compression
    momentum: float = 0.9
    warmup: tuple[float, ...] = ()  # the fractions of the first messages, one each
    scope: str = "tensor"

    sends_later = True

    u: Tree = field(default_factory=dict, init=False, repr=False, compare=False)
    v: Tree = field(default_factory=dict, init=False, repr=False, compare=False)
    messages: int = field(default=0, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.warmup = tuple(self.warmup)
        for fraction in self.warmup:
            TopK(fraction)  # raises an error if it is not a fraction
        if not 0 <= self.momentum < 1:
            raise ValueError(f"momentum={self.momentum}: 0 or more, and below 1")

    def apply(self, parts: Parts) -> Parts:
        """Return values of v, places and layout; update u and v."""
        u, v = {}, {}
        for name, gradient in floats(parts).items():
            before = self.u.get(name, torch.zeros_like(gradient))
            if before.shape != gradient.shape:
                raise ValueError(
                    f"entry {name!r} has shape {tuple(gradient.shape)}, its momentum "
                    f"{tuple(before.shape)}: one link carries one model"
                )
            u[name] = self.momentum * before + gradient.detach()
            v[name] = self.v[name] + u[name] if name in self.v else u[name].clone()
        fractions = (*self.warmup, self.fraction)
        stage = TopK(fractions[min(self.messages, len(self.warmup))], self.scope)
        if grown := [name for name, waiting in v.items() if not is_finite(waiting)]:
            raise ValueError(
                f"entry {grown[0]!r}: what waited grew infinite: has training diverged?"
            )
        out = stage.apply({**parts, **v})
        for name, sent in stage.masks(out, {}).items():
            u[name][sent] = v[name][sent] = 0
        self.u, self.v, self.messages = {**self.u, **u}, {**self.v, **v}, self.messages + 1
        return out

    def start_link(self, salt: int) -> None:
        self.u, self.v, self.messages = {}, {}, 0

    def state_dict(self) -> dict[str, Any]:
        return {"messages": self.messages, "u": dict(self.u), "v": dict(self.v)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.u, self.v, self.messages = dict(state["u"]), dict(state["v"]), state["messages"]

    def _allowed(self, shapes: Sequence[Shape]) -> set[int]:
        n = sum(map(math.prod, shapes))
        return {num_kept(fraction, n) for fraction in (*self.warmup, self.fraction)}
