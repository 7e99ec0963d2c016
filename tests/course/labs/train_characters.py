"""A training of one's own, tested in bits per character: the next of twelve letters."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from fltoolkit import SGD, Channel, Party, evaluate, evaluated, train_split
from fltoolkit.codecs import Codec, Identity, Pipeline, Quantize
from fltoolkit.history import Record
from fltoolkit.models import seeded
from fltoolkit_research.metrics import BITS_PER_CHARACTER


@dataclass
class CharactersTraining:
    num_letters: int
    bits_up: int = 32

    def __post_init__(self) -> None:
        self.channel, self.total = Channel({"activations": self.codec()}), 60

    def codec(self) -> Codec:
        return Identity() if self.bits_up == 32 else Pipeline(Quantize(self.bits_up))

    def records(self) -> Iterator[Record]:
        letters = torch.arange(4 * self.num_letters).remainder(self.num_letters)
        x, y = letters[:-1], letters[1:]
        with seeded(0):
            bottom = nn.Embedding(self.num_letters, 16)
            top = nn.Sequential(nn.Linear(16, self.num_letters), nn.LogSoftmax(1))
        alice = Party("alice", bottom, SGD(bottom.parameters(), lr=0.2))
        bob = Party("bob", top, SGD(top.parameters(), lr=0.2), loss_fn=nn.NLLLoss())
        records = train_split([alice, bob], ((x, y) for _ in range(60)), self.channel)
        return evaluated(
            records, lambda: evaluate([alice, bob], x, y, metric=BITS_PER_CHARACTER), every=5
        )

    def change(self, key: str, value: Any) -> None:
        self.bits_up = value
        self.channel.change_codec("activations", self.codec())
