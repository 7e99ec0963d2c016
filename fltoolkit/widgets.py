"""Panels with sliders for the notebooks; what they compute are functions that scripts call too.

Not here: the formulas (cost.py), what a codec does (codec_report.py) and live training (live.py).
Needs ipywidgets, 7.7 or newer.
"""

import html
import threading
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fltoolkit import cost, plots
from fltoolkit.codec_report import (
    CodecReport,
    describe_codec,
    plot_bits,
    plot_values,
    report_svg,
)
from fltoolkit.codecs import Pipeline
from fltoolkit.entropy import Entropy
from fltoolkit.history import History
from fltoolkit.levels import Float8, LloydMax, Quantiles
from fltoolkit.parts import Stage
from fltoolkit.quantize import QSGD, Quantize, Sign, Ternary
from fltoolkit.rotate import DRIVE, EDEN, Rotate
from fltoolkit.sparse import STC, RandomK, TopK
from fltoolkit.svg import amount, chart, drawing

__all__ = [
    "AdvisorPanel",
    "CodecPanel",
    "CodecReport",
    "Comparison",
    "advisor_panel",
    "codec_panel",
    "compare_bytes",
    "describe_codec",
]

# --------------------------------------------------------------------- when does splitting pay?

_CLIENTS: list[int] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000]


class Comparison(NamedTuple):
    """Bytes that each client sends and receives in one pass over all samples, both directions."""

    split_nbytes: float
    federated_nbytes: float
    crossover_clients: int | None  # from so many clients on splitting sends less; None: never
    sentence: str  # who wins, in plain words


def compare_bytes(
    num_clients: int,
    *,
    num_parameters: int = 1_000_000,
    cut_width: int = 640,
    num_samples: int = 60_000,
    client_fraction: float = 0.1,
) -> Comparison:
    """Split learning (one epoch, relay) against federated averaging (one round), per client.

    Payloads in float32, by the formulas of `cost.split_nbytes` and `cost.federated_nbytes`.

    Args:
        num_clients: who share the samples evenly.
        num_parameters: of the whole model.
        cut_width: values that one sample sends through the cut layer.
        num_samples: of all clients together.
        client_fraction: part of the parameters below the cut, 0 to 1.

    >>> compare_bytes(10).sentence.split(":")[0]
    'Federated averaging sends 3.88 times fewer bytes'
    """
    below = round(client_fraction * num_parameters)
    model = cost.ModelCost(num_parameters, below, 4 * num_parameters, 4 * below, cut_width, 0, 0)
    advice = cost.advise(
        model, num_samples=num_samples, num_clients=num_clients, epochs=1, rounds=1
    )
    split, federated = advice.split.nbytes_per_client, advice.federated.nbytes_per_client
    names = ["Split learning", "Federated averaging"]
    winner = names[split > federated]
    ratio = f"{max(split, federated) / min(split, federated):.3g}"
    verdict = (
        f"{winner} sends {ratio} times fewer bytes" if ratio != "1" else "Both cost nearly the same"
    )
    sentence = (
        f"{verdict}: with {num_clients:,} client"
        f"{'s' * (num_clients != 1)} each one moves {amount('nbytes', split)} when splitting and "
        f"{amount('nbytes', federated)} when federating. "
    )
    if advice.crossover_clients is None:
        sentence += "Splitting does not pay for any number of clients."
    else:
        sentence += f"Splitting pays from {advice.crossover_clients:,} clients on."
    return Comparison(split, federated, advice.crossover_clients, sentence)


