"""How an attacker's network is trained: a fifth of the samples is kept to find the best epoch."""

from collections.abc import Callable

import torch
from torch import Tensor, nn


def parted(num_samples: int, seed: int) -> tuple[Tensor, Tensor, torch.Generator]:
    """The samples to fit, the fifth that is kept for validation, and the generator that chose."""
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(num_samples, generator=generator)
    return order[num_samples // 5 :], order[: num_samples // 5], generator


def mean_and_scale(rows: Tensor) -> tuple[Tensor, Tensor]:
    """What to subtract from the values of each column, and by what to divide them then.

    The second term of the scale limits values in columns that are nearly constant.
    """
    mean, spread = rows.mean(0), rows.std(0)
    return mean, (spread**2 + 0.01 * (spread**2).mean() + 1e-12).sqrt()


def fitted(
    network: nn.Module,
    loss: Callable[[Tensor], Tensor],
    samples: tuple[Tensor, Tensor, torch.Generator],
    *,
    lr: float,
    patience: int,
    max_epochs: int,
    batch_size: int,
) -> float:
    """Train by Adam in place; keep the weights with the least loss on the kept samples; return it.

    The start counts as an epoch. Training stops after ``patience`` epochs that were not better.
    ``loss`` returns the mean loss of the samples with these numbers, and ``samples`` are what
    `parted` returns.
    """
    fit, kept, generator = samples
    optimizer = torch.optim.Adam(network.parameters(), lr=lr)

    def now() -> tuple[float, dict[str, Tensor]]:
        with torch.no_grad():
            return float(loss(kept)), {n: t.clone() for n, t in network.state_dict().items()}

    (best, weights), waited = now(), 0
    for _ in range(max_epochs):
        for rows in fit[torch.randperm(len(fit), generator=generator)].split(batch_size):
            optimizer.zero_grad()
            loss(rows).backward()
            optimizer.step()
        waited += 1
        if (latest := now())[0] < best:
            (best, weights), waited = latest, 0
        if waited == patience:
            break
    network.load_state_dict(weights)
    return best
