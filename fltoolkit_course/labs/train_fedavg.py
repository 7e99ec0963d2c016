"""What the FedAvg lab trains. The script of a run is this file, with the run's settings below.

Not here: settings to choose from, and what is drawn of a run (fedavg.py).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch import nn

from fltoolkit import Channel, Party, evaluate, evaluated, fedavg, splitnn_mlp
from fltoolkit.codecs import Codec, Entropy, ErrorFeedback, Identity, Pipeline, Quantize, TopK
from fltoolkit.codecs.stage import Stage
from fltoolkit.data import Samples, partition_dirichlet
from fltoolkit.federated import (
    Arrivals,
    Backlog,
    Drop,
    Local,
    LogNormal,
    Polynomial,
    Server,
    Staleness,
    mean_of_all,
    mean_of_senders,
)
from fltoolkit.history import Record

STALENESS: dict[str, Staleness] = {"drop": Drop(), "polynomial": Polynomial()}


@dataclass
class FedAvgTraining:
    """Federated averaging whose codecs and number of local steps may change between two rounds."""

    data: Samples
    num_clients: int = 20
    num_rounds: int = 40
    local_steps: int = 10
    cohort_size: int = 10
    alpha: float = 100
    wait_for: int | None = None
    staleness: str = "drop"
    bits_down: int = 32
    bits_up: int = 32
    top_k: float = 1
    error_feedback: bool = False
    masked: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        self.channel = Channel({"model": self.model_codec(), "update": self.update_codec()})
        self.total = self.num_rounds

    def model_codec(self) -> Codec:
        """Evenly spaced levels with entropy coding; nothing is lost in 32 bits."""
        if self.bits_down == 32:
            return Identity()
        return Pipeline(Quantize(self.bits_down), Entropy())

    def update_codec(self) -> Codec:
        """The largest values, rounded, with entropy coding; nothing is lost if both are off.

        Without error feedback, rounding is stochastic: its mean is the value itself. With it,
        values are rounded to the nearest level, and what was lost is added to the next update.
        """
        stages: list[Stage] = [TopK(self.top_k)] if self.top_k < 1 else []
        if self.bits_up < 32:
            stages.append(Quantize(self.bits_up, stochastic=not self.error_feedback))
        if not stages:
            return Identity()
        codec = Pipeline(*stages, Entropy())
        return ErrorFeedback(codec) if self.error_feedback else codec

    def records(self) -> Iterator[Record]:
        """A record for each round, with the accuracy of the server's model."""
        data = self.data
        model = splitnn_mlp(data.x_train.shape[1], data.num_classes, seed=self.seed)
        judge = Party("server", model, loss_fn=nn.NLLLoss())
        return evaluated(
            self.rounds(model), lambda: evaluate([judge], data.x_test, data.y_test), every=1
        )

    def rounds(self, model: nn.Sequential) -> Iterator[Record]:
        """Rounds of `fedavg`; with another number of local steps it goes on where it was."""
        x, y, seed = self.data.x_train, self.data.y_train, self.seed
        parts = partition_dirichlet(y, self.num_clients, alpha=self.alpha, seed=seed)
        server = Server(
            mean=mean_of_senders if self.masked else mean_of_all,
            arrivals=Arrivals(
                wait_for=self.wait_for,
                staleness=STALENESS[self.staleness],
                clock=LogNormal(1.0, seed=seed),
            ),
            backlog=Backlog(),
        )
        done = 0
        while done < self.num_rounds:
            steps = self.local_steps
            for record in fedavg(
                model,
                {f"client_{k}": (x[part], y[part]) for k, part in enumerate(parts)},
                self.channel,
                rounds=range(done, self.num_rounds),
                cohort=self.cohort_size,
                local=Local(batch_size=10, lr=0.1, steps=steps),
                server=server,
                seed=seed,
            ):
                yield record
                done += 1
                if self.local_steps != steps:
                    break

    def change(self, key: str, value: Any) -> None:
        """Another number of local steps, or other codecs, from the next round on."""
        setattr(self, key, value)
        if key == "bits_down":
            self.channel.change_codec("model", self.model_codec())
        elif key != "local_steps":
            self.channel.change_codec("update", self.update_codec())
