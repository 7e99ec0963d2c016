"""Pictures of a sweep: the Pareto plot, and time on a link.

Here: matplotlib Axes from `Result`s, by the metric of their experiments.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.legend import Legend
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke
from matplotlib.ticker import LogFormatter, LogLocator

from fltoolkit.history import History
from fltoolkit.metrics import Metric
from fltoolkit.plots.figures import curves
from fltoolkit.plots.style import COLORS, describe, new_axes, tidy
from fltoolkit.units import amount, byte_unit
from fltoolkit_research.analysis import Point, front, metric_of, points, seconds_on
from fltoolkit_research.plots.placing import Bounds, free_place
from fltoolkit_research.store import Result

SPLIT, SILENT, AVERAGED = ("o", COLORS[0]), ("D", COLORS[2]), ("^", COLORS[3])
FEDERATED, NULL, OTHER = ("s", COLORS[1]), ("X", COLORS[5]), ("P", COLORS[4])
SHAPES = {
    **dict.fromkeys(("split", "relay"), SPLIT),
    "split_async": SILENT,
    "splitfed": AVERAGED,
    "fedavg": FEDERATED,
    **dict.fromkeys(("pooled", "solved", "one_sum", "alone", "nothing"), NULL),
}
"""Mark and colour of the package's protocols; other protocols have those of `OTHER`."""
MARK_WORDS = {"o": "split", "D": "split, silent at times", "^": "SplitFed", "s": "federated"}
MARK_WORDS |= {"X": "no training together", "P": "a protocol of one's own"}
FILLED = "filled: better than all with fewer bytes"
INTERVALS = "bars: 95 % intervals of means"
GREY = "#b8b8b8"
_FONT = 8.5  # the size of the names' letters, in points
MOST_NAMES = 12


