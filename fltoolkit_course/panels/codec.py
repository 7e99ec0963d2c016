"""A panel that shows what a codec does to a tensor, and how many bits it takes.

Not here: the numbers, which scripts get from `fltoolkit_course.plots.describe_codec`. The panel
needs ipywidgets, 7.7 or newer.
"""

import html
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from torch import Tensor

from fltoolkit.codecs.floats import Float8
from fltoolkit.codecs.pipeline import Pipeline
from fltoolkit.codecs.quantize import Quantize
from fltoolkit.codecs.sparse import TopK
from fltoolkit.codecs.stage import Stage
from fltoolkit_course.panels._sliders import LOOK, slider, steps
from fltoolkit_course.plots.below_controls import BelowControls, find_ipywidgets
from fltoolkit_course.plots.codec_report import describe_codec, draw_report
from fltoolkit_course.plots.drawing import Graphic
from fltoolkit_research.codecs import QSGD, STC, LloydMax, Quantiles, RandomK, Sign, Ternary
from fltoolkit_research.codecs.contexts import ContextEntropy
from fltoolkit_research.codecs.rotate import DRIVE, EDEN, Rotate


class _Choice(NamedTuple):
    stages: Callable[[int, float], tuple[Stage, ...]]
    uses: tuple[str, ...] = ()  # which of the sliders "bits" and "fraction" have an effect


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
    """Controls for `describe_codec`: what a codec does to values, and how many bits it takes.

    Write it as the last line of a cell. ``tensor`` is one tensor, or {name: tensor} to choose from.
    ``controls`` holds the sliders by name, and ``report`` says what was found.
    """

    def __init__(self, tensor: Tensor | Mapping[str, Tensor]):
        ipywidgets = find_ipywidgets("fltoolkit_course.plots.describe_codec(tensor, codec)")
        self.tensors = {"tensor": tensor} if isinstance(tensor, Tensor) else dict(tensor)
        if not self.tensors:
            raise ValueError("no tensor to show: pass a tensor or {name: tensor}")
        fractions = [m / 1000 for m in steps(1, 1000)]
        self.controls = {
            "tensor": ipywidgets.Dropdown(options=list(self.tensors), description="tensor", **LOOK),
            "codec": ipywidgets.Dropdown(options=list(_CHOICES), description="codec", **LOOK),
            "bits": slider("bits per value", [*range(1, 9)], 4),
            "fraction": slider("fraction kept, k / n", fractions, 0.1, ".1%"),
            "entropy": ipywidgets.Checkbox(description="with entropy coding", **LOOK),
        }
        self._readout, self._sentence = ipywidgets.HTML(), ipywidgets.HTML()
        self._describe()
        controls, below = self.controls.values(), (self._readout, self._sentence)
        self._picture = BelowControls(self.draw, *controls, *below)
        for control in controls:
            control.observe(self._moved, "value")

    @property
    def codec(self) -> Pipeline:
        """The pipeline that the controls show now."""
        choice = _CHOICES[self.controls["codec"].value]
        stages = choice.stages(self.controls["bits"].value, self.controls["fraction"].value)
        return Pipeline(*stages, *([ContextEntropy()] if self.controls["entropy"].value else []))

    def _ipython_display_(self) -> None:
        self._picture.show()

    def _moved(self, _change: Any) -> None:
        self._describe()
        self._picture.moved()

    def _describe(self) -> None:
        """Compute the report and show it in words; disable sliders that have no effect now."""
        tensor, name = self.controls["tensor"].value, self.controls["codec"].value
        self.report = r = describe_codec(self.tensors[tensor], self.codec)
        off = [key for key in ("bits", "fraction") if key not in _CHOICES[name].uses]
        for key in ("bits", "fraction"):
            self.controls[key].disabled = key in off
        numbers = ", ".join(f"{words} <b>{bits:.2f}</b>" for words, bits in r.bits.items())
        self._readout.value = (
            f"bits per value: {numbers}; relative squared error <b>{r.relative_error:.3g}</b><br>"
            f"<code>{html.escape(r.codec)}</code>"
            + (f"<br>{name} uses no {' and no '.join(off)}: switched off." if off else "")
        )
        self._sentence.value = r.sentence

    def draw(self) -> Graphic:
        """The report as histograms and bars."""
        return draw_report(self.report, f"{self.controls['codec'].value}: {self.report.sentence}")
