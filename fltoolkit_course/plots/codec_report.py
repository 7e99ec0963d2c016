"""What a codec does to one tensor and how many bits it takes: numbers, words and pictures.

Not here: the codecs, and the panel that shows these reports (panels.codec). The notebook "Codec
gallery" uses these functions.
"""

import copy
import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from torch import Tensor

from fltoolkit.codecs.pipeline import Pipeline
from fltoolkit.plots.style import COLORS, GREY
from fltoolkit.units import amount
from fltoolkit_course.plots.drawing import Area, Axis, Box, Frame, Graphic, Mark
from fltoolkit_research.plots.placing import Words

_NUM_BINS = 60  # of the histograms
_AXIS = "bits per value (float32: 32)"
_LEGEND = "wide grey bars: before; narrow blue bars: what arrives"


class CodecReport(NamedTuple):
    """What `describe_codec` found. Bits are given per value of the tensor."""

    codec: str  # its repr
    num_values: int
    nbytes: int  # length of the message
    nominal_bits: float  # symbols at their width, floats at 32 bits, positions at ceil(log2 n)
    real_bits: float  # of the whole message, with its header
    entropy_bits: float  # the least for symbols and positions that are independent of each other
    relative_error: float  # |C(x) - x|^2 / |x|^2; all zeros would have the error 1
    largest_error: float  # the largest error of a single value
    edges: tuple[float, ...]  # the edges of the histograms' bins
    before: tuple[int, ...]  # the number of values in each bin
    after: tuple[int, ...]  # the number of decoded values; the two end bins hold values beyond them
    places: tuple[float, ...]  # where the bars of `after` stand: the mean of each bin's values

    @property
    def bits(self) -> dict[str, float]:
        """The three sizes by the names that pictures use."""
        return {
            "nominal": self.nominal_bits,
            "sent": self.real_bits,
            "bound if independent": self.entropy_bits,
        }

    @property
    def sentence(self) -> str:
        """The whole report in words."""
        sentence = (
            f"{self.num_values:,} values travel in {amount('nbytes', self.nbytes)}: "
            f"{self.real_bits:.2f} bits per value are sent, {self.nominal_bits:.2f} are nominal, "
            f"{self.entropy_bits:.2f} is the bound if symbols are independent, float32 has 32. "
            f"Relative squared error {self.relative_error:.3g}, largest error "
            f"{self.largest_error:.3g}."
        )
        if self.real_bits < self.entropy_bits:
            sentence += " Less than the bound is sent: these symbols are not independent."
        return sentence


def describe_codec(tensor: Tensor, codec: Pipeline) -> CodecReport:
    """Send one tensor through a pipeline, and report what arrives and how many bits it takes.

    The state of ``codec`` does not change, since a copy is used. `Pipeline.explain` shows the
    stages one by one.

    Args:
        tensor: floating-point values of any shape; `ContextEntropy` uses its rows and columns.
        codec: the pipeline. For ``ErrorFeedback(codec)`` or ``Only(codec)`` pass the inner codec.

    Raises:
        TypeError: the codec is no `Pipeline`.
        ValueError: the tensor is empty, not of floating point, or holds NaN or infinite values.

    >>> import torch
    >>> from fltoolkit.codecs.quantize import Quantize
    >>> report = describe_codec(torch.linspace(0, 1, 800), Pipeline(Quantize(4)))
    >>> report.nominal_bits, report.nbytes
    (4.08, 433)
    """
    if not isinstance(codec, Pipeline):
        raise TypeError(f"codec={codec!r} is no Pipeline: pass the Pipeline inside it, its .codec")
    if not (tensor.is_floating_point() and tensor.numel()):
        raise ValueError(
            f"this tensor has {tensor.numel()} values of {tensor.dtype}: pass at least one "
            "floating-point value"
        )
    codec, tree = copy.deepcopy(codec), {"x": tensor.detach()}
    rows = codec.explain(tree)
    coded = rows[-2] if len(rows) > 1 else rows[-1]  # after the coder there are only bytes
    message = codec.encode(tree)
    x, y = (t.double().cpu().numpy().ravel() for t in (tree["x"], codec.decode(message)["x"]))
    energy, loss = float(x @ x), float((y - x) @ (y - x))
    edges = _edges(x, y)
    before, after = (np.histogram(v.clip(edges[0], edges[-1]), edges)[0] for v in (x, y))
    sums = np.histogram(y.clip(edges[0], edges[-1]), edges, weights=y.clip(edges[0], edges[-1]))[0]
    return CodecReport(
        codec=repr(codec),
        num_values=x.size,
        nbytes=len(message),
        nominal_bits=coded.nominal_bits / x.size,
        real_bits=8 * len(message) / x.size,
        entropy_bits=coded.entropy_bits / x.size,
        relative_error=loss / energy if energy else float(loss > 0),
        largest_error=float(np.abs(y - x).max()),
        edges=tuple(edges.tolist()),
        before=tuple(before.tolist()),
        after=tuple(after.tolist()),
        places=tuple(np.where(after, sums / np.maximum(after, 1), _middles(edges)).tolist()),
    )


def draw_report(report: CodecReport, title: str = "") -> Graphic:
    """Histograms of the values before and after the codec with logarithmic counts, and the bits.

    It is fast enough to follow a slider. ``title`` is for those who do not see the picture.
    """
    title = title or f"{_LEGEND}: {report.sentence}"
    marks = [*_draw_values(report), Words(460, 32, _AXIS), *_draw_bits(report)]
    return Graphic(720, 280, title, marks)


_BAR_COLORS = ("#999999", COLORS[0], COLORS[2])


def _edges(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Bins over the range of ``x``. Each end may move out to reach ``y``, by at most half of it."""
    reach = (x.max() - x.min()) / 2
    low, high = (
        max(x.min() - reach, min(x.min(), y.min())),
        min(x.max() + reach, max(x.max(), y.max())),
    )
    if low == high:
        low, high = low - (abs(low) or 1), high + (abs(high) or 1)
    return np.linspace(low, high, _NUM_BINS + 1)


def _middles(edges: np.ndarray) -> np.ndarray:
    middles: np.ndarray = (edges[:-1] + edges[1:]) / 2
    return middles


def _draw_values(report: CodecReport) -> Iterator[Mark]:
    """The histograms."""
    decades = math.ceil(math.log10(max(*report.before, *report.after, 10)))
    values = Axis("value", report.edges[0], report.edges[-1])
    counts = Axis("count", 0.7, 10.0**decades, log=True, words="number of values")
    frame = Frame(values, counts, Area(0, 16, 440, 260))
    yield Words(frame.edge, 14, _LEGEND, size=11)
    yield from frame.grid()
    width = report.edges[1] - report.edges[0]
    # a bar of decoded values stands at their mean: levels that are equally far apart look so
    middles = _middles(np.array(report.edges)).tolist()
    for numbers, places, half, color in (
        (report.before, middles, width / 2, GREY),
        (report.after, report.places, width / 4, COLORS[0]),
    ):
        for place, number in zip(places, numbers, strict=True):
            if number:
                yield frame.bar(place - half, place + half, number, color)


def _draw_bits(report: CodecReport) -> Iterator[Mark]:
    """A bar for each measure. The axis ends at one of two values, so pictures can be compared."""
    most = 14 if max(report.bits.values()) <= 9 else 70
    for row, (words, bits) in enumerate(report.bits.items()):
        y, length = 60 + 52 * row, 250 * bits / most
        yield Box(460, y, length, 34, _BAR_COLORS[row])
        yield Words(465 + length, y + 21, f"{bits:.2f} {words}")