class PlainLog(LogFormatter):
    """Ticks of a logarithmic axis as plain numbers: 4 and not 4 x 10^0."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        """The number; an empty text for a small tick that matplotlib would not label."""
        return f"{x:g}" if super().__call__(x, pos) else ""


def limits(metric: Metric, found: Sequence[Point]) -> tuple[float, float]:
    """The least and the largest value to show: all points, and the bar of the best one."""
    low, high = min(p.value for p in found), max(p.value for p in found)
    if metric.higher_is_better:
        high = max(p.high for p in found)
    else:
        low = min(p.low for p in found)
    if metric.unit == "%":
        return max(low, 0.0) - 0.015, min(high, 1.0) + 0.008
    room = 0.05 * ((high - low) or abs(high) or 1.0)
    return low - room, high + room


def pareto(
    results: Iterable[Result],
    ax: Axes | None = None,
    *,
    names: Collection[str] | None = None,
) -> Axes:
    """The metric, such as accuracy [%], over all bytes sent: one point for each setting.

    The axis of bytes is logarithmic; what sends nothing stands above a 0 at its left end. Named
    settings are coloured and have bars, the 95 % interval of their mean by Student's t, cut to the
    possible range; the others are grey. A mark is filled if it is on the front, beyond noise
    (`fltoolkit_research.front`).

    Args:
        results: the results of a sweep, all on one task.
        ax: the Axes to draw in; by default new Axes in a new figure.
        names: the settings to name. By default all are named if there are at most twelve; otherwise
            those on the front.
    """
    results = list(results)
    found = points(results)
    metric = metric_of(point.experiment for point in found)
    if not found:
        raise ValueError("no finished experiment to plot: run a sweep first")
    ax = ax or new_axes(width=9, height=5.6)
    ax.set_xscale("log")
    unit, size = byte_unit(max(point.nbytes for point in found))
    placed = with_places(found)
    best = {point.name for point in front(found)}
    if names is None:
        names = {point.name for point in found if len(found) <= MOST_NAMES or point.name in best}
    for point in sorted(placed, key=lambda point: point.name in names):  # the named ones on top
        _mark(ax, point, metric, size, point.name in names, point.name in best)
    low, high = limits(metric, found)
    ax.set(xlabel=f"all bytes sent [{unit}], logarithmic", ylabel=metric.axis)
    ax.set_xlim(placed[0].nbytes / size / 1.5, placed[-1].nbytes / size * 1.5)
    _show_values(ax, metric, low, high)
    if not found[0].nbytes:
        _show_zero(ax, placed[0].nbytes / size)
    _legend(ax, found, metric, names)
    tidy(ax)
    _name(ax, placed, metric, names, size)
    return describe(ax, _in_words(found, metric, best))


def _in_words(found: Sequence[Point], metric: Metric, best: Collection[str]) -> str:
    seeds = {point.num_seeds for point in found}
    words = "; ".join(
        f"{p.name}: {metric.words(p.value)} for {amount('nbytes', p.nbytes)}"
        + (" (front)" if p.name in best else "")
        for p in found
    )
    many = ", bars are 95 % intervals (t)" * (max(seeds) > 1)
    return f"means over {'/'.join(map(str, sorted(seeds)))} seeds{many}; {words}"


def _show_values(ax: Axes, metric: Metric, low: float, high: float) -> None:
    """Leave room for names above the better values, and write bytes as plain numbers."""
    room = 0.08 * (high - low)
    better = (low, high + room) if metric.higher_is_better else (low - room, high)
    ax.set_ylim(*(metric.scale * end for end in better))
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    ax.xaxis.set_minor_formatter(PlainLog())


def _show_zero(ax: Axes, edge: float) -> None:
    """A tick "0" at ``edge``, and a break of the axis: no other number up to twice as far."""
    low, high = ax.get_xlim()
    for minor, subs in ((False, (1.0,)), (True, range(2, 10))):
        every = LogLocator(subs=subs, numticks=99).tick_values(low, high)
        ticks = [tick for tick in every if 2 * edge < tick <= high]
        ax.set_xticks(ticks if minor else [edge, *ticks], minor=minor)
    ax.xaxis.set_major_formatter(lambda value, _: "0" if value < 1.5 * edge else f"{value:g}")
    if high < 2 * edge:  # nothing was sent by anybody
        return
    white = {"boxstyle": "square,pad=0.1", "facecolor": "white", "edgecolor": "none"}
    middle = {"ha": "center", "va": "center", "transform": ax.get_xaxis_transform()}
    ax.text(2 * edge, 0, "//", None, bbox=white, zorder=5, **middle)


def with_places(found: Sequence[Point]) -> list[Point]:
    """For a logarithmic axis: what sends nothing stands left of all that sends something."""
    edge = min((point.nbytes for point in found if point.nbytes), default=4) / 4
    return [point if point.nbytes else point._replace(nbytes=edge) for point in found]


def look(point: Point) -> tuple[str, str]:
    """The shape and the colour of a point, by its protocol."""
    return SHAPES.get(point.experiment.protocol.name, OTHER)


def _mark(ax: Axes, point: Point, metric: Metric, size: float, named: bool, best: bool) -> None:
    """A point; if it is named, with a bar: the 95 % interval of its mean."""
    scale = metric.scale
    marker, color = look(point)
    color = color if named else GREY
    low, high = metric.possible(point.low), metric.possible(point.high)
    bars = [[scale * (point.value - low)], [scale * (high - point.value)]]
    ax.errorbar(
        point.nbytes / size,
        scale * point.value,
        yerr=bars if named and point.num_seeds > 1 else None,
        marker=marker,
        color=color,
        markerfacecolor=color if best else "white",
        markersize=7 if named else 5,
        capsize=2,
        linestyle="none",
        zorder=3 if named else 2,
    )


def _legend(ax: Axes, found: Sequence[Point], metric: Metric, names: Collection[str]) -> None:
    """A legend of the kinds that occur, always in the same order, and of the intervals.

    A kind has its colour if one of its points is named.
    """
    colors = {shape: GREY for shape, _ in map(look, found)}
    colors |= dict(look(point) for point in found if point.name in names)
    marks: list[Any] = [
        Line2D([], [], marker=kind, color=colors[kind], mfc="white", ls="none", label=words)
        for kind, words in MARK_WORDS.items()
        if kind in colors
    ]
    if any(point.num_seeds > 1 for point in found):
        marks.append(Line2D([], [], marker="|", color="#777777", ls="none", label=INTERVALS))
    corner: Any = "lower right" if metric.higher_is_better else "upper right"
    ax.legend(handles=marks, loc=corner, frameon=False, title=FILLED)


def _name(
    ax: Axes, found: Sequence[Point], metric: Metric, names: Collection[str], size: float
) -> None:
    """Write each name beside its point, at the place where it hides least.

    Places further and further away are tried. A name that is far from its point, or closer to
    another one, gets a thin line to it.
    """
    dot = ax.figure.dpi / 72  # the pixels in a point
    ax.figure.canvas.figure.draw_without_rendering()  # this computes the place of the axes

    def place(nbytes: float, value: float) -> tuple[float, float]:
        across, up = ax.transData.transform((nbytes / size, metric.scale * value)) / dot
        return float(across), float(up)

    legend = next(each for each in ax.get_children() if isinstance(each, Legend))
    taken = [_extent(legend, dot)]
    at = {point.name: place(point.nbytes, point.value) for point in found}
    taken += [(x - 5, y - 5, x + 5, y + 5) for x, y in at.values()]
    named = sorted((p for p in found if p.name in names), key=lambda p: -p.nbytes)
    bars = [(place(point.nbytes, point.low), place(point.nbytes, point.high)) for point in named]
    taken += [(x - 2, low, x + 2, high) for (x, low), (_, high) in bars]
    for point in named:
        x, y = at[point.name]
        within = _extent(ax, dot)
        box, needs_line = free_place(point.name, _FONT, (x, y), at.values(), taken, within)
        taken.append(box)
        ax.annotate(
            point.name,
            (point.nbytes / size, metric.scale * point.value),
            (box[0] - x, (box[1] + box[3]) / 2 - y),
            textcoords="offset points",
            va="center",
            fontsize=_FONT,
            color=look(point)[1],
            path_effects=[withStroke(linewidth=2, foreground="white")],
            arrowprops={"arrowstyle": "-", "color": "#999999", "lw": 0.6} if needs_line else None,
        )


def _extent(artist: Axes | Legend, dot: float) -> Bounds:
    left, low, right, high = (value / dot for value in artist.get_window_extent().extents)
    return left, low, right, high


def over_seconds(
    histories: Mapping[str, History | Sequence[History]],
    ax: Axes | None = None,
    *,
    rate: float,
    latency: float = 0.0,
) -> Axes:
    """The accuracy over the time on a link.

    ``rate`` is in bytes per second, ``latency`` in seconds per message.
    `fltoolkit_research.seconds_on` computes the time, `fltoolkit.plots.curves` draws the lines.
    """

    def timed(history: History) -> History:
        seconds = (seconds_on(record, rate=rate, latency=latency) for record in history)
        return History({**r, "seconds": s} for r, s in zip(history, seconds, strict=True))

    runs = {
        name: [*map(timed, [each] if isinstance(each, History) else each)]
        for name, each in histories.items()
    }
    return curves(runs, "accuracy", "seconds", ax)
