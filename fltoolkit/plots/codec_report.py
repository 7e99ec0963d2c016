"""What a codec does to one tensor and what it costs: in numbers, in words and in pictures.

Not here: the codecs (codecs.py), and the panel that asks for these reports (widgets.py). The
notebook "Codec gallery" is built on it.
"""

import copy
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from torch import Tensor

from fltoolkit.codecs.pipeline import Pipeline
from fltoolkit.plots import figures
from fltoolkit.plots.svg import COLORS, drawing, text
from fltoolkit.units import amount

__all__ = ["CodecReport", "describe_codec", "plot_bits", "plot_values", "report_svg"]

_GREY = "#bbbbbb"
_LEGEND = "wide grey bars: before; narrow blue bars: what arrives"


class CodecReport(NamedTuple):
    """What `describe_codec` found. Bits are per value of the tensor."""

    codec: str  # its repr
    num_values: int
    nbytes: int  # length of the message
    nominal_bits: float  # symbols at their width, floats at 32, places at ceil(log2 n)
    real_bits: float  # of the message, everything in it
    entropy_bits: float  # the least for symbols and places that are independent of each other
    relative_error: float  # |C(x) - x|^2 / |x|^2: 1 is as far off as all zeros
    largest_error: float  # of any value
    edges: tuple[float, ...]  # of the histograms' bins
    before: tuple[int, ...]  # values in each bin
    after: tuple[int, ...]  # what arrives; the end bins also hold what lies beyond them
    num_beyond: int  # so many arriving values

    @property
    def bits(self) -> dict[str, float]:
        """The three sizes, as pictures name them."""
        return {
            "nominal": self.nominal_bits,
            "sent": self.real_bits,
            "entropy bound": self.entropy_bits,
        }

    @property
    def sentence(self) -> str:
        """All of it in words."""
        sentence = (
            f"{self.num_values:,} values travel in {amount('nbytes', self.nbytes)}: "
            f"{self.real_bits:.2f} bits a value are sent, {self.nominal_bits:.2f} are nominal, the "
            f"entropy bound is {self.entropy_bits:.2f}, float32 has 32. Relative squared error "
            f"{self.relative_error:.3g}, largest error {self.largest_error:.3g}."
        )
        if self.real_bits < self.entropy_bits:
            sentence += " Less than the bound is sent: these symbols are not independent."
        if self.num_beyond:
            sentence += f" {self.num_beyond:,} values arrive beyond the axis."
        return sentence


def describe_codec(tensor: Tensor, codec: Pipeline, *, num_bins: int = 60) -> CodecReport:
    """Send one tensor through a pipeline, and say what arrives and what it costs.

    The pipeline's own state does not move. `Pipeline.explain` shows its stages one by one.

    Args:
        tensor: floating-point values of any shape; it tells `Entropy` rows and columns.
        codec: what to send it through. Of ``ErrorFeedback(codec)`` or ``Only(codec)``, the inner.
        num_bins: of the histograms.

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
        raise TypeError(f"codec={codec!r} is no Pipeline: pass the one inside, e.g. its .codec")
    if not (tensor.is_floating_point() and tensor.numel()):
        raise ValueError(
            f"this tensor has {tensor.numel()} values of {tensor.dtype}: pass at least one, of "
            "floating point"
        )
    codec, tree = copy.deepcopy(codec), {"x": tensor.detach()}
    rows = codec.explain(tree)
    coded = rows[-2] if len(rows) > 1 else rows[-1]  # after the coder there are only bytes
    message = codec.encode(tree)
    x, y = (t.double().cpu().numpy().ravel() for t in (tree["x"], codec.decode(message)["x"]))
    energy, loss = float(x @ x), float((y - x) @ (y - x))
    edges = _edges(x, y, num_bins)
    before, after = (np.histogram(v.clip(edges[0], edges[-1]), edges)[0] for v in (x, y))
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
        num_beyond=int(((y < edges[0]) | (y > edges[-1])).sum()),
    )


def plot_values(report: CodecReport, ax: Axes | None = None) -> Axes:
    """Histograms of the values before and after, with logarithmic counts."""
    ax = ax or figures.new_axes(height=3)
    width = report.edges[1] - report.edges[0]
    for counts, share, color in _histograms(report):
        starts = [edge + (1 - share) / 2 * width for edge in report.edges[:-1]]
        ax.bar(starts, counts, share * width, color=color, align="edge")
    ax.set(yscale="log", ylim=(0.7, None), xlabel="value", ylabel="number of values")
    ax.set_title(_LEGEND, fontsize=9)
    ax.spines[["top", "right"]].set_visible(False)
    ax.set_label(report.sentence)  # never drawn: `figures.show` says it beside the picture
    return ax


def plot_bits(reports: CodecReport | Mapping[str, CodecReport], ax: Axes | None = None) -> Axes:
    """Bits a value by three measures, nominal, really sent and entropy bound.

    Pass {name: report} to compare codecs, or one codec on several tensors.
    """
    named = {"": reports} if isinstance(reports, CodecReport) else reports
    if not named:
        raise ValueError("no reports to plot: pass a report of describe_codec or {name: report}")
    ax = ax or figures.new_axes(height=1 + 0.7 * len(named))
    for group, report in enumerate(named.values()):
        for row, (words, bits) in enumerate(report.bits.items()):
            place = group + 0.27 * (row - 1)
            ax.barh(place, bits, 0.25, color=_BAR_COLORS[row], hatch=_HATCHES[row])
            ax.annotate(f"{bits:.2f} {words}", (bits, place), **_BESIDE, fontsize=8)
    most = 1.4 * max(max(report.bits.values()) for report in named.values())
    if isinstance(reports, CodecReport):
        most = _most_bits(reports)
    ax.set_yticks(range(len(named)) if any(named) else [], list(filter(None, named)))
    ax.invert_yaxis()
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set(xlim=(0, most), xlabel="bits a value (float32: 32)")
    ax.spines[["top", "right"]].set_visible(False)
    said = [
        f"{name}: {report.sentence}" if name else report.sentence for name, report in named.items()
    ]
    ax.set_label(" ".join(said))
    return ax


def report_svg(report: CodecReport, title: str) -> str:
    """Both pictures as one SVG text: quick enough to be drawn again while a slider moves."""
    return drawing(720, 280, title, *_values_svg(report), *_bits_svg(report))


_BAR_COLORS = ("#999999", COLORS[0], COLORS[2])
_BESIDE: dict[str, Any] = {"xytext": (3, 0), "textcoords": "offset points", "va": "center"}
_HATCHES = ("", "", "//")


def _edges(x: np.ndarray, y: np.ndarray, num_bins: int) -> np.ndarray:
    """Bins over the range of ``x``, and up to half of it more where ``y`` goes there."""
    reach = (x.max() - x.min()) / 2
    low, high = (
        max(x.min() - reach, min(x.min(), y.min())),
        min(x.max() + reach, max(x.max(), y.max())),
    )
    if low == high:
        low, high = low - (abs(low) or 1), high + (abs(high) or 1)
    return np.linspace(low, high, num_bins + 1)


def _histograms(report: CodecReport) -> list[tuple[tuple[int, ...], float, str]]:
    """Counts, the part of a bin's width that its bar has, and the colour."""
    return [(report.before, 1.0, _GREY), (report.after, 0.5, COLORS[0])]


