"""Pictures that an attacker reconstructs, for the tests of attacks and of defences."""

import torch
from torch import nn

from fltoolkit import Channel, Party
from fltoolkit.leakage import explained_variance, overhear, train_decoder


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def pictures(n, seed):
    """Samples of 36 values with 6 degrees of freedom."""
    return (normal(n, 6, seed=seed) @ normal(6, 36, seed=77)).float().tanh().unflatten(1, (6, 6))


AUXILIARY, VICTIMS = pictures(400, 1), pictures(200, 2)


def attacked(codec=None, module=None, seed=0):
    """How much of the victims is explained, the decoder, and its guess."""
    alice = Party("alice", module or nn.Flatten())
    channel = Channel({} if codec is None else {"activations": codec})
    heard = overhear(alice, AUXILIARY, channel)
    decoder = train_decoder(heard.h, AUXILIARY, seed=seed)
    guess = decoder(overhear(alice, VICTIMS, channel).h)
    return explained_variance(guess, VICTIMS, decoder.mean_input), decoder, guess