class AdvisorPanel:
    """The panel of `advisor_panel`: ``sliders`` by name, and the ``comparison`` they now give."""

    def __init__(self, num_clients: int = 100, seconds_at_rest: float = 0.5, **settings: Any):
        ipywidgets = _ipywidgets("widgets.compare_bytes(num_clients=100)")

        compare_bytes(num_clients, **settings)  # complains about wrong settings
        start = {"num_clients": num_clients, **(compare_bytes.__kwdefaults__ or {}), **settings}
        choices: dict[str, tuple[str, list[float]]] = {
            "num_clients": ("number of clients", [*_CLIENTS]),
            "num_parameters": ("model size [parameters]", _steps(10_000, 100_000_000)),
            "cut_width": ("cut width [values per sample]", _steps(1, 100_000)),
            "num_samples": ("samples, all clients together", _steps(1_000, 1_000_000)),
            "client_fraction": ("part of the model at the client", [k / 20 for k in range(21)]),
        }
        self.sliders = {
            key: _slider(words, [*values, start[key]], start[key])
            for key, (words, values) in choices.items()
        }
        self.comparison = compare_bytes(**self.settings)
        self._sentence = ipywidgets.HTML(self.comparison.sentence)
        self._controls = ipywidgets.VBox([*self.sliders.values(), self._sentence])
        self._picture = _Picture(self._svg, self._png, seconds_at_rest)
        for widget in self.sliders.values():
            widget.observe(self._moved, "value")

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments of `compare_bytes` as the sliders stand."""
        return {key: slider.value for key, slider in self.sliders.items()}

    def _ipython_display_(self) -> None:
        self._picture.show(self._controls)

    def _moved(self, _change: Any) -> None:
        self.comparison = compare_bytes(**self.settings)
        self._sentence.value = self.comparison.sentence
        self._picture.moved()

    def _svg(self) -> tuple[str, str]:
        size = {"width": 640, "height": 300}
        lines, marks = self._lines(), self._marks()
        part = chart(lines, "num_clients", "nbytes_per_client", **size, log=True, marks=marks)
        return drawing(640, 300, self.comparison.sentence, part), self.comparison.sentence

    def _png(self) -> tuple[dict[str, str], dict[str, Any]]:
        histories = {
            name: History(
                {"num_clients": clients, "nbytes_per_client": nbytes} for clients, nbytes in line
            )
            for name, line in self._lines().items()
        }
        ax = plots.new_axes(width=6.7)
        ax.set(xscale="log", yscale="log")
        plots.curves(histories, "nbytes_per_client", "num_clients", ax)
        ax.xaxis.set_major_formatter("{x:,g}")
        ax.yaxis.set_major_formatter("{x:,g}")
        for row, (clients, words) in enumerate(self._marks().items()):
            ax.axvline(clients, color="#222222", linestyle=":")
            ax.annotate(
                words,
                (clients, 1),
                (4, -12 - 14 * row),
                xycoords=ax.get_xaxis_transform(),
                textcoords="offset points",
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
            )
        return plots.picture(ax.figure.canvas.figure, self.comparison.sentence)

    def _lines(self) -> dict[str, list[tuple[float, float]]]:
        """Bytes per client against the number of clients, for both methods."""
        shown = [compare_bytes(**{**self.settings, "num_clients": clients}) for clients in _CLIENTS]
        return {
            "split": [(k, c.split_nbytes) for k, c in zip(_CLIENTS, shown, strict=True)],
            "federated": [(k, c.federated_nbytes) for k, c in zip(_CLIENTS, shown, strict=True)],
        }

    def _marks(self) -> dict[float, str]:
        marks: dict[float, str] = {self.settings["num_clients"]: "you are here"}
        crossover = self.comparison.crossover_clients
        if crossover is not None and crossover <= _CLIENTS[-1]:
            marks[crossover] = f"splitting pays from {crossover}"
        return marks


def advisor_panel(num_clients: int = 100, **settings: Any) -> AdvisorPanel:
    """When does splitting pay? Sliders for the arguments of `compare_bytes`, with chart and answer.

    Display it as the last line of a cell. ``num_clients`` and ``settings`` are where the sliders
    start: ``advisor_panel(num_clients=50, cut_width=128)``.
    """
    return AdvisorPanel(num_clients, **settings)


# ----------------------------------------------------------------- what does a codec do, and cost?


class _Choice(NamedTuple):
    stages: Callable[[int, float], tuple[Stage, ...]]
    uses: tuple[str, ...] = ()  # of "bits" and "fraction"


_BITS, _FRACTION = ("bits",), ("fraction",)
_CHOICES = {
    "Quantize, nearest": _Choice(lambda bits, _: (Quantize(bits),), _BITS),
    "Quantize, stochastic": _Choice(lambda bits, _: (Quantize(bits, stochastic=True),), _BITS),
    "Quantize, a range per row": _Choice(lambda bits, _: (Quantize(bits, per="channel"),), _BITS),
    "Rotate, then Quantize": _Choice(lambda bits, _: (Rotate(), Quantize(bits)), _BITS),
    "Quantiles": _Choice(lambda bits, _: (Quantiles(bits),), _BITS),
    "LloydMax": _Choice(lambda bits, _: (LloydMax(bits),), _BITS),
    "EDEN": _Choice(lambda bits, _: (EDEN(bits),), _BITS),
    "QSGD": _Choice(lambda bits, _: (QSGD(max(2 ** (bits - 1) - 1, 1)),), _BITS),
    "Float8": _Choice(lambda *_: (Float8(),)),
    "DRIVE": _Choice(lambda *_: (DRIVE(),)),
    "Sign": _Choice(lambda *_: (Sign(),)),
    "Ternary": _Choice(lambda *_: (Ternary(),)),
    "TopK": _Choice(lambda _, fraction: (TopK(fraction),), _FRACTION),
    "RandomK": _Choice(lambda _, fraction: (RandomK(fraction),), _FRACTION),
    "STC": _Choice(lambda _, fraction: (STC(fraction),), _FRACTION),
    "TopK, then Quantize": _Choice(
        lambda bits, fraction: (TopK(fraction), Quantize(bits)), _BITS + _FRACTION
    ),
}


class CodecPanel:
    """The panel of `codec_panel`: ``controls`` by name, and the ``report`` they now give."""

    def __init__(
        self,
        tensor: Tensor | Mapping[str, Tensor] | None = None,
        *,
        codec: str = "Quantize, nearest",
        bits: int = 4,
        fraction: float = 0.1,
        entropy: bool = False,
        seconds_at_rest: float = 0.5,
    ):
        ipywidgets = _ipywidgets("widgets.describe_codec(tensor, codec)")
        if tensor is None:
            normal = torch.randn(64, 640, generator=torch.Generator().manual_seed(0))
            tensor = {"made up: normal values": normal}
        self.tensors = {"tensor": tensor} if isinstance(tensor, Tensor) else dict(tensor)
        if not self.tensors:
            raise ValueError("no tensor to show: pass a tensor or {name: tensor}")
        if codec not in _CHOICES:
            raise ValueError(f"codec={codec!r} is none of {', '.join(map(repr, _CHOICES))}")
        fractions = [m / 1000 for m in _steps(1, 1000)]
        self.controls = {
            "tensor": ipywidgets.Dropdown(
                options=list(self.tensors), description="tensor", **_LOOK
            ),
            "codec": ipywidgets.Dropdown(
                options=list(_CHOICES), value=codec, description="codec", **_LOOK
            ),
            "bits": _slider("bits a value", [*range(1, 9), bits], bits),
            "fraction": _slider("fraction kept, k / n", [*fractions, fraction], fraction, ".1%"),
            "entropy": ipywidgets.Checkbox(
                value=entropy, description="with entropy coding", **_LOOK
            ),
        }
        self._readout, self._sentence = ipywidgets.HTML(), ipywidgets.HTML()
        self._controls = ipywidgets.VBox([*self.controls.values(), self._readout, self._sentence])
        self._picture = _Picture(self._svg, self._png, seconds_at_rest)
        self._describe()
        for widget in self.controls.values():
            widget.observe(self._moved, "value")

    @property
    def codec(self) -> Pipeline:
        """The pipeline as the controls stand."""
        choice = _CHOICES[self.controls["codec"].value]
        stages = choice.stages(self.controls["bits"].value, self.controls["fraction"].value)
        return Pipeline(*stages, *([Entropy()] if self.controls["entropy"].value else []))

    def _ipython_display_(self) -> None:
        self._picture.show(self._controls)

    def _moved(self, _change: Any) -> None:
        self._describe()
        self._picture.moved()

    def _describe(self) -> None:
        """Compute the report and say it; switch sliders off that do nothing now."""
        tensor, name = self.controls["tensor"].value, self.controls["codec"].value
        self.report = r = describe_codec(self.tensors[tensor], self.codec)
        off = [key for key in ("bits", "fraction") if key not in _CHOICES[name].uses]
        for key in ("bits", "fraction"):
            self.controls[key].disabled = key in off
        numbers = ", ".join(f"{words} <b>{bits:.2f}</b>" for words, bits in r.bits.items())
        self._readout.value = (
            f"bits a value: {numbers}; relative squared error <b>{r.relative_error:.3g}</b><br>"
            f"<code>{html.escape(r.codec)}</code>"
            + (f"<br>{name} uses no {' and no '.join(off)}: switched off." if off else "")
        )
        self._sentence.value = r.sentence

    def _words(self) -> str:
        return f"{self.controls['codec'].value}: {self.report.sentence}"

    def _svg(self) -> tuple[str, str]:
        return report_svg(self.report, self._words()), self._words()

    def _png(self) -> tuple[dict[str, str], dict[str, Any]]:
        figure = plots.new_figure(width=7.5, height=2.9)
        left, right = figure.subplots(1, 2, width_ratios=(5, 3))
        plot_values(self.report, left)
        plot_bits(self.report, right)
        return plots.picture(figure, self._words())


def codec_panel(tensor: Tensor | Mapping[str, Tensor] | None = None, **settings: Any) -> CodecPanel:
    """What does a codec do to values, and what does it cost? Controls for `describe_codec`.

    Display it as the last line of a cell. ``tensor`` is one tensor, or several by name to choose
    from; by default made-up normal values. ``settings`` are where the controls start:
    ``codec_panel(update, codec="TopK", fraction=0.01, entropy=True)``.
    """
    return CodecPanel(tensor, **settings)


# ------------------------------------------------------------------------- what panels share


class _Picture:
    """The picture below the controls: SVG at once when they move, PNG when they rest.

    SVG takes milliseconds; PNG is what GitHub and others can show of a saved notebook.
    """

    def __init__(
        self,
        svg: Callable[[], tuple[str, str]],  # and its numbers in words
        png: Callable[[], tuple[dict[str, str], dict[str, Any]]],
        seconds_at_rest: float,
    ):
        self._svg, self._png, self._rest = svg, png, seconds_at_rest
        self._handle: Any = None
        self._num_moves = 0
        self.timer = threading.Timer(0, self._settle)

    def show(self, controls: Any) -> None:
        from IPython.display import display

        display(controls)
        data, metadata = self._png()
        self._handle = display(data, raw=True, metadata=metadata, display_id=True)

    def moved(self) -> None:
        self.timer.cancel()
        self._num_moves += 1
        if self._handle is not None:
            svg, words = self._svg()
            self._handle.update({"text/html": svg, "text/plain": words}, raw=True)
            self.timer = threading.Timer(self._rest, self._settle)
            self.timer.daemon = True
            self.timer.start()

    def _settle(self) -> None:
        drawn = self._num_moves
        data, metadata = self._png()
        if self._num_moves == drawn:  # nothing moved in the meantime
            self._handle.update(data, raw=True, metadata=metadata)


def _ipywidgets(otherwise: str) -> Any:
    """The package, or an error that says how to get it and what does ``otherwise``."""
    try:
        import ipywidgets
    except ImportError as error:
        raise ImportError(
            'the panel needs ipywidgets: pip install "fltoolkit[lab]"; without it call '
            f"fltoolkit.{otherwise}"
        ) from error
    return ipywidgets


_LOOK: dict[str, Any] = {"style": {"description_width": "230px"}, "layout": {"width": "560px"}}


def _slider(words: str, values: list[float], value: float, shown: str = "") -> Any:
    """A slider over ``values``, each shown by the format ``shown``."""
    import ipywidgets

    def label(v: float) -> str:
        return format(v, shown) if shown else f"{v:,g}" if v < 1e6 else f"{v / 1e6:g} M"

    options = [(label(v), v) for v in sorted(set(values))]
    return ipywidgets.SelectionSlider(options=options, value=value, description=words, **_LOOK)


def _steps(low: int, high: int) -> list[float]:
    """1, 2, 5, 10, 20, 50, ... between ``low`` and ``high``, both included."""
    return [m * 10**k for k in range(10) for m in (1, 2, 5) if low <= m * 10**k <= high]
