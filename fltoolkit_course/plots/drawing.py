"""Charts as lists of marks, which are drawn either as SVG or by matplotlib.

Writing SVG takes milliseconds, so a chart can be drawn again while training runs or while a slider
moves. matplotlib draws the same marks as the PNG that stays in a saved notebook. Here: marks, axes
with ticks, lines, bands, bars, matrices, names that do not overlap.
"""

import base64
import html
import io
import math
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.image import BboxImage
from matplotlib.patches import PathPatch, Rectangle
from matplotlib.path import Path
from matplotlib.text import Text
from matplotlib.ticker import Locator, LogLocator, MaxNLocator
from matplotlib.transforms import Bbox, TransformedBbox
from PIL import Image
from torch import Tensor

from fltoolkit.plots.figures import keep_apart
from fltoolkit.plots.style import COLORS, DARK_GREY, GREY, INK, PALE, PAPER, picture
from fltoolkit.units import axis_label, tick
from fltoolkit_research.plots.placing import LETTER, Points, Words

LINE = 14  # the least distance between two lines of text in pixels


# --------------------------------------------------------------------------------------- marks


class Stroke(NamedTuple):
    """A line through points, in pixels from the upper left corner; ``fill`` makes it an area."""

    points: Points
    color: str = INK
    width: float = 1
    dash: tuple[int, ...] = ()  # lengths of dash, gap, dash, ... in line widths
    fill: str = "none"


class Box(NamedTuple):
    """A filled rectangle; ``x`` and ``y`` are its upper left corner in pixels."""

    x: float
    y: float
    width: float
    height: float
    color: str
    opacity: float = 1


_BLUE_TO_ORANGE = LinearSegmentedColormap.from_list(
    "", [COLORS[0], PAPER, COLORS[1]], 255
).with_extremes(bad=GREY)


class Pixels(NamedTuple):
    """A matrix as an image, one rectangle per value; ``x`` and ``y`` are its upper left corner.

    Zero is white, values above are orange and values below are blue. The value that is farthest
    from zero has the full colour, and what is not a number is grey.
    """

    x: float
    y: float
    width: float
    height: float
    values: Tensor  # [rows, columns]

    def colors(self) -> np.ndarray:
        """Red, green and blue of each value: uint8 of shape [rows, columns, 3]."""
        values = self.values.detach().double().cpu().numpy()
        most = np.abs(values, where=np.isfinite(values), out=np.zeros_like(values)).max() or 1
        return np.ascontiguousarray(_BLUE_TO_ORANGE(0.5 + values / most / 2, bytes=True)[..., :3])

    def png(self) -> bytes:
        """The image as a PNG file, with one pixel per value."""
        file = io.BytesIO()
        Image.fromarray(self.colors()).save(file, format="png")
        return file.getvalue()


Mark = Stroke | Box | Words | Pixels

# Colours that a dark page changes: JupyterLab's names for them. Elsewhere they stay as they are.
_THEME = {
    INK: "--jp-content-font-color1",
    "#000000": "--jp-content-font-color1",
    "#555555": "--jp-content-font-color2",
    PAPER: "--jp-layout-color0",
    PALE: "--jp-border-color2",
    "#f0f0f0": "--jp-layout-color2",
}
ON_COLOR = "#222"  # ink that stays dark, because it stands on a colour


