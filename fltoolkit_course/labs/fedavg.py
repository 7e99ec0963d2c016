"""The FedAvg lab: federated averaging on digits, with codecs that can be changed while it trains.

Display a `FedAvgLab` as the last line of a cell and press Start; or call its methods.
Here: what this lab trains, and the script of a run. What all labs share is in steering.py.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from fltoolkit.codecs.base import Codec, Identity
from fltoolkit.codecs.coders import Entropy
from fltoolkit.codecs.pipeline import Pipeline
from fltoolkit.codecs.quantize import Quantize
from fltoolkit.codecs.sparse import TopK
from fltoolkit.codecs.stage import Stage
from fltoolkit.codecs.wrappers import ErrorFeedback
from fltoolkit.data.datasets import Dataset
from fltoolkit.federated.clock import Drop, Polynomial, Staleness
from fltoolkit_course.labs.board import Board, Control, Plot, Training, num_bits, share
from fltoolkit_course.labs.lab import Lab
from fltoolkit_course.labs.scripts import flat_data

LR = 0.1
BATCH_SIZE = 10
SPREAD = 1.0  # sigma of the clients' speeds
_START = {
    "local_steps": 10,
    "cohort_size": 10,
    "alpha": 100,
    "wait_for": None,
    "staleness": "drop",
    "bits_down": 32,
    "bits_up": 32,
    "top_k": 1,
    "error_feedback": False,
    "masked": False,
    "seed": 0,
}
_STALENESS: dict[str, Staleness] = {"drop": Drop(), "polynomial": Polynomial()}
_UPDATE = ("bits_up", "top_k", "error_feedback")  # what makes the codec of updates
_BITS = (1, 2, 4, 8, 32)


def _on(value: bool) -> str:
    return "on" if value else "off"


def _number(value: int | None) -> str:
    return "all" if value is None else str(value)


_SETTINGS: Mapping[str, Control] = {
    "bits_down": Control("model down [bits per value]", _BITS, "now", num_bits),
    "bits_up": Control("update up [bits per value]", _BITS, "now", num_bits),
    "top_k": Control("top-k up [share of values]", (0.01, 0.03, 0.1, 0.3, 1), "now", share),
    "error_feedback": Control("error feedback up", (False, True), "now", _on),
    "local_steps": Control("interval [local steps]", (1, 2, 5, 10, 20, 50, 100), "now"),
    "cohort_size": Control("cohort", (1, 2, 5, 10, 20), "at start"),
    "alpha": Control("alpha", (0.03, 0.1, 0.3, 1, 10, 100), "at start"),
    "wait_for": Control("wait for", (None, 1, 2, 3, 5, 8), "at start", _number),
    "staleness": Control("late updates", tuple(_STALENESS), "at start"),
    "masked": Control("masked mean", (False, True), "at start", _on),
    "seed": Control("seed", tuple(range(10)), "at start"),
}

_LOSS = Plot("loss", "step", "", "mean local loss, over rounds", log=True)


_IMPORTS = """
import torch
from torch import nn

from fltoolkit import Channel, History, Party, evaluate, evaluated, load, splitnn_mlp
from fltoolkit.codecs import Entropy, ErrorFeedback, Identity, Pipeline, Quantize, TopK
from fltoolkit.data import partition_dirichlet
from fltoolkit.federated import (
    Arrivals, Backlog, Drop, Local, LogNormal, Polynomial, Server, fedavg, mean_of_all,
    mean_of_senders)
"""
_CLIENTS = """
parts = partition_dirichlet(data.y_train, {num_clients}, alpha={alpha}, seed={seed})
clients = {{f"client_{{k}}": (data.x_train[p], data.y_train[p]) for k, p in enumerate(parts)}}
model = splitnn_mlp(data.x_train.shape[1], data.num_classes, seed={seed})
channel = Channel({{{codecs}}})
arrivals = Arrivals(wait_for={wait_for}, staleness={rule}, clock=LogNormal({spread}, seed={seed}))
"""
_INTERVAL = """
records = fedavg(
    model,
    clients,
    channel,
    rounds={num_rounds},
    cohort={cohort_size},
    local=Local(batch_size={batch}, lr={lr}, steps={local_steps}),
    server=Server(mean={mean}, arrivals=arrivals),
    seed={seed},
)
server = Party("server", model, loss_fn=nn.NLLLoss())
records = evaluated(records, lambda: evaluate([server], data.x_test, data.y_test), every=1)
"""
_MOVED_INTERVAL = """
averaging = Server(mean={mean}, arrivals=arrivals, backlog=Backlog())
interval, done = {local_steps}, 0


def rounds():
    \"\"\"Rounds of `fedavg`; a new ``interval`` goes on from the round that was reached.\"\"\"
    global done
    while done < {num_rounds}:
        now = interval
        for record in fedavg(
            model,
            clients,
            channel,
            rounds=range(done, {num_rounds}),
            cohort={cohort_size},
            local=Local(batch_size={batch}, lr={lr}, steps=now),
            server=averaging,
            seed={seed},
        ):
            yield record
            done = record["step"]
            if interval != now:
                break


