"""The FedAvg lab: federated averaging on digits, with codecs that can be changed while it trains.

Display a `FedAvgLab` as the last line of a cell and press Start; or call its methods.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from fltoolkit.data.datasets import Samples
from fltoolkit_course.labs.lab import Board, Control, Plot, Training
from fltoolkit_course.labs.panel import DisplayedLab
from fltoolkit_course.labs.train_fedavg import STALENESS, FedAvgTraining

_BITS = (1, 2, 4, 8, 32)


def _num_bits(value: int) -> str:
    return f"{value} bit{'s' * (value != 1)}"


def _share(value: float) -> str:
    return "off" if value == 1 else f"{100 * value:g} %"


def _on(value: bool) -> str:
    return "on" if value else "off"


def _number(value: int | None) -> str:
    return "all" if value is None else str(value)


_SETTINGS: Mapping[str, Control] = {
    "bits_down": Control("model down [bits per value]", _BITS, "now", _num_bits),
    "bits_up": Control("update up [bits per value]", _BITS, "now", _num_bits),
    "top_k": Control("top-k up [share of values]", (0.01, 0.03, 0.1, 0.3, 1), "now", _share),
    "error_feedback": Control("error feedback up", (False, True), "now", _on),
    "local_steps": Control("interval [local steps]", (1, 2, 5, 10, 20, 50, 100), "now"),
    "cohort_size": Control("cohort", (1, 2, 5, 10, 20), "at start"),
    "alpha": Control("alpha", (0.03, 0.1, 0.3, 1, 10, 100), "at start"),
    "wait_for": Control("wait for", (None, 1, 2, 3, 5, 8), "at start", _number),
    "staleness": Control("late updates", tuple(STALENESS), "at start"),
    "masked": Control("masked mean", (False, True), "at start", _on),
    "seed": Control("seed", tuple(range(10)), "at start"),
}

_LOSS = Plot("loss", "step", "", "mean local loss, over rounds", log=True)


class FedAvgLab(DisplayedLab):
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
        data: a name for `fltoolkit.data.load`, or Samples of your own.
        show: the settings that have controls and that `set` may change; the others are fixed.
        second: the right plot; `Plot("accuracy", "seconds")` is over virtual time.
        values: ``num_clients``, among whom the training samples are divided; ``num_rounds``, how
            long a run is; and the first values of settings, also of those that are not shown.
    """

    title, training = "FedAvg lab", FedAvgTraining
    num_clients: int
    num_rounds: int

    def __init__(
        self,
        data: Samples | str = "digits",
        *,
        show: Sequence[str] = tuple(_SETTINGS),
        second: Plot = _LOSS,
        **values: Any,
    ):
        if strangers := {*show} - _SETTINGS.keys():
            raise TypeError(f"{sorted(strangers)}: this lab has the settings {[*_SETTINGS]}")
        self.settings = {key: setting for key, setting in _SETTINGS.items() if key in show}
        super().__init__(data, **values)
        self.board = Board(
            plots=(Plot("accuracy", "nbytes"), second),
            kinds={"model": "down: model", "update": "up: updates"},
            step="round",
        )
        self.steps_per_second = 5.0  # slow enough to watch and to move sliders

    def begin(self, values: Mapping[str, Any]) -> Training:
        """Make a training. Raises ValueError if it would wait for more clients than there are."""
        wait_for, cohort_size = values["wait_for"], values["cohort_size"]
        if wait_for is not None and wait_for > cohort_size:
            raise ValueError(
                f"wait_for={wait_for}: the cohort has only {cohort_size} clients. Wait for fewer, "
                "or for all (None)"
            )
        return super().begin(values)