class Graphic(NamedTuple):
    """A whole picture: marks on paper, and a title in words for screen readers."""

    width: float  # pixels
    height: float
    title: str
    marks: Sequence[Mark]

    def svg(self) -> str:
        """The picture as SVG text. Shown as ``text/html``, it becomes smaller on a narrow page.

        It takes as much room as JupyterLab gives the PNG: where they alternate, nothing jumps.
        """
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" '
            f'width="{self.width}" height="{self.height}" role="img" font-family="sans-serif" '
            'style="max-width:100%;height:auto;display:block;margin:0 0 3px">'
            f"<title>{html.escape(self.title)}</title>"
            f'<rect width="{self.width}" height="{self.height}" fill="{PAPER}"/>'
            f"{''.join(_tag(mark) for mark in self.marks)}</svg>"
        )

    def figure(self) -> Figure:
        """The same marks as a matplotlib figure, where an inch is 96 pixels."""
        fig = Figure(figsize=(self.width / 96, self.height / 96), facecolor=PAPER)
        for order, mark in enumerate(self.marks):  # later marks cover earlier ones, as in SVG
            artist = _artist(mark, fig, self.height)
            fig.add_artist(artist).set_zorder(order)
        return fig

    def html(self) -> tuple[dict[str, str], dict[str, Any]]:
        """SVG and title as the data and metadata that ``display(raw=True)`` takes.

        Paper, text and axes take the colours of JupyterLab's theme, light or dark.
        """
        svg = self.svg()
        for color, name in _THEME.items():
            svg = svg.replace(f'"{color}"', f'"var({name}, {color})"')
        return {"text/html": svg, "text/plain": self.title}, {}

    def png(self) -> tuple[dict[str, str], dict[str, Any]]:
        """PNG and title in the same form; of a saved notebook, GitHub shows PNG but not SVG."""
        return picture(self.figure(), self.title)


class Page:
    """A picture from top to bottom: a title, a bar of progress, and what is added below them.

    ``low`` is where the next part begins. ``progress`` (0 to 1; None: no bar) is what is filled.
    """

    def __init__(self, width: float, title: str, progress: float | None):
        self.width, self.low = width, 46.0  # below title and bar
        self.marks: list[Mark] = [Words(8, 18, title, bold=True)]
        if progress is not None:
            self.marks.append(Box(8, 26, width - 16, 6, PALE))
            self.marks.append(Box(8, 26, (width - 16) * progress, 6, DARK_GREY))

    def write(
        self, text: str, letters: int, *, left: float = 8, step: float = 16, bold: bool = False
    ) -> None:
        """Add text, in lines of at most so many letters, ``step`` pixels apart."""
        for line in textwrap.wrap(text, letters):
            self.marks.append(Words(left, self.low + 4, line, bold=bold))
            self.low += step

    def add(self, marks: Iterable[Mark], height: float) -> None:
        """Add a part of this height."""
        self.marks += marks
        self.low += height

    def graphic(self, title: str) -> Graphic:
        """The picture as far as it goes; ``title`` says in words what it shows."""
        return Graphic(self.width, self.low, title, self.marks)


def _tag(mark: Mark) -> str:
    if isinstance(mark, Stroke):
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in mark.points)
        look = f'fill="{mark.fill}" stroke="{mark.color}" stroke-width="{mark.width}"'
        if mark.dash:
            look += f' stroke-dasharray="{" ".join(f"{n * mark.width:g}" for n in mark.dash)}"'
        return f'<path d="M{path}" {look}/>'
    if isinstance(mark, Box | Pixels):
        place = f'x="{mark.x:.1f}" y="{mark.y:.1f}" '
        place += f'width="{mark.width:.1f}" height="{mark.height:.1f}"'
        if isinstance(mark, Box):
            return f'<rect {place} fill="{mark.color}" fill-opacity="{mark.opacity}"/>'
        source = f"data:image/png;base64,{base64.b64encode(mark.png()).decode()}"
        look = 'preserveAspectRatio="none" style="image-rendering:pixelated"'
        return f'<image {place} {look} href="{source}"/>'
    look = ' font-weight="bold"' if mark.bold else ""
    look += f' paint-order="stroke" stroke="{PAPER}" stroke-width="3"' if mark.halo else ""
    return (
        f'<text x="{mark.x:.1f}" y="{mark.y:.1f}" text-anchor="{mark.anchor}" '
        f'font-size="{mark.size}" fill="{mark.color}"{look}>{html.escape(mark.words)}</text>'
    )


