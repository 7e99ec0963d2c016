"""What attackers and defences are tried on: pictures to reconstruct, a small split training."""

import torch
from torch import nn

from fltoolkit import SGD, Batches, Channel, Party, splitnn_mlp, train_split
from fltoolkit_research.leakage import explained_variance, overhear, train_decoder


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


X, Y = normal(96, 16).float(), torch.arange(96) % 3


def two_parties(client=Party, **settings):
    model = splitnn_mlp(16, 3, seed=0)
    bottom, top = model[:4], model[4:]
    alice = client("alice", bottom, SGD(bottom.parameters(), lr=0.1), **settings)
    return [alice, Party("bob", top, SGD(top.parameters(), lr=0.1), nn.NLLLoss())]


def trained(parties, channel, epochs=3):
    records = list(train_split(parties, Batches(X, Y, 32, seed=0).epochs(epochs), channel))
    return records, [p.clone() for party in parties for p in party.module.parameters()]
