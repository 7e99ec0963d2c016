"""The FedAvg lab: federated averaging on digits, with codecs that can be changed while it trains.

Display a `FedAvgLab` as the last line of a cell and press Start; or call its methods.
Here: what this lab trains, and the script of a run. What all labs share is in steering.py.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from torch import nn

from fltoolkit.channel import Channel
from fltoolkit.codecs.base import Codec, Identity
from fltoolkit.codecs.coders import Entropy
from fltoolkit.codecs.pipeline import Pipeline
from fltoolkit.codecs.quantize import Quantize
from fltoolkit.codecs.sparse import TopK
from fltoolkit.codecs.stage import Stage
from fltoolkit.codecs.wrappers import ErrorFeedback
from fltoolkit.data.datasets import Dataset, load
from fltoolkit.data.partitions import partition_dirichlet
from fltoolkit.evaluation import evaluate
from fltoolkit.federated.client import Local
from fltoolkit.federated.clock import (
    Arrivals,
    Backlog,
    Drop,
    LogNormal,
    Polynomial,
    Staleness,
)
from fltoolkit.federated.means import mean_of_all, mean_of_senders
from fltoolkit.federated.rounds import fedavg
from fltoolkit.history import Record, evaluated
from fltoolkit.labs.board import Board, Plot, Run, Setting, Training, num_bits, share
from fltoolkit.labs.lab import Lab
from fltoolkit.models import splitnn_mlp
from fltoolkit.party import Party

__all__ = ["FedAvgLab", "model_codec", "update_codec"]

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


_SETTINGS: Mapping[str, Setting] = {
    "bits_down": Setting("model down [bits per value]", _BITS, "now", num_bits),
    "bits_up": Setting("update up [bits per value]", _BITS, "now", num_bits),
    "top_k": Setting("top-k up [share of values]", (0.01, 0.03, 0.1, 0.3, 1), "now", share),
    "error_feedback": Setting("error feedback up", (False, True), "now", _on),
    "local_steps": Setting("interval [local steps]", (1, 2, 5, 10, 20, 50, 100), "now"),
    "cohort_size": Setting("cohort", (1, 2, 5, 10, 20), "at start"),
    "alpha": Setting("alpha", (0.03, 0.1, 0.3, 1, 10, 100), "at start"),
    "wait_for": Setting("wait for", (None, 1, 2, 3, 5, 8), "at start", _number),
    "staleness": Setting("late updates", tuple(_STALENESS), "at start"),
    "masked": Setting("masked mean", (False, True), "at start", _on),
    "seed": Setting("seed", tuple(range(10)), "at start"),
}

_LOSS = Plot("loss", "step", "", "mean local loss, over rounds", log=True)


def model_codec(bits: int) -> Codec:
    """For the model that the server sends: evenly spaced levels and entropy coding; 32: unchanged.

    >>> model_codec(32), model_codec(8).stages[0].bits
    (Identity(), 8)
    """
    return Identity() if bits == 32 else Pipeline(Quantize(bits), Entropy())


def update_codec(bits: int, top_k: float, error_feedback: bool) -> Codec:
    """For the updates of clients: keep a share ``top_k``, round to ``bits``, then entropy coding.

    Without error feedback, rounding is stochastic: its mean is the value itself. With it, values
    are rounded to the nearest level, and `ErrorFeedback` adds what was lost to the next update.
    With 32 bits and all values nothing is lost, and the codec is `Identity`.

    >>> update_codec(32, 1, False), type(update_codec(4, 0.1, True)).__name__
    (Identity(), 'ErrorFeedback')
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
    - ``cohort_size``, ``alpha`` (Dirichlet: small means few classes a client), ``wait_for`` (None:
      all), ``staleness`` ("drop" or "polynomial"), ``masked`` and ``seed`` act at the next Start

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

    title = "FedAvg lab"

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
        self.data = (load(data) if isinstance(data, str) else data).flat()
        self._data_code = f'load("{data}").flat()' if isinstance(data, str) else ""
        self.num_clients, self.num_rounds = num_clients, num_rounds
        self.steps_per_second = 5.0  # slow enough to watch and to move sliders
        self._written: dict[str, Any] = {}  # the settings while a script is being written
        self._interval_moves = False  # in the run that is being written down
        self._written_rounds: int | None = None  # and how many rounds it was to have

    def begin(self, values: Mapping[str, Any]) -> Training:
        """Build clients, server and channel, as `write_start` says in code."""
        data, now = self.data, {**self._fixed, **values}
        if (wait_for := now["wait_for"]) is not None and wait_for > now["cohort_size"]:
            raise ValueError(
                f"wait_for={wait_for}: the cohort has only {now['cohort_size']} clients. Wait for "
                "fewer, or for all (None)"
            )
        parts = partition_dirichlet(
            data.y_train, self.num_clients, alpha=now["alpha"], seed=now["seed"]
        )
        clients = {f"client_{k}": (data.x_train[p], data.y_train[p]) for k, p in enumerate(parts)}
        model = splitnn_mlp(data.x_train.shape[1], data.num_classes, seed=now["seed"])
        channel = Channel({"model": _codec(now, "model"), "update": _codec(now, "update")})
        settings: dict[str, Any] = {
            "rounds": (num_rounds := self.num_rounds),
            "cohort": now["cohort_size"],
            "arrivals": Arrivals(
                wait_for=wait_for,
                staleness=_STALENESS[now["staleness"]],
                clock=LogNormal(SPREAD, seed=now["seed"]),
            ),
            "mean": mean_of_senders if now["masked"] else mean_of_all,
            "seed": now["seed"],
            "backlog": Backlog(),
        }

        def rounds() -> Iterator[Record]:
            """A new interval calls `fedavg` again, from the round that was reached."""
            done = 0
            while done < num_rounds:
                steps = now["local_steps"]
                local = Local(batch_size=BATCH_SIZE, lr=LR, steps=steps)
                for record in fedavg(
                    model, clients, channel, local=local, start_round=done, **settings
                ):
                    yield record
                    done = int(record["step"])
                    if now["local_steps"] != steps:
                        break

        server = Party("server", model, loss_fn=nn.NLLLoss())

        def test() -> Any:
            return evaluate([server], data.x_test, data.y_test)

        def apply(key: str, value: Any) -> None:
            now[key] = value
            if key != "local_steps":
                channel.change_codec(kind := _kind(key), _codec(now, kind))

        return Training(evaluated(rounds(), test, every=1), channel, apply, total=num_rounds)

    def write_start(self, values: Mapping[str, Any]) -> str:
        """The same as `begin`, in plain code."""
        now = {**self._fixed, **values}
        return (_SCRIPT + (_MOVED_INTERVAL if self._interval_moves else _INTERVAL)).format(
            data=self._data_code or "data  # the Dataset that was given to the lab: put it here",
            codecs=", ".join(f'"{kind}": {_codec(now, kind)!r}' for kind in ("model", "update")),
            rule=_STALENESS[now["staleness"]],
            mean="mean_of_senders" if now["masked"] else "mean_of_all",
            **{"num_clients": self.num_clients},
            **{"num_rounds": self._written_rounds or self.num_rounds},
            **{"lr": LR, "batch": BATCH_SIZE, "spread": SPREAD},
            **{key: now[key] for key in ("alpha", "cohort_size", "local_steps")},
            **{key: now[key] for key in ("wait_for", "seed")},
        )

    def write_move(self, key: str, value: Any) -> str:
        """One line that changes the interval or a codec."""
        if key == "local_steps":
            return f"interval = {value}"
        self._written[key] = value
        return f'channel.change_codec("{_kind(key)}", {_codec(self._written, _kind(key))!r})'

    def script(self, number: int | None = None) -> str:
        """Code that repeats run ``number`` (None: the latest); see `Steering.script`."""
        run = self.numbered(number)
        self._written = {**self._fixed, **run.settings}
        self._interval_moves = any(move.key == "local_steps" for move in run.moves)
        self._written_rounds = run.training.total  # num_rounds may have been changed since
        return super().script(number)

    def describe(self, run: Run) -> str:
        """A run's settings and moves, and whether a move has set the residuals to zero."""
        feedback, forgot = {**self._fixed, **run.settings}["error_feedback"], False
        for move in run.moves:
            forgot |= feedback and move.key in _UPDATE
            feedback = move.value if move.key == "error_feedback" else feedback
        words = super().describe(run)
        return f"{words} (a move of its codec has reset the residuals)" if forgot else words