def _artist(mark: Mark, fig: Figure, height: float) -> Any:
    """A matplotlib artist in inches from the lower left corner."""
    inches = fig.dpi_scale_trans
    look: dict[str, Any]
    if isinstance(mark, Stroke):
        look = {"edgecolor": mark.color, "linewidth": 0.75 * mark.width, "facecolor": mark.fill}
        look |= {"linestyle": (0, mark.dash) if mark.dash else "-"}
        places = [(x / 96, (height - y) / 96) for x, y in mark.points]
        return PathPatch(Path(places), transform=inches, **look)
    if isinstance(mark, Box | Pixels):
        corner = mark.x / 96, (height - mark.y - mark.height) / 96
        size = mark.width / 96, mark.height / 96
        if isinstance(mark, Box):
            look = {"facecolor": mark.color, "alpha": mark.opacity, "linewidth": 0}
            return Rectangle(corner, *size, transform=inches, **look)
        place = TransformedBbox(Bbox.from_bounds(*corner, *size), inches)
        image = BboxImage(place, interpolation="nearest")
        image.set_data(mark.colors())
        return image
    behind = {"facecolor": PAPER, "edgecolor": "none", "pad": 0.5, "alpha": 0.8}
    return Text(
        mark.x / 96,
        (height - mark.y) / 96,
        mark.words.replace("$", r"\$"),
        ha={"start": "left", "middle": "center", "end": "right"}[mark.anchor],
        fontsize=0.69 * mark.size,  # matplotlib's font is wider than a browser's
        color=mark.color,
        weight="bold" if mark.bold else "normal",
        bbox=behind if mark.halo else None,
        transform=inches,
    )


# ---------------------------------------------------------------------------------------- axes


class Axis(NamedTuple):
    """One axis: what it measures, and its two ends. ``low`` must be below ``high``."""

    key: str  # a key of the records, from which label and unit follow
    low: float
    high: float
    log: bool = False  # a logarithmic axis, for which both ends must be above 0
    words: str = ""  # a label that replaces the key's label

    @property
    def label(self) -> str:
        """What is measured, with its unit."""
        return self.words or axis_label(self.key)

    def part(self, value: float) -> float:
        """The position of ``value``: 0 is the low end, 1 is the high end; values beyond are cut."""
        value = min(max(value, self.low), self.high)
        if self.log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def ticks(self, fit: Callable[[Sequence[float]], bool]) -> Sequence[float]:
        """At most eight steps of round values: as many as ``fit``, if any."""
        inside: list[float] = []
        for most in range(8, 0, -1):
            locator: Locator = MaxNLocator(most, steps=[1, 2, 5, 10], min_n_ticks=1)
            if self.log:  # 1, 2, 5, 10, 20 ...; if they are too many, powers of ten
                locator = LogLocator(subs=(1, 2, 5) if most == 8 else (1,), numticks=most)
            values = map(float, locator.tick_values(self.low, self.high))
            inside = [value for value in values if self.low <= value <= self.high]
            if fit(inside):
                break
        while not fit(inside):  # matplotlib before 3.11 gives more than numticks
            inside = inside[::2]
        return inside


class Area(NamedTuple):
    """The place of a chart in a picture, in pixels, including ticks and labels."""

    left: float
    top: float
    width: float
    height: float


class Line(NamedTuple):
    """A line of a chart, in values of its axes; its name stands at its end."""

    name: str
    points: Points
    color: str
    dash: tuple[int, ...] = ()
    width: float = 2
    bold: bool = False


