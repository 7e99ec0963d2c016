"""For how many clients does split learning send fewer bytes than federated averaging?

And do both send more than the samples themselves would take, if they were sent to one place?
Not here: the formulas (`fltoolkit.cost`). The panel needs ipywidgets, 7.7 or newer.
"""

from typing import Any, NamedTuple

from fltoolkit import cost
from fltoolkit.units import amount
from fltoolkit_course.panels._sliders import slider, steps
from fltoolkit_course.plots.below_controls import BelowControls, find_ipywidgets
from fltoolkit_course.plots.drawing import Area, Graphic, chart

_CLIENTS: list[int] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000]


class Comparison(NamedTuple):
    """Bytes that each client sends and receives in one pass over all samples."""

    split_nbytes: float
    federated_nbytes: float
    crossover_clients: int | None  # the least number of clients for which splitting sends less
    data_nbytes: float  # a client's compressed samples, if it sent them to one place
    sentence: str  # the result in words


def compare_bytes(
    num_clients: int,
    *,
    num_parameters: int = 1_000_000,
    cut_width: int = 640,
    num_samples: int = 60_000,
    client_fraction: float = 0.1,
    nbytes_per_sample: float = 136,
) -> Comparison:
    """Compare split learning (one epoch, relay) with federated averaging (one round), per client.

    The bytes are payloads in float32, from the formulas of `cost.split_nbytes` and
    `cost.federated_nbytes`.

    Args:
        num_clients: the number of clients, which share the samples evenly.
        num_parameters: the parameters of the whole model.
        cut_width: the number of values that one sample sends through the cut layer.
        num_samples: the samples of all clients together.
        client_fraction: the part of the parameters below the cut, 0 to 1.
        nbytes_per_sample: of a sample compressed without loss; by default an image of MNIST.

    >>> compare_bytes(10).sentence.split(":")[0]
    'Federated averaging sends 3.88 times fewer bytes'
    """
    below = round(client_fraction * num_parameters)
    model = cost.ModelCost(num_parameters, below, 4 * num_parameters, 4 * below, cut_width, 0, 0)
    advice = cost.advise(
        model,
        num_samples=num_samples,
        num_clients=num_clients,
        epochs=1,
        rounds=1,
        nbytes_per_sample=nbytes_per_sample,
    )
    split, federated = advice.split.nbytes_per_client, advice.federated.nbytes_per_client
    sentence = (
        f"{_verdict(split, federated)}: with {num_clients:,} client"
        f"{'s' * (num_clients != 1)} each one moves {amount('nbytes', split)} when splitting and "
        f"{amount('nbytes', federated)} when federating. "
    )
    if advice.crossover_clients is None:
        sentence += "Splitting does not pay for any number of clients."
    else:
        sentence += f"Splitting pays from {advice.crossover_clients:,} clients on."
    data = num_samples * nbytes_per_sample / num_clients
    least = min(split, federated) / data
    sentence += f" Sending its samples once would cost each client {amount('nbytes', data)}"
    cheaper = f": {least:.3g} times less than the cheaper of both."
    sentence += cheaper if least > 1 else ", more than the cheaper of both."
    return Comparison(split, federated, advice.crossover_clients, data, sentence)


def _verdict(split: float, federated: float) -> str:
    ratio = f"{max(split, federated) / min(split, federated):.3g}"
    if ratio == "1":
        return "Both cost nearly the same"
    winner = ["Split learning", "Federated averaging"][split > federated]
    return f"{winner} sends {ratio} times fewer bytes"


class AdvisorPanel:
    """Sliders for the arguments of `compare_bytes`, with a chart and the answer in words.

    Write it as the last line of a cell. ``num_clients`` and ``settings`` are the first positions of
    the sliders. ``sliders`` holds them by name, and ``comparison`` is the present answer.
    """

    def __init__(self, num_clients: int = 100, **settings: Any):
        ipywidgets = find_ipywidgets("fltoolkit_course.panels.compare_bytes(num_clients=100)")

        compare_bytes(num_clients, **settings)  # raises an error for wrong settings
        start = {"num_clients": num_clients, **(compare_bytes.__kwdefaults__ or {}), **settings}
        choices: dict[str, tuple[str, list[float]]] = {
            "num_clients": ("number of clients", [*_CLIENTS]),
            "num_parameters": ("model size [parameters]", steps(10_000, 100_000_000)),
            "cut_width": ("cut width [values per sample]", steps(1, 100_000)),
            "num_samples": ("samples, all clients together", steps(1_000, 1_000_000)),
            "client_fraction": ("part of the model at the client", [k / 20 for k in range(21)]),
            "nbytes_per_sample": ("a sample, compressed [bytes]", steps(1, 10_000_000)),
        }
        self.sliders = {
            key: slider(words, [*values, start[key]], start[key])
            for key, (words, values) in choices.items()
        }
        self._sentence = ipywidgets.HTML()
        self._compare()
        sliders = self.sliders.values()
        self._picture = BelowControls(
            self.draw, *sliders, self._sentence, moved=self._compare, controls=sliders
        )

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments of `compare_bytes` that the sliders show now."""
        return {key: slider.value for key, slider in self.sliders.items()}

    def _ipython_display_(self) -> None:
        self._picture.show()

    def _compare(self, _change: Any = None) -> None:
        self.comparison = compare_bytes(**self.settings)
        self._sentence.value = self.comparison.sentence

    def draw(self) -> Graphic:
        """Bytes per client for both methods and for the samples themselves, with a mark."""
        marks = chart(
            self._lines(),
            "num_clients",
            "nbytes_per_client",
            Area(width=640, height=300),
            log=True,
            marks=self._marks(),
        )
        return Graphic(640, 300, self.comparison.sentence, [*marks])

    def _lines(self) -> dict[str, list[tuple[float, float]]]:
        """Bytes per client against the number of clients, for both methods and the data."""
        shown = {k: compare_bytes(**{**self.settings, "num_clients": k}) for k in _CLIENTS}
        return {
            "split": [(k, found.split_nbytes) for k, found in shown.items()],
            "federated": [(k, found.federated_nbytes) for k, found in shown.items()],
            "the data": [(k, found.data_nbytes) for k, found in shown.items()],
        }

    def _marks(self) -> dict[float, str]:
        marks: dict[float, str] = {self.settings["num_clients"]: "you are here"}
        crossover = self.comparison.crossover_clients
        if crossover is not None and crossover <= _CLIENTS[-1]:
            marks[crossover] = f"splitting pays from {crossover}"
        return marks
