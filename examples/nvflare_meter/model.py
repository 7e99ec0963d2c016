"""The network that the job trains on digits."""

import torch
from torch import nn


class Net(nn.Module):
    """64 pixels to 10 classes."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[batch, 64] to [batch, 10]."""
        return self.layers(x)
