"""A panel that shows what a codec does to a tensor, and how many bits it takes.

Not here: the numbers, which scripts get from `fltoolkit_course.plots.describe_codec`. The panel
needs ipywidgets, 7.7 or newer.
"""

import html
from collections.abc import Callable, Mapping
from typing import Any

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

_CHOICES: dict[str, Callable[[int, float], tuple[Stage, ...]]] = {  # of bits and fraction kept
    "Quantize, nearest": lambda bits, _: (Quantize(bits),),
    "Quantize, stochastic": lambda bits, _: (Quantize(bits, stochastic=True),),
    "Quantize, a range per row": lambda bits, _: (Quantize(bits, per="channel"),),
    "Rotate, then Quantize": lambda bits, _: (Rotate(), Quantize(bits)),
    "Quantiles": lambda bits, _: (Quantiles(bits),),
    "LloydMax": lambda bits, _: (LloydMax(bits),),
    "EDEN": lambda bits, _: (EDEN(bits),),
    "QSGD": lambda bits, _: (QSGD(max(2 ** (bits - 1) - 1, 1)),),
    "Float8": lambda *_: (Float8(),),
    "DRIVE": lambda *_: (DRIVE(),),
    "Sign": lambda *_: (Sign(),),
    "Ternary": lambda *_: (Ternary(),),
    "TopK": lambda _, fraction: (TopK(fraction),),
    "RandomK": lambda _, fraction: (RandomK(fraction),),
    "STC": lambda _, fraction: (STC(fraction),),
    "TopK, then Quantize": lambda bits, fraction: (TopK(fraction), Quantize(bits)),
}


class CodecPanel:
    """Controls for `describe_codec`: what a codec does to values, and how many bits it takes.

    Write it as the last line of a cell. ``tensor`` is one tensor, or {name: tensor} to choose from.
    ``controls`` holds the sliders by name, and ``report`` says what was found.
    """

    def __init__(self, tensor: Tensor | Mapping[str, Tensor]):
        ipywidgets = find_ipywidgets()
        self.tensors = {"tensor": tensor} if isinstance(tensor, Tensor) else dict(tensor)
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
        stages = choice(self.controls["bits"].value, self.controls["fraction"].value)
        return Pipeline(*stages, *([ContextEntropy()] if self.controls["entropy"].value else []))

    def _ipython_display_(self) -> None:
        self._picture.show()

    def _moved(self, _change: Any) -> None:
        self._describe()
        self._picture.moved()

    def _describe(self) -> None:
        """Compute the report and show it in words; disable sliders that have no effect now."""
        choice = _CHOICES[self.controls["codec"].value]
        self.controls["bits"].disabled = choice(3, 0.1) == choice(7, 0.1)
        self.controls["fraction"].disabled = choice(3, 0.1) == choice(3, 0.2)
        tensor = self.tensors[self.controls["tensor"].value]
        self.report = r = describe_codec(tensor, self.codec)
        numbers = ", ".join(f"{words} <b>{bits:.2f}</b>" for words, bits in r.bits.items())
        self._readout.value = (
            f"bits per value: {numbers}; relative squared error <b>{r.relative_error:.3g}</b><br>"
            f"<code>{html.escape(r.codec)}</code>"
        )
        self._sentence.value = r.sentence

    def draw(self) -> Graphic:
        """The report as histograms and bars."""
        return draw_report(self.report, f"{self.controls['codec'].value}: {self.report.sentence}")