class Frame:
    """Two axes of a chart: converts values to pixels and makes the marks of the axes.

    Args:
        x: the horizontal axis.
        y: the vertical axis.
        area: the place of the chart in the picture.
        names: the names that will stand at the ends of lines, for which room is kept.
    """

    def __init__(self, x: Axis, y: Axis, area: Area, *, names: Iterable[str] = ()):
        left, top, width, height = area
        self.x_axis, self.y_axis, self.edge = x, y, left + 8
        self.high, self.low = top + 24, top + height - 40
        tall = self.low - self.high
        self.y_ticks = [
            (value, tick(y.key, value)) for value in y.ticks(lambda v: _apart(y, v, tall) >= 22)
        ]
        longest = max((len(words) for _, words in self.y_ticks), default=0)
        self.left = self.edge + max(40, LETTER * longest + 6)
        self.right = left + width - max(28, 12 + LETTER * max(map(len, names), default=0))
        wide, self.middle = self.right - self.left, (self.left + self.right) / 2

        def fit(values: Sequence[float]) -> bool:
            longest = max((len(tick(x.key, value)) for value in values), default=0)
            return _apart(x, values, wide) >= LETTER * longest + 16

        self.x_ticks = [(value, tick(x.key, value)) for value in x.ticks(fit)]

    def x(self, value: float) -> float:
        """The position of a horizontal value, in pixels from the left."""
        return self.left + self.x_axis.part(value) * (self.right - self.left)

    def y(self, value: float) -> float:
        """The position of a vertical value, in pixels from the top."""
        return self.low - self.y_axis.part(value) * (self.low - self.high)

    def points(self, points: Points) -> Points:
        """Points (x, y) converted from values to pixels."""
        return [(self.x(x), self.y(y)) for x, y in points]

    def grid(self) -> Iterator[Mark]:
        """A pale line and a number at each tick, and the labels of both axes."""
        yield Words(self.edge, self.high - 10, self.y_axis.label)
        yield Words(self.middle, self.low + 33, self.x_axis.label, "middle")
        for value, words in self.x_ticks:
            at = self.x(value)
            yield Stroke([(at, self.low), (at, self.high)], PALE)
            yield Words(at, self.low + 16, words, "middle")
        for value, words in self.y_ticks:
            at = self.y(value)
            yield Stroke([(self.left, at), (self.right, at)], PALE)
            yield Words(self.left - 6, at + 4, words, "end")

    def flags(self, marks: Iterable[tuple[float, str]], *, below: bool = False) -> Iterator[Mark]:
        """Dotted vertical lines at the given x, each with its words in a row of its own."""
        places = [(self.x(value), words) for value, words in marks]
        for at, _ in places:
            yield Stroke([(at, self.low), (at, self.high)], INK, 1, (1, 3))
        for row, (at, words) in enumerate(places):
            fits = at + 4 + LETTER * len(words) <= self.right
            anchor, shift = ("start", 4) if fits else ("end", -4)
            y = self.low - 6 - LINE * row if below else self.high + 10 + LINE * row
            yield Words(at + shift, y, words, anchor, 11, halo=True)

    def lines(self, lines: Iterable["Line"]) -> Iterator[Mark]:
        """Lines that have points, and right of the axes their names, which are moved apart."""
        shown = [line for line in lines if line.points]
        for line in shown:
            yield curve(self.points(line.points), line.color, line.width, line.dash)
        places = keep_apart([self.y(line.points[-1][1]) for line in shown], LINE)
        for place, line in zip(places, shown, strict=True):
            yield Words(self.right + 5, place + 4, line.name, color=line.color, bold=line.bold)

    def empty(self, words: str) -> Words:
        """``words`` in the middle of the axes, for a chart that has no data."""
        return Words(self.middle, (self.high + self.low) / 2, words, "middle")


def _apart(axis: Axis, values: Sequence[float], length: float) -> float:
    """The smallest distance between two neighbouring ticks, in pixels."""
    return min((length * (b - a) for a, b in pairwise(map(axis.part, values))), default=math.inf)


# --------------------------------------------------------------------------- lines and their names


def dot(x: float, y: float, color: str, fill: str, size: float = 1) -> Stroke:
    """A circle at (x, y); at size 1 its radius is 5.5 pixels."""
    angles = [k * math.pi / 10 for k in range(21)]
    circle = [(x + 5.5 * size * math.cos(a), y + 5.5 * size * math.sin(a)) for a in angles]
    return Stroke(circle, color, 1.5, fill=fill)


def curve(points: Points, color: str, width: float, dash: tuple[int, ...] = ()) -> Stroke:
    """A line through points. A single point is a dot, since a line of no length cannot be seen."""
    if len(points) == 1:
        return dot(*points[0], color, color, width / 4)
    return Stroke(points, color, width, dash)