def _kind(key: str) -> str:
    return "update" if key in _UPDATE else "model"


def _codec(values: Mapping[str, Any], kind: str) -> Codec:
    if kind == "model":
        return model_codec(values["bits_down"])
    return update_codec(*(values[key] for key in _UPDATE))


_SCRIPT = """
import torch
from torch import nn

from fltoolkit import Channel, History, Party, evaluate, evaluated, load, splitnn_mlp
from fltoolkit.codecs import Entropy, ErrorFeedback, Identity, Pipeline, Quantize, TopK
from fltoolkit.data import partition_dirichlet
from fltoolkit.federated import (
    Arrivals, Backlog, Drop, Local, LogNormal, Polynomial, fedavg, mean_of_all, mean_of_senders)

torch.set_num_threads(1)
data = {data}
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
    arrivals=arrivals,
    mean={mean},
    seed={seed},
)
server = Party("server", model, loss_fn=nn.NLLLoss())
records = evaluated(records, lambda: evaluate([server], data.x_test, data.y_test), every=1)
"""

_MOVED_INTERVAL = """
interval, backlog, done = {local_steps}, Backlog(), 0


def rounds():
    \"\"\"Rounds of `fedavg`; a new ``interval`` goes on from the round that was reached.\"\"\"
    global done
    while done < {num_rounds}:
        now = interval
        for record in fedavg(
            model,
            clients,
            channel,
            rounds={num_rounds},
            cohort={cohort_size},
            local=Local(batch_size={batch}, lr={lr}, steps=now),
            arrivals=arrivals,
            mean={mean},
            seed={seed},
            start_round=done,
            backlog=backlog,
        ):
            yield record
            done = record["step"]
            if interval != now:
                break


server = Party("server", model, loss_fn=nn.NLLLoss())
records = evaluated(rounds(), lambda: evaluate([server], data.x_test, data.y_test), every=1)
"""