def _most_bits(report: CodecReport) -> float:
    """Where the axis of bits ends: mostly at the same place, so that pictures can be compared."""
    return 14 if max(report.bits.values()) <= 9 else 70


def _values_svg(report: CodecReport) -> list[str]:
    """`plot_values` from (0, 0) to (430, 280)."""
    left, right, top, bottom = 56.0, 420.0, 40.0, 232.0
    decades = math.ceil(math.log10(max(*report.before, *report.after, 10)))
    unit, width = (bottom - top) / decades, (right - left) / len(report.before)
    parts = [text(left, 16, "number of values"), text(left, 32, _LEGEND, 'font-size="11"')]
    for power in range(decades + 1):
        y = bottom - power * unit
        parts.append(f'<path d="M{left} {y:.1f}H{right}" stroke="#ddd"/>')
        parts.append(text(left - 6, y + 4, f"{10**power:,}", 'text-anchor="end"'))
    for counts, share, color in _histograms(report):
        for number, count in enumerate(counts):
            if count:  # a single value is a low bar, not none
                x, height = left + width * (number + (1 - share) / 2), unit * math.log10(count) + 3
                parts.append(
                    f'<rect x="{x:.1f}" y="{bottom + 3 - height:.1f}" width="{share * width:.1f}" '
                    f'height="{height:.1f}" fill="{color}"/>'
                )
    low, high = report.edges[0], report.edges[-1]
    for value in _ticks(low, high):
        x = left + (value - low) / (high - low) * (right - left)
        parts.append(f'<path d="M{x:.1f} {bottom + 3}v5" stroke="#222"/>')
        parts.append(text(x, bottom + 22, f"{value:g}", 'text-anchor="middle"'))
    return [*parts, text((left + right) / 2, bottom + 38, "value", 'text-anchor="middle"')]


def _ticks(low: float, high: float) -> list[float]:
    """Four to ten round numbers from ``low`` to ``high``."""
    power = math.floor(math.log10((high - low) / 4))
    step = next(m for m in (1, 2, 5, 10) if (high - low) / (m * 10.0**power) <= 8)
    first, last = math.ceil(low / (step * 10.0**power)), math.floor(high / (step * 10.0**power))
    return [float(f"{k * step}e{power}") for k in range(first, last + 1)]


def _bits_svg(report: CodecReport) -> list[str]:
    """`plot_bits` of one codec, from (450, 0) to (720, 280)."""
    start, width = 460.0, 250.0
    parts = [text(start, 32, "bits a value (float32: 32)")]
    for row, (words, bits) in enumerate(report.bits.items()):
        y, length = 60 + 52 * row, width * bits / _most_bits(report)
        look = f'height="34" fill="{_BAR_COLORS[row]}"'
        parts.append(f'<rect x="{start}" y="{y}" width="{length:.1f}" {look}/>')
        parts.append(text(start + length + 5, y + 21, f"{bits:.2f} {words}"))
    return parts
