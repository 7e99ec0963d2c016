"""The server optimizer of FedYogi, for ``Server(optimizer=...)`` of `fltoolkit.fedavg`."""

from collections.abc import Iterable

import torch
from torch import Tensor


class Yogi(torch.optim.Optimizer):
    """The server optimizer of FedYogi: like Adam, but its second moment changes more slowly.

    ``m <- b1 m + (1 - b1) g``, ``v <- v - (1 - b2) g^2 sign(v - g^2)``, ``x <- x - lr m / (sqrt(v)
    + tau)``, with v = tau^2 at the beginning and without bias correction. Source: Reddi et al.
    2020, arXiv 2003.00295, algorithm 2.

    >>> w = torch.tensor([1.0], requires_grad=True)
    >>> w.backward()
    >>> Yogi([w], lr=0.01).step()
    >>> w
    tensor([0.9901], requires_grad=True)
    """

    def __init__(
        self,
        params: Iterable[Tensor],
        lr: float = 0.01,
        betas: tuple[float, float] = (0.9, 0.99),
        tau: float = 1e-3,  # larger = nearer to plain averaging
    ):
        if not (lr > 0 and tau > 0 and all(0 <= beta < 1 for beta in betas)):
            raise ValueError(
                f"lr={lr}, betas={betas}, tau={tau}: lr and tau must be above 0, and both betas "
                "from 0 to below 1"
            )
        super().__init__(params, {"lr": lr, "betas": betas, "tau": tau})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update every parameter that has a gradient."""
        for group in self.param_groups:
            (b1, b2), tau = group["betas"], group["tau"]
            for param in group["params"]:
                if (g := param.grad) is None:
                    continue
                state = self.state[param]
                if not state:
                    state["m"], state["v"] = torch.zeros_like(g), torch.full_like(g, tau**2)
                m, v = state["m"], state["v"]
                m.lerp_(g, 1 - b1)
                v.sub_((1 - b2) * g.square() * torch.sign(v - g.square()))
                param.sub_(group["lr"] * m / (v.sqrt() + tau))