server = Party("server", model, loss_fn=nn.NLLLoss())
records = evaluated(rounds(), lambda: evaluate([server], data.x_test, data.y_test), every=1)
"""


def model_codec(bits: int) -> Codec:
    """The codec of the model: evenly spaced levels with entropy coding; `Identity` for 32 bits."""
    return Identity() if bits == 32 else Pipeline(Quantize(bits), Entropy())


def update_codec(bits: int, top_k: float, error_feedback: bool) -> Codec:
    """The codec of updates: keep a share ``top_k``, round to ``bits``, then entropy coding.

    Without error feedback, rounding is stochastic: its mean is the value itself. With it, values
    are rounded to the nearest level, and `ErrorFeedback` adds what was lost to the next update.
    With 32 bits and all values nothing is lost, and the codec is `Identity`.
    """
    stages: list[Stage] = [TopK(top_k)] if top_k < 1 else []
    if bits < 32:
        stages.append(Quantize(bits, stochastic=not error_feedback))
    if not stages:
        return Identity()
    codec = Pipeline(*stages, Entropy())
    return ErrorFeedback(codec) if error_feedback else codec


class FedAvgLab(Lab):
    """`fedavg` with many clients: how often, with whom, and in how many bits?

    The model is `splitnn_mlp`; clients take plain SGD steps on batches of 10. They differ in
    speed (`LogNormal`), so that ``wait_for`` has an effect. A record, and a step in moves and
    scripts, is a round; the server's model is tested after each.

    Settings:

    - ``bits_down``, ``bits_up``, ``top_k`` (1: off), ``error_feedback`` are codecs and act on the
      running training. A change of one of the last three makes a new codec for updates. Its
      residuals begin at zero, so what error feedback had kept for later rounds is never sent
    - ``local_steps``, the averaging interval, acts on the running training from the next round on
    - ``cohort_size``, ``alpha`` (Dirichlet: small means few classes per client), ``wait_for``
      (None: all), ``staleness`` ("drop" or "polynomial"), ``masked`` and ``seed`` act at the next
      Start

    Args:
        data: a name for `fltoolkit.data.load`, or a Dataset of your own.
        show: the settings that have controls and that `set` may change; the others are fixed.
        num_clients: among whom the training samples are divided.
        num_rounds: how long a run is.
        second: the right plot; `Plot("accuracy", "seconds")` is over virtual time.
        values: the first values of settings, also of those that are not shown.

    >>> lab = FedAvgLab(show=("bits_up", "seed"), num_rounds=3, cohort_size=2, local_steps=1)
    >>> run = lab.run(1)
    >>> lab.set("bits_up", 4)
    >>> lab.run().moves
    [Move(step=1, key='bits_up', value=4)]
    """

    title, imports = "FedAvg lab", _IMPORTS

    def __init__(
        self,
        data: Dataset | str = "digits",
        *,
        show: Sequence[str] = tuple(_SETTINGS),
        num_clients: int = 20,
        num_rounds: int = 40,
        second: Plot = _LOSS,
        **values: Any,
    ):
        if strangers := {*values, *show} - _SETTINGS.keys():
            raise TypeError(f"{sorted(strangers)}: this lab has the settings {[*_SETTINGS]}")
        self.settings = {key: setting for key, setting in _SETTINGS.items() if key in show}
        values = {**_START, **values}
        self._fixed = {key: value for key, value in values.items() if key not in show}
        super().__init__(**{key: value for key, value in values.items() if key in show})
        self.board = Board(
            plots=(Plot("accuracy", "nbytes"), second),
            kinds={"model": "down: model", "update": "up: updates", "control": "up: failures"},
            rare=frozenset({"control"}),
            step="round",
        )
        self.given = {"data": flat_data(data)}
        self.num_clients, self.num_rounds = num_clients, num_rounds
        self.steps_per_second = 5.0  # slow enough to watch and to move sliders

    def constants(self) -> dict[str, Any]:
        """The settings that are not shown, and the size of a run."""
        return {**self._fixed, "num_clients": self.num_clients, "num_rounds": self.num_rounds}

    def begin(self, values: Mapping[str, Any]) -> Training:
        """Begin a training. Raises ValueError if it would wait for more clients than there are."""
        wait_for, cohort_size = values["wait_for"], values["cohort_size"]
        if wait_for is not None and wait_for > cohort_size:
            raise ValueError(
                f"wait_for={wait_for}: the cohort has only {cohort_size} clients. Wait for fewer, "
                "or for all (None)"
            )
        return super().begin(values)

    def write_start(self, values: Mapping[str, Any], moved: Collection[str]) -> str:
        """Clients, server and channel; where the interval may move, `fedavg` is called again."""
        return (_CLIENTS + (_MOVED_INTERVAL if "local_steps" in moved else _INTERVAL)).format(
            codecs=", ".join(f'"{kind}": {_codec(values, kind)!r}' for kind in ("model", "update")),
            rule=_STALENESS[values["staleness"]],
            mean="mean_of_senders" if values["masked"] else "mean_of_all",
            lr=LR,
            batch=BATCH_SIZE,
            spread=SPREAD,
            **values,
        )

    def write_move(self, key: str, values: Mapping[str, Any]) -> str:
        """One line that changes the interval or a codec."""
        if key == "local_steps":
            return f"interval = {values[key]}"
        return f'channel.change_codec("{_kind(key)}", {_codec(values, _kind(key))!r})'

    def resets_residuals(self, key: str, values: Mapping[str, Any]) -> bool:
        """Whether a change of ``key`` replaces a codec of updates that has residuals."""
        return key in _UPDATE and bool(values["error_feedback"])

    def total(self, names: Mapping[str, Any]) -> int:
        """The number of rounds."""
        return self.num_rounds


def _kind(key: str) -> str:
    return "update" if key in _UPDATE else "model"


def _codec(values: Mapping[str, Any], kind: str) -> Codec:
    if kind == "model":
        return model_codec(values["bits_down"])
    return update_codec(*(values[key] for key in _UPDATE))
