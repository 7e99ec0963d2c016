"""Outer optimizers of DiLoCo whose momentum is forgotten from time to time, or is an average."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim import SGD, Optimizer


class Restarted(SGD):
    """SGD with Nesterov momentum that begins anew after each ``every`` steps.

    Source: Topollai et al. 2026, arXiv 2605.28585, who reset the outer momentum periodically.
    """

    def __init__(self, params: Iterable[Tensor], lr: float, momentum: float, every: int):
        super().__init__(params, lr, momentum, nesterov=True)
        self.every, self.count = every, 0

    def step(self, closure: Any = None) -> Any:
        """Take one step, and forget after the last one of a period."""
        done = super().step(closure)
        self.count += 1
        if self.count % self.every == 0:
            self.state.clear()
        return done


class Averaged(Optimizer):
    """Weights z that take the steps, their moving average x, and between both the weights in use.

    Source: Defazio et al. 2026, arXiv 2512.17131 (GPA), here with one step for each round: z moves
    by lr times the workers' change, x becomes ``keep x + (1 - keep) z``, and the workers go on
    from ``blend x + (1 - blend) z``, which are also the weights at the end.
    """

    def __init__(self, params: Iterable[Tensor], lr: float, keep: float, blend: float):
        super().__init__(params, {"lr": lr, "keep": keep, "blend": blend})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        """Take one step."""
        for group in self.param_groups:
            for param in (each for each in group["params"] if each.grad is not None):
                state = self.state[param]
                z = state.setdefault("z", param.clone())
                x = state.setdefault("x", param.clone())
                z.sub_(param.grad, alpha=group["lr"])
                x.lerp_(z, 1 - group["keep"])
                param.copy_(z.lerp(x, group["blend"]))
