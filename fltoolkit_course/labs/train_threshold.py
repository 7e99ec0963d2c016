"""What the threshold lab trains. The script of a run is this file, with the run's settings below.

Not here: settings to choose from, and what is drawn of a run (threshold.py).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch import nn

from fltoolkit import (
    SGD,
    Batches,
    Channel,
    LossGate,
    Party,
    evaluate,
    evaluated,
    splitnn_mlp,
    train_async,
)
from fltoolkit.codecs import Codec, Half, Identity, Pipeline, Quantize
from fltoolkit.data import Samples
from fltoolkit.history import Record

KINDS = {"bits_up": "activations", "bits_down": "gradients"}


def codec(bits: int) -> Codec:
    """Full precision for 32 bits per value, half for 16, evenly spaced levels for fewer."""
    if bits == 32:
        return Identity()
    return Pipeline(Half()) if bits == 16 else Pipeline(Quantize(bits))


@dataclass
class ThresholdTraining:
    """Alice and Bob split a network, and are silent while Bob's loss hardly changes."""

    data: Samples
    num_epochs: int = 60
    threshold: float = 0.1
    bits_up: int = 32
    bits_down: int = 32
    cut: int = 4
    seed: int = 0

    def __post_init__(self) -> None:
        codecs = {kind: codec(getattr(self, bits)) for bits, kind in KINDS.items()}
        self.channel, self.gate = Channel(codecs), LossGate(self.threshold)
        self.batches = Batches(self.data.x_train, self.data.y_train, 64, seed=self.seed)
        self.total = self.num_epochs * len(self.batches)

    def records(self) -> Iterator[Record]:
        """A record for each step; the last one of an epoch holds the accuracy, too."""
        data = self.data
        model = splitnn_mlp(data.x_train.shape[1], data.num_classes, seed=self.seed)
        bottom, top = model[: self.cut], model[self.cut :]
        alice = Party("alice", bottom, SGD(bottom.parameters(), lr=0.03))
        bob = Party("bob", top, SGD(top.parameters(), lr=0.03), loss_fn=nn.NLLLoss())
        training = train_async(
            alice, bob, self.batches, self.channel, gate=self.gate, num_epochs=self.num_epochs
        )
        return evaluated(
            training,
            lambda: evaluate([alice, bob], data.x_test, data.y_test),
            every=len(self.batches),
        )

    def change(self, key: str, value: Any) -> None:
        """Another threshold, or other bits, from the next step on."""
        if key == "threshold":
            self.gate.threshold = value
        else:
            self.channel.change_codec(KINDS[key], codec(value))
